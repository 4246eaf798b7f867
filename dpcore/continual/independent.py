"""Independent noise at each tick, and dyadic covers of spans of ticks."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.continual.blt import check_room
from weir.dpcore.continual.unit import (
    SumRequest,
    draw_units,
    fits_sampler,
    loss_of_units,
    unit_variance,
    within_horizon,
)
from weir.dpcore.neighbours import Family
from weir.dpcore.noise.noise import Noise, label

UNBOUNDED = 2**40 - 1
"""Ticks that a clock without end may have (34,865 years of seconds): states have fixed shapes."""


class Node(NamedTuple):
    """One unit of noise, for the leaves [start, end); its scale is multiplier * noise_scale."""

    start: int
    end: int
    multiplier: float = 1.0


@dataclass(frozen=True)
class UnitSum(ContinualSum):
    """Noise of running totals = a sum of units of one size, of which a record moves a few.

    Attributes:
      kind: "gaussian", "k_norm" or "laplace".
      horizon: number of ticks of the clock, None without end.
    """

    kind: str
    horizon: int | None

    title: ClassVar[str]
    source: ClassVar[str]
    settings: ClassVar[dict[str, str]] = {}

    @property
    def unit_variance(self) -> float:
        """Variance of one coordinate of one unit of multiplier 1, in units of scales^2."""
        return unit_variance(self.kind, self.noise_scale, self.scales)

    @property
    def worst_factor(self) -> float:
        """The largest ``factor`` of running totals, or a half of it at least."""
        end = self.horizon or UNBOUNDED
        # The largest covers are those of times 2^k - 1; the last tick bounds growth beyond them.
        ticks = np.asarray([end - 1, max((1 << (end.bit_length() - 1)) - 2, 0)])
        return float(self.factor(ticks, None).max())

    def rows(self, ticks: int | None) -> int | None:
        """Rows that are looked at within ``ticks``; None: all."""
        rows = ticks if self.pattern is None else self.pattern.rows(ticks)
        if rows is None or self.horizon is None:
            return rows
        return min(max(rows, 0), self.horizon)

    def loss_of(self, units: float) -> PrivacyLoss:
        """Loss of a record that moves ``units`` units of multiplier 1."""
        return loss_of_units(self.kind, units, self.sensitivity, self.noise_scale)

    @classmethod
    def of(cls, request: SumRequest, units: float, **fields: Any) -> Self:
        """The mechanism that costs the budget for so many units; fields: of the class itself.

        Raises:
          ConfigError: its noise could outgrow the lattice's integers.
        """
        built = cls(**request.fields(units), kind=request.kind, horizon=request.horizon, **fields)
        built.check_size()
        return built

    def check_size(self) -> None:
        """Raises ConfigError when its noise could outgrow the lattice's integers."""
        check_room(self.name, math.sqrt(self.unit_variance), self.scales, 2 * self.worst_factor)

    @abstractmethod
    def nodes(self, n: int) -> list[Node]:
        """Nodes whose units are in the noise of n running totals, in the order of the columns of
        ``materialize``. For tests and audits only."""

    def check(self, noise: Noise, n: int) -> None:
        """Raises WeirError when a stride leaves the clock."""
        within_horizon(self.name, self.horizon or UNBOUNDED, noise.first_tick, n)


@dataclass(frozen=True)
class CoverSum(UnitSum):
    """Noise of the running total at a tick = sum of the units of the nodes in that tick's cover.

    Every node's unit is drawn once, keyed with a label of the node's own and with the digest of
    the node's own leaves: chain[end] XOR chain[start].

    **Keys that appear later** start from zero state at a tick b > 0: nodes that were complete
    before b are missing from their covers. Such nodes hold none of the key's leaves, so no record
    loses protection, and every node that does hold one is completed at b or later, so its unit is
    drawn. Which nodes exist depends on the public tick alone. The variance is at most that of a key
    born at tick 0.
    """

    kinds: ClassVar[tuple[str, ...]] = ("gaussian", "k_norm", "laplace")

    @property
    def real_noise(self) -> tuple[str, float]:
        """Each unit is rounded by itself; whole numbers add up."""
        stddev = math.sqrt(self.unit_variance) * self.largest_multiplier
        return self.kind, stddev * max(self.scales, default=0.0)

    @property
    def drawn_exactly(self) -> bool:
        """Up to the largest size of the sampler."""
        size = self.noise_scale * self.largest_multiplier
        return self.kind == "gaussian" and fits_sampler(size, self.scales)

    @abstractmethod
    def cover(self, tick: int) -> tuple[Node, ...]:
        """Nodes whose units make the noise of the running total at a tick. For tests only."""

    def nodes(self, n: int) -> list[Node]:
        """Those of all covers."""
        return list(dict.fromkeys(node for tick in range(n) for node in self.cover(tick)))

    def materialize(self, n: int) -> Floats:
        """(n, m) matrix B: noise of n running totals = B @ (m units). For tests only."""
        columns = {node: j for j, node in enumerate(self.nodes(n))}
        matrix = np.zeros((n, len(columns)))
        for row in range(n):
            for node in self.cover(row):
                matrix[row, columns[node]] = node.multiplier
        return matrix

    def roundings(self, ticks: Ints) -> Floats:
        """Each unit is rounded by itself; none is smaller than ``smallest_multiplier``."""
        return np.asarray(self.factor(ticks, None) / self.smallest_multiplier**2)

    @property
    def smallest_multiplier(self) -> float:
        """Of all units that are ever drawn."""
        return 1.0

    def units(
        self, noise: Noise, labels: Digests, digests: Digests, multipliers: Floats | None = None
    ) -> Ints:
        """Units of noise, one a label: (m, K, d) int64 lattice units."""
        return draw_units(
            self.kind, noise, labels, digests, self.noise_scale, self.scales, multipliers
        )


