"""Clipped gradients of a leaf of rows, and what is summed next to them: products, and a count."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.lattice import Lattice, clip_l2
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.kit.loss import PredictionLoss
from weir.dpcore.models.kit.point import row_dot
from weir.dpcore.models.kit.rows import is_void, shorten
from weir.dpcore.models.moments import BITS, Moments

SMALLEST, LARGEST = 2.0**-300, 2.0**300
"""Bounds on a clip: squares of what lies between neither overflow nor vanish."""


@dataclass(frozen=True)
class Gradients:
    """What one row adds to a leaf: its clipped gradient, then its clipped loss. Where the unit is a
    user, what all rows of a user add: the sums of both, held to the same bounds once more.

    Formal guarantees:
      Unit: one event, or one user in a key and tick. Each row's gradient has l2 norm <= ``clip``
        exactly, its loss lies in [0, loss_bound]; both are truncated toward zero to a lattice,
        which lengthens neither, and sums of int64 are exact. x, and what is played, depend on
        earlier releases only. A void row (``is_void``) contributes 0: exchanged for another it
        changes a leaf by at most L and B.
      Sensitivity: a cap makes rows compete, so that whatever the relation, a neighbour replaces one
        row of a leaf by another (or adds or removes one): the gradient part changes by at most
        2 clip in l2, the loss part by at most loss_bound. With ``users`` the same holds of a user's
        rows of a key and tick, however many: whole users compete (``RowLeaf.capped_users``), and a
        user's sums are within the bounds of one row, shortened and truncated as rows are.

    Attributes:
      loss: of a prediction. clip: L. loss_bound: B; None: the loss is not released.
      features: p, numbers in a row before the target. intercept: whether theta ends with one.
      users: whether the hash of a row is its user's, whose rows are bounded together.
    """

    loss: PredictionLoss
    clip: float
    loss_bound: float | None
    features: int
    intercept: bool
    users: bool = False

    def __post_init__(self) -> None:
        for name, value in (("gradient", self.clip), ("loss", self.loss_bound)):
            if value is not None and not SMALLEST < value < LARGEST:
                raise ConfigError(f"model.clip.{name}", value, "must be a number above 0.")

    @property
    def parameters(self) -> int:
        """d, length of theta."""
        return self.features + self.intercept

    @property
    def dimension(self) -> int:
        """D, coordinates of a leaf: d, and one for the loss."""
        return self.parameters + (self.loss_bound is not None)

    @property
    def lattice(self) -> Lattice:
        """Of the gradients."""
        return Lattice.fitting(self.clip)

    @property
    def loss_lattice(self) -> Lattice:
        """Of the losses."""
        return Lattice.fitting(self.loss_bound or 1.0)

    def sums(self, x: Floats, leaf: RowLeaf, played: Floats | None = None) -> Ints:
        """Sums of a tick's rows, each at its own key's iterate.

        Args:
          x: (K, d), where the K keys take gradients.
          leaf: rows (N, p + 1) of features and target.
          played: (K, d), what they play, whose losses count; None: x.

        Returns:
          (K, D) int64 lattice sums.
        """
        out = np.zeros((leaf.n_keys, self.dimension), dtype=np.int64)
        n = len(leaf.rows)
        if n:
            at = None if played is None else played[leaf.keys]
            values = self.of_rows(x[leaf.keys], cast(Floats, leaf.rows), at)
            offsets = leaf.offsets
            if self.users:
                values, offsets = self._of_users(values, leaf)
            some = np.flatnonzero(np.diff(offsets))
            if len(values) > len(some):
                values = np.add.reduceat(values, offsets[some], axis=0)
            out[some] = values
        return out

    def _of_users(self, values: Ints, leaf: RowLeaf) -> tuple[Ints, Ints]:
        """Each user's own contribution, key by key, and where keys begin: (u, D), (K + 1,)."""
        order, starts = leaf.by_user()
        sums, d = np.add.reduceat(values[order], starts, axis=0), self.parameters
        gradients = sums[:, :d].astype(np.float64)
        shorten(gradients, self.clip / self.lattice.resolution)
        sums[:, :d] = np.trunc(gradients).astype(np.int64)
        if self.loss_bound is not None:
            np.minimum(sums[:, d], self.loss_lattice.steps(self.loss_bound), out=sums[:, d])
        own = leaf.keys[order[starts]]
        return sums, np.searchsorted(own, np.arange(leaf.n_keys + 1))

    def of_rows(self, x: Floats, rows: Floats, played: Floats | None = None) -> Ints:
        """Each row's own contribution. x: (N, d), the iterate it meets; played: (N, d), the one
        whose loss counts, None: x -> (N, D) int64."""
        n, d = x.shape
        point = np.ones((n, d))
        point[:, : self.features] = rows[:, : self.features]
        void = is_void(rows)
        target = np.where(void, 0.0, rows[:, self.features])
        prediction = row_dot(point, x)
        out = np.empty((n, self.dimension), dtype=np.int64)
        if self.loss_bound is not None:
            shown = prediction if played is None else row_dot(point, played)
            value = self.loss.value(shown, target)
            value = np.where(void | np.isnan(value), 0.0, np.clip(value, 0.0, self.loss_bound))
            out[:, d] = self.loss_lattice.truncate(value)
        slope = self.loss.derivative(prediction, target)
        point *= np.where(np.isfinite(slope) & ~void, slope, 0.0)[:, None]
        shorten(point, self.clip)
        out[:, :d] = self.lattice.truncate(point)
        return out


