"""Elements of the global window, with their times."""

from __future__ import annotations

from typing import Any

from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue


def to_timestamp(micros: int) -> Timestamp:
    """Beam time of a clock time, rounded up to the milliseconds that runners keep."""
    return Timestamp(micros=-(-micros // 1000) * 1000)


def windowed(value: Any, micros: int) -> WindowedValue:
    """An element of the global window at an event time."""
    return stamped(value, Timestamp(micros=micros // 1000 * 1000))


def stamped(value: Any, stamp: Any) -> WindowedValue:
    """An element of the global window at a time of Beam's."""
    return WindowedValue(value, stamp, [GlobalWindow()])  # type: ignore[arg-type]  # list or tuple
