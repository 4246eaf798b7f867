"""Trees with delayed merges: graded expiration, for pure noise with many branches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from weir.dpcore.accounting.contributions import Pattern, over_keys, tree_squares
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.continual.independent import UNBOUNDED, CoverSum, Node
from weir.dpcore.continual.kary_tree import sizes_of
from weir.dpcore.continual.unit import SumRequest
from weir.dpcore.errors import ConfigError
from weir.dpcore.neighbours import Family
from weir.dpcore.noise.noise import Noise, is_pure, label

GAMMA = 1.0
"""Default of gamma: levels above the window cost what those inside it cost, so the loss grows like
log n. Above 1 is less noise and faster expiration; below 1 bounds the loss for ever, with noise
that grows like a power of the time."""


class MergingTreeState(NamedTuple):
    """What a delayed-merge tree keeps, one level after the other.

    Attributes:
      marks: (K, m, 2) uint64, digest chain at the last multiples of each level's size, newest
        first, as far back as a node may begin that is not in use yet.
      noise: (K, g, d) int64, noise of the nodes in the cover, those of one parent together, the
        oldest parent first.
    """

    marks: Digests
    noise: Ints


@dataclass(frozen=True)
class MergingTree(CoverSum):
    """Tree of nodes that are in use only once their ticks have an age: graded expiration.

    A node of level l holds s_l ticks, s_0 = 1 and s_l = a_l s_(l-1). It is in use from the tick at
    which its last leaf is d_l ticks old, d_l not falling in l; until then its children stand in. A
    running total is the sum of the largest nodes in use. Under pure noise there are many branches,
    d_l = 0 for l <= h and d_l = W above: within W ticks a record meets no level but the h + 1 up to
    h. Under Gaussian noise, for the whole clock, and where gamma is given, all a_l are 2 and d_l is
    s_l - 1.

    **Formal guarantees**
      Unit: one event. Relation: that under which ``sensitivity`` was derived.
      Sensitivity: what one neighbour changes in (leaf / scales) at one tick, ``sensitivity`` in the
        norm of the noise: l2, for Laplace noise l1.
      Guarantee: outputs are sums of noisy sums of nodes, and a record is in one node of each level,
        which it meets at its age of d_l + s_l - (i mod s_l) releases or later, i its tick. So it
        meets no level l within d_l ticks. If d_l = d_(l+1), the last child of a node is never in
        use; then a record that meets level l has s_l ticks or more to the end of every larger node,
        so that of the levels with one delay d it meets k within n ticks only if n is at least d + 1
        and the sizes of the k - 1 smallest of them added up. A level l <= h costs one share, level
        l > h gamma^(l - h) shares, and those that can be met within W ticks are the budget. Shares
        are of eps (K-norm, Laplace) and of mu^2 (Gaussian); they add
        adaptively, as a node's noise is drawn after all that it holds. The nodes of a level hold as
        many of a user's contributions (``pattern``) as fit, and W covers the period and the window
        after it; losses of pure noise add up over contributions.
      Error: binary: at most 2 nodes a level. Else a_l - 1 nodes, of level h (W - 1) / s_h more.
        Units of level l > h are gamma^(h - l) noise scales large (the root of that for Gaussian
        noise). Arities are those of least worst variance, at most as many levels for each share as
        a binary tree has: over the whole clock a record loses no more than under ``tree``.
        Averages of nodes and children, as of ``kary_tree``, would bring last children into use, and
        a record could meet all levels at once.
      Source: derived in this project. Compare Andersson, Henzinger, Pagh, Steiner, Upadhyay (2024),
        "Continual counting with gradual privacy expiration", who show that O(log(t) / eps) is
        right; Qardaji, Yang, Li (2013) for many branches.

    Attributes:
      top: h, the last level inside the window.
      gamma: what a level above h costs, in shares of the level below it.
      arities: a_1, a_2, ...; None: all are 2, and nodes wait as long as they are.
      delay: W, with arities.
    """

    top: int
    gamma: float
    arities: tuple[int, ...] | None = field(default=None, kw_only=True)
    delay: int | None = field(default=None, kw_only=True)

    name: ClassVar[str] = "merging_tree"
    signed: ClassVar[bool] = False
    neighbours: ClassVar[Family] = Family(
        ("first", "last", "window", "powers"),
        "corners",
        "covers merge at multiples of sizes, and windows later",
    )
    patterned: ClassVar[bool] = True
    by_gain: ClassVar[bool] = True
    title: ClassVar[str] = "Tree with delayed merges: graded expiration, pure epsilon too"
    source: ClassVar[str] = (
        "Weir; compare Andersson, Henzinger, Pagh, Steiner, Upadhyay (NeurIPS 2024)"
    )
    tight: ClassVar[bool] = False
    settings: ClassVar[dict[str, str]] = {
        "gamma": "cost of a level above the window, relative to the level below it; 0.5 to 2, 1 "
        "unless set; more: less noise, faster expiration; below 1: the loss is bounded for ever; "
        "with it a node has two children under pure noise too",
    }

    @classmethod
    def fitted(cls, request: SumRequest) -> MergingTree:
        """The tree whose loss within the window (None: for ever) is at most the budget.

        Raises:
          ConfigError: gamma is out of range.
        """
        gamma, rows = request.options.get("gamma"), request.rows
        end = request.horizon or UNBOUNDED
        if gamma is None and is_pure(request.kind) and rows is not None and rows < end:
            top, arities = best_arities(end, rows)
            within = sum(start <= rows for start in starts_of(arities, top, rows))
            units = units_of([1.0] * within, request.kind, request.pattern)
            return cls.of(request, units, top=top, gamma=GAMMA, arities=arities, delay=rows)
        last = _levels(request.horizon) - 1
        top = last if rows is None else min(rows.bit_length() - 1, last)
        units = units_of([1.0] * (top + 1), request.kind, request.pattern)
        return cls.of(request, units, top=top, gamma=GAMMA if gamma is None else float(gamma))

    def __post_init__(self) -> None:
        if not 0.5 <= self.gamma <= 2:
            raise ConfigError("mechanism.gamma", self.gamma, "must be from 0.5 to 2.")
        super().__post_init__()

    @property
    def levels(self) -> int:
        """Levels that are ever in use."""
        return _levels(self.horizon) if self.arities is None else len(self.arities) + 1

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """s_l: ticks of a node of each level."""
        return sizes_of((2,) * (self.levels - 1) if self.arities is None else self.arities)

    @cached_property
    def delays(self) -> tuple[int, ...]:
        """d_l: age of the last leaf of a node of each level when it comes into use."""
        if self.arities is None:
            return tuple(size - 1 for size in self.sizes)
        return tuple(self.delay or 0 if level > self.top else 0 for level in range(self.levels))

    @property
    def worst_factor(self) -> float:
        """The largest ``factor``, rounded up."""
        if self.arities is None or self.delay is None:
            return super().worst_factor
        return worst(self.horizon or UNBOUNDED, self.arities, self.top, self.delay)

    def share(self, level: int) -> float:
        """What a node of this level costs: 1 inside the window."""
        return float(self.gamma ** max(level - self.top, 0))

    def multiplier(self, level: int) -> float:
        """Size of the units of a level, in noise scales; rounded up."""
        if level <= self.top or self.gamma == 1:
            return 1.0
        share = self.share(level)
        size = 1 / share if is_pure(self.kind) else 1 / math.sqrt(share)
        return math.nextafter(size, math.inf)

    @property
    def largest_multiplier(self) -> float:
        """That of the highest level where gamma is below 1."""
        return max(1.0, self.multiplier(self.levels - 1))

    @property
    def smallest_multiplier(self) -> float:
        """That of the highest level where gamma is above 1."""
        return min(1.0, self.multiplier(self.levels - 1))

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """Shares of the levels that a record can have met within n ticks; None: of all levels."""
        rows, levels = self.rows(ticks), self.levels
        if rows is not None and self.arities is None:
            levels = min(max(rows, 0).bit_length(), levels)
        elif rows is not None and self.arities is not None and self.delay is not None:
            levels = sum(start <= rows for start in starts_of(self.arities, self.top, self.delay))
        shares = [self.share(level) for level in range(levels)]
        return self.loss_of(units_of(shares, self.kind, self.pattern))

    def _ends(self, times: Ints, level: int) -> Ints:
        """Nodes of a level in use at times (m,), those under larger ones too: (m,)."""
        return np.maximum(times - self.delays[level], 0) // self.sizes[level]

    def _used(self, ticks: Ints, level: int) -> tuple[Ints, Ints]:
        """Nodes of a level in the covers at ticks (m,): indices [low, high)."""
        times = np.asarray(ticks, dtype=np.int64) + 1
        high = self._ends(times, level)
        if level + 1 == self.levels:
            return np.zeros_like(high), high
        return self._ends(times, level + 1) * (self.sizes[level + 1] // self.sizes[level]), high

    def _counts(self, ticks: Ints, over: int | None) -> Iterator[tuple[float, Ints]]:
        """For each level: its multiplier, and how many of its nodes are in the cover at ticks (m,),
        or in one of two covers only: (m,)."""
        now = np.asarray(ticks, dtype=np.int64)
        then = None if over is None else np.maximum(now - over, -1)
        for level in range(self.levels):
            low, high = self._used(now, level)
            count = high - low
            if then is not None:
                low_then, high_then = self._used(then, level)
                shared = np.minimum(high, high_then) - np.maximum(low, low_then)
                count = count + (high_then - low_then) - 2 * np.maximum(shared, 0)
            yield self.multiplier(level), count

    def factor(self, ticks: Ints, over: int | None) -> Floats:
        """Squared sizes of the nodes in the cover, or in one of two covers only: (m,)."""
        out = np.zeros(np.shape(ticks), dtype=np.float64)
        for multiplier, count in self._counts(ticks, over):
            out += multiplier**2 * count
        return out

    def cover(self, tick: int) -> tuple[Node, ...]:
        """From the left, the largest nodes in use first."""
        nodes = []
        for level in reversed(range(self.levels)):
            (low,), (high,) = self._used(np.asarray([tick]), level)
            size = self.sizes[level]
            for index in range(int(low), int(high)):
                nodes.append(Node(index * size, (index + 1) * size, self.multiplier(level)))
        return tuple(nodes)

    @cached_property
    def _depths(self) -> tuple[tuple[int, int], ...]:
        """Of each level: marks that are kept, and parents that have nodes in a cover, at most."""
        depths = []
        for level, (size, delay) in enumerate(zip(self.sizes, self.delays, strict=True)):
            parents = 1
            if level + 1 < self.levels:
                parents = (self.delays[level + 1] - delay - 1) // self.sizes[level + 1] + 2
            depths.append(((delay - 1) // size + 2, parents))
        return tuple(depths)

    def init_noise(self, n_keys: int) -> MergingTreeState:
        """No leaves, no noise."""
        marks, parents = (sum(depth) for depth in zip(*self._depths, strict=True))
        return MergingTreeState(
            np.zeros((n_keys, marks, 2), dtype=np.uint64),
            np.zeros((n_keys, parents, self.dimension), dtype=np.int64),
        )

    def draw(
        self, own: MergingTreeState, chain: Digests, leaf_digests: Digests, noise: Noise
    ) -> tuple[MergingTreeState, Ints]:
        """Draws the nodes that come into use; each takes its children out of the total.

        A node that comes into use together with its parent is its last child, and is not drawn.
        """
        n, last = leaf_digests.shape[0], self.levels - 1
        self.check(noise, n)
        marks = self._split(own.marks, 0)
        nodes: list[tuple[int, int]] = []
        digests: list[Digests] = []
        entering: list[list[tuple[int, int]]] = []
        for i in range(n):
            time = noise.first_tick + i + 1
            for level, size in enumerate(self.sizes):
                if time % size:
                    break
                marks[level].insert(0, chain[i + 1])
            ends, now = 0, list[tuple[int, int]]()  # ends: of the level above
            for level in range(last, -1, -1):
                size, age = self.sizes[level], time - self.delays[level]
                done = max(age, 0) // size
                if done and age % size == 0:
                    place = 0
                    if level < last:
                        place = (done - 1) // (self.sizes[level + 1] // size) - ends
                    now.append((level, place))
                    if place >= 0:
                        end = self.delays[level] // size
                        nodes.append((level, done - 1))
                        digests.append(marks[level][end] ^ marks[level][end + 1])
                ends = done
            entering.append(now)
            for mine, (length, _) in zip(marks, self._depths, strict=True):
                del mine[length:]
        empty = np.zeros((own.noise.shape[0], self.dimension), dtype=np.int64)
        units = iter(self._drawn(noise, nodes, digests))
        sums = self._split(own.noise, 1)
        total = own.noise.sum(axis=1)
        drawn = np.empty((n, *empty.shape), dtype=np.int64)
        for i, now in enumerate(entering):
            for level, place in now:
                if level:
                    total = total - sums[level - 1].pop(0)
                    sums[level - 1].append(empty)
                if place >= 0:
                    unit = next(units)
                    sums[level][place] = sums[level][place] + unit
                    total = total + unit
            drawn[i] = total
        packed = (np.stack([x for level in item for x in level], axis=1) for item in (marks, sums))
        return MergingTreeState(*packed), drawn

    def _drawn(
        self, noise: Noise, nodes: list[tuple[int, int]], digests: list[Digests]
    ) -> Iterable[Ints]:
        """Units of nodes (level, index), one by one: (K, d) each."""
        if not nodes:
            return ()
        levels, indices = np.asarray(nodes, dtype=np.int64).T
        sizes = np.asarray([self.multiplier(level) for level in range(self.levels)])[levels]
        return self.units(noise, label(levels, indices), np.stack(digests), sizes)

    def _split(self, kept: Digests | Ints, which: int) -> list[list[Any]]:
        """What is kept (K, x, w), one list for each level; which: 0 for marks, 1 for noise."""
        rows, results = iter(kept.transpose(1, 0, 2)), list[list[Any]]()
        for depth in self._depths:
            results.append([next(rows) for _ in range(depth[which])])
        return results


def units_of(shares: Sequence[float], kind: str, pattern: Pattern | None) -> float:
    """Units that a record, or a user's contributions of a period, move on levels of such shares.

    Which nodes a contribution meets follows from the ages of their last leaves, so that those of
    a user meet no level that the first tick of the period does not.
    """
    if pattern is None:
        return math.fsum(shares)
    if is_pure(kind):
        return math.fsum(shares) * pattern.cells * (1 + 2.0**-50)

    def of_key(count: int) -> float:
        squares = tree_squares(len(shares), count, pattern.spacing) if shares else ()
        return math.fsum(a * b for a, b in zip(shares, squares, strict=True))

    return over_keys(of_key, pattern)


def starts_of(arities: tuple[int, ...], top: int, delay: int) -> tuple[int, ...]:
    """In how many ticks a record can have met so many levels: of those up to ``top``, and of those
    above it, in order."""
    starts, so_far = list[int](), 1
    for level, size in enumerate(sizes_of(arities)):
        if level == top + 1:
            so_far = delay + 1
        starts.append(so_far)
        so_far += size
    return tuple(starts)


def worst(n: int, arities: tuple[int, ...], top: int, delay: int) -> int:
    """The variance of a total within n ticks, in units, at most."""
    sizes, last = sizes_of(arities), len(arities)
    result = (n - (delay if last > top else 0)) // sizes[last]
    for level, arity in enumerate(arities):
        result += (delay + sizes[level + 1] - 1) // sizes[level] if level == top else arity - 1
    return result


@lru_cache(maxsize=256)
def best_arities(n: int, delay: int) -> tuple[int, tuple[int, ...]]:
    """The last level inside the window, and the arities of the tree of least worst variance.

    Of every number of levels inside and in all, arities are changed one after the other from equal
    ones, by one, an eighth or four, while that helps. There are at most as many levels for each
    inside as a binary tree has. Whole numbers: the same on every CPU.
    """

    def cost(top: int, arities: tuple[int, ...]) -> int:
        return (top + 1) ** 2 * worst(n, arities, top, delay)

    results = list[tuple[int, int, tuple[int, ...]]]()
    for top in range(n.bit_length()):
        most = (top + 1) * n.bit_length() // delay.bit_length()
        best = list[tuple[int, int, tuple[int, ...]]]()
        for count in range(top + 1, most + 1):
            arity = 2
            while arity**count < n:
                arity += 1 + arity // 64
            some = (arity,) * (count - 1)
            price, better = cost(top, some), True
            while better:
                better = False
                for at in range(count - 1):
                    eighth = max(some[at] // 8, 4)
                    for change in (-eighth, -1, 1, eighth):
                        other = (*some[:at], max(some[at] + change, 2), *some[at + 1 :])
                        if cost(top, other) < price:
                            some, price, better = other, cost(top, other), True
            best.append((price, top, some))
            if _rising(best):
                break
        results.append(min(best))
        if _rising(results):
            break
    return min(results)[1:]


def _rising(results: Sequence[tuple[int, int, tuple[int, ...]]]) -> bool:
    """Whether the last two of them were each worse than the one before."""
    costs = [cost for cost, _, _ in results[-3:]]
    return len(costs) == 3 and costs[0] < costs[1] < costs[2]


def _levels(horizon: int | None) -> int:
    """Levels of a binary tree that are in use on a clock of this many ticks: 2^(l+1) <= T + 1."""
    return ((horizon or UNBOUNDED) + 1).bit_length() - 1
