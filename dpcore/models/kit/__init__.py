"""What models are built from.

Losses with their slope, curvature and envelope (``loss``, ``loss_spec``), events as rows
(``inputs``, ``rows``, ``feature_map``), rows that are kept (``kept``), noise on a point of a
lattice (``point``), eigenvectors of the same bits everywhere (``eigen``), sums of products of
shortened rows (``short_rows``), and the lengths of noisy steps (``filter``). Nothing here knows an
algorithm.
"""

__all__ = [
    "eigen",
    "feature_map",
    "filter",
    "inputs",
    "kept",
    "loss",
    "loss_spec",
    "point",
    "rows",
    "short_rows",
]
