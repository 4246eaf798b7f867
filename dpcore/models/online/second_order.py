"""Leaders whose regularisation fades: averaged, and by the curvature of the losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.kit.point import to_grid
from weir.dpcore.models.online.oracle_step import Nearest
from weir.dpcore.models.online.rule import LeaderRule

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


Growth = Literal["constant", "root"]


class AveragedState(NamedTuple):
    """State of K learners.

    Attributes:
      x: (K, d) float64, the average, which is played next. t: (K,) int64, ticks so far.
      probe: (K, d) where the next gradients are taken. near: see ``Nearest``.
    """

    x: Floats
    t: Ints
    probe: Floats
    near: Any = ()


@dataclass(frozen=True)
class AveragedLeader(LeaderRule):
    """z_t = Proj_P(centre - Sum_t / w_t), the minimiser of <Sum_t, x> + (w_t/2) ||x - centre||^2
    over P; w_t = w, or w sqrt(t).

    Next to the events of t ticks, a share w_t / t of a tick's pull is left, which vanishes. Steps
    of constant weight do not die out: on smooth losses the leaders circle around the optimum, with
    the noise of the newest sum, and their average

      x_{t+1} = x_t + (3 / (t + 2)) (z_t - x_t)      (weights s (s + 1) of z_s),

    which is played, comes closer with every tick: the noise in it falls as that of the mean
    gradient, 1/t. Gradients are taken at (1 - beta) z_t + beta x_{t+1}, nearer to it: then
    many events in a tick, or a leader far out with its noise, make no step overshoot.

    **Formal guarantees**: post-processing of the sum, whatever schedule, momentum and average are.
      Events enter by the sum alone, and what one may add to it is bounded by its clip at any point
      that gradients are taken at: no sensitivity depends on a step.
    Bits: + - * / and sqrt, row by row, and what feeds back is rounded to the grid.
    Source: Kairouz et al. (2021), "Practical and private (deep) learning without sampling or
      shuffling", Algorithm 1 (DP-FTRL), for z; Defazio et al. (2024), "The road less scheduled",
      for where gradients are taken; Polyak and Juditsky (1992) for the average.

    Attributes:
      set: P. curvature: w. centre: d numbers. growth: of w_t. momentum: beta, in [0, 1].
      calls: 0: P projects; else leaders are approached by so many linear oracle calls a tick.
    """

    growth: Growth = "constant"
    momentum: float = 0.6
    calls: int = 0

    averages: ClassVar[bool] = True
    rule: ClassVar[str] = "averaged_leader"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.momentum <= 1:
            raise ConfigError("model.momentum", self.momentum, "must lie between 0 and 1.")
        if not self.calls:
            self.refuse_unprojected("model.schedule", self.growth)

    @cached_property
    def _nearest(self) -> Nearest:
        return Nearest(self.set, self.calls)

    @property
    def regret(self) -> str:
        return (
            "The regularisation fades, so that models come to the best one of the set, and the "
            "noise in them falls with the number of ticks, unless features change slowly. Of the "
            "leaders that are averaged regret grows as the root of T (with schedule: root, for any "
            "losses); no bound on that of the average is claimed, which measures better."
        )

    @property
    def fading(self) -> str:
        return " times the root of the ticks" if self.growth == "root" else " in all"

    @property
    def played(self) -> str:
        return (
            "the average of the leaders; gradients are taken at last, "
            f"{self.momentum:g} of the way from the newest leader to it"
        )

    def init(self, n_keys: int) -> AveragedState:
        """Everyone starts at the public start."""
        start, t = self.at_start(n_keys), np.zeros(n_keys, dtype=np.int64)
        return AveragedState(start, t, start.copy(), self._nearest.init(n_keys))

    def probe(self, state: AveragedState) -> Floats:
        return state.probe

    def weight(self, data_sum: Floats, ticks: Floats) -> Floats | float:
        """w, (K,) or of all. data_sum: as in ``update``. ticks: (K,), t."""
        return self.curvature

    def update(self, state: AveragedState, data_sum: Floats) -> AveragedState:
        t = state.t + 1
        ticks = t.astype(np.float64)
        growth = np.sqrt(ticks) if self.growth == "root" else np.ones(len(t))
        weight = self.weight(data_sum, ticks) * growth
        y = self._centre - data_sum[:, : self.set.dimension] * (1.0 / weight)[:, None]
        leader, near = self._nearest(y, state.near)
        x = to_grid(state.x + (3.0 / (ticks + 2.0))[:, None] * (leader - state.x), self._grid)
        probe = to_grid(leader + self.momentum * (x - leader), self._grid)
        return AveragedState(x, t, probe, near)

    def numbers(self) -> Mapping[str, Any]:
        calls = {"calls": self.calls} if self.calls else {}
        momentum = float(self.momentum).hex()
        return {"growth": self.growth, "momentum": momentum, **calls}


@dataclass(frozen=True)
class CountedLeader(AveragedLeader):
    """As ``AveragedLeader``, w = ``curvature`` + ``each`` (n_t - 1), with

      n_t = max(1, (count - ``deviation``) / t)

    events a tick, of the running count of events that is summed next to the gradients and released
    with them. A count that noise makes too small costs less than one it makes too large: then steps
    are too short for ever, so a standard deviation is taken off.

    **Formal guarantees**: post-processing of the two sums, which are released together.

    Attributes: see ``AveragedLeader``; curvature: w of one event a tick.
      each: what every other event of a tick adds. deviation: of the noise in the count, at worst.
    """

    each: float = 1.0
    deviation: float = 0.0

    rule: ClassVar[str] = "counted_leader"

    def weight(self, data_sum: Floats, ticks: Floats) -> Floats:
        """See AveragedLeader. data_sum: (K, d + 1), the count behind the gradients."""
        events = (data_sum[:, self.set.dimension] - self.deviation) / ticks
        return np.asarray(self.curvature + self.each * (np.maximum(events, 1.0) - 1.0))

    def numbers(self) -> Mapping[str, Any]:
        own = {"each": self.each.hex(), "deviation": float(self.deviation).hex()}
        return {**super().numbers(), **own}


class SecondOrderState(NamedTuple):
    """State of K learners.

    Attributes:
      x: (K, d) float64, what is played next. t: (K,) int64, ticks so far.
      right: (K, d) sum of (H_s x_s - g_s). released: (K, d + d (d + 1) / 2) the sums of the last
        tick. near: see ``Nearest``.
    """

    x: Floats
    t: Ints
    right: Floats
    released: Floats
    near: Any


@dataclass(frozen=True)
class SecondOrderLeader(LeaderRule):
    """x_{t+1} = Proj_P(y_t), y_t the minimiser of

      sum_{s <= t} ( <g_s, x> + (x - x_s)' H_s (x - x_s) / 2 ) + (w/2) ||x - centre||^2,

    g_s the gradient of tick s at x_s, H_s = smoothness * sum of x x^T of its events: for squared
    losses that is the sum of the losses, for other smooth ones an upper bound on it that touches
    each where it was played. Steps of one length for all directions need as many ticks as the
    widest feature is wider than the narrowest; this one needs as many events as there are features.

    Noise: with Z and E the noise of the sums of g and H, y solves
    (H + E + w) y = (truth) + sum_s E_s x_s - Z, E_s what tick s adds to E, so that E enters as
    sum_s E_s (x_s - y) alone: what is drawn once models stand still is not felt, and H may have the
    smaller share of the budget. w is at least as large as E's largest eigenvalue is expected to be;
    pivots are raised to it.

    **Formal guarantees**: post-processing of the two sums, which are released together.
    Bits: + - * / and sqrt, a row by itself, and what feeds back is rounded to the grid.
    Source: Hazan, Agarwal, Kale (2007), "Logarithmic regret algorithms for online convex
      optimization", follow the approximate leader, with private sums as derived here.

    Attributes:
      set: P. curvature: w. centre: d numbers.
      calls: 0: P projects; else so many linear oracle calls a tick.
    """

    calls: int = 0

    rule: ClassVar[str] = "second_order_leader"
    fading: ClassVar[str] = " in all"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.calls:
            self.refuse_unprojected("model.schedule", "second_order")

    @cached_property
    def _nearest(self) -> Nearest:
        return Nearest(self.set, self.calls)

    @property
    def regret(self) -> str:
        return (
            "Models follow all events so far as least squares does, and the regularisation "
            "fades. For squared losses, while the set does not bind and noise stays bounded (a "
            "fixed window), what noise adds to the regret grows as a power of ln T."
        )

    def init(self, n_keys: int) -> SecondOrderState:
        """Everyone starts at the public start."""
        d, start = self.set.dimension, self.at_start(n_keys)
        released = np.zeros((n_keys, d + d * (d + 1) // 2))
        t = np.zeros(n_keys, dtype=np.int64)
        return SecondOrderState(
            start, t, np.zeros((n_keys, d)), released, self._nearest.init(n_keys)
        )

    def update(self, state: SecondOrderState, data_sum: Floats) -> SecondOrderState:
        """data_sum: (K, d + d (d + 1) / 2), the sum of H behind that of gradients."""
        d = self.set.dimension
        change = data_sum - state.released
        right = state.right - change[:, :d]
        curved = symmetric(change[:, d:], d)
        for j in range(d):
            right += curved[:, :, j] * state.x[:, j, None]
        matrix = symmetric(data_sum[:, d:], d)
        diagonal = np.arange(d)
        matrix[:, diagonal, diagonal] += self.curvature
        floor = np.full(len(right), self.curvature)
        y = solve_positive(matrix, right + self.curvature * self._centre, floor)
        # Nothing that noise makes of a system may reach a projection as infinity.
        y = np.nan_to_num(np.clip(y, -FARTHEST, FARTHEST))
        x, near = self._nearest(y, state.near)
        return SecondOrderState(to_grid(x, self._grid), state.t + 1, right, data_sum.copy(), near)

    def numbers(self) -> Mapping[str, Any]:
        return {"calls": self.calls}


def symmetric(entries: Floats, dimension: int) -> Floats:
    """Upper triangles (K, d (d + 1) / 2), row by row -> (K, d, d)."""
    i, j = triangle(dimension)
    matrix = np.empty((len(entries), dimension, dimension))
    matrix[:, i, j] = entries
    matrix[:, j, i] = entries
    return matrix
