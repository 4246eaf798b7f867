"""The window tree: dyadic noise for the last W ticks only, and none before them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from weir.dpcore.accounting.contributions import Pattern, over_keys, tree_squares
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.continual.independent import CoverSum, Node, trailing_zeros
from weir.dpcore.continual.tree import Slots
from weir.dpcore.continual.unit import SumRequest
from weir.dpcore.errors import ConfigError
from weir.dpcore.neighbours import Family
from weir.dpcore.noise.noise import Noise, is_pure, label


class WindowTreeState(NamedTuple):
    """What a window tree keeps; t = qW + r is the number of ticks so far.

    Attributes:
      ring: (K, W, 2) uint64, digest chain at the last W times; time s is in column s mod W.
      prefix: (K, h, d) int64, slot l: noise of the prefix [0, (r >> l) << l) of the current block.
      suffix: (K, h, d) int64, slot l: noise of those covering nodes of the block before that have
        level l or more.
    """

    ring: Digests
    prefix: Ints
    suffix: Ints


@lru_cache(maxsize=64)
def _factor(window: int, over: int | None, times: bytes) -> Floats:
    """Nodes that are not shared by the covers at times (m,) int64 and ``over`` before: (m,). Many
    plans that are compared look at the same ticks."""
    now = np.frombuffer(times, dtype=np.int64)
    nodes = _nodes(window, now)
    count = (nodes >= 0).sum(axis=0)
    if over is not None:
        then = _nodes(window, np.maximum(now - over, 0))
        shared = ((nodes >= 0) & (nodes == then)).sum(axis=0)
        count = count + (then >= 0).sum(axis=0) - 2 * shared
    return np.asarray(count, dtype=np.float64)


def _nodes(w: int, times: Ints) -> Ints:
    """Covers at times (m,): (2h + 2, m) starts of prefix and suffix nodes by level, or -1."""
    h = w.bit_length() - 1
    r = times & (w - 1)
    begin = times - r
    out = np.full((2 * (h + 1), times.size), -1, dtype=np.int64)
    for level in range(h):
        size = 1 << level
        # Both covers have their node of level l where that binary digit of their length is 1.
        out[level] = np.where(r & size, begin + ((r >> (level + 1)) << (level + 1)), -1)
        left = w - r
        suffix = (left & size > 0) & (r > 0) & (begin > 0)
        out[h + 1 + level] = np.where(suffix, begin - ((left >> level) << level), -1)
    out[h] = np.where((r == 0) & (times > 0), begin - w, -1)
    return out


@dataclass(frozen=True)
class WindowTree(CoverSum):
    """Window tree with expiration: at most log2(W) + 1 units of noise, and no protection after W.

    Blocks of W = 2^h leaves, each a complete tree. At time t = qW + r the last W ticks are the
    suffix [r, W) of one block and the prefix [0, r) of the next; the running total is exact before
    them and noisy on the h - z + 1 nodes that cover them (z = trailing zeros of r; the whole block
    if r = 0).

    **After W ticks a record has no protection**: the exact part of the running total holds it, only
    other records' nodes blur it, and a retry on other data would not draw their noise again.

    **Formal guarantees**
      Unit: one event. Relation: that under which ``sensitivity`` was derived.
      Sensitivity: l2 norm ``sensitivity`` of what one neighbour changes in (leaf / scales), at one
        tick.
      Guarantee: against everything released within n <= W ticks of its arrival. For that long a
        record is inside the window, hence only in noisy nodes; no node is noised twice. It lies in
        h + 1 nodes, so adaptively mu^2 = (h + 1) (Delta / sigma)^2; eps = (h + 1) Delta / b for
        pure noise. A record of a block's first tick attains it at n = W. For n > W: nothing,
        unless the stream ends first. For a user (``pattern``) W covers the period and the window
        after it, so that the clean prefix holds no part of the period; a level's nodes hold as many
        of the contributions as fit, and losses of pure noise add up over contributions.
      Error: at most h + 1 units.
      Source: Bolot, Fawaz, Muthukrishnan, Nikolov, Taft (2013); Lou and Cheung, Definition 6.

    Attributes:
      window: W, a power of two.
    """

    window: int

    name: ClassVar[str] = "window_tree"
    signed: ClassVar[bool] = False
    neighbours: ClassVar[Family] = Family(
        ("first", "last", "window", "powers"),
        "corners",
        "trees begin again with every window, and their covers change inside",
    )
    patterned: ClassVar[bool] = True
    title: ClassVar[str] = "Binary trees over the protection window, nothing after it"
    source: ClassVar[str] = "Bolot, Fawaz, Muthukrishnan, Nikolov, Taft (2013); Lou and Cheung"

    @classmethod
    def fitted(cls, request: SumRequest) -> WindowTree:
        """The window tree whose loss within the window, rounded up to 2^h, is at most the budget.

        Raises:
          ConfigError: neither the window nor the stream has an end.
        """
        if request.end is None:
            raise ConfigError(
                "privacy.protect_for", "all", "window_tree needs a window (or clock.end)."
            )
        h = (request.end - 1).bit_length()
        return cls.of(request, units_of(h, request.kind, request.pattern), window=1 << h)

    def __post_init__(self) -> None:
        if self.window < 1 or self.window & (self.window - 1):
            raise ConfigError("window", self.window, "must be a power of two.")
        super().__post_init__()

    @property
    def height(self) -> int:
        """h = log2 W."""
        return self.window.bit_length() - 1

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """h + 1 units up to W ticks; then infinite, unless the stream is over by then."""
        rows = ticks if self.pattern is None else self.pattern.rows(ticks)
        seen = math.inf if rows is None else rows
        if self.horizon is not None:
            seen = min(seen, self.horizon)
        if seen > self.window:
            return self.loss_of(math.inf)
        return self.loss_of(0 if seen <= 0 else units_of(self.height, self.kind, self.pattern))

    def factor(self, ticks: Ints, over: int | None) -> Floats:
        """h - z + 1 units (fewer in block 0), or the symmetric difference of covers: (m,)."""
        now = np.asarray(ticks, dtype=np.int64) + 1
        return np.array(_factor(self.window, over, now.tobytes()))

    def cover(self, tick: int) -> tuple[Node, ...]:
        """The window's nodes from the left: always the largest aligned block that fits."""
        q, r = divmod(tick + 1, self.window)
        at, end = max(q * self.window - self.window + r, 0), tick + 1
        nodes = []
        while at < end:
            size = self.window
            while at % size or at + size > end:
                size //= 2
            nodes.append(Node(at, at + size))
            at += size
        return tuple(nodes)

    def init_noise(self, n_keys: int) -> WindowTreeState:
        """No leaves, no noise."""
        empty = np.zeros((n_keys, self.height, self.dimension), dtype=np.int64)
        ring = np.zeros((n_keys, self.window, 2), dtype=np.uint64)
        return WindowTreeState(ring, empty, empty.copy())

    def draw(
        self, own: WindowTreeState, chain: Digests, leaf_digests: Digests, noise: Noise
    ) -> tuple[WindowTreeState, Ints]:
        """Draws the nodes that enter the covers of the stride, each once, then adds covers up.

        At time t = qW + r the prefix node that ends at t enters (the whole block if r = 0). When r
        - 1 = w is even, the suffix loses its first node [w, w + 2^z) and gains that node's right
        children, of levels l < z (at w = 0: those of the whole block).
        """
        n = leaf_digests.shape[0]
        self.check(noise, n)
        first = noise.first_tick
        times = first + 1 + np.arange(n)
        starts, levels, first_unit = self._entering(times)
        ends = starts + (1 << levels)

        def at(moments: Ints) -> Digests:
            """The digest chain at these times, all in (first - W, first + n]: (m, K, 2)."""
            out = chain[np.maximum(moments - first, 0)]
            old = moments < first
            out[old] = own.ring[:, moments[old] & (self.window - 1)].transpose(1, 0, 2)
            return out

        units = self.units(noise, label(levels, starts >> levels), at(starts) ^ at(ends))
        prefix, suffix = Slots(own.prefix), list(own.suffix.transpose(1, 0, 2))
        zero = np.zeros_like(units[0])
        drawn = np.empty((n, *zero.shape), dtype=np.int64)
        for i in range(n):
            r = int(times[i]) & (self.window - 1)
            mine, others = int(first_unit[i]), int(first_unit[i + 1]) - 1
            if r == 0:
                drawn[i] = units[mine]
                prefix.reset()
                suffix = [zero] * self.height
                continue
            level = int(levels[mine])
            head = prefix.before(level) + units[mine]
            prefix.put(level, head)
            if times[i] > self.window:
                w = r - 1
                z = (w & -w).bit_length() - 1 if w else self.height
                tail = suffix[z + 1] if z + 1 < self.height else zero
                if z < self.height:
                    suffix[z] = tail
                for below in range(z - 1, -1, -1):
                    tail = tail + units[others - below]
                    suffix[below] = tail
                drawn[i] = head + suffix[0]
            else:
                drawn[i] = head
        ring = own.ring.copy()
        fresh = times[-self.window :]
        ring[:, fresh & (self.window - 1)] = at(fresh).transpose(1, 0, 2)
        tails = np.stack(suffix, axis=1) if suffix else own.suffix.copy()
        return WindowTreeState(ring, prefix.packed(), tails), drawn

    def _entering(self, times: Ints) -> tuple[Ints, Ints, Ints]:
        """Nodes whose noise is first used at these times.

        Returns:
          starts (m,), levels (m,): the nodes, by time; at each time the prefix node, then suffix
          nodes from the highest level to level 0. first_unit (n + 1,): where each time's begin.
        """
        starts, levels, first_unit = [], [], [0]
        zeros = trailing_zeros(times)
        for time, zero in zip(times.tolist(), zeros.tolist(), strict=True):
            level = min(zero, self.height)
            starts.append(time - (1 << level))
            levels.append(level)
            before = time - 1
            r = time & (self.window - 1)
            if r and time > self.window:
                # Right children of the node that starts at w = r - 1 of the block before.
                w = r - 1
                z = (w & -w).bit_length() - 1 if w else self.height
                for below in range(z - 1, -1, -1):
                    starts.append(before - self.window + (1 << below))
                    levels.append(below)
            first_unit.append(len(starts))
        return (
            np.asarray(starts, dtype=np.int64),
            np.asarray(levels, dtype=np.int64),
            np.asarray(first_unit, dtype=np.int64),
        )


def units_of(height: int, kind: str, pattern: Pattern | None) -> float:
    """Units that a record, or a user's contributions of a period, move within the window."""
    if pattern is None:
        return height + 1
    if is_pure(kind):
        return (height + 1) * pattern.cells
    return over_keys(lambda count: sum(tree_squares(height + 1, count, pattern.spacing)), pattern)
