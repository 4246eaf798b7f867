"""Regressions from noisy running moments.

``rows`` makes lattice rows of events, ``incremental`` and ``projected`` are the programs, the
``..._model`` files are their sections in a config.
"""

__all__ = ["section"]
