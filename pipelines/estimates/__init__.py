"""``weir estimate``: estimates of released sums and counts, from a folder or a table of releases.

``grid`` puts releases into arrays, ``estimator`` runs the filters over them, ``words`` says what
estimates are and are not, and ``estimate`` is the command, which goes on where it stopped.
``reconciled`` writes figures of several groupings that add up.
"""

__all__ = ["estimate", "estimator", "grid", "reconciled", "words"]
