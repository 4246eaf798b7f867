"""A splittable DoFn that asks for short waits, and what a runner made of them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import TimerSpec, on_timer
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

WAIT = 0.3
"""Seconds between two looks."""
STEP = 0.2
"""Seconds that the watermark moves on at a look, for the first looks."""
STEPS = 4
DUE = 0.5
"""Event time at which a timer is due: in the middle of the second that the watermark stays in."""
NAME = re.compile(rb"sdf_checkpoint:\d+:\d+")
"""Under which Flink's runner keeps the rest of a look: the state's name, and its timer's."""


class Looks(RestrictionProvider):
    """A restriction is the looks that are still to be taken."""

    def initial_restriction(self, element: str) -> OffsetRange:
        """element: a name, a dot, and how many."""
        return OffsetRange(0, int(element.partition(".")[2]))

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: str, restriction: OffsetRange) -> int:
        return int(restriction.size())


_TRACKER = beam.DoFn.RestrictionParam(Looks())
_WATERMARK = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())


class Look(beam.DoFn):
    """Writes the moment of each look into the file of its element, and waits for the next."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @beam.DoFn.unbounded_per_element()
    def process(
        self, element: str, tracker: Any = _TRACKER, watermark: Any = _WATERMARK
    ) -> Iterator[TimestampedValue[tuple[str, int]]]:
        look = tracker.current_restriction().start
        if not tracker.try_claim(look):
            return
        with (Path(self._folder) / element).open("a") as file:
            file.write(f"{look} {time.time()}\n")
        if look == 0:
            yield TimestampedValue((element, look), Timestamp(0))
        watermark.set_watermark(Timestamp.of(STEP * min(look, STEPS)))
        tracker.defer_remainder(Duration.of(WAIT))


_DUE = TimerSpec("due", TimeDomain.WATERMARK)
_ALARM = beam.DoFn.TimerParam(_DUE)


class Alarm(beam.DoFn):
    """Sets a timer at the first look, and writes when it fired."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(self, element: tuple[str, int], due: Any = _ALARM) -> None:
        due.set(Timestamp.of(DUE))

    @on_timer(_DUE)
    def fire(self, key: str = beam.DoFn.KeyParam) -> None:
        with (Path(self._folder) / "fired").open("a") as file:
            file.write(f"{key} {time.time()}\n")


def look(options: Any, folder: Path, elements: list[str]) -> Any:
    """Starts it; its looks end, the job need not."""
    pipeline = beam.Pipeline(options=options)
    _ = (
        pipeline
        | beam.Create(elements, reshuffle=False)
        | beam.ParDo(Look(str(folder))).with_output_types(tuple[str, int])
        | beam.ParDo(Alarm(str(folder)))
    )
    return pipeline.run()


def taken(folder: Path, element: str) -> list[tuple[int, float]]:
    """(number, wall time) of the looks of an element."""
    file = folder / element
    lines = file.read_text().split("\n")[:-1] if file.exists() else []
    return [(int(number), float(at)) for number, _, at in (line.partition(" ") for line in lines)]


def names_in(checkpoint: Path) -> set[bytes]:
    """Under which names residuals are kept in a checkpoint or savepoint."""
    files = [path for path in checkpoint.rglob("*") if path.is_file()]
    return {name for path in files for name in NAME.findall(path.read_bytes())}
