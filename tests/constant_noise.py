"""Noise that is none, for tests and benchmarks: no package holds it, so nothing reaches it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.noise.discrete_gaussian import WIDER


class ConstantNoise:
    """Every draw of every unit of noise has the same value; digests are zero.

    With value 1, a tree's release minus the exact sum counts the nodes in it.

    Args:
      value: what each draw returns, in standard deviations where it is a discrete Gaussian.
      first_tick: index of the first tick of the stride.
    """

    def __init__(self, value: float, first_tick: int = 0) -> None:
        self.value = value
        self.first_tick = first_tick

    def at(self, first_tick: int, keys: slice | None = None) -> ConstantNoise:
        """The same from another tick on; draws have as many keys as the digests that ask."""
        return ConstantNoise(self.value, first_tick)

    def leaf_digests(self, leaves: Ints) -> Digests:
        """leaves: (n, K, d) -> (n, K, 2) zeros."""
        return np.zeros((*leaves.shape[:2], 2), dtype=np.uint64)

    def gaussian(self, labels: Digests, digests: Digests, dimension: int) -> Floats:
        """(m, K, dimension), all ``value``."""
        return np.full((*digests.shape[:2], dimension), self.value, dtype=np.float64)

    def k_norm(self, labels: Digests, digests: Digests, dimension: int) -> Floats:
        """(m, K, dimension), all ``value``."""
        return self.gaussian(labels, digests, dimension)

    def gumbel(self, labels: Digests, digests: Digests, dimension: int) -> Floats:
        """(m, K, dimension), all ``value``."""
        return self.gaussian(labels, digests, dimension)

    def select(self, labels: Digests, digests: Digests, scores: Floats, scale: float) -> Ints:
        """(m,), by equal noise for all."""
        return np.asarray(np.argmin(scores - scale * self.value, axis=1))

    def laplace(self, labels: Digests, digests: Digests, dimension: int) -> Floats:
        """(m, K, dimension), all ``value``."""
        return self.gaussian(labels, digests, dimension)

    def bits(self, labels: Digests, digests: Digests, count: int) -> Digests:
        """(m, K, count) ascending words: a sample of n is the first n."""
        words = np.arange(count, dtype=np.uint64)
        return np.broadcast_to(words, (*digests.shape[:2], count))

    def generalised_gaussian(
        self, labels: Digests, digests: Digests, dimension: int, exponent: float
    ) -> Floats:
        """(m, K, dimension), all ``value``."""
        return self.gaussian(labels, digests, dimension)

    def discrete_gaussian(
        self,
        labels: Digests,
        digests: Digests,
        variances: Sequence[int] | Sequence[tuple[int, ...]],
    ) -> Ints:
        """(m, K, d), all ``value`` times the deviation; 0 where the variance is 0."""
        sizes = np.sqrt(np.array(variances, dtype=np.float64)) / float(WIDER)
        steps = np.rint(self.value * sizes).astype(np.int64)
        row = steps if steps.ndim == 1 else steps[:, None]
        return np.broadcast_to(row, (*digests.shape[:2], steps.shape[-1])).copy()


class NoNoise(ConstantNoise):
    """All draws are zero."""

    def __init__(self, first_tick: int = 0) -> None:
        super().__init__(0.0, first_tick)
