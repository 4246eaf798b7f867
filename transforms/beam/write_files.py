"""The folder sink: collects aligned ranges of ticks and writes each once, whole and sorted."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam import coders
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import GlobalWindow, GlobalWindows
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from numpy.typing import NDArray

from weir.dpcore.errors import CodecError, in_words
from weir.transforms.beam.elements import stamped
from weir.transforms.beam.step import Step
from weir.transforms.release.table import releases_only, span_of
from weir.transforms.runtime import counters, fence
from weir.transforms.runtime import stored_counts as kept_counts
from weir.transforms.runtime.codec import batch_from_bytes, batch_to_bytes, pack, unpack
from weir.transforms.sinks import formats, place
from weir.transforms.sinks.ranges import Ranges
from weir.transforms.sinks.sorted_table import Sorted, sorted_table
from weir.transforms.sinks.targets import ReleaseFiles
from weir.transforms.sinks.writer import Guard, Writer

STEP_NAME = "WriteFolder"
PARTS_STATE = "parts"
SEEN_STATE = "seen"
DONE_STATE = "done"
END_TIMER = "end"
FORGET_TIMER = "forget"
# Runners find stored state by these names: they never change (tests hold them to a file).

TOGETHER = 1 << 26
"""Bytes that a bundle gathers before it sends them on (64 MB)."""

KIND, SEEN_KIND = b"P", b"S"
DAMAGED = "stored parts of a file of releases are damaged: go on from an earlier checkpoint."
_PART = struct.Struct("<qqqq")


class ToRange(Step):
    """Release batches -> (range and part, batches as bytes), those of a bundle together.

    A batch never crosses a range: Tick cuts strides there.
    """

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges
        self._fence = fence.current().inner
        self._held: dict[int, list[bytes]] = {}
        self._stamps: dict[int, Timestamp] = {}
        self._size = 0

    def setup(self) -> None:
        """Stands behind Tick in every worker, so here counts begin to be kept."""
        kept_counts.keep(self._fence)

    def teardown(self) -> None:
        """See setup."""
        kept_counts.flush(self._fence)

    def start_bundle(self) -> None:
        """Drops what an abandoned bundle left."""
        self._held, self._stamps, self._size = {}, {}, 0

    def process(
        self, batch: pa.RecordBatch, stamp: Any = beam.DoFn.TimestampParam
    ) -> Iterator[WindowedValue]:
        """Batches that only say "no key here" travel too: a file waits for every block."""
        block, first, ticks = span_of(releases_only(batch))
        file = self._ranges.file_of(block, first, ticks)
        data = batch_to_bytes(batch)
        self._stamps[file] = max(stamp, self._stamps.get(file, stamp))
        self._held.setdefault(file, []).append(_PART.pack(block, first, ticks, len(data)) + data)
        self._size += len(data)
        if self._size > TOGETHER:
            yield from self._flush()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Sends on what is left."""
        yield from self._flush()

    def _flush(self) -> Iterator[WindowedValue]:
        for file, parts in self._held.items():
            joined = np.frombuffer(b"".join(parts), dtype=np.uint8)
            element = file, pack(KIND, [joined])
            yield stamped(element, self._stamps[file])
        self._held, self._stamps, self._size = {}, {}, 0


def parts_of(payload: bytes) -> Iterator[tuple[int, int, int, memoryview]]:
    """(block, first tick, ticks, batch as bytes) of everything in an element.

    Raises:
      CodecError: it is damaged.
    """
    view, at = unpack(KIND, payload)[0].data, 0
    while at < len(view):
        if len(view) - at < _PART.size:
            raise CodecError(DAMAGED)
        block, first, ticks, size = _PART.unpack_from(view, at)
        at += _PART.size
        if not (0 <= block < 1 << 31 and 0 <= size <= len(view) - at):
            raise CodecError(DAMAGED)
        yield block, first, ticks, view[at : at + size]
        at += size


def batches_of(payloads: Sequence[bytes]) -> list[pa.RecordBatch]:
    """All batches of several elements."""
    return [batch_from_bytes(data) for payload in payloads for *_, data in parts_of(payload)]


@in_words
def seen_in(packed: bytes, shape: tuple[int, int]) -> NDArray[np.bool_]:
    """(blocks of the part, ticks of the range): what has come."""
    (cells,) = unpack(SEEN_KIND, packed)
    return np.unpackbits(cells, count=shape[0] * shape[1]).reshape(shape).astype(bool)


