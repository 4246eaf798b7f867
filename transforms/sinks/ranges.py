"""Which ticks and blocks a file of releases covers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property


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
