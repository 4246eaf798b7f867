"""Partition selection: keys whose existence is private, when they appear, and when they go.

``rule`` has the public rule and its threshold, ``step`` runs it tick by tick over the cells of a
key shard (``waiting``), ``prefilter`` leaves out cells that cannot pass, and ``reference`` is the
same over one key at a time.
"""

__all__ = ["prefilter", "reference", "rule", "step", "waiting"]
