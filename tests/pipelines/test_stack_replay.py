"""A recording is replayed in order of arrival, from its first tick on, with room for its pace."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest

from examples.stack.replay import Replay
from examples.stack.view import curve
from weir.dpcore.config import durations
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import JobConfig, loads
from weir.pipelines.feed.feed import read_batches

CONFIG = """
name: replayed
schema: {time: at, id: id}
clock: {start: 2020-01-01T00:00:00Z, period: 1m, delay: 10s}
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: 1h}
aggregates: {events: {count: events, over: [1]}}
"""
LINES = [
    ("b", "2020-01-01T01:02:40Z"),
    ("c", "2020-01-01T05:00:00Z"),
    ("a", "2020-01-01T01:02:30Z"),
]


@pytest.fixture
def job() -> JobConfig:
    return loads(CONFIG)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "events.csv"
    path.write_text("id,at\n" + "".join(f"{name},{at}\n" for name, at in LINES))
    return path


def test_events_come_in_order_of_time(job: JobConfig, recording: Path, tmp_path: Path) -> None:
    made = Replay(recording, 24).prepare(job, tmp_path)
    table = pa.Table.from_batches(read_batches(made.file, job))
    assert table["id"].to_pylist() == ["a", "b", "c"]


def test_it_begins_at_the_first_events_tick_a_little_ahead(
    job: JobConfig, recording: Path, tmp_path: Path
) -> None:
    made = Replay(recording, 24).prepare(job, tmp_path)
    assert made.origin == durations.timestamp("2020-01-01T01:02:00Z")
    assert 30e6 < made.started - time.time() * 1e6 < 60e6
    assert "origin: '2020-01-01T01:02:00Z'" in made.source and "speed: 24" in made.source


@pytest.mark.parametrize(("speed", "delay"), [(1, "10s"), (24, "48s"), (3600, "2h")])
def test_a_faster_replay_has_more_delay(
    speed: float, delay: str, job: JobConfig, recording: Path, tmp_path: Path
) -> None:
    assert Replay(recording, speed).prepare(job, tmp_path).settings == {"clock.delay": delay}


@pytest.mark.parametrize("speed", [0, -1, float("inf"), float("nan")])
def test_a_speed_that_is_none_is_refused(speed: float, recording: Path) -> None:
    with pytest.raises(ConfigError, match="--speed"):
        Replay(recording, speed)


def test_an_empty_recording_is_refused(job: JobConfig, tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_text("id,at\n")
    with pytest.raises(ConfigError, match="holds no event"):
        Replay(path, 24).prepare(job, tmp_path)


def test_a_curve_goes_from_least_to_largest() -> None:
    assert curve([0.0, 7.0, float("nan"), 3.0]) == "▁█ ▄"
    assert curve([5.0, 5.0]) == "▁▁"
    assert curve([float("nan")]) == ""
