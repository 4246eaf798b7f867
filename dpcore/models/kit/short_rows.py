"""Rows that are shortened to a bound, and sums of their products: whole numbers, the same whatever
order they are added in."""

from __future__ import annotations

import numpy as np

from weir.dpcore.arrays import Floats, Ints

CHUNK = 1 << 13
"""Rows that are multiplied at once. Sums of their products are whole numbers below 2^53, which
every order of adding gives the same."""
FINE = 2.0**17
"""Steps of a shortened row in 1."""
BELOW = 1 - 2.0**-40
"""Shortens by more than all rounding."""


def pieces(rows: int) -> list[slice]:
    """Of so many rows, ``CHUNK`` each."""
    return [slice(at, at + CHUNK) for at in range(0, rows, CHUNK)]


def shortened(points: Floats, bound: float) -> Floats:
    """Rows (n, D) over a bound, longer ones shortened: of length below 1."""
    size = np.sqrt(np.einsum("ij,ij->i", points, points))
    return np.asarray(points * (BELOW / np.maximum(size, bound))[:, None])


def products(points: Floats, bound: float, weights: Floats) -> Ints:
    """Sum of z z^T, z the shortened rows: (D, D) int64, in steps of ``FINE`` squared.

    A row of weight v adds a matrix of Frobenius norm and trace at most v.

    Args:
      points: (n, D). weights: (n,), 1 at most.
    """
    root, width = np.sqrt(weights), points.shape[1]
    total = np.zeros((width, width), dtype=np.int64)
    for piece in pieces(len(points)):
        z = np.trunc(shortened(points[piece], bound) * (root[piece] * FINE)[:, None])
        total += (z.T @ z).astype(np.int64)
    return total


def doubled(width: int) -> Floats:
    """(D (D + 1) / 2,): 1 of the diagonal, sqrt(2) of entries above it: with these weights the
    entries of a symmetric matrix have its Frobenius norm."""
    row, column = np.triu_indices(width)
    return np.where(row == column, 1.0, np.sqrt(2.0))


def vector_of(matrix: Floats | Ints) -> Floats:
    """(D (D + 1) / 2,) of a symmetric matrix: entries on and above the diagonal, so weighted."""
    width = len(matrix)
    return np.asarray(matrix[np.triu_indices(width)] * doubled(width))


def matrix_of(vector: Floats, width: int) -> Floats:
    """The symmetric matrix of such a vector."""
    result = np.empty((width, width))
    row, column = np.triu_indices(width)
    result[row, column] = result[column, row] = vector / doubled(width)
    return result
