"""Counts stored bytes of a part of a file: those that were read, and those that could not be."""

from __future__ import annotations

import math
from typing import BinaryIO, NamedTuple

from weir.transforms.runtime import counters

ALL = -1
"""End of a split that goes to the end of its file."""


class Split(NamedTuple):
    """A part of a file that one worker decodes.

    Attributes:
      path: of the file.
      start: first byte (text) or row group (Parquet).
      end: behind the last one; ALL goes to the end of the file.
      first: number of the first line, for text.
      size: bytes that this split stands for in the progress.
      version: of the file, where somebody noted it (see seal).
    """

    path: str
    start: int
    end: int
    first: int
    size: int
    version: str = ""


class LostBytes:
    """Counts stored bytes of a split that could not be read, and files of which nothing could.

    Attributes:
      fruitful: whether any event came out of it.
    """

    def __init__(self, split: Split) -> None:
        self.fruitful = False
        self._split = split
        self._share = 0.0

    def add(self, share: float) -> None:
        """Takes note of a share of the split."""
        self._share = min(1.0, self._share + share)

    def end(self) -> None:
        """Counts, rounded up: what is lost is never nothing."""
        if not self._share:
            return
        counters.add("lost_bytes", max(1, math.ceil(self._share * self._split.size)))
        whole = self._split.start == 0 and self._split.end == ALL
        if whole and self._share == 1.0 and not self.fruitful:
            counters.add("lost_files")


class ReadBytes:
    """Counts stored bytes of a split as they are read."""

    def __init__(self, raw: BinaryIO, split: Split) -> None:
        self._raw = raw
        self._counted = split.start
        self._end = split.start + split.size

    def tell(self) -> None:
        """Takes note of how far the file was read."""
        self._to(self._raw.tell())

    def end(self) -> None:
        """Takes note of its end."""
        self._to(self._end)

    def _to(self, at: int) -> None:
        counters.add("bytes", max(0, at - self._counted))
        self._counted = max(at, self._counted)


__all__ = ["ALL", "LostBytes", "ReadBytes", "Split"]
