"""Largest first, in whole blocks of rows: the order that projections and local oracles go by."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.geometry.convex_set import (
    rows,
)

_SHORT = 64
"""Rows of so few columns are not looked through for empty ones."""


def descending(keys: Floats, columns: int) -> NDArray[np.int64]:
    """For each row, its columns from the largest key to the smallest: (K, d) -> (K, d).

    One sort of integers: a key's leading bits, then its column. Keys that agree in their leading
    52 - ceil(log2 columns) bits (columns >= d) count as equal, and equal keys come in the order of
    their columns. So the order is the same on every machine, whichever sort it has.
    """
    d = keys.shape[1]
    mask = np.int64((1 << max(columns - 1, 0).bit_length()) - 1)
    ordered = np.subtract(0.0, keys)  # one zero only, unlike -keys
    bits = ordered.view(np.int64)
    bits ^= (bits >> 63) & np.int64(0x7FFFFFFFFFFFFFFF)  # integers in the order of the floats
    bits &= ~mask
    bits |= np.arange(d, dtype=np.int64)
    bits.sort(axis=1)
    bits &= mask
    return bits


def running_sums(values: Floats) -> Floats:
    """Running sums of each row, in place and in order: (K, d) -> (K, d)."""
    k, d = values.shape
    if d > k:
        return np.cumsum(values, axis=1, out=values)
    for j in range(1, d):  # the same additions, a column at a time
        values[:, j] += values[:, j - 1]
    return values


def take_largest_first(keys: Floats, caps: Floats, amount: Floats) -> Floats:
    """Takes ``amount`` from each row, first where its key is largest, at most the cap of each.

    Args:
      keys: (K, d). caps: (K, d) >= 0. amount: (K,) >= 0; more than the caps hold takes them all.

    Returns:
      (K, d) what is taken of each column: the solution of
      maximise <keys, y> subject to 0 <= y <= caps, sum y = min(amount, sum caps), keys >= 0.
    """
    k, d = keys.shape
    if d > _SHORT:
        used = np.flatnonzero(np.any(caps > 0, axis=0))
        if 2 * len(used) < d:  # sums in order do not change when zeros are left out
            taken = np.zeros((k, d))
            taken[:, used] = _take(rows(keys[:, used]), rows(caps[:, used]), amount, d)
            return taken
    return _take(rows(keys), rows(caps), amount, d)


def _take(keys: Floats, caps: Floats, amount: Floats, columns: int) -> Floats:
    k, d = keys.shape
    place = descending(keys, columns)
    place += (np.arange(k, dtype=np.int64) * d)[:, None]
    ordered = np.take(caps.reshape(-1), place)
    left = np.zeros_like(ordered)  # what is left to take when a column's turn comes
    left[:, 1:] = ordered[:, :-1]
    np.subtract(amount[:, None], running_sums(left), out=left)
    np.maximum(left, 0.0, out=left)
    np.minimum(left, ordered, out=left)
    taken = np.empty_like(caps)
    taken.reshape(-1)[place] = left
    return taken


def to_simplex(values: Floats, total: float) -> Floats:
    """max(v - theta, 0) with theta such that each row adds to total > 0: (K, d) -> (K, d).

    Each row is moved first so that its largest entry is 0, which changes no result, and no huge
    entry swallows the total.

    Source: Held, Wolfe, Crowder (1974); the sort and the sums are Duchi et al. (2008), Figure 1.
    """
    k, d = values.shape
    ordered = np.negative(values)
    ordered.sort(axis=1)
    largest = -ordered[:, 0]
    ordered += largest[:, None]
    np.negative(ordered, out=ordered)
    excess = running_sums(ordered.copy())
    excess -= total
    ordered *= np.arange(1.0, d + 1)
    kept = np.maximum(np.count_nonzero(ordered > excess, axis=1), 1)
    theta = excess[np.arange(k), kept - 1] / kept
    out = values - largest[:, None]
    out -= theta[:, None]
    np.maximum(out, 0.0, out=out)
    return np.asarray(out)
