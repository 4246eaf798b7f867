"""Noise that remembers what was drawn: the leaf digest of tick t has bit t only."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.noise.discrete_gaussian import WIDER


class Recorder:
    """A ``Noise`` for up to 128 ticks of one key: units tell which leaves they are keyed with.

    Attributes:
      first_tick: of the next stride.
      drawn: (label, (first leaf, end)) of every unit so far, in order.
      values: (first leaf, end) -> value of that unit.
    """

    def __init__(self) -> None:
        self.first_tick = 0
        self.drawn: list[tuple[tuple[int, int], tuple[int, int]]] = []
        self.values: dict[tuple[int, int], int] = {}

    def leaf_digests(self, leaves: Ints) -> Digests:
        """Bit t for tick t."""
        out = np.zeros((*leaves.shape[:2], 2), dtype=np.uint64)
        for i in range(len(leaves)):
            tick = self.first_tick + i
            out[i, :, tick // 64] = np.uint64(1 << tick % 64)
        return out

    def gaussian(self, labels: Digests, digests: Digests, dimension: int) -> Floats:
        """A different whole number for each unit."""
        out = np.empty((*digests.shape[:2], dimension))
        for i, (label, digest) in enumerate(
            zip(labels.tolist(), digests[:, 0].tolist(), strict=True)
        ):
            bits = digest[0] | digest[1] << 64
            start = (bits & -bits).bit_length() - 1
            node = (start, bits.bit_length())
            assert bits == (1 << node[1]) - (1 << start), "keyed with a run of leaves"
            self.drawn.append((tuple(label), node))
            self.values[node] = 1 + 7919 * len(self.drawn)
            out[i] = self.values[node]
        return out

    def discrete_gaussian(
        self, labels: Digests, digests: Digests, variances: Sequence[int]
    ) -> Ints:
        """As ``gaussian``, in standard deviations."""
        sizes = np.array([math.sqrt(square) / WIDER for square in variances], dtype=np.float64)
        return np.rint(self.gaussian(labels, digests, len(sizes)) * sizes).astype(np.int64)

    def k_norm(self, labels: Digests, digests: Digests, dimension: int) -> Floats:
        """As ``gaussian``."""
        return self.gaussian(labels, digests, dimension)
