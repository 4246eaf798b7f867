"""A ridge solver for noisy moments, the same bits on every machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats

FARTHEST = 2.0**100
"""Solutions are held within it, so that none reaches a projection as infinity."""


def triangle(dimension: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows and columns of the kept entries of a (d, d) symmetric matrix, each (d (d + 1) / 2,)."""
    return np.triu_indices(dimension)


def unpack(statistics: Floats, dimension: int) -> tuple[Floats, Floats]:
    """(K, d (d + 1) / 2 + d) -> symmetric (K, d, d) and (K, d)."""
    i, j = triangle(dimension)
    matrix = np.empty((len(statistics), dimension, dimension))
    matrix[:, i, j] = statistics[:, : len(i)]
    matrix[:, j, i] = statistics[:, : len(i)]
    return matrix, statistics[:, len(i) :].copy()


def solve_positive(matrix: Floats, right: Floats, floor: Floats) -> Floats:
    """Solves symmetric systems, each raised to a positive definite one where noise spoiled it.

    LDL^T by columns with pivots d_j = max(|c_jj|, max_i c_ij^2 / size, floor), size = the largest
    entry of the matrix: c_ij^2 / d_j never exceeds size, so nothing blows up. For a matrix above
    ``floor`` times the identity every pivot is c_jj and the solution exact; any other gets a
    non-negative diagonal added. Sums are in a fixed order, vectorised over K: a row's bits depend
    on that row alone, and never on a BLAS.

    Args:
      matrix: (K, d, d) symmetric. right: (K, d). floor: (K,), above 0.

    Source: Gill, Murray (1974), "Newton-type methods for unconstrained and linearly constrained
      optimization".
    """
    n, d = right.shape
    lower = matrix.copy()
    size = np.maximum(np.abs(matrix).max(axis=(1, 2)), floor)
    pivots = np.empty((n, d))
    x = right.copy()
    for j in range(d):
        below = lower[:, j + 1 :, j].copy()
        largest = np.abs(below).max(axis=1, initial=0.0)
        pivots[:, j] = np.maximum(np.abs(lower[:, j, j]), largest * (largest / size))
        np.maximum(pivots[:, j], floor, out=pivots[:, j])
        column = below / pivots[:, j, None]
        lower[:, j + 1 :, j + 1 :] -= column[:, :, None] * below[:, None, :]
        lower[:, j + 1 :, j] = column
        x[:, j + 1 :] -= column * x[:, j, None]
    x /= pivots
    for j in range(d - 1, 0, -1):
        x[:, :j] -= lower[:, j, :j] * x[:, j, None]
    return x
