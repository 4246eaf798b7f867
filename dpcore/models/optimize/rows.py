"""Rows of features, dense or sparse, and exact products with them.

Everything in here is exact: rows are whole multiples of ``STEP`` of size 1 at most, what they are
multiplied with is on a grid too, and no sum passes 2^53 grid steps. So bits do not hang on the
order of additions, on threads, nor on whether a matrix is sparse: a release repeats bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.models.kit.rows import STEP

CHUNK = 1 << 13
"""Rows whose products with numbers of 2^20 grid steps are added at once: 2^(13 + 20 + 20)."""
FINE = 1 << 20
"""Grid steps that a number which rows are multiplied with may have."""
PARTLY = 3
"""A column with numbers in fewer than this share of a sparse chunk is multiplied row by row: that
costs so many times as much for each number that is read."""
PIECE = 1 << 20
"""Numbers that are made double at once, where rows are stored in less."""


class RowMatrix:
    """n rows of p numbers, whole multiples of ``STEP`` in [-1, 1].

    Args:
      values: (n, p), a float64 or float32 array, or a scipy.sparse array or matrix.
    """

    def __init__(self, values: Any) -> None:
        n, p = values.shape
        self.n, self.p = int(n), int(p)
        self.sparse = not isinstance(values, np.ndarray)
        starts = range(0, self.n, CHUNK)
        if self.sparse:
            whole = values.tocsr()
            self._own = [_rows_of(whole, start, min(start + CHUNK, self.n)) for start in starts]
            self._chunks = [own.tocsc() for own in self._own]
        else:
            self._chunks = [values[start : start + CHUNK] for start in starts]

    @property
    def entries(self) -> int:
        """Numbers that a product reads."""
        if not self.sparse:
            return self.n * self.p
        return sum(int(chunk.nnz) for chunk in self._chunks)

    def column(self, j: int) -> Floats:
        """(n,) float64."""
        out = np.zeros(self.n)
        for i, chunk in enumerate(self._chunks):
            mine = out[i * CHUNK : (i + 1) * CHUNK]
            if self.sparse:
                own = slice(*chunk.indptr[j : j + 2])
                mine[chunk.indices[own]] = chunk.data[own]
            else:
                mine[:] = chunk[:, j]
        return out

    def some(self, columns: Ints) -> Iterator[tuple[slice, Floats]]:
        """Some columns, piece by piece: which rows, and (m, k) float64."""
        for i, chunk in enumerate(self._chunks):
            part = chunk[:, columns]
            dense = part.toarray() if self.sparse else part
            yield slice(i * CHUNK, i * CHUNK + len(dense)), dense.astype(np.float64)

    def down(self, values: Floats, unit: float) -> Ints:
        """Sums over rows of values (n,) times rows: (p,) int64, in steps of ``STEP * unit``.

        values: whole multiples of ``unit``, a power of two, of at most ``FINE`` of them.
        """
        out = np.zeros(self.p, dtype=np.int64)
        inverse = 1.0 / (STEP * unit)
        for i, chunk in enumerate(self._chunks):
            mine = values[i * CHUNK : (i + 1) * CHUNK]
            if self.sparse:
                part = chunk.T @ mine
            else:
                part = np.zeros(self.p)
                for at, some in self._double(chunk):
                    part += mine[at] @ some
            part *= inverse
            out += part.astype(np.int64)
        return out

    def against(self, j: int) -> Floats:
        """Column j of X^T X, in steps of ``STEP``^2: (p,) float64, each number rounded once.

        Of sparse rows only those are read that have a number in the column, where they are few.
        """
        if not self.sparse:
            return self.down(self.column(j), STEP).astype(np.float64)
        out, several = np.zeros(self.p), len(self._chunks) > 1
        total = np.zeros(self.p, dtype=np.int64) if several else None
        for own, chunk in zip(self._own, self._chunks, strict=True):
            at = slice(*chunk.indptr[j : j + 2])
            places, numbers = chunk.indices[at], chunk.data[at]
            part = _products(own, chunk, places, numbers)
            part *= STEP**-2
            if total is None:
                out = part
            else:
                total += part.astype(np.int64)
        return out if total is None else total.astype(np.float64)

    def across(self, weights: Floats) -> Floats:
        """Products of each row with weights (p,) on a ``grid_for`` grid: (n,)."""
        out = np.empty(self.n)
        for i, chunk in enumerate(self._chunks):
            mine = out[i * CHUNK : (i + 1) * CHUNK]
            if self.sparse:
                mine[:] = chunk @ weights
            else:
                for at, some in self._double(chunk):
                    np.matmul(some, weights, out=mine[at])
        return out

    @cached_property
    def moments(self) -> Floats:
        """X^T X: (p, p) float64, in steps of ``STEP``^2, each number rounded once."""
        total = np.zeros((self.p, self.p), dtype=np.int64)
        for chunk in self._chunks:
            part = (chunk.T @ chunk).toarray() if self.sparse else self._square(chunk)
            total += (part * (1.0 / STEP**2)).astype(np.int64)
        return total.astype(np.float64)

    def _square(self, chunk: Any) -> Floats:
        part = np.zeros((self.p, self.p))
        for _, some in self._double(chunk):
            part += some.T @ some
        return part

    def _double(self, chunk: Any) -> Iterator[tuple[slice, Floats]]:
        """A dense chunk as doubles, and where they lie."""
        if chunk.dtype == np.float64:
            yield slice(0, len(chunk)), chunk
            return
        step = max(1, PIECE // max(self.p, 1))
        for start in range(0, len(chunk), step):
            at = slice(start, start + step)
            yield at, chunk[at].astype(np.float64)


def _rows_of(whole: Any, start: int, stop: int) -> Any:
    """Some rows of a csr array, without a copy of their numbers."""
    if start == 0 and stop == whole.shape[0]:
        return whole
    ends = whole.indptr[start : stop + 1]
    own = slice(ends[0], ends[-1])
    parts = (whole.data[own], whole.indices[own], ends - ends[0])
    return type(whole)(parts, shape=(stop - start, whole.shape[1]))


def _products(own: Any, chunk: Any, places: Ints, numbers: Floats) -> Floats:
    """Sum of some rows by their numbers: (p,), exact. own, chunk: the rows as csr and as csc."""
    read = int((own.indptr[places + 1] - own.indptr[places]).sum())
    if read * PARTLY < own.nnz:
        return np.asarray(own[places].T @ numbers.astype(np.float64))
    column = np.zeros(own.shape[0])
    column[places] = numbers
    return np.asarray(chunk.T @ column)


def grid_for(p: int, most: float) -> float:
    """Step of a grid on which weights (p,) of size at most ``most`` have exact products with rows:
    p 2^20 2^k <= 2^53 for k bits below the next power of two."""
    bits = 33 - math.ceil(math.log2(max(p, 1)))
    return math.ldexp(1.0, math.ceil(math.log2(most)) - bits)


def on_grid(values: Floats, step: float) -> Floats:
    """Rounded to whole multiples of a power of two."""
    return np.asarray(np.rint(values * (1.0 / step)) * step + 0.0)


def on_lattice(slopes: Floats, unit: float, most: int, weights: Floats | None) -> Floats:
    """Slopes as whole multiples of ``unit``, ``most`` of them at most; what is not finite is 0.

    weights: (n,), 1 / k of each of k rows; cut toward zero, so that k rows come to ``most``
    together. (A product that is rounded up cannot reach the next whole number: it is 1 / k away,
    and k is below 2^31.) None: 1 each.
    """
    result = np.where(np.isfinite(slopes), slopes, 0.0)
    result = np.clip(np.rint(result * (1.0 / unit)), -float(most), float(most))
    if weights is not None:
        result = np.trunc(result * weights)
    return np.asarray(result * unit)
