"""What models are built from.

Losses with their slope, curvature and envelope (``loss``, ``loss_spec``), events as rows
(``inputs``, ``rows``, ``feature_map``), rows that are kept (``kept``), and noise on a point of a
lattice (``point``). Nothing here knows an algorithm.
"""

__all__ = ["feature_map", "inputs", "kept", "loss", "loss_spec", "point", "rows"]
