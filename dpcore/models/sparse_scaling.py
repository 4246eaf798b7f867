"""Public ranges around 0 and lengths of sparse rows: exact, and the same as of dense ones."""

from __future__ import annotations

import math

import numpy as np

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.models.scaling import STEP


def scaled_values(values: Floats, half: float | Floats) -> Floats:
    """Finite numbers from [-half, half] onto [-1, 1], outside moved to the nearer end, on the
    lattice of ``STEP``: (m,)."""
    inside = np.clip(values * (1.0 / half), -1.0, 1.0)
    return np.asarray(np.rint(inside * (1.0 / STEP)) * STEP + 0.0)


def squares_of(values: Floats, rows: Ints, n: int) -> Floats:
    """Squared length of each row, from the numbers on the lattice that are in it: (n,). Sums are of
    whole numbers, so that their order does not matter.

    Args:
      values: (m,), row after row. rows: (m,), the row of each, not decreasing.
    """
    steps = np.rint(values * (1.0 / STEP)).astype(np.int64)
    total = np.concatenate([[0], np.cumsum(steps * steps)])
    ends = np.searchsorted(rows, np.arange(n + 1))
    return np.diff(total[ends]).astype(np.float64) * STEP**2


def factors(squares: Floats, norm: float) -> Floats:
    """1, or what brings a row below its norm by more than all rounding."""
    length = np.sqrt(squares * (1 + 2.0**-30))
    return np.where(length <= norm, 1.0, norm * (1 - 2.0**-30) / np.maximum(length, norm))


def shortened(values: Floats, rows: Ints, n: int, norm: float) -> tuple[Floats, int]:
    """Rows of at most so large an l2 norm, truncated toward 0 to the lattice, which lengthens none;
    and how many were longer. Arguments as of ``squares_of``."""
    if not np.isfinite(norm):
        return values, 0
    factor = factors(squares_of(values, rows, n), norm)
    cut = np.trunc(values * factor[rows] * (1.0 / STEP)) * STEP + 0.0
    return np.asarray(cut), int(np.count_nonzero(factor < 1.0))


def norms_of(values: Floats, rows: Ints, n: int, q: float) -> Floats:
    """lq norm of each row, 1 <= q <= inf: (n,). Numbers of a row are divided by its largest, and
    their powers added in order. Arguments as of ``squares_of``."""
    size, largest = np.abs(values), np.zeros(n)
    np.maximum.at(largest, rows, size)
    if math.isinf(q):
        return largest
    unit = size / np.where(largest > 0, largest, 1.0)[rows]
    sums = np.bincount(rows, weights=unit**q, minlength=n)
    return np.asarray(largest * sums ** (1 / q))


def shortened_in(values: Floats, rows: Ints, n: int, q: float, bound: float) -> tuple[Floats, int]:
    """``shortened`` in the lq norm, as ``dpcore.models.optimize.glm.shortened`` has it of tables:
    2^-30 below the bound, which is more than 2^20 numbers of a row and their powers round."""
    size = norms_of(values, rows, n, q)
    target = bound * (1 - 2.0**-30)
    factor = np.where(size <= target, 1.0, target / np.maximum(size, target))
    cut = np.trunc(values * factor[rows] * (1.0 / STEP)) * STEP + 0.0
    return np.asarray(cut), int(np.count_nonzero(size > bound))
