"""The hybrid of trees: running totals of a stream without end, protected for ever."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.continual.cover import UNBOUNDED, CoverSum, Node, common_below, trailing_zeros
from weir.dpcore.continual.prefix import Slots
from weir.dpcore.continual.unit import (
    lattice_variances,
    noise_for,
    noise_scale_for,
    refuse_options,
    refuse_overs,
)
from weir.dpcore.neighbours import Family
from weir.dpcore.noise.noise import Noise, label


class HybridState(NamedTuple):
    """What a hybrid keeps; slot l is about (r >> l) << l, at r ticks into an epoch.

    Attributes:
      marks: (K, levels, 2) uint64, digest chain at that time.
      noise: (K, levels, d) int64, noise of the running total at that time.
    """

    marks: Digests
    noise: Ints


@dataclass(frozen=True)
class Hybrid(CoverSum):
    """Trees of doubling length, one after the other: no horizon, and a guarantee for ever.

    Epoch k is the ticks [2^k - 1, 2^(k+1) - 1): a complete tree of k + 1 levels, whose units are
    sqrt(k + 1) noise scales large ((k + 1) for K-norm noise). A running total is the roots of the
    finished epochs and a prefix of the current one.

    **Formal guarantees**
      Unit: one event. Relation: that under which ``sensitivity`` was derived.
      Sensitivity: l2 norm ``sensitivity`` of what one neighbour changes in (leaf / scales), at one
        tick.
      Guarantee: for ever, against everything released. A record lies in at most k + 1 nodes, all of
        its own epoch's tree: mu^2 = (k + 1) (Delta / (sqrt(k + 1) sigma))^2 = (Delta / sigma)^2
        (rho = Delta^2 / (2 sigma^2); eps = (k + 1) Delta / ((k + 1) b) = Delta / b). Which epoch is
        decided by the public clock, and other epochs' trees use its outputs only, so the epochs
        compose in parallel, adaptively: the maximum, not the sum.
        The record of an epoch's first tick attains it when the epoch ends.
      Error: sum over j < k of (j + 1), plus (k + 1) popcount(r) units at r ticks into epoch k
        (squares of these factors for K-norm noise).
      Source: Chan, Shi, Song (2011), section 3.3, with full trees in place of their logarithmic
        mechanism.
    """

    name: ClassVar[str] = "hybrid"
    signed: ClassVar[bool] = False
    neighbours: ClassVar[Family] = Family(
        ("first", "last", "window", "powers"), "corners", "its halves meet at powers of two"
    )
    title: ClassVar[str] = "Trees of doubling length, without a horizon"
    source: ClassVar[str] = "Chan, Shi, Song (2011), hybrid mechanism"

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
        **options: Any,
    ) -> Hybrid:
        """The hybrid whose loss, for ever, is at most the budget.

        Raises:
          ConfigError: the noise, the sums or an option is not served.
        """
        refuse_options(cls.name, options)
        refuse_overs(cls.name, overs, cls.serves(overs))
        kind = noise_for(cls.name, cls.kinds, budget)
        scale = noise_scale_for(1, sensitivity, budget)
        return cls(dimension, scales, sensitivity, scale, overs, kind, horizon).fitting()

    @property
    def levels(self) -> int:
        """Levels of the last epoch's tree."""
        return (self.horizon or UNBOUNDED).bit_length()

    def multiplier(self, epoch: int) -> float:
        """Size of an epoch's units, in noise scales; rounded up."""
        if self.kind == "k_norm":
            return float(epoch + 1)
        root = math.isqrt(epoch + 1)
        if root * root == epoch + 1:
            return float(root)
        return math.nextafter(math.sqrt(epoch + 1), math.inf)

    @property
    def largest_multiplier(self) -> float:
        """That of the last epoch."""
        return self.multiplier(self.levels - 1)

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """One unit's worth, whenever one looks."""
        return self.loss_of(0 if ticks is not None and ticks <= 0 else 1)

    def factor(self, ticks: Ints, over: int | None) -> Floats:
        """Finished epochs' roots and the prefix of this one, less what N ticks ago shares: (m,)."""
        squares = np.asarray([self.multiplier(k) ** 2 for k in range(self.levels + 1)])
        return self._added(ticks, over, squares[:, None])[:, 0]

    def lattice_variance(self, ticks: Ints, over: int | None) -> Floats:
        """Variance of discrete noise, lattice units: each epoch's is rounded up by itself."""
        units = [
            lattice_variances(self.noise_scale, self.scales, self.multiplier(k))
            for k in range(self.levels + 1)
        ]
        return self._added(ticks, over, np.asarray(units, dtype=np.float64))

    def _added(self, ticks: Ints, over: int | None, unit: Floats) -> Floats:
        """Variance at ticks (m,) from that of a unit of each epoch, (epochs, w): (m, w)."""
        roots = np.concatenate([np.zeros_like(unit[:1]), np.cumsum(unit, axis=0)])
        now = np.asarray(ticks, dtype=np.int64) + 1
        then = np.zeros_like(now) if over is None else np.maximum(now - over, 0)
        epoch, inside = _place(now)
        epoch_then, inside_then = _place(then)
        nothing = np.zeros_like(inside)
        same = unit[epoch] * common_below(inside, inside_then)[:, None]
        apart = roots[epoch] - roots[epoch_then]
        apart += unit[epoch] * common_below(inside, nothing)[:, None]
        apart += unit[epoch_then] * common_below(inside_then, nothing)[:, None]
        return np.asarray(np.where((epoch == epoch_then)[:, None], same, apart))

    def cover(self, tick: int) -> tuple[Node, ...]:
        """Whole epochs, then one node a binary digit 1 of the rest."""
        nodes, start, epoch = [], 0, 0
        while start + (1 << epoch) <= tick + 1:
            nodes.append(Node(start, start + (1 << epoch), self.multiplier(epoch)))
            start += 1 << epoch
            epoch += 1
        left = tick + 1 - start
        for level in reversed(range(left.bit_length())):
            if left >> level & 1:
                nodes.append(Node(start, start + (1 << level), self.multiplier(epoch)))
                start += 1 << level
        return tuple(nodes)

    def init_noise(self, n_keys: int) -> HybridState:
        """No leaves, no noise."""
        return HybridState(
            np.zeros((n_keys, self.levels, 2), dtype=np.uint64),
            np.zeros((n_keys, self.levels, self.dimension), dtype=np.int64),
        )

    def draw(
        self, own: HybridState, chain: Digests, leaf_digests: Digests, noise: Noise
    ) -> tuple[HybridState, Ints]:
        """One unit a tick, of the node that ends there, on top of the noise before that node."""
        n = leaf_digests.shape[0]
        self.check(noise, n)
        epochs, before = _place(noise.first_tick + np.arange(n))
        inside = before + 1
        levels = trailing_zeros(inside)
        sizes = np.asarray([self.multiplier(int(epoch)) for epoch in epochs])
        marks, totals = Slots(own.marks), Slots(own.noise)
        digests = chain[1:].copy()
        for i, level in enumerate(levels.tolist()):
            digests[i] ^= marks.before(level)
            # At the end of an epoch the next one starts with all slots at this time.
            marks.put(self.levels if level == epochs[i] else level, chain[i + 1])
        labels = label((epochs << 8) | levels, (inside >> levels) - 1)
        drawn = self.units(noise, labels, digests, sizes)
        for i, level in enumerate(levels.tolist()):
            drawn[i] += totals.before(level)
            totals.put(self.levels if level == epochs[i] else level, drawn[i])
        return HybridState(marks.packed(), totals.packed()), drawn


def _place(times: Ints) -> tuple[Ints, Ints]:
    """Number of ticks so far (m,) -> epoch k and ticks inside it, in [0, 2^k)."""
    epoch = np.asarray([int(time + 1).bit_length() - 1 for time in times], dtype=np.int64)
    return epoch, times + 1 - (np.int64(1) << epoch)
