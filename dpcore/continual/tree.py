"""Binary trees of noisy nodes, over all ticks or an epoch each.

Prefixes of a dyadic tree, streamed: what both trees and the hybrid keep, and how it moves.

The prefix [0, r) of a tree is covered by one node a binary digit 1 of r. With z = trailing_zeros(r)
the last of them is [r - 2^z, r), and the others cover [0, r - 2^z): so anything that adds up over
the cover (noise) or over time (the digest chain) needs its value at r - 2^z only. That is slot z of
``Slots``, where slot l holds the value at (r >> l) << l.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.accounting.contributions import Pattern, over_keys, tree_squares
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.continual.independent import (
    UNBOUNDED,
    CoverSum,
    Node,
    common_below,
    filled,
    trailing_zeros,
)
from weir.dpcore.continual.unit import SumRequest
from weir.dpcore.errors import ConfigError
from weir.dpcore.neighbours import Family
from weir.dpcore.noise.noise import Noise, is_pure, label


class Slots:
    """Values at (r >> l) << l for l = 0 .. levels - 1, while r moves on.

    Args:
      kept: (K, levels, w), as ``packed`` returned it, or zeros at r = 0. Never written to.
    """

    def __init__(self, kept: NDArray[Any]) -> None:
        self._zero = np.zeros((kept.shape[0], kept.shape[2]), dtype=kept.dtype)
        self._like = kept
        self._slots: list[NDArray[Any]] = list(kept.transpose(1, 0, 2))

    def before(self, level: int) -> NDArray[Any]:
        """(K, w): the value at r - 2^level, for the next r that has this many trailing zeros."""
        return self._slots[level]

    def put(self, level: int, value: NDArray[Any]) -> None:
        """The value at an r with ``level`` trailing zeros. value: (K, w), not written to later."""
        for below in range(min(level + 1, len(self._slots))):
            self._slots[below] = value

    def reset(self, value: NDArray[Any] | None = None) -> None:
        """Starts again at r = 0, with this value (None: zeros)."""
        self.put(len(self._slots), self._zero if value is None else value)

    def packed(self) -> NDArray[Any]:
        """(K, levels, w): a fresh array."""
        return np.stack(self._slots, axis=1) if self._slots else np.zeros_like(self._like)


class TreeState(NamedTuple):
    """What a tree keeps; slot l is about the time (t >> l) << l, t = number of ticks so far.

    Attributes:
      marks: (K, levels, 2) uint64, digest chain at that time.
      noise: (K, levels, d) int64, noise of the running total at that time.
    """

    marks: Digests
    noise: Ints


@dataclass(frozen=True)
class PrefixTree(CoverSum):
    """A cover sum over prefixes of dyadic trees: each tick draws the node that ends there."""

    @property
    def levels(self) -> int:
        """floor(log2 T) + 1: levels of the tree, or of the last epoch's."""
        return (self.horizon or UNBOUNDED).bit_length()

    def init_noise(self, n_keys: int) -> TreeState:
        """No leaves, no noise."""
        return TreeState(
            np.zeros((n_keys, self.levels, 2), dtype=np.uint64),
            np.zeros((n_keys, self.levels, self.dimension), dtype=np.int64),
        )

    def draw_nodes(
        self,
        own: TreeState,
        chain: Digests,
        noise: Noise,
        labels: Digests,
        levels: Ints,
        slots: Ints,
        sizes: Floats | None = None,
    ) -> tuple[TreeState, Ints]:
        """One unit a tick, on top of the noise before its node.

        Args:
          own, chain, noise: as of ``draw``. labels: (n, 2) uint64. levels: (n,) of the nodes.
          slots: (n,) levels up to which slots move to that time. sizes: (n,) multipliers.
        """
        marks, totals = Slots(own.marks), Slots(own.noise)
        digests = chain[1:].copy()
        moves = list(zip(levels.tolist(), slots.tolist(), strict=True))
        for i, (level, slot) in enumerate(moves):
            digests[i] ^= marks.before(level)
            marks.put(slot, chain[i + 1])
        drawn = self.units(noise, labels, digests, sizes)
        for i, (level, slot) in enumerate(moves):
            drawn[i] += totals.before(level)
            totals.put(slot, drawn[i])
        return TreeState(marks.packed(), totals.packed()), drawn


