"""Least squares over an l1 ball from noisy moments: post-processing."""

from __future__ import annotations

import math

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.geometry.balls import L1Ball
from weir.dpcore.models.kit.eigen import eigen, spectral
from weir.dpcore.models.kit.point import row_dot

SOLVING = 3000
"""Iterations of the solver, at most."""


def solved(matrix: Floats, right: Floats, low: float, radius: float) -> Floats:
    """(k,): argmin 1/2 <x, A x> - <right, x> over an l1 ball, A the matrix with eigenvalues raised
    to ``low``: accelerated projected gradient from 0."""
    values, rows = eigen(matrix)
    values = np.maximum(values, low)
    convex = spectral(values, rows)
    step, ball = 1.0 / float(values.max()), L1Ball(radius, len(right))
    x = ahead = np.zeros(len(right))
    pace = 1.0
    for _ in range(SOLVING):
        slope = row_dot(convex, np.broadcast_to(ahead, convex.shape)) - right
        new = ball.project((ahead - step * slope)[None])[0]
        following = (1.0 + math.sqrt(1.0 + 4.0 * pace * pace)) / 2.0
        ahead = new + (pace - 1.0) / following * (new - x)
        still = bool((new == x).all())
        x, pace = new, following
        if still:
            break
    return np.asarray(x + 0.0)
