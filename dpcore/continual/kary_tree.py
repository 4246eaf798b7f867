"""Trees of more than two branches: running totals under pure noise on a clock that ends."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple, Self

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.continual.independent import Node, UnitSum
from weir.dpcore.continual.unit import SumRequest, noisy_coordinates, real_units
from weir.dpcore.errors import ConfigError
from weir.dpcore.neighbours import Family
from weir.dpcore.noise.noise import Noise, label

BITS = 20
"""Of the weights with which a node and its children are averaged: weights add up to 1 exactly."""


class KaryTreeState(NamedTuple):
    """What a tree keeps of each level.

    Attributes:
      marks: (K, levels, 2) uint64, digest chain where its current node begins.
      sums: (K, levels, a) float64, noise of its complete nodes whose parent is not complete.
    """

    marks: Digests
    sums: Floats


@dataclass(frozen=True)
class KaryTree(UnitSum):
    """Least-squares totals of a tree with 2 to some 30 branches a node: few levels, pure noise.

    A node of level l holds s_l ticks, s_0 = 1 and s_l = a_l s_(l-1). Its own noisy sum has a unit
    of noise, drawn when it completes. Its estimate is the average of that sum and of the sum of its
    children's estimates, with the weights w_l and 1 - w_l of least variance u_l:

        u_0 = 1;  w_l = a_l u_(l-1) / (1 + a_l u_(l-1));
        u_l = w_l^2 + (1 - w_l)^2 a_l u_(l-1)

    A running total is the sum of the estimates of its complete nodes that no complete node covers:
    the least-squares estimate from all noisy sums so far.

    **Formal guarantees**
      Unit: one event. Relation: that under which ``sensitivity`` was derived.
      Sensitivity: what one neighbour changes in (leaf / scales) at one tick, ``sensitivity`` in the
        norm of the noise: l2 for K-norm noise, l1 for Laplace noise.
      Guarantee: for ever, against everything released, adaptively: outputs are weighted sums of
        noisy sums of nodes whose weights add up to the running total, and a record is in one node
        of each of the L levels, whose noise is drawn after it: eps = L Delta / b. A record of the
        last tick of a node of the highest level loses all of it at once: there is no graded
        expiration. Losses of a user's contributions (``pattern``) add up.
      Late keys begin with empty nodes under the clock's sizes. What was complete before holds none
        of their records, and every node that holds one is drawn. The noise of their totals lacks
        units, so that its variance is at most that of a key from the first tick on.
      Error: sum over l of (digit l of t) u_l units; the digits are those of t in the radices a_l.
        Arities are those of least worst variance, L^2 times as much, over the ticks of the clock.
      Real-valued noise: totals are rounded to the lattice, which is post-processing.
      Source: Chan, Shi, Song (2011) for trees; Qardaji, Yang, Li (2013) for more branches; Hay,
        Rastogi, Miklau, Suciu (2010) and Honaker (2015) for the averages.

    Attributes:
      arities: a_1 .. a_(L-1).
    """

    arities: tuple[int, ...]

    name: ClassVar[str] = "kary_tree"
    kinds: ClassVar[tuple[str, ...]] = ("k_norm", "laplace")
    signed: ClassVar[bool] = False
    neighbours: ClassVar[Family] = Family(
        ("first", "last", "powers"), "corners", "a record is in one node of each level"
    )
    patterned: ClassVar[bool] = True
    caveat: ClassVar[str] = "no graded expiration"
    title: ClassVar[str] = "Tree with many branches over a clock that ends, by least squares"
    source: ClassVar[str] = "Qardaji, Yang, Li (2013); Honaker (2015)"

    @classmethod
    def fitted(cls, request: SumRequest) -> Self:
        """The tree whose loss against everything released is the budget.

        Raises:
          ConfigError: the clock has no end.
        """
        n, pattern = request.horizon, request.pattern
        if n is None:
            raise ConfigError(
                "clock.end", None, f"is missing, and {cls.name} serves a clock that ends; set it."
            )
        arities = best_arities(n)
        units = (len(arities) + 1) * (1 if pattern is None else pattern.cells)
        return cls.of(request, units, arities=arities)

    @property
    def sizes(self) -> tuple[int, ...]:
        """s_l: ticks of a node of each level."""
        return sizes_of(self.arities)

    @property
    def real_noise(self) -> tuple[str, float]:
        """Of the worst total, which is rounded once."""
        stddev = math.sqrt(self.unit_variance * self.worst_factor)
        return self.kind, stddev * max(self.scales, default=0.0)

    @property
    def worst_factor(self) -> float:
        """The largest ``factor`` of running totals."""
        assert self.horizon is not None
        return worst(self.horizon, self.arities)

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """A unit a level, whenever one looks."""
        if self.rows(ticks) == 0:
            return self.loss_of(0)
        return self.loss_of((len(self.arities) + 1) * (self.pattern.cells if self.pattern else 1))

    def factor(self, ticks: Ints, over: int | None) -> Floats:
        """Variance of a total, or of the difference of two: (m,).

        Up to the highest node that holds the earlier and not the later of two times both totals
        have the same estimates. The estimate of that node has a part of those inside it that the
        earlier total is made of.
        """
        variances, weights, sizes = variances_of(self.arities), weights_of(self.arities), self.sizes
        now = np.asarray(ticks, dtype=np.int64) + 1
        out = np.zeros(now.shape)
        if over is None:
            for level, variance in enumerate(variances):
                out += self._digit(now, level) * variance
            return out
        then = np.maximum(now - over, 0)
        below, common = np.zeros(now.shape), np.zeros(now.shape)
        for level, variance in enumerate(variances):
            if level:
                common *= 1 - weights[level - 1]
            apart = now // sizes[level] - then // sizes[level]
            here = apart * variance + below - 2 * common
            out = np.where(apart > 0, here, out)
            below += (self._digit(now, level) + self._digit(then, level)) * variance
            common += self._digit(then, level) * variance
        return out

    def _digit(self, times: Ints, level: int) -> Ints:
        """Complete nodes of a level whose parent is not complete, at times (m,): (m,)."""
        count = times // self.sizes[level]
        return count % self.arities[level] if level < len(self.arities) else count

    def init_noise(self, n_keys: int) -> KaryTreeState:
        """No leaves, no noise."""
        levels = len(self.sizes)
        return KaryTreeState(
            np.zeros((n_keys, levels, 2), dtype=np.uint64),
            np.zeros((n_keys, levels, len(noisy_coordinates(self.scales)))),
        )

    def draw(
        self, own: KaryTreeState, chain: Digests, leaf_digests: Digests, noise: Noise
    ) -> tuple[KaryTreeState, Ints]:
        """A unit for each node that completes, averaged with what its children have.

        One multiplication and one addition at a time, elementwise, in a fixed order: the same bits
        however ticks are split into strides and keys into shards, on every CPU.
        """
        n, weights = leaf_digests.shape[0], weights_of(self.arities)
        marks, counts, units = self.completed(own.marks, chain, n, noise)
        sums = list(own.sums.transpose(1, 0, 2))
        noisy = list(noisy_coordinates(self.scales))
        drawn = np.zeros((n, own.sums.shape[0], self.dimension), dtype=np.int64)
        for i, count in enumerate(counts):
            estimate = next(units)
            for level in range(1, count):
                weight, children = weights[level - 1], sums[level - 1] + estimate
                sums[level - 1] = np.zeros_like(children)
                estimate = next(units) * weight + children * (1 - weight)
            sums[count - 1] = sums[count - 1] + estimate
            drawn[i][:, noisy] = _rounded(sums)
        return KaryTreeState(marks, np.stack(sums, axis=1)), drawn

    def completed(
        self, before: Digests, chain: Digests, n: int, noise: Noise
    ) -> tuple[Digests, list[int], Iterator[Floats]]:
        """Draws the units of a stride: each node's is keyed with the digest of its own leaves.

        Args:
          before: (K, levels, 2) digest chain where the current node of each level begins. n: ticks.

        Returns:
          The same after the stride; how many nodes complete at each tick, from level 0 up; their
          units one by one: (K, a).
        """
        self.check(noise, n)
        marks = list(before.transpose(1, 0, 2))
        nodes, digests, counts = list[tuple[int, int]](), list[Digests](), list[int]()
        for i in range(n):
            time, so_far = noise.first_tick + i + 1, len(nodes)
            for level, size in enumerate(self.sizes):
                if time % size:
                    break
                nodes.append((level, time // size - 1))
                digests.append(chain[i + 1] ^ marks[level])
                marks[level] = chain[i + 1]
            counts.append(len(nodes) - so_far)
        of = (label(*np.asarray(nodes, dtype=np.int64).T), np.stack(digests))
        units = real_units(self.kind, noise, *of, self.noise_scale, self.scales)
        return np.stack(marks, axis=1), counts, iter(units)

    def nodes(self, n: int) -> list[Node]:
        """All complete nodes, level by level."""
        return [Node(i * size, (i + 1) * size) for size in self.sizes for i in range(n // size)]

    def materialize(self, n: int) -> Floats:
        """(n, m) matrix B: noise of n running totals = B @ (m units). For tests only."""
        weights, sizes, nodes = weights_of(self.arities), self.sizes, self.nodes(n)
        unit = dict(zip(nodes, np.eye(len(nodes)), strict=True))
        sums = np.zeros((len(sizes), len(nodes)))
        rows = []
        for time in range(1, n + 1):
            for level, size in enumerate(sizes):
                if time % size == 0:
                    own = unit[Node(time - size, time)]
                    if level:
                        own = weights[level - 1] * own + (1 - weights[level - 1]) * sums[level - 1]
                        sums[level - 1] = 0
                    sums[level] += own
            rows.append(sums.sum(axis=0))
        return np.asarray(rows)


def _rounded(sums: list[Floats]) -> Ints:
    """Noise of a total: (K, a)."""
    total = sums[-1]
    for part in sums[-2::-1]:
        total = total + part
    return np.rint(total).astype(np.int64)


@lru_cache(maxsize=1024)
def sizes_of(arities: tuple[int, ...]) -> tuple[int, ...]:
    """Ticks of a node of each level."""
    sizes = [1]
    for arity in arities:
        sizes.append(sizes[-1] * arity)
    return tuple(sizes)


@lru_cache(maxsize=1024)
def weights_of(arities: tuple[int, ...]) -> tuple[float, ...]:
    """w_l of levels 1 .. L - 1, on a grid of 2^-20."""
    variance, weights = 1.0, list[float]()
    for arity in arities:
        children = arity * variance
        weight = math.floor(children / (1 + children) * (1 << BITS) + 0.5) / (1 << BITS)
        weights.append(weight)
        variance = weight * weight + (1 - weight) * (1 - weight) * children
    return tuple(weights)


@lru_cache(maxsize=1024)
def variances_of(arities: tuple[int, ...]) -> tuple[float, ...]:
    """u_l of every level."""
    variances = [1.0]
    for arity, weight in zip(arities, weights_of(arities), strict=True):
        variances.append(weight * weight + (1 - weight) * (1 - weight) * arity * variances[-1])
    return tuple(variances)


def worst(n: int, arities: tuple[int, ...]) -> float:
    """The largest variance of a total within n ticks, in units."""
    variances, sizes = variances_of(arities), sizes_of(arities)
    full = [0.0]
    for arity, variance in zip(arities, variances, strict=False):
        full.append(full[-1] + (arity - 1) * variance)
    left, above, result = n, 0.0, 0.0
    for level in range(len(sizes) - 1, -1, -1):
        digit, left = divmod(left, sizes[level])
        if digit:  # one node less, and everything below it
            result = max(result, above + (digit - 1) * variances[level] + full[level])
        above += digit * variances[level]
    return max(result, above)


@lru_cache(maxsize=256)
def best_arities(n: int) -> tuple[int, ...]:
    """Arities of the tree whose running totals over n ticks have the least worst variance.

    From equal arities of each number of levels one arity after the other is changed by one while
    that helps. Whole numbers and sums of doubles: the same on every CPU.
    """

    def cost(arities: tuple[int, ...]) -> float:
        return (len(arities) + 1) ** 2 * worst(n, arities)

    results = []
    for levels in range(1, n.bit_length() + 1):
        arity = 2
        while arity**levels < n:
            arity += 1 + arity // 64
        best = (arity,) * (levels - 1)
        price, better = cost(best), True
        while better:
            better = False
            for at in range(levels - 1):
                for change in (-1, 1):
                    other = (*best[:at], max(best[at] + change, 2), *best[at + 1 :])
                    if cost(other) < price:
                        best, price, better = other, cost(other), True
        results.append((price, best))
    return min(results)[1]
