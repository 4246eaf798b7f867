"""Independent noise at every tick: best for single ticks, and only for those."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.accounting.pattern import Pattern
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.continual.cover import CoverSum, Node
from weir.dpcore.continual.unit import noise_for, noise_scale_for, refuse_options, refuse_overs
from weir.dpcore.neighbours import Family
from weir.dpcore.noise.noise import Noise, label


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
        rho = Delta^2 / (2 sigma^2) on the lattice; eps = Delta / b for K-norm noise. The N cells
        of a user (``pattern``) have units of their own: mu^2, rho and eps are N times as much.
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
    def calibrated(
        cls,
        *,
        dimension: int,
        scales: tuple[float, ...],
        sensitivity: float,
        overs: tuple[int | None, ...],
        window: int | None,
        horizon: int | None,
        budget: PrivacyLoss,
        pattern: Pattern | None = None,
        **options: Any,
    ) -> Independent:
        """The mechanism with the least noise whose loss, for ever, is at most the budget."""
        refuse_options(cls.name, options)
        refuse_overs(cls.name, overs, cls.serves(overs))
        kind = noise_for(cls.name, cls.kinds, budget)
        scale = noise_scale_for(1 if pattern is None else pattern.cells, sensitivity, budget)
        return cls(
            dimension, scales, sensitivity, scale, overs, kind, horizon, pattern=pattern
        ).fitting()

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """A unit a cell, whenever one looks."""
        if self.pattern is not None:
            return self.loss_of(0 if self.rows(ticks) == 0 else self.pattern.cells)
        return self.loss_of(0 if ticks is not None and ticks <= 0 else 1)

    def loss_of_periods(self, periods: int, ticks: int | None, among: int) -> PrivacyLoss:
        """No two periods share a unit."""
        assert self.pattern is not None
        return self.loss_of(periods * self.pattern.cells)

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
