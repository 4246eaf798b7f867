"""Quadratic statistics (x x^T, x y) as lattice sums, their sensitivity, and a ridge solver.

Only the upper triangle is kept, and as whole numbers: the isometry svec multiplies what is off the
diagonal by sqrt 2, so here the noise off the diagonal is divided by it instead.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import positive
from dpcore.guarantee import Relation
from dpcore.mechanism import Floats, Ints


def statistics_sensitivity(x: float, y: float, relation: Relation) -> float:
    """l2 sensitivity of (svec(x x^T), x y), ||x||_2 <= x and |y| <= y; rounded up.

    Formal guarantees:
      add_remove: x^4 + x^2 y^2. replace_one: with c = <x, x'> and p = y y', the squared change of
        two events of full size is 2 x^4 - 2 c^2 + 2 x^2 y^2 - 2 c p, largest at c = y^2 / 2,
        p = -y^2 when y^2 <= 2 x^2, giving 2 x^4 + 2 x^2 y^2 + y^4 / 2; beyond, at c = x^2,
        giving 4 x^2 y^2. replace_anywhere: that, or two cells at twice add_remove, of which the
        latter is never larger.
      Source: Kasiviswanathan, Nissim, Jin (2017), who run two sums with twice the noise; the joint
        value is derived here.
    """
    positive(x=x, y=y)
    a, b = x * x, y * y
    if relation == "add_remove":
        square = a * a + a * b
    else:
        square = 2 * a * a + 2 * a * b + b * b / 2 if b <= 2 * a else 4 * a * b
    return math.sqrt(square) * (1 + 2.0**-50)


def triangle(dimension: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows and columns of the kept entries of a (d, d) symmetric matrix, each (d (d + 1) / 2,)."""
    return np.triu_indices(dimension)


def statistics_scales(dimension: int, resolution: float) -> tuple[float, ...]:
    """Noise weights in lattice steps of (triangle, x y): under them the l2 norm is svec's."""
    i, j = triangle(dimension)
    step = 1 / (resolution * resolution)
    off = step * math.sqrt(0.5)
    return (*(step if a == b else off for a, b in zip(i, j, strict=True)), *([step] * dimension))


def products(x: Ints, y: Ints) -> Ints:
    """Rows on the lattice -> their statistics: (n, d), (n,) -> (n, d (d + 1) / 2 + d), exact."""
    i, j = triangle(x.shape[1])
    return np.concatenate([x[:, i] * x[:, j], x * y[:, None]], axis=1)


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
