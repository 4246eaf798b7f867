"""Elements of the global window, with their times; and outputs of steps that reject records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from weir.transforms.decode.canonical import Decoded
from weir.transforms.decode.counted import counted
from weir.transforms.runtime.dead_letters import DEAD


def to_timestamp(micros: int) -> Timestamp:
    """Beam time of a clock time, rounded up to the milliseconds that runners keep."""
    return Timestamp(micros=-(-micros // 1000) * 1000)


def windowed(value: Any, micros: int) -> WindowedValue:
    """An element of the global window at an event time."""
    return stamped(value, Timestamp(micros=micros // 1000 * 1000))


def stamped(value: Any, stamp: Any) -> WindowedValue:
    """An element of the global window at a time of Beam's."""
    return WindowedValue(value, stamp, [GlobalWindow()])  # type: ignore[arg-type]  # list or tuple


def emit(decoded: Iterable[Decoded]) -> Iterator[Any]:
    """Decoded batches as outputs of a DoFn, counted; dead letters tagged "dead"."""
    rejected: list[pa.RecordBatch] = []
    for batch in counted(decoded, rejected.append):
        yield from tagged(rejected)
        yield batch
    yield from tagged(rejected)


def tagged(rejected: list[pa.RecordBatch]) -> Iterator[TaggedOutput[str, Any]]:
    """Dead letters as outputs of a DoFn; the list is empty afterwards."""
    while rejected:
        yield TaggedOutput(DEAD, rejected.pop(0))


class SourceOutput(NamedTuple):
    """PCollections of canonical batches and of dead letters."""

    events: Any
    dead: Any


def decoded_by(elements: Any, label: str, decode: beam.DoFn) -> SourceOutput:
    """Returns what a DoFn that decodes, and ends in ``emit``, makes of a collection."""
    result = elements | label >> beam.ParDo(decode).with_output_types(
        pa.RecordBatch, dead=pa.RecordBatch
    ).with_outputs(DEAD, main="events")
    return SourceOutput(result.events, result[DEAD])
