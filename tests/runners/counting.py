"""A small stateful pipeline that needs everything of a runner: source, keys, state and timers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from weir.transforms.beam.runner_quirks import keep_bundles_whole

COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())
END = TimerSpec("end", TimeDomain.WATERMARK)
COUNT_NOW = beam.DoFn.StateParam(COUNT)
END_LATER = beam.DoFn.TimerParam(END)


class Count(beam.DoFn):
    """Counts a key's elements and writes the count into a file at event time 100.

    Args:
      folder: of the file. seconds: that an element takes.
    """

    def __init__(self, folder: str, seconds: float = 0.0) -> None:
        self._folder, self._seconds = folder, seconds

    def process(
        self,
        element: tuple[str, int],
        count: Any = COUNT_NOW,
        end: Any = END_LATER,
    ) -> None:
        count.write((count.read() or 0) + 1)
        time.sleep(self._seconds)
        end.set(Timestamp(100))

    @on_timer(END)
    def finish(self, key: str = beam.DoFn.KeyParam, count: Any = COUNT_NOW) -> Iterator[int]:
        total = count.read()
        (Path(self._folder) / key).write_text(str(total))
        yield total


def count(options: Any, folder: Path, keys: int = 3, each: int = 50, seconds: float = 0.0) -> Any:
    """Runs it to its end and returns the result. ``seconds``: that an element takes."""
    pipeline = beam.Pipeline(options=options)
    keep_bundles_whole(pipeline)
    _ = (
        pipeline
        | beam.Create([(f"k{i % keys}", i) for i in range(keys * each)], reshuffle=False)
        | beam.Map(lambda pair: TimestampedValue(pair, Timestamp(pair[1] % 90))).with_output_types(
            tuple[str, int]
        )
        | beam.ParDo(Count(str(folder), seconds)).with_output_types(int)
    )
    result = pipeline.run()
    result.wait_until_finish()
    return result


def counted(folder: Path) -> dict[str, int]:
    """What was written."""
    return {path.name: int(path.read_text()) for path in folder.iterdir()}