def trailing_zeros(values: Ints) -> Ints:
    """Exponent of the largest power of two that divides each value > 0: same shape."""
    return np.asarray(np.bitwise_count((values & -values) - 1), dtype=np.int64)


def filled(values: Ints) -> Ints:
    """Each value >= 0 with ones from its highest digit on down: same shape."""
    mask = values.copy()
    for shift in (1, 2, 4, 8, 16, 32):
        mask |= mask >> shift
    return mask


def common_below(a: Ints, b: Ints) -> Ints:
    """How many units two prefixes [0, a) and [0, b) of one tree do not share: same shape.

    The cover of [0, t) has one node a binary digit 1 of t; two covers share those above the highest
    digit in which a and b differ.
    """
    mask = filled(a ^ b)
    return np.asarray(np.bitwise_count(a & mask) + np.bitwise_count(b & mask), dtype=np.int64)


class IndependentState(NamedTuple):
    """total: (K, d) int64, noise of the running total."""

    total: Ints


@dataclass(frozen=True)
class Independent(CoverSum):
    """Each tick's sum gets its own unit of noise; running totals add them up.

    **Formal guarantees**
      Unit: one event. Relation: that under which ``sensitivity`` was derived.
      Sensitivity: l2 norm ``sensitivity`` of what one neighbour changes in (leaf / scales), at one
        tick.
      Guarantee: for ever, against everything released: a record is in one tick's sum, and each
        tick's sum is released once, so parallel composition holds, adaptively: mu = Delta / sigma;
        eps = Delta / b for K-norm and Laplace noise. The N cells of a user (``pattern``) have units
        of their own: mu^2 and eps are N times as much.
      Error: a running total has variance t + 1 units, a sum over N ticks N units.
      Source: Dwork, McSherry, Nissim, Smith (2006); Balle and Wang (2018) for the Gaussian.
    """

    name: ClassVar[str] = "independent"
    signed: ClassVar[bool] = False
    neighbours: ClassVar[Family] = Family(
        ("first", "last"), "corners", "every tick has noise of its own, so that all ticks are alike"
    )
    ages: ClassVar[bool] = True
    patterned: ClassVar[bool] = True
    title: ClassVar[str] = "Fresh noise on each tick's sum"
    source: ClassVar[str] = "Dwork, McSherry, Nissim, Smith (2006)"

    @classmethod
    def fitted(cls, request: SumRequest) -> Independent:
        """The mechanism with the least noise whose loss, for ever, is at most the budget."""
        return cls.of(request, 1 if request.pattern is None else request.pattern.apart_units)

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """A unit a cell, whenever one looks."""
        if self.pattern is not None:
            return self.loss_of(0 if self.rows(ticks) == 0 else self.pattern.apart_units)
        return self.loss_of(0 if ticks is not None and ticks <= 0 else 1)

    def loss_of_periods(self, periods: int, ticks: int | None, among: int) -> PrivacyLoss:
        """No two periods share a unit."""
        assert self.pattern is not None
        return self.loss_of(periods * self.pattern.apart_units)

    def factor(self, ticks: Ints, over: int | None) -> Floats:
        """t + 1 units in a running total, min(N, t + 1) in a sum over N ticks: (m,)."""
        count = np.asarray(ticks, dtype=np.float64) + 1
        return count if over is None else np.minimum(count, over)

    def cover(self, tick: int) -> tuple[Node, ...]:
        """Every tick so far."""
        return tuple(Node(t, t + 1) for t in range(tick + 1))

    def init_noise(self, n_keys: int) -> IndependentState:
        """No noise before the first tick."""
        return IndependentState(np.zeros((n_keys, self.dimension), dtype=np.int64))

    def draw(
        self, own: IndependentState, chain: Digests, leaf_digests: Digests, noise: Noise
    ) -> tuple[IndependentState, Ints]:
        """One unit a tick, keyed with that tick's own leaf."""
        n = leaf_digests.shape[0]
        self.check(noise, n)
        ticks = noise.first_tick + np.arange(n)
        drawn = self.units(noise, label(0, ticks), leaf_digests)
        drawn[0] += own.total
        np.cumsum(drawn, axis=0, out=drawn)
        return IndependentState(drawn[-1].copy()), drawn
