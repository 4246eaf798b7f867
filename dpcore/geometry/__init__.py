"""Convex sets: projections, linear oracles, norms and Gaussian widths.

``convex_set`` has the base class ``ConvexSet``; ``parse`` makes the set of a config;
``local_oracle`` finds the best point near another. ``balls``, ``boxes`` and ``norm_balls`` have
the sets that models construct themselves; the others are made by ``parse``.
"""

__all__ = ["balls", "boxes", "convex_set", "local_oracle", "norm_balls", "parse"]
