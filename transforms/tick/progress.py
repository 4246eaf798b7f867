"""How far a block is: a small cell with a checksum beside the large one.

Earlier builds kept its two numbers as plain integers in two cells; those are read once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weir.transforms.runtime.coders import pack, unpack

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
    def decode(cls, data: bytes, layout: bytes) -> Progress:
        """The inverse.

        Raises:
          CodecError: damaged, or of another plan.
        """
        following, announced = unpack(KIND, data, layout)[0].tolist()
        return cls(following, announced)


class ProgressCell:
    """The cell of one block, with the two of earlier builds.

    Args:
      layout: 32 bytes that name the plan and its blocks.
      cell: bytes. following, announced: integers, as earlier builds wrote them.
    """

    def __init__(self, layout: bytes, cell: Any, following: Any, announced: Any) -> None:
        self._layout, self._cell = layout, cell
        self._old = following, announced

    def read(self) -> Progress:
        """What is stored, by whichever build."""
        data = self._cell.read()
        if data is not None:
            return Progress.decode(data, self._layout)
        values = [cell.read() for cell in self._old]
        return Progress(
            *(
                default if value is None else int(value)
                for value, default in zip(values, Progress(), strict=True)
            )
        )

    def write(self, progress: Progress) -> None:
        """Stores it, as this build does."""
        if self._cell.read() is None:
            for cell in self._old:
                cell.clear()
        self._cell.write(progress.encode(self._layout))
