"""Linear models of records that are read once: points, losses, gradients, and a pass of SGD."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.geometry.balls import L2Ball
from weir.dpcore.geometry.boxes import Box
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.leaves.sparse_rows import SparseRows
from weir.dpcore.models.kit.loss import PredictionLoss
from weir.dpcore.models.kit.point import row_dot
from weir.dpcore.pricing.calibration import round_up


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
        result = _added(self._rows, terms, len(self))
        return result + w[-1] if self.intercept else result

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
        result = _added(self._rows, values * values, len(self))
        return result + 1.0 if self.intercept else result

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


_UP = 1 + 2.0**-40


@dataclass(frozen=True)
class Glm:
    """loss(<(x, 1), w>; y) for x with ||(x, 1)||_q <= A and w of lp norm at most B, 1/p + 1/q = 1.

    **Formal guarantees**: every gradient that is summed is c (x, 1) with a number c: |c| <= the
    loss' slope for a gradient, so that its lq norm is at most L0 = slope A; for a difference of two
    gradients |c| <= bound / A, so that its norm is at most the bound. Numbers c that are not finite
    become 0 before they are clipped, and void rows have c = 0. Clipping c, and not the vector,
    leaves the derivative of another convex loss, no less smooth: L1 = curve A^2.

    Attributes:
      loss: of one prediction, without corners. features: numbers of x. intercept: whether a 1
      follows it. dual: q. norm: most that ||x||_q is. radius: B.
      most: numbers of x that are not 0, at most, where rows travel without their zeros; None: rows
      are tables.
    """

    loss: PredictionLoss
    features: int
    intercept: bool
    dual: float
    norm: float
    radius: float
    most: int | None = None

    @property
    def dimension(self) -> int:
        """d, numbers of w."""
        return self.features + self.intercept

    @property
    def terms(self) -> int:
        """Most numbers that a prediction is a sum of."""
        return self.dimension if self.most is None else self.most + self.intercept

    @property
    def reach(self) -> float:
        """A, rounded up."""
        if not self.intercept:
            return self.norm
        if math.isinf(self.dual):
            return max(self.norm, 1.0)
        largest = max(self.norm, 1.0)
        q, least = self.dual, min(self.norm, 1.0) / largest
        # Powers are the platform's: rounded up, their last bits shape no plan.
        return round_up(largest * math.pow(1.0 + math.pow(least, q), 1 / q) * _UP)

    @property
    def span(self) -> float:
        """Largest prediction."""
        return self.reach * self.radius * _UP

    @property
    def slope(self) -> float:
        """Of the loss in the prediction: rounded up."""
        # Coarser than needed for losses of labels: `self.span` bounds their predictions too, and
        # takes up to 49 % off the sensitivity of logistic models.
        reach = math.inf if self.loss.labels else self.span
        return min(self.loss.slope(math.inf), self.loss.slope(reach) * _UP)

    @property
    def lipschitz(self) -> float:
        """L0."""
        return self.slope * self.reach * _UP

    @property
    def spread(self) -> float:
        """Most that gradients of two records are apart at one point of norm at most B.

        2 L0; of the squared loss in l2 A^2 B + 2 A, which is A^2 B less: for a unit vector e and a
        = (x, 1), <gradient, e> = <a, w> <a, e> - y <a, e>. The first is a^T M a, M the symmetric
        part of w e^T with eigenvalues (<w, e> +- |w|) / 2 and 0, so over |a| <= A it spans A^2 |w|
        at most; the second spans 2 A. A void row is a = 0. The last factor is for points that
        rounding left outside of the set, and for slopes that are clipped there.
        """
        if self.dual != 2 or not self.loss.quadratic:
            return 2 * self.lipschitz
        reach = self.reach
        bound = reach * (reach * self.radius + 2) * (1 + 2.0**-18)
        return min(2 * self.lipschitz, bound)

    @property
    def smoothness(self) -> float:
        """L1."""
        return self.loss.smoothness * self.reach * self.reach * _UP

    def split(self, rows: Any) -> tuple[Any, Floats, NDArray[np.bool_]]:
        """Rows (n, features + 1), a table or ``SparseRows`` -> points (n, d) of that kind, targets
        (n,), and which rows are void (n,)."""
        targets = targets_of(rows)
        void = np.isnan(targets)
        points = points_of(rows, self.features, self.intercept)
        targets = np.where(void, 0.0, targets)
        if self.loss.quadratic:
            targets = np.clip(targets, -1.0, 1.0)  # as ``spread`` has it
        return points, targets, void

    def slopes(self, points: Points, targets: Floats, void: NDArray[np.bool_], w: Floats) -> Floats:
        """Derivatives at w (d,): (n,), within +-slope."""
        result = self.loss.derivative(scores_of(points, w), targets)
        result = np.where(np.isfinite(result) & ~void, result, 0.0)
        return np.clip(result, -self.slope, self.slope)

    def factors(
        self,
        points: Points,
        targets: Floats,
        void: NDArray[np.bool_],
        w: Floats,
        before: Floats | None,
        bound: float,
    ) -> Floats:
        """c (n,) of the clipped gradients at w, less those at ``before`` where that is given: c (x,
        1) has an lq norm of at most ``bound``."""
        factor = self.slopes(points, targets, void, w)
        if before is not None:
            factor = factor - self.slopes(points, targets, void, before)
        most = bound / self.reach * (1 - 2.0**-40)
        return np.clip(factor, -most, most)

    def gradients(
        self,
        points: Points,
        targets: Floats,
        void: NDArray[np.bool_],
        w: Floats,
        before: Floats | None,
        bound: float,
    ) -> Floats:
        """Those gradients themselves: (n, d)."""
        factors = self.factors(points, targets, void, w, before, bound)
        if isinstance(points, SparsePoints):
            return points.times(factors)
        return np.asarray(points * factors[:, None])

    def sums(
        self, rows: Any, w: Floats, before: Floats | None, bound: float, resolution: float
    ) -> Ints:
        """Sum of those of rows, each truncated toward zero to a lattice: (d,), exact. No table of
        them is made of sparse rows."""
        points, targets, void = self.split(rows)
        if isinstance(points, SparsePoints):
            factors = self.factors(points, targets, void, w, before, bound)
            return points.lattice_sum(factors, resolution)
        result = self.gradients(points, targets, void, w, before, bound)
        return np.asarray(lattice_sum(result, resolution))

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {
            "loss": self.loss.canonical(),
            "features": self.features,
            "intercept": self.intercept,
            "dual": self.dual.hex(),
            "norm": self.norm.hex(),
            "radius": self.radius.hex(),
            **({} if self.most is None else {"most": self.most}),
        }


Projection = Callable[[Floats], Floats]


def projection_of(convex_set: ConvexSet) -> Projection:
    """The projection of one point (d,), short where a set allows it."""
    if isinstance(convex_set, Box):
        return lambda x: np.minimum(np.maximum(x, convex_set.low), convex_set.high)
    if isinstance(convex_set, L2Ball):
        inner = (convex_set.radius * (1 - 2.0**-30)) ** 2

        def inside(x: Floats) -> Floats:
            return x if np.add.reduce(x * x) <= inner else convex_set.project(x[None])[0]

        return inside
    return lambda x: convex_set.project(x[None])[0]


def walked(
    glm: Glm, convex_set: ConvexSet, eta: float, rows: Any, x: Floats, total: Floats, early: int
) -> Floats:
    """Where a projected step at each of these records leads from x: (d,).

    Args:
      rows: (n, features + 1), a table or ``SparseRows``. x: (d,), may be written.
      total: (d,), to which the points are added, but for the first so many (``early``).
    """
    points, targets, void = glm.split(rows)
    slope, most = glm.loss.scalar(), glm.slope

    def length(prediction: float, target: float) -> float:
        """Of a step, in rows."""
        result = slope(prediction, target)
        return eta * min(max(result if math.isfinite(result) else 0.0, -most), most)

    labelled = zip(targets.tolist(), void.tolist(), strict=True)
    if isinstance(points, SparsePoints):
        moves = SparseMoves(convex_set, x)
        for i, ((at, numbers), (target, empty)) in enumerate(
            zip(points.each(), labelled, strict=True)
        ):
            if not empty:
                moves.by(at, length(dot(numbers, moves.x[at]), target) * numbers)
            if i >= early:
                total += moves.x
        return moves.x
    project = projection_of(convex_set)
    for i, (point, (target, empty)) in enumerate(zip(points, labelled, strict=True)):
        if not empty:
            x = project(x - length(inner(point, x), target) * point)
        if i >= early:
            total += x
    return x


class SparseMoves:
    """A point of a set that moves in a few of its coordinates at a time.

    In a box only these need to be held: after the first move, before which rounding to a grid may
    have put any of them a little outside, as in the projection of the whole point.

    Attributes:
      x: (d,), where it is.
    """

    def __init__(self, convex_set: ConvexSet, x: Floats) -> None:
        self.x = x
        self._project = projection_of(convex_set)
        self._box = convex_set if isinstance(convex_set, Box) else None
        self._held = False

    def by(self, at: Any, less: Floats) -> None:
        """Takes numbers off the coordinates at some places, and goes back into the set."""
        self.x[at] -= less
        if self._box is None or not self._held:
            self.x = self._project(self.x)
            self._held = True
            return
        inside = np.maximum(self.x[at], self._box.low[at])
        self.x[at] = np.minimum(inside, self._box.high[at])
