"""Models that learn from a stream under a privacy guarantee.

A section of the config (a subclass of ``predictor.Predictor``) compiles to a program. ``kit`` is
what all are built from; ``online``, ``regression``, ``erm``, ``blocks`` and ``optimize`` hold the
algorithms, ``solvers`` what fits kept rows.
"""