@dataclass(frozen=True)
class Tree(PrefixTree):
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
        noisy sums, so adaptively mu^2 = k (Delta / sigma)^2; eps = k Delta / b for pure noise. The
        record of tick 0 attains it for every n.
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
    def fitted(cls, request: SumRequest) -> Tree:
        """The tree whose loss within the window (None: for ever) is at most the budget.

        Raises:
          ConfigError: neither the window nor the stream has an end.
        """
        if request.end is None:
            raise ConfigError(
                "clock.end", None, "tree needs an end: set it or a window, or take hybrid."
            )
        levels = (request.horizon or UNBOUNDED).bit_length()
        return cls.of(request, units_of(request.end, levels, request.kind, request.pattern))

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

    def draw(
        self, own: TreeState, chain: Digests, leaf_digests: Digests, noise: Noise
    ) -> tuple[TreeState, Ints]:
        """One unit a tick, of the node that ends there, on top of the noise before that node."""
        n = leaf_digests.shape[0]
        self.check(noise, n)
        counts = noise.first_tick + 1 + np.arange(n)
        levels = trailing_zeros(counts)
        labels = label(levels, (counts >> levels) - 1)
        return self.draw_nodes(own, chain, noise, labels, levels, levels)


def units_of(rows: int | None, levels: int, kind: str, pattern: Pattern | None) -> float:
    """Units that a record, or a user's contributions of a period, move within so many rows.

    A record meets floor(log2 n) + 1 nodes, one of a level at most, but several records may meet
    more levels than any of them: ceil(log2 H) + 1 levels' worth of nodes, filled as far as they go,
    are a bound. Losses of pure noise add up over what each contribution meets.
    """
    item = levels if rows is None else min(max(rows, 0).bit_length(), levels)
    if pattern is None or rows == 0:
        return item
    if is_pure(kind):
        return item * pattern.cells
    met = levels if rows is None else min((max(rows, 1) - 1).bit_length() + 1, levels)
    return over_keys(lambda count: sum(tree_squares(met, count, pattern.spacing)), pattern)


@dataclass(frozen=True)
class Hybrid(PrefixTree):
    """Trees of doubling length, one after the other: no horizon, and a guarantee for ever.

    Epoch k is the ticks [2^k - 1, 2^(k+1) - 1): a complete tree of k + 1 levels, whose units are
    sqrt(k + 1) noise scales large ((k + 1) for pure noise). A running total is the roots of the
    finished epochs and a prefix of the current one.

    **Formal guarantees**
      Unit: one event. Relation: that under which ``sensitivity`` was derived.
      Sensitivity: l2 norm ``sensitivity`` of what one neighbour changes in (leaf / scales), at one
        tick.
      Guarantee: for ever, against everything released. A record lies in at most k + 1 nodes, all of
        its own epoch's tree: mu^2 = (k + 1) (Delta / (sqrt(k + 1) sigma))^2 = (Delta / sigma)^2
        (eps = (k + 1) Delta / ((k + 1) b) = Delta / b). Which epoch is
        decided by the public clock, and other epochs' trees use its outputs only, so the epochs
        compose in parallel, adaptively: the maximum, not the sum.
        The record of an epoch's first tick attains it when the epoch ends.
      Error: sum over j < k of (j + 1), plus (k + 1) popcount(r) units at r ticks into epoch k
        (squares of these factors for pure noise).
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
    def fitted(cls, request: SumRequest) -> Hybrid:
        """The hybrid whose loss, for ever, is at most the budget."""
        return cls.of(request, 1)

    def multiplier(self, epoch: int) -> float:
        """Size of an epoch's units, in noise scales; rounded up."""
        if is_pure(self.kind):
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

    def draw(
        self, own: TreeState, chain: Digests, leaf_digests: Digests, noise: Noise
    ) -> tuple[TreeState, Ints]:
        """One unit a tick, of the node that ends there, on top of the noise before that node."""
        n = leaf_digests.shape[0]
        self.check(noise, n)
        epochs, before = _place(noise.first_tick + np.arange(n))
        inside = before + 1
        levels = trailing_zeros(inside)
        sizes = np.asarray([self.multiplier(int(epoch)) for epoch in epochs])
        labels = label((epochs << 8) | levels, (inside >> levels) - 1)
        # At the end of an epoch the next one starts with all slots at this time.
        slots = np.where(levels == epochs, self.levels, levels)
        return self.draw_nodes(own, chain, noise, labels, levels, slots, sizes)


def _place(times: Ints) -> tuple[Ints, Ints]:
    """Number of ticks so far (m,) -> epoch k and ticks inside it, in [0, 2^k)."""
    below = filled(times + 1) >> 1
    return np.bitwise_count(below).astype(np.int64), times - below
