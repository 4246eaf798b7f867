"""Ranks from noisy counts of nested bins: a tree of counts, made consistent, and its exact error.

Level l of the tree counts the same events in wider bins, each of ``fan`` bins of the level below.
The best linear unbiased estimate of all counts, given all levels, is two passes over the tree (Hay,
Rastogi, Miklau, Suciu 2010; here for any variance of any level). Everything is post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from weir.dpcore.arrays import Floats, Ints

FANS = (2, 4, 8, 16, 32, 64)


def best_fan(bins: int) -> int:
    """Of how many bins a wider one is made, so that the worst rank has the least noise.

    L levels cost L in squared sensitivity, and a rank is a sum of at most L (fan - 1) counts: the
    least L^2 (fan - 1), in whole numbers. ``bins`` itself: one level, a flat histogram.
    """

    def cost(fan: int) -> int:
        levels = 1
        while fan**levels < bins:
            levels += 1
        return levels * levels * (fan - 1)

    return min((*(fan for fan in FANS if fan < bins), bins), key=cost)


def levels_of(edges: Sequence[float], fan: int) -> tuple[tuple[float, ...], ...]:
    """Edges of each level, the finest first; every fan-th edge, and the last, of the one before."""
    found = [tuple(edges)]
    while len(found[-1]) - 1 > fan:
        last = found[-1]
        kept = last[::fan]
        found.append(kept if kept[-1] == last[-1] else (*kept, last[-1]))
    return tuple(found)


@dataclass(frozen=True)
class RankTree:
    """The shape of a tree.

    Attributes:
      sizes: bins of each level, the finest first. fan: bins that a wider one is made of.
    """

    sizes: tuple[int, ...]
    fan: int

    @cached_property
    def parents(self) -> tuple[Ints, ...]:
        """Of each level but the widest: the bin of the next that each lies in."""
        return tuple(np.arange(size) // self.fan for size in self.sizes[:-1])

    def _up(self, level: int, values: Floats) -> Floats:
        """Sums over the bins that a wider one is made of: (..., size) -> (..., next size)."""
        firsts = np.arange(0, self.sizes[level], self.fan)
        return np.asarray(np.add.reduceat(values, firsts, axis=-1))

    def variances(self, noise: Sequence[Floats]) -> list[Floats]:
        """Of each level: variance of a count given its own noise and all below it, (n, size).

        noise: of each level, variance of its counts, (n, 1, 1) or (n, 1, size).
        """
        found: list[Floats] = []
        for level, size in enumerate(self.sizes):
            own = np.broadcast_to(noise[level][:, 0], (len(noise[level]), size))
            if level:
                below = self._up(level - 1, found[-1])
                own = own * below / (own + below)
            found.append(np.asarray(own))
        return found

    def consistent(self, counts: Sequence[Floats], noise: Sequence[Floats]) -> Floats:
        """The finest counts that all levels together tell best: (n, K, size) of each -> finest."""
        spread = self.variances(noise)
        told = [counts[0]]
        for level in range(1, len(self.sizes)):
            own = np.broadcast_to(noise[level][:, 0], spread[level].shape)
            weight = (spread[level] / own)[:, None]  # of its own count; the rest is its children's
            below = self._up(level - 1, told[-1])
            told.append(weight * counts[level] + (1 - weight) * below)
        final = told[-1]
        for level in range(len(self.sizes) - 2, -1, -1):
            gap = final - self._up(level, told[level])
            parents = self.parents[level]
            share = spread[level] / self._up(level, spread[level])[:, parents]
            final = told[level] + share[:, None] * gap[:, :, parents]
        return final

    def rank_variance(self, noise: Sequence[Floats], at: float) -> Floats:
        """Variance of (events below an edge) - at * (all events): (n, edges).

        Down from a bin the errors of its parts, given its own error e, are u_i + a_i e with
        cov(u) = diag(V) - V V^T / sum V and a = V / sum V; so what lies below an edge inside it is
        alpha e plus an independent error of variance beta, level by level.
        """
        spread = self.variances(noise)
        n, edges = len(spread[0]), np.arange(self.sizes[0] + 1)
        alpha, beta = np.zeros((n, len(edges))), np.zeros((n, len(edges)))
        node = edges  # of the finest level: the bin that begins at the edge, none of it below
        for level in range(len(self.sizes) - 1):
            variance = spread[level]
            ends = np.concatenate([np.zeros((n, 1)), np.cumsum(variance, axis=1)], axis=1)
            parent = node // self.fan
            first = parent * self.fan
            stop = np.minimum(first + self.fan, self.sizes[level])
            inside = node < self.sizes[level]
            own = variance[:, np.minimum(node, self.sizes[level] - 1)] * inside
            first, stop = np.minimum(first, self.sizes[level]), np.maximum(stop, 0)
            before = ends[:, node] - ends[:, first]
            whole = ends[:, stop] - ends[:, np.minimum(first, stop)]
            whole = np.where(whole > 0, whole, 1.0)
            linear = before + alpha * own
            beta = beta + before + alpha**2 * own - linear**2 / whole
            alpha = linear / whole
            node = parent
        top = spread[-1]
        ends = np.concatenate([np.zeros((n, 1)), np.cumsum(top, axis=1)], axis=1)
        own = top[:, np.minimum(node, self.sizes[-1] - 1)] * (node < self.sizes[-1])
        before = ends[:, node]
        after = ends[:, -1:] - before - own
        return np.asarray(
            beta + (1 - at) ** 2 * before + (alpha - at) ** 2 * own + at**2 * np.maximum(after, 0)
        )
