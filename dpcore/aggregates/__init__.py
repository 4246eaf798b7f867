"""Counts, sums, means, variances, histograms and quantiles as one joint continual sum.

``algorithm`` is the section of a config, which compiles to the ``Aggregates`` of ``program``.
``private_keys`` finds the count that partition selection reads; ``bounding`` names the columns of
predicates, ``learned`` clips that are learned in private. A new aggregate subclasses ``Aggregate``
(``aggregate``) and asks a ``Layout`` (``channel``) for channels. ``counts`` and ``moments`` have
outputs that add up over ticks.
"""

__all__ = [
    "aggregate",
    "algorithm",
    "bounding",
    "channel",
    "counts",
    "learned",
    "moments",
    "private_keys",
    "program",
]