class RangeDoFn(Step):
    """(range and part, bytes) -> what was written; waits until every block gave every tick.

    Of a clock without end nothing is kept for ever: a range is forgotten once it is written and its
    time is over. A repeat that still came would gather again; its file is there, and stays.
    """

    PARTS = userstate.BagStateSpec(PARTS_STATE, coders.BytesCoder())
    SEEN = userstate.ReadModifyWriteStateSpec(SEEN_STATE, coders.BytesCoder())
    DONE = userstate.ReadModifyWriteStateSpec(DONE_STATE, coders.VarIntCoder())
    END = userstate.TimerSpec(END_TIMER, TimeDomain.WATERMARK)
    FORGET = userstate.TimerSpec(FORGET_TIMER, TimeDomain.WATERMARK)

    def __init__(self, ranges: Ranges, writer: Writer) -> None:
        self._ranges, self._writer = ranges, writer
        self._fence = fence.current().inner
        self._guard: Guard | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_guard": None}

    def setup(self) -> None:
        """Looks at the place as it was begun."""
        self._guard = Guard(self._writer, self._fence)

    def process(
        self,
        element: tuple[int, bytes],
        stamp: Any = beam.DoFn.TimestampParam,
        parts: Any = beam.DoFn.StateParam(PARTS),  # noqa: B008
        seen: Any = beam.DoFn.StateParam(SEEN),  # noqa: B008
        done: Any = beam.DoFn.StateParam(DONE),  # noqa: B008
        end: Any = beam.DoFn.TimerParam(END),  # noqa: B008
        forget: Any = beam.DoFn.TimerParam(FORGET),  # noqa: B008
    ) -> Iterator[tuple[int, int]]:
        """Keeps a part; writes when it was the last one that was missing."""
        file, payload = element
        index, writer = self._of(file)
        written = done.read()
        if written:
            ready = sorted_table(batches_of([payload]))
            last = self._ranges.first(index) + int(written) - 1
            self._alarm(writer.compare(self._ranges.first(index), last, ready))
            return
        covered = self._covered(file, seen.read())
        for block, first, ticks, _ in parts_of(payload):
            covered[self._ranges.cells(block, first, ticks)] = True
        parts.add(payload)
        if covered.all():
            yield self._write(file, list(parts.read()), covered)
            parts.clear()
            seen.clear()
            done.write(covered.shape[1])
            if self._ranges.total is None:
                end.clear()
                forget.set(stamp)
            return
        seen.write(pack(SEEN_KIND, [np.packbits(covered)]))
        if self._ranges.total is None:
            end.set(GlobalWindow().max_timestamp())

    @userstate.on_timer(END)
    def on_end(
        self,
        file: Any = beam.DoFn.KeyParam,
        parts: Any = beam.DoFn.StateParam(PARTS),  # noqa: B008
        seen: Any = beam.DoFn.StateParam(SEEN),  # noqa: B008
        done: Any = beam.DoFn.StateParam(DONE),  # noqa: B008
    ) -> Iterator[tuple[int, int]]:
        """A drain: writes the ticks that every block has released, under their own name."""
        held = list(parts.read())
        if done.read() or not held:
            return
        index, writer = self._of(file)
        covered = self._covered(file, seen.read())
        whole: NDArray[np.bool_] = np.all(covered, axis=0)
        ticks = int(np.argmin(whole)) if not whole.all() else len(whole)
        first = self._ranges.first(index)
        if ticks and not writer.is_written(first, first + self._ranges.size(index) - 1):
            yield self._write(file, held, covered[:, :ticks])
            done.write(ticks)
        parts.clear()

    @userstate.on_timer(FORGET)
    def on_forget(self, done: Any = beam.DoFn.StateParam(DONE)) -> None:  # noqa: B008
        """A range is written and over: nothing of it comes any more."""
        done.clear()

    def _of(self, file: int) -> tuple[int, Writer]:
        """The range of a file, and what writes its part."""
        index, part = divmod(file, self._ranges.parts)
        return index, self._writer.of(place.Part(part, self._ranges.parts))

    def _covered(self, file: int, packed: bytes | None) -> NDArray[np.bool_]:
        """(blocks of the part, ticks of the range): what has come."""
        shape = self._ranges.shape(file)
        if packed is None:
            return np.zeros(shape, dtype=bool)
        return seen_in(packed, shape)

    def _write(
        self, file: int, held: Sequence[bytes], covered: NDArray[np.bool_]
    ) -> tuple[int, int]:
        index, writer = self._of(file)
        first = self._ranges.first(index)
        last = first + covered.shape[1] - 1
        ready = sorted_table(batches_of(held))
        if last < first + self._ranges.size(index) - 1:
            ready = Sorted(formats.up_to(ready.table, last), ready.divergent)
        if self._guard is None:
            self.setup()
        assert self._guard is not None
        self._guard.check()
        self._alarm(ready.divergent + writer.write(first, last, ready))
        counters.add("files")
        return first, last

    def _alarm(self, rows: int) -> None:
        """Two releases of the same thing that differ: an operator must look."""
        counters.add("divergent", rows)


@beam.typehints.with_input_types(pa.RecordBatch)
@beam.typehints.with_output_types(tuple[int, int])
class WriteRanges(beam.PTransform[Any, Any]):
    """Release batches -> (first, last tick) of every file that was written.

    Args:
      target: which files there are, and what writes one.
    """

    def __init__(self, target: ReleaseFiles) -> None:
        super().__init__()
        self._ranges, self._writer = target

    def expand(self, releases: beam.PCollection[pa.RecordBatch]) -> Any:
        """Keyed by range of ticks and part of the blocks, in the global window."""
        return (
            releases
            | "Ranges/ToRange"
            >> beam.ParDo(ToRange(self._ranges)).with_output_types(tuple[int, bytes])
            | "Ranges/Global" >> beam.WindowInto(GlobalWindows())
            | "Ranges/Write"
            >> beam.ParDo(RangeDoFn(self._ranges, self._writer)).with_output_types(tuple[int, int])
        )