LATTICE = Lattice(2.0**-BITS)
"""Of features; products are whole multiples of its square."""
MOST = 64
"""Coefficients up to which a d x d system a tick is worth its time and noise."""


@dataclass(frozen=True)
class SecondMoments:
    """What one row adds to a leaf: the upper triangle of x x^T, x its features and constant.

    Formal guarantees:
      Unit: one event. Each x is shortened to ``reach`` and truncated toward zero to a lattice,
        which lengthens neither, and sums of products are exact. A void row adds 0. Nothing depends
        on a model.
      Sensitivity: rows compete where they are capped, so that whatever the relation a neighbour
        replaces one row of a leaf by another: ||x x^T - z z^T||_F^2 = |x|^4 + |z|^4 - 2 <x, z>^2
        <= 2 reach^4, in svec's norm; see ``change``.

    Attributes:
      features: p, numbers in a row before the target. intercept: whether x ends with a constant.
      reach: bound on ||x||_2.
    """

    features: int
    intercept: bool
    reach: float

    @property
    def parameters(self) -> int:
        """d."""
        return self.features + self.intercept

    @property
    def dimension(self) -> int:
        """d (d + 1) / 2."""
        return self.parameters * (self.parameters + 1) // 2

    @property
    def resolution(self) -> float:
        """One step of a leaf, in scaled units."""
        return self._moments.resolution

    @property
    def change(self) -> float:
        """Largest change of a leaf in units of ``weights``, scaled units; rounded up."""
        return math.sqrt(2.0) * self.reach**2 * (1 + 2.0**-50)

    @property
    def weights(self) -> tuple[float, ...]:
        """Noise weights in lattice steps: (leaf / weights) has svec's l2 norm."""
        return self._moments.scales[: self.dimension]

    @cached_property
    def _moments(self) -> Moments:
        return Moments(self.parameters, 1, False, self.reach, 1.0)

    def sums(self, leaf: RowLeaf) -> Ints:
        """Rows of features and target, (N, p + 1), of K keys -> (K, dimension) int64."""
        rows = cast(Floats, leaf.rows)
        x = np.zeros((len(rows), self.parameters + 1))
        x[:, : self.features] = rows[:, : self.features]
        if self.intercept:
            x[:, self.features] = 1.0
        x[is_void(rows)] = 0.0
        x[:, :-1] = LATTICE.truncate(clip_l2(x[:, :-1], self.reach).values)
        result = self._moments.accumulate(x, leaf.keys, leaf.n_keys)
        return np.ascontiguousarray(result[:, : self.dimension])

    def unit(self, smoothness: float) -> float:
        """One step of a leaf in the curvature of losses."""
        return smoothness * self.resolution

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {"reach": self.reach.hex(), "lattice": LATTICE.resolution.hex()}


@dataclass(frozen=True)
class RowCounts:
    """What one row adds to a leaf: 1, or 0 where it is void.

    Formal guarantees:
      Unit: one event, or one user in a key and tick, who adds 1 with any number of rows.
      Sensitivity: a neighbour replaces one row of a leaf, or one user, by another, or adds or
        removes one: the count changes by at most 1. Nothing depends on a model.

    Attributes:
      users: whether the hash of a row is its user's: then users are counted.
    """

    users: bool

    dimension: ClassVar[int] = 1
    change: ClassVar[float] = 1.0
    weights: ClassVar[tuple[float, ...]] = (1.0,)

    def sums(self, leaf: RowLeaf) -> Ints:
        """Rows of features and target, (N, p + 1), of K keys -> (K, 1) int64."""
        keys, said = leaf.keys, ~is_void(cast(Floats, leaf.rows))
        if self.users and len(said):
            order, starts = leaf.by_user()
            keys, said = keys[order[starts]], np.logical_or.reduceat(said[order], starts)
        return np.bincount(keys[said], minlength=leaf.n_keys)[:, None].astype(np.int64)

    def unit(self, smoothness: float) -> float:
        """One step of a leaf in events."""
        return 1.0

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {"count": "users" if self.users else "events"}


def typical_reach(features: int, intercept: bool) -> float:
    """Length of events that are evenly spread over their ranges: sqrt(p / 3 + 1)."""
    return math.sqrt(features / 3 + intercept)
