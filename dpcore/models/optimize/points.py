"""Points (x, 1) that a linear model predicts from: a table, or rows without their zeros."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.leaves.sparse_rows import SparseRows
from weir.dpcore.models.kit.grid import row_dot


@dataclass(frozen=True, eq=False)
class SparsePoints:
    """n points of few numbers that are not 0, the features of rows and the constant behind them.

    Sums of a row go through its numbers in order of their places, one after the other: zeros in
    between change none, so that the bits are those of a table whose rows are added that way.

    Attributes:
      features: (n, p) of float64. intercept: whether a 1 follows the features.
    """

    features: SparseRows
    intercept: bool

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, some: slice) -> SparsePoints:
        return SparsePoints(self.features[some], self.intercept)

    @property
    def dimension(self) -> int:
        """d."""
        return self.features.width + self.intercept

    @cached_property
    def _rows(self) -> Ints:
        return self.features.rows

    def scores(self, w: Floats) -> Floats:
        """<(x, 1), w> of each: (d,) -> (n,)."""
        terms = self.features.values * w[self.features.indices]
        found = _added(self._rows, terms, len(self))
        return found + w[-1] if self.intercept else found

    def lattice_sum(self, factors: Floats, resolution: float) -> Ints:
        """Sum of factors (n,) times points, each product truncated to the lattice: (d,), exact."""
        own, inverse = self.features, 1.0 / resolution
        # Whole numbers of some 2^20 steps: exact as doubles for 2^32 rows.
        steps = np.trunc(own.values * factors[self._rows] * inverse)
        out = np.zeros(self.dimension, dtype=np.int64)
        out[: own.width] = _added(own.indices, steps, own.width)
        if self.intercept:
            out[-1] = np.trunc(factors * inverse).sum()
        return out

    def times(self, factors: Floats) -> Floats:
        """(n, d) factors (n,) times points: for few rows only."""
        out = np.zeros((len(self), self.dimension))
        out[self._rows, self.features.indices] = self.features.values * factors[self._rows]
        if self.intercept:
            out[:, -1] = factors
        return out

    def squares(self) -> Floats:
        """||(x, 1)||_2^2 of each: (n,)."""
        values = self.features.values
        found = _added(self._rows, values * values, len(self))
        return found + 1.0 if self.intercept else found

    def each(self) -> Iterator[tuple[NDArray[Any], Floats]]:
        """Places and numbers of each point that are not 0."""
        own = self.features
        at, values = own.indices.astype(np.intp), own.values
        if self.intercept:
            ends = own.offsets[1:]
            at, values = np.insert(at, ends, own.width), np.insert(values, ends, 1.0)
        offsets = own.offsets + np.arange(len(own.offsets)) * self.intercept
        for start, stop in zip(offsets.tolist(), offsets[1:].tolist(), strict=False):
            yield at[start:stop], values[start:stop]


Points = Floats | SparsePoints


def _added(at: NDArray[Any], numbers: Floats, n: int) -> Floats:
    """Sums of the numbers at each place, in their order: (n,)."""
    return np.bincount(at, weights=numbers, minlength=n).astype(np.float64, copy=False)


def points_of(rows: Any, features: int, intercept: bool) -> Points:
    """The points of rows (n, features + 1) that end with a target."""
    if isinstance(rows, SparseRows):
        own = rows.features
        doubles = SparseRows(own.offsets, own.indices, own.values.astype(np.float64), own.width)
        return SparsePoints(doubles, intercept)
    points = np.ones((len(rows), features + intercept))
    points[:, :features] = rows[:, :features]
    return points


def targets_of(rows: Any) -> Floats:
    """The last number of each row, NaN where it is void: (n,)."""
    return rows.last if isinstance(rows, SparseRows) else np.asarray(rows[:, -1])


def scores_of(points: Points, w: Floats) -> Floats:
    """<point, w> of each: (n,)."""
    if isinstance(points, SparsePoints):
        return points.scores(w)
    return row_dot(points, np.broadcast_to(w, points.shape))


def inner(point: Floats, w: Floats) -> float:
    """<point, w> of a row of a table, in numpy's order."""
    return float(np.add.reduce(point * w))


def dot(numbers: Floats, others: Floats) -> float:
    """<numbers, others> of what is not 0 in a row, from the first to the last."""
    return float(np.add.accumulate(numbers * others)[-1]) if len(numbers) else 0.0


def lattice_sum(values: Floats, resolution: float) -> Any:
    """Sum of rows, each truncated toward zero to the lattice: exact. (n, d) -> (d,) int64."""
    return (values * (1.0 / resolution)).astype(np.int64).sum(axis=0)
