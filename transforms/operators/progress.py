"""How far a block is: a small cell with a checksum next to the large one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weir.dpcore.errors import in_words
from weir.transforms.runtime.codec import pack, unpack

KIND = b"T"


class Progress(NamedTuple):
    """Attributes:
    following: the next tick to step. announced: the last tick that a heartbeat told of, or -1.
    """

    following: int = 0
    announced: int = -1

    def encode(self, layout: bytes) -> bytes:
        """To bytes."""
        return pack(KIND, [np.array(self, dtype=np.int64)], layout)

    @classmethod
    @in_words
    def decode(cls, data: bytes, layout: bytes) -> Progress:
        """The inverse.

        Raises:
          CodecError: damaged, or of another plan.
        """
        following, announced = unpack(KIND, data, layout)[0].tolist()
        return cls(following, announced)


class ProgressCell:
    """The cell of one block.

    Args:
      layout: 32 bytes that name the plan and its blocks.
      cell: bytes.
    """

    def __init__(self, layout: bytes, cell: Any) -> None:
        self._layout, self._cell = layout, cell

    def read(self) -> Progress:
        """What is stored; before anything was, the start."""
        data = self._cell.read()
        return Progress() if data is None else Progress.decode(data, self._layout)

    def write(self, progress: Progress) -> None:
        """Stores it."""
        self._cell.write(progress.encode(self._layout))


SPANS = (32, 1024)
"""Ticks of a turn of each bag but the last; each divides the next."""
BAGS = len(SPANS) + 1


def bag_of(tick: int, following: int) -> int:
    """Which bag a leaf whose first tick is ``tick`` waits in, where ``following`` is next."""
    for bag, span in enumerate(SPANS):
        if tick < (following // span + 1) * span:
            return bag
    return len(SPANS)


def bags_due(first: int, stop: int) -> int:
    """How many bags, nearest first, may hold what is due in [first, stop), or belong nearer then.

    Every other bag holds nothing before ``stop``, and all that ``bag_of`` would still put there.
    """
    return 1 + sum(first // span != stop // span for span in SPANS)
