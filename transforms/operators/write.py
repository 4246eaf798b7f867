"""Write: releases wait until their file is whole, and each file is written once.

Files are sorted and encoded in threads, and put in place in the order in which they became whole,
so that behind one that fails nothing more is written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weir.transforms.release.table import releases_only, span_of
from weir.transforms.runtime import counters
from weir.transforms.runtime.fence import Fence
from weir.transforms.runtime.prefetch import THREADS
from weir.transforms.sinks import place
from weir.transforms.sinks.ranges import Ranges
from weir.transforms.sinks.sorted_table import sorted_table
from weir.transforms.sinks.writer import Guard, Writer


@dataclass
class _Open:
    """A file that is not whole yet."""

    covered: NDArray[np.bool_]
    batches: list[pa.RecordBatch] = field(default_factory=list)


class _Encoded(NamedTuple):
    content: bytes
    divergent: int


class _Begun(NamedTuple):
    file: int
    encoded: Future[_Encoded]


class Write:
    """Release batches -> (first, last tick) of every file that was written.

    Args:
      ranges: of a clock with an end: every file becomes whole. writer: of all parts.
      around: the job's fence.
    """

    def __init__(self, ranges: Ranges, writer: Writer, around: Fence) -> None:
        self._ranges, self._writer = ranges, writer
        self._guard = Guard(writer, around)
        self._open: dict[int, _Open] = {}
        self._whole: set[int] = set()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="files")
        self._begun: deque[_Begun] = deque()

    def process(self, batch: pa.RecordBatch) -> Iterator[tuple[int, int]]:
        """Keeps a batch; begins with its file when it was the last one that was missing."""
        span = span_of(releases_only(batch))
        file = self._ranges.file_of(*span)
        if file in self._whole:
            yield from self._put(0)
            first, last = self._ticks(file)
            again = self._part(file).compare(first, last, sorted_table([batch]))
            counters.add("divergent", again)
            return
        waiting = self._open.get(file)
        if waiting is None:
            waiting = self._open[file] = _Open(np.zeros(self._ranges.shape(file), dtype=bool))
        waiting.covered[self._ranges.cells(*span)] = True
        waiting.batches.append(batch)
        if waiting.covered.all():
            self._whole.add(file)
            batches = self._open.pop(file).batches
            encoded = self._pool.submit(_encoded, self._part(file), batches)
            self._begun.append(_Begun(file, encoded))
            yield from self._put(THREADS)

    def finish(self) -> Iterator[tuple[int, int]]:
        """Waits for what was begun."""
        yield from self._put(0)

    def close(self) -> None:
        """Leaves no thread."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _put(self, left: int) -> Iterator[tuple[int, int]]:
        """Puts files in place, in order, until so many are left."""
        while len(self._begun) > left:
            begun = self._begun.popleft()
            encoded, (first, last) = begun.encoded.result(), self._ticks(begun.file)
            self._guard.check()
            writer = self._part(begun.file)
            again = writer.put(first, last, encoded.content, encoded.divergent)
            counters.add("divergent", encoded.divergent + again)
            counters.add("files")
            yield first, last

    def _part(self, file: int) -> Writer:
        """What writes a file's part of the blocks."""
        return self._writer.of(place.Part(file % self._ranges.parts, self._ranges.parts))

    def _ticks(self, file: int) -> tuple[int, int]:
        """First and last tick of a file."""
        index = file // self._ranges.parts
        first = self._ranges.first(index)
        return first, first + self._ranges.size(index) - 1


def _encoded(writer: Writer, batches: list[pa.RecordBatch]) -> _Encoded:
    ready = sorted_table(batches)
    batches.clear()  # nobody else needs them
    return _Encoded(writer.encode(ready.table), ready.divergent)


__all__ = ["Write"]
