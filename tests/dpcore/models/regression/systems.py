"""Least squares systems of many kinds, for solvers."""

from __future__ import annotations

import numpy as np

from weir.dpcore.geometry.balls import L1Ball, L2Ball
from weir.dpcore.geometry.boxes import Box, Product, Simplex
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.geometry.polytope import Polytope
from weir.dpcore.models.regression.quadratic import PrivateQuadratic


def sets(d: int) -> dict[str, ConvexSet]:
    """Small and large sets of d dimensions."""
    corners = np.random.default_rng(d).uniform(-0.4, 0.4, (6, d))
    return {
        "l1": L1Ball(1.0, d),
        "l1_large": L1Ball(1e3, d),
        "l2": L2Ball(0.7, d),
        "l2_large": L2Ball(1e3, d),
        "box": Box.uniform(-0.2, 0.3, d),
        "simplex": Simplex(1.0, d),
        "polytope": Polytope(tuple(map(tuple, corners.tolist()))),
        "product": Product((L2Ball(0.5, 1), L1Ball(0.5, d - 1))) if d > 1 else L2Ball(0.5, 1),
    }


def systems(n: int, d: int, targets: int, noise: float, seed: int = 0) -> PrivateQuadratic:
    """n of them from 100 events each, features of differing size, with symmetric noise."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 100, d)) * np.geomspace(1, 0.05, d)
    y = x @ rng.standard_normal((n, d, targets)) + 0.1 * rng.standard_normal((n, 100, targets))
    error = rng.standard_normal((n, d, d)) * noise
    error = (error + error.transpose(0, 2, 1)) / 2
    right = x.transpose(0, 2, 1) @ y + noise * rng.standard_normal((n, d, targets))
    return PrivateQuadratic(x.transpose(0, 2, 1) @ x + error, right.transpose(0, 2, 1).copy())
