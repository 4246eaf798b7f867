"""The folder sink where every step is in one process: releases wait as they are.

Elsewhere they travel as bytes to the worker of their file, and wait in its state; see ``folder``.
Here a runner would copy all of them several times for nothing. Files are sorted and encoded in
threads, and put in place in the order in which they became whole, so that behind one that fails
nothing more is written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.utils.windowed_value import WindowedValue
from numpy.typing import NDArray

from weir.transforms.beam.elements import stamped
from weir.transforms.release.table import releases_only, span_of
from weir.transforms.runtime import counters, fence
from weir.transforms.runtime.aside import Aside
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


class Waiting:
    """Releases of files that are not whole yet, from bundle to bundle.

    Attributes:
      files: by number. whole: those that were.
    """

    def __init__(self) -> None:
        self.files: dict[int, _Open] = {}
        self.whole: set[int] = set()

    def add(self, file: int, batch: pa.RecordBatch, ranges: Ranges) -> list[pa.RecordBatch]:
        """Keeps a batch. Returns all of its file where it was the last one that was missing."""
        found = self.files.get(file)
        if found is None:
            found = self.files[file] = _Open(np.zeros(ranges.shape(file), dtype=bool))
        found.covered[ranges.cells(*span_of(batch))] = True
        found.batches.append(batch)
        if not found.covered.all():
            return []
        self.whole.add(file)
        return self.files.pop(file).batches


def waiting_of(run: str) -> Aside[Any, Waiting]:
    """What waits in a run of this process; as long as somebody holds it."""
    return Aside.of(run, Waiting)


class _Encoded(NamedTuple):
    content: bytes
    divergent: int


class _Begun(NamedTuple):
    file: int
    stamp: Any
    encoded: Future[_Encoded]


class WriteHere(beam.DoFn):
    """Release batches -> (first, last tick) of every file that was written.

    Args:
      ranges: of a clock with an end: every file becomes whole. writer: of all parts.
      run: name of what waits.
    """

    def __init__(self, ranges: Ranges, writer: Writer, run: str) -> None:
        self._ranges, self._writer, self._run = ranges, writer, run
        self._fence = fence.current().inner
        self._guard: Guard | None = None
        self._waiting: Aside[Any, Waiting] | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._begun: deque[_Begun] = deque()

    def __getstate__(self) -> dict[str, Any]:
        return {
            **self.__dict__,
            **{"_guard": None, "_waiting": None, "_pool": None, "_begun": deque()},
        }

    def setup(self) -> None:
        """Finds what waits in this process."""
        self._guard = Guard(self._writer, self._fence)
        self._waiting = waiting_of(self._run)
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="files")

    def teardown(self) -> None:
        """Leaves no thread."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def start_bundle(self) -> None:
        """Drops what an abandoned bundle left."""
        while self._begun:
            self._begun.popleft().encoded.cancel()

    def process(
        self, batch: pa.RecordBatch, stamp: Any = beam.DoFn.TimestampParam
    ) -> Iterator[WindowedValue]:
        """Keeps a batch; begins with its file when it was the last one that was missing."""
        assert self._waiting is not None and self._pool is not None
        waiting, span = self._waiting.shared, span_of(releases_only(batch))
        file = self._ranges.file_of(*span)
        if file in waiting.whole:
            yield from self._put(0)
            first, last = self._ticks(file)
            again = self._part(file).compare(first, last, sorted_table([batch]))
            counters.add("divergent", again)
            return
        batches = waiting.add(file, batch, self._ranges)
        if batches:
            encoded = self._pool.submit(_encoded, self._part(file), batches)
            self._begun.append(_Begun(file, stamp, encoded))
            yield from self._put(THREADS)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Waits for what was begun."""
        yield from self._put(0)

    def _put(self, left: int) -> Iterator[WindowedValue]:
        """Puts files in place, in order, until so many are left."""
        while len(self._begun) > left:
            begun = self._begun.popleft()
            encoded, (first, last) = begun.encoded.result(), self._ticks(begun.file)
            assert self._guard is not None
            self._guard.check()
            writer = self._part(begun.file)
            again = writer.put(first, last, encoded.content, encoded.divergent)
            counters.add("divergent", encoded.divergent + again)
            counters.add("files")
            yield stamped((first, last), begun.stamp)

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


__all__ = ["Waiting", "WriteHere", "waiting_of"]
