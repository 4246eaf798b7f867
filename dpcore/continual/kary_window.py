"""Trees of more than two branches for sums over the last ticks, under pure noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import ClassVar, NamedTuple, Self

import numpy as np

from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.continual.base import SumState
from weir.dpcore.continual.kary_tree import KaryTree, sizes_of, variances_of, weights_of
from weir.dpcore.continual.unit import SumRequest, chained, noisy_coordinates
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.lattice import add_wide, wide_modulo
from weir.dpcore.neighbours import Family
from weir.dpcore.noise import replay
from weir.dpcore.noise.noise import Noise

LONG = 1 << 14
"""Ticks of a sum up to which arities are fitted to the last one."""

MOST = 1 << 22
"""Ticks of the longest sum, at most: 64 MiB of state for each number of a key."""


class KaryWindowState(NamedTuple):
    """What a tree keeps for sums over the last N ticks, N the largest.

    Attributes:
      marks: (K, levels, 2) uint64, digest chain where the current node of each level begins.
      sums: (K, levels - 1, a) float64, noise of its complete nodes whose parent is not complete.
      noise: (K, a, N) float64, estimated noise of the running sums of the last N ticks, oldest
        first, less that of the sum at the last end of a node of the highest level.
    """

    marks: Digests
    sums: Floats
    noise: Floats


@dataclass(frozen=True)
class KaryWindow(KaryTree):
    """Least-squares sums over the last N ticks of a tree with many branches: two levels or more.

    Nodes, units and averages are those of ``KaryTree``; above the highest level there is none. When
    a node completes, the difference between its estimate and the sum of its children's is spread
    evenly over its ticks. A sum over the last N ticks is the sum of what is estimated of each of
    them by then, the least-squares estimate from all noisy sums so far: complete nodes inside,
    their complete parts on the right, and on the left a part of a node, of which both the parts and
    the whole are known.

    **Formal guarantees**
      Unit: one event. Relation: that under which ``sensitivity`` was derived.
      Sensitivity: what one neighbour changes in (leaf / scales) at one tick, ``sensitivity`` in the
        norm of the noise: l2 for K-norm noise, l1 for Laplace noise.
      Guarantee: for ever, against everything released, adaptively: outputs, of all N together, are
        weighted sums of noisy sums of nodes, and a record is in one node of each of the L levels,
        whose noise is drawn after it: eps = L Delta / b. For what a completed node spreads has
        weights that add up to 0 over each of its ticks, so that the weights of nodes that hold a
        tick add up to 1 inside the last N ticks and to 0 before them, and moving the units of the
        record's nodes by what it changes hides it. A record of the last tick of a node of the
        highest level loses all of it at once: there is no graded expiration, and no later loss.
        Losses of a user's contributions (``pattern``) add up.
      Late keys begin with empty nodes under the clock's sizes. What was complete before holds none
        of their records, and every node that holds one is drawn. The noise of their sums lacks
        units, so that its variance is at most that of a key from the first tick on.
      Error: (complete nodes) u_L + sum over l of (digit l of t) u_l units, and for the part of a
        node after its first k ticks the variance of ``suffixes``. Arities are those of the least
        sum of worst variances of all that is asked, L^2 times as much. A larger share of the budget
        for some level would gain 1 % at most where the tree gains.
      Real-valued noise: sums are rounded to the lattice, which is post-processing.
      Source: Qardaji, Yang, Li (2013) for many branches; Hay, Rastogi, Miklau, Suciu (2010) for
        least squares; sums over the last ticks: derived in this project.
    """

    name: ClassVar[str] = "kary_window"
    signed: ClassVar[bool] = False
    neighbours: ClassVar[Family] = Family(
        ("first", "last", "window", "powers"), "corners", "a record is in one node of each level"
    )
    permanent: ClassVar[bool] = True
    title: ClassVar[str] = "Tree with many branches for sums over the last ticks, by least squares"
    source: ClassVar[str] = "Qardaji, Yang, Li (2013); Hay, Rastogi, Miklau, Suciu (2010)"

    @classmethod
    def serves(cls, overs: Sequence[int | None]) -> bool:
        """Sums over the last N ticks, one N above 1 at least: single ticks need no tree."""
        return all(over is not None and over >= 1 for over in overs) and overs not in ((), (1,))

    @classmethod
    def fitted(cls, request: SumRequest) -> Self:
        """The tree whose loss against everything ever released is the budget."""
        pattern, end = request.pattern, request.horizon
        spans = tuple(min(over or 1, end or over or 1) for over in request.overs)
        if max(spans) > MOST:
            raise ConfigError(
                "over",
                max(spans),
                f"is more than the {MOST:,} ticks of a sum that kary_window serves; choose "
                "another mechanism.",
            )
        arities = window_arities(spans)
        units = (len(arities) + 1) * (1 if pattern is None else pattern.cells)
        return cls.of(request, units, arities=arities)

    @property
    def spans(self) -> tuple[int, ...]:
        """The sums that are served; none is longer than the clock."""
        return tuple(min(over or 1, self.horizon or over or 1) for over in self.overs)

    @property
    def depth(self) -> int:
        """How many past sums are kept."""
        return max(self.spans)

    @property
    def worst_factor(self) -> float:
        """The largest ``factor``."""
        return max(float(window_variances(span, self.arities).max()) for span in self.spans)

    def factor(self, ticks: Ints, over: int | None) -> Floats:
        """Variance of a sum over the last N ticks: (m,)."""
        assert over is not None
        now = np.asarray(ticks, dtype=np.int64) + 1
        return between_times(np.maximum(now - over, 0), now, self.arities)

    def init_noise(self, n_keys: int) -> KaryWindowState:  # type: ignore[override]
        """No leaves, no noise."""
        levels, active = len(self.sizes), len(noisy_coordinates(self.scales))
        return KaryWindowState(
            np.zeros((n_keys, levels, 2), dtype=np.uint64),
            np.zeros((n_keys, levels - 1, active)),
            np.zeros((n_keys, active, self.depth)),
        )

    def step(
        self, state: SumState, leaves: Ints, noise: Noise
    ) -> tuple[SumState, tuple[Floats, ...]]:
        """Steps a stride. leaves: (n, K, d) int64 -> (n, K, d) float64 per over, lattice units.

        ``history`` holds exact running sums.
        """
        digests = noise.leaf_digests(leaves)
        chain = chained(state.chain, digests)
        own, drawn = self.draw(state.own, chain, digests, noise)
        exact = add_wide(state.total, leaves)
        n, depth = leaves.shape[0], self.depth
        past = np.concatenate([state.history, wide_modulo(exact).transpose(1, 2, 0)], axis=2)
        with np.errstate(over="ignore"):
            sums = [
                past[:, :, depth:] - past[:, :, depth - span : depth - span + n]
                for span in self.spans
            ]
            clean = np.concatenate(sums, axis=1).transpose(2, 0, 1)
            noisy = clean + replay.shifted(self, leaves, clean, drawn, noise.first_tick)
        released = np.split(noisy.astype(np.float64), len(self.spans), axis=2)
        total, history = exact[-1].copy(), past[:, :, n:].copy()
        return SumState(total, history, chain[-1].copy(), own), tuple(released)

    def draw(  # type: ignore[override]
        self, own: KaryWindowState, chain: Digests, leaf_digests: Digests, noise: Noise
    ) -> tuple[KaryWindowState, Ints]:
        """Units of the nodes that complete, and what they tell of the ticks before.

        One multiplication and one addition at a time, elementwise, in a fixed order: the same bits
        however ticks are split into strides and keys into shards, on every CPU.

        Returns:
          New ``own``, and (n, K, len(overs) d) int64: noise of each sum in lattice units.
        """
        n, depth, weights = leaf_digests.shape[0], self.depth, weights_of(self.arities)
        marks, counts, units = self.completed(own.marks, chain, n, noise)
        sums = list(own.sums.transpose(1, 0, 2))
        ahead = np.zeros((*own.noise.shape[:2], n))
        running = np.concatenate([own.noise, ahead], axis=2)
        noisy = list(noisy_coordinates(self.scales))
        drawn = np.zeros((n, own.noise.shape[0], len(self.spans), self.dimension), dtype=np.int64)
        for at, count in enumerate(counts, depth):
            estimate = next(units)
            for level in range(1, count):
                children = sums[level - 1] + estimate
                sums[level - 1] = np.zeros_like(children)
                change = (next(units) - children) * weights[level - 1]
                estimate = children + change
                size = self.sizes[level]
                first = max(at - size + 1, 0)
                parts = np.arange(size - at + first, size) / size
                running[:, :, first:at] += change[:, :, None] * parts
            if count == len(self.sizes):
                running[:, :, at - depth : at] -= estimate[:, :, None]
            else:
                sums[count - 1] = sums[count - 1] + estimate
                for part in sums[::-1]:
                    running[:, :, at] += part
            for place, span in enumerate(self.spans):
                value = running[:, :, at] - running[:, :, at - span]
                drawn[at - depth, :, place, noisy] = np.rint(value).T.astype(np.int64)
        state = KaryWindowState(marks, np.stack(sums, axis=1), running[:, :, n:].copy())
        return state, drawn.reshape(n, own.noise.shape[0], -1)

    def materialize(self, n: int) -> Floats:
        """(n len(overs), m) matrix B, one ``over`` after the other: noise of sums = B @ (m units).
        For tests only."""
        nodes, weights = self.nodes(n), weights_of(self.arities)
        unit = dict(zip(nodes, np.eye(len(nodes)), strict=True))
        of_ticks = np.zeros((n, len(nodes)))
        rows = [list[Floats]() for _ in self.spans]
        for node in sorted(nodes, key=lambda node: (node.end, -node.start)):
            mine, size = of_ticks[node.start : node.end], node.end - node.start
            if size == 1:
                mine += unit[node]
            else:
                weight = weights[self.sizes.index(size) - 1]
                mine += weight * (unit[node] - mine.sum(axis=0)) / size
            for span, sums in zip(self.spans, rows, strict=True):
                del sums[node.end - 1 :]
                sums.append(of_ticks[max(node.end - span, 0) : node.end].sum(axis=0))
        return np.concatenate([np.asarray(sums) for sums in rows])

    def response(self, n: int) -> Floats:
        """(n len(overs), n): clean sums = this matrix times n leaves. For tests only."""
        age = np.arange(n)[:, None] - np.arange(n)[None, :]
        return np.concatenate([(age >= 0) & (age < span) for span in self.spans]).astype(float)


@lru_cache(maxsize=256)
def suffixes(arities: tuple[int, ...]) -> tuple[Floats, ...]:
    """Variance of what is estimated of a complete node after its first k ticks, of every level:
    each (s_l,), for k from 0.

    The first k ticks of a node are m children and r ticks of the next one; with x the sum of their
    estimates, y that of all children and z its own noisy sum, their estimate is x + f w (z - y),
    f = k / s_l, and that of the node is (1 - w) y + w z.
    """
    sizes, weights, variances = sizes_of(arities), weights_of(arities), variances_of(arities)
    own, common = np.zeros(1), np.zeros(1)  # of the first k ticks, and between them and the node
    results = [np.ones(1)]
    for level, (arity, weight) in enumerate(zip(arities, weights, strict=True), 1):
        k = np.arange(sizes[level])
        child, rest = np.divmod(k, sizes[level - 1])
        known, whole = child * variances[level - 1], arity * variances[level - 1]
        share = weight * k / sizes[level]
        first, both = known + own[rest], known + common[rest]
        own = first + share * share * (1 + whole) - 2 * share * both
        common = (1 - weight) * both + share * (weight - (1 - weight) * whole)
        results.append(variances[level] + own - 2 * common)
    return tuple(results)


def between_times(then: Ints, now: Ints, arities: tuple[int, ...]) -> Floats:
    """Variance of what is estimated of the ticks from one time to another, by the latter: (m,)."""
    variances, sizes, parts = variances_of(arities), sizes_of(arities), suffixes(arities)
    out, below = np.zeros(now.shape), np.zeros(now.shape)
    for level, (size, variance) in enumerate(zip(sizes, variances, strict=True)):
        nodes = now // size - then // size
        here = (nodes - 1) * variance + parts[level][then % size] + below
        out = np.where(nodes > 0, here, out)
        if level < len(arities):
            below += now // size % arities[level] * variance
    return out


@lru_cache(maxsize=4096)
def window_variances(span: int, arities: tuple[int, ...]) -> Floats:
    """Variance of a sum over the last ``span`` ticks at every place in a highest node: (s,)."""
    top = sizes_of(arities)[-1]
    now = -(-span // top) * top + np.arange(top)
    return between_times(now - span, now, arities)


@lru_cache(maxsize=256)
def window_arities(spans: tuple[int, ...]) -> tuple[int, ...]:
    """Arities of the tree of least cost, the sum of the worst variances of sums over these spans.

    From equal arities of each number of levels one arity after the other is changed while that
    helps, by an eighth or four and, up to ``LONG`` ticks, by up to three. Sums of doubles,
    elementwise: the same on every CPU.
    """

    @cache
    def cost(arities: tuple[int, ...]) -> float:
        worst = [float(window_variances(span, arities).max()) for span in spans]
        return (len(arities) + 1) ** 2 * sum(worst)

    results = list[tuple[float, tuple[int, ...]]]()
    longest = max(spans)
    near = (-3, -2, -1, 1, 2, 3) if longest <= LONG else ()
    for levels in range(1, max(2, longest.bit_length() // 2)):
        arity = 2
        while arity ** (levels + 1) < longest:
            arity += 1 + arity // 64
        best, better = (arity,) * levels, True
        while better:
            better = False
            for at in range(levels):
                eighth = max(best[at] // 8, 4)
                for change in (-eighth, *near, eighth):
                    other = (*best[:at], max(best[at] + change, 2), *best[at + 1 :])
                    if sizes_of(other)[-1] <= longest and cost(other) < cost(best):
                        best, better = other, True
        results.append((cost(best), best))
        if len(results) > 1 and results[-1][0] > results[-2][0]:
            break
    return min(results)[1]
