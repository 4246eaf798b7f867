"""Noisy strides: what Tick hands to Solve, and where strides may end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.errors import in_words
from weir.transforms.runtime.codec import pack, pack_names, unpack, unpack_names

KIND = b"N"
TICKS = 128
"""Ticks that are stepped at once, at most, unless leaves are small."""
NUMBERS = 1 << 22
"""int64 numbers in the leaves of a stride, at most (32 MB)."""
LONGEST, FEW = 1 << 10, 1 << 17
"""A stride of more than ``TICKS`` has at most so many ticks, and int64 numbers in its leaves."""


@dataclass(frozen=True, eq=False)
class NoisyStride:
    """Noisy arrays of one block for consecutive ticks: already private, still to be solved.

    Attributes:
      block: which block.
      first_tick: of the stride. ticks: how many, n.
      keys: K keys in order of their rows; K may be 0.
      arrays: each (n, K, ...) float64, as ``program.step`` made them; none where K is 0.
      births: (K,) int64, ticks after the first from which on each key is released; (0,): all are in
        all of them.
    """

    block: int
    first_tick: int
    ticks: int
    keys: tuple[bytes, ...]
    arrays: tuple[NDArray[np.float64], ...]
    births: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def born_later(self) -> bool:
        """Whether some key is not released in all ticks."""
        return bool(self.births.any())


def boundaries(first: int, stop: int, every: int, width: int) -> Iterator[tuple[int, int]]:
    """Cuts ticks [first, stop) into strides [a, b), none across a multiple of ``every``.

    Args:
      every: ticks a file of a sink covers.
      width: int64 numbers in the leaves of one tick.
    """
    width = max(1, width)
    usual, more = min(TICKS, NUMBERS // width), min(LONGEST, FEW // width)
    longest = max(1, usual, more)
    while first < stop:
        base = first // every * every
        inner = base + ((first - base) // longest + 1) * longest
        after = min(stop, base + every, inner)
        yield first, after
        first = after


def encode(stride: NoisyStride) -> bytes:
    """A stride as bytes: a header and plain arrays, never a pickle."""
    later = stride.births if stride.born_later else np.zeros(0, dtype=np.int64)
    where = np.array([stride.block, stride.first_tick, stride.ticks, *later], dtype=np.int64)
    return pack(KIND, [where, *pack_names(stride.keys), *stride.arrays])


@in_words
def decode(data: bytes) -> NoisyStride:
    """The inverse of ``encode``."""
    where, offsets, joined, *arrays = unpack(KIND, data)
    block, first, ticks = where[:3].tolist()
    keys = tuple(unpack_names(offsets, joined))
    return NoisyStride(block, first, ticks, keys, tuple(arrays), where[3:])
