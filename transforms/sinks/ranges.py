"""Which ticks and blocks a file of releases covers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from weir.dpcore.errors import WeirError


@dataclass(frozen=True)
class Ranges:
    """Which ticks a file covers, and which blocks it waits for.

    Attributes:
      every: ticks a file. total: ticks of the clock, None without end. blocks: the live ones.
      parts: files of a range, each of consecutive blocks; no more of them than blocks.
    """

    every: int
    total: int | None
    blocks: tuple[int, ...]
    parts: int = 1

    def of(self, tick: int) -> int:
        """The range that a tick lies in."""
        return tick // self.every

    def bounds(self, part: int) -> tuple[int, int]:
        """Places of the first block of a part, and behind the last."""
        n = len(self.blocks)
        return part * n // self.parts, (part + 1) * n // self.parts

    @cached_property
    def part_of(self) -> dict[int, int]:
        """Block -> part."""
        return {
            block: part
            for part in range(self.parts)
            for block in self.blocks[slice(*self.bounds(part))]
        }

    def first(self, index: int) -> int:
        """First tick of a range."""
        return index * self.every

    def size(self, index: int) -> int:
        """Ticks of a range; the last one of a clock that ends may be shorter."""
        left = self.every if self.total is None else self.total - self.first(index)
        return min(self.every, left)

    def file_of(self, block: int, first: int, ticks: int) -> int:
        """The file that releases of a block belong to: numbered by range, and in it by part.

        Raises:
          WeirError: they belong to two.
        """
        index = self.of(first)
        if self.of(first + ticks - 1) != index:
            raise WeirError(
                "a batch of releases crosses two files: sink.every differs from Tick's."
            )
        return index * self.parts + self.part_of[block]

    def shape(self, file: int) -> tuple[int, int]:
        """(blocks, ticks) of a file."""
        index, part = divmod(file, self.parts)
        low, high = self.bounds(part)
        return high - low, self.size(index)

    def cells(self, block: int, first: int, ticks: int) -> tuple[int, slice]:
        """Which of the cells of ``shape`` releases of a block are."""
        at = first - self.first(self.of(first))
        return self._row[block], slice(at, at + ticks)

    @cached_property
    def _row(self) -> dict[int, int]:
        """Block -> its place in its part."""
        return {
            block: row
            for part in range(self.parts)
            for row, block in enumerate(self.blocks[slice(*self.bounds(part))])
        }
