"""The binary tree over the whole stream, calibrated for its end or for a window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from weir.dpcore.accounting.contributions import over_keys, tree_squares
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.accounting.pattern import Pattern
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.continual.cover import UNBOUNDED, CoverSum, Node, common_below, trailing_zeros
from weir.dpcore.continual.prefix import Slots
from weir.dpcore.continual.unit import noise_for, noise_scale_for, refuse_options, refuse_overs
from weir.dpcore.errors import ConfigError
from weir.dpcore.neighbours import Family
from weir.dpcore.noise.noise import Noise, label


class TreeState(NamedTuple):
    """What a tree keeps; slot l is about the time (t >> l) << l, t = number of ticks so far.

    Attributes:
      marks: (K, levels, 2) uint64, digest chain at that time.
      noise: (K, levels, d) int64, noise of the running total at that time.
    """

    marks: Digests
    noise: Ints


@dataclass(frozen=True)
class Tree(CoverSum):
    """Binary tree over the stream: popcount(t) units of noise, and a loss that grows like log n.

    Every dyadic node [j 2^l, (j + 1) 2^l) with j even has a unit of noise, drawn when it completes;
    the running total of t leaves uses the popcount(t) nodes that the binary digits of t name.
    (Nodes with j odd are in no prefix: they are never drawn.)

    **Formal guarantees**
      Unit: one event. Relation: that under which ``sensitivity`` was derived.
      Sensitivity: l2 norm ``sensitivity`` of what one neighbour changes in (leaf / scales), at one
        tick.
      Guarantee: against everything released within n ticks of its arrival, n <= T or None, a record
        has met at most k = floor(log2 n) + 1 nodes (T for None), and outputs are sums of nodes'
        noisy sums, so adaptively mu^2 = k (Delta / sigma)^2; rho = k Delta^2 / (2 sigma^2) on the
        lattice; eps = k Delta / b for K-norm noise. The record of tick 0 attains it for every n.
        For: record i is in the node of level l if digit l of i is 0, and first meets it 2^l - (i
        mod 2^l) ticks after its arrival. If l_1 < ... < l_k are such levels, i mod 2^(l_k) lacks
        the others' digits, so the k-th node takes at least 1 + 2^(l_1) + ... + 2^(l_(k-1)) >=
        2^(k-1) ticks. For the contributions of a user (``pattern``) see ``units_of``.
      Error: popcount(t) units; a sum over N ticks costs the nodes that two prefixes do not share.
      Source: Chan, Shi, Song (2011); Dwork, Naor, Pitassi, Rothblum (2010); Kasiviswanathan,
        Nissim, Jin (2017), TreeMech. The loss within n ticks is derived here.
    """

    name: ClassVar[str] = "tree"
    signed: ClassVar[bool] = False
    neighbours: ClassVar[Family] = Family(
        ("first", "last", "window", "powers"),
        "corners",
        "a record meets most nodes where covers change, at powers of two",
    )
    patterned: ClassVar[bool] = True
    title: ClassVar[str] = "Binary tree over the whole stream"
    source: ClassVar[str] = "Chan, Shi, Song (2011); Dwork, Naor, Pitassi, Rothblum (2010)"

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
    ) -> Tree:
        """The tree whose loss within the window (None: for ever) is at most the budget.

        Raises:
          ConfigError: neither the window nor the stream has an end, or the noise, the sums or an
            option is not served.
        """
        refuse_options(cls.name, options)
        refuse_overs(cls.name, overs, cls.serves(overs))
        rows = window if pattern is None else pattern.rows(window)
        ends = [ticks for ticks in (rows, horizon) if ticks is not None]
        if not ends:
            raise ConfigError(
                "clock.end", None, "tree needs an end: set it or a window, or take hybrid."
            )
        kind = noise_for(cls.name, cls.kinds, budget)
        levels = (horizon or UNBOUNDED).bit_length()
        scale = noise_scale_for(units_of(min(ends), levels, kind, pattern), sensitivity, budget)
        return cls(
            dimension, scales, sensitivity, scale, overs, kind, horizon, pattern=pattern
        ).fitting()

    @property
    def levels(self) -> int:
        """floor(log2 T) + 1."""
        return (self.horizon or UNBOUNDED).bit_length()

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """floor(log2 n) + 1 units, at most one a level."""
        return self.loss_of(units_of(self.rows(ticks), self.levels, self.kind, self.pattern))

    def factor(self, ticks: Ints, over: int | None) -> Floats:
        """popcount(t) units, or those that the prefixes t and t - N do not share: (m,)."""
        now = np.asarray(ticks, dtype=np.int64) + 1
        then = np.zeros_like(now) if over is None else np.maximum(now - over, 0)
        return common_below(now, then).astype(np.float64)

    def cover(self, tick: int) -> tuple[Node, ...]:
        """One node a binary digit 1 of the number of leaves, the largest first."""
        nodes, start = [], 0
        for level in reversed(range(self.levels)):
            if (tick + 1) >> level & 1:
                nodes.append(Node(start, start + (1 << level)))
                start += 1 << level
        return tuple(nodes)

    def init_noise(self, n_keys: int) -> TreeState:
        """No leaves, no noise."""
        return TreeState(
            np.zeros((n_keys, self.levels, 2), dtype=np.uint64),
            np.zeros((n_keys, self.levels, self.dimension), dtype=np.int64),
        )

    def draw(
        self, own: TreeState, chain: Digests, leaf_digests: Digests, noise: Noise
    ) -> tuple[TreeState, Ints]:
        """One unit a tick, of the node that ends there, on top of the noise before that node."""
        n = leaf_digests.shape[0]
        self.check(noise, n)
        counts = noise.first_tick + 1 + np.arange(n)
        levels = trailing_zeros(counts)
        marks, totals = Slots(own.marks), Slots(own.noise)
        digests = chain[1:].copy()
        for i, level in enumerate(levels.tolist()):
            digests[i] ^= marks.before(level)
            marks.put(level, chain[i + 1])
        drawn = self.units(noise, label(levels, (counts >> levels) - 1), digests)
        for i, level in enumerate(levels.tolist()):
            drawn[i] += totals.before(level)
            totals.put(level, drawn[i])
        return TreeState(marks.packed(), totals.packed()), drawn


def units_of(rows: int | None, levels: int, kind: str, pattern: Pattern | None) -> float:
    """Units that a record, or a user's contributions of a period, move within so many rows.

    A record meets floor(log2 n) + 1 nodes, one of a level at most, but several records may meet
    more levels than any of them: ceil(log2 H) + 1 levels' worth of nodes, filled as far as they go,
    are a bound. Losses of K-norm noise add up over what each contribution meets.
    """
    one = levels if rows is None else min(max(rows, 0).bit_length(), levels)
    if pattern is None or rows == 0:
        return one
    if kind == "k_norm":
        return one * pattern.cells
    met = levels if rows is None else min((max(rows, 1) - 1).bit_length() + 1, levels)
    return over_keys(lambda count: sum(tree_squares(met, count, pattern.spacing)), pattern)
