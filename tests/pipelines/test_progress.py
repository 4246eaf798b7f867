"""The line of progress."""

from __future__ import annotations

import io
import json
import time
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from weir.pipelines.cli.base import discreet
from weir.pipelines.run import progress
from weir.pipelines.run.progress import Progress, Total, fraction, line
from weir.pipelines.run.watch import Watch


def test_nothing_is_known_at_first() -> None:
    assert fraction({}, Total()) is None
    assert line({}, Total(), 0.1) == "0 events read, 1 s so far"


def test_reading_and_stepping_count_alike() -> None:
    total = Total(rows=100, ticks=10, blocks=2)
    assert fraction({"events": 50}, total) == 0.25
    assert fraction({"events": 90, "malformed": 10}, total) == 0.5
    assert fraction({"events": 100, "ticks_released": 10}, total) == 0.75
    assert fraction({"events": 100, "ticks_released": 20}, total) == 1.0


def test_bytes_stand_in_for_rows() -> None:
    assert fraction({"bytes": 25}, Total(size=100)) == 0.25


def test_a_stream_without_end_has_no_time_left() -> None:
    text = line({"events": 5000, "ticks_released": 12}, Total(blocks=4), 10.0)
    assert text == "5,000 events read, 500/s, 3 ticks released, 10 s so far"


def test_time_left() -> None:
    text = line({"events": 50}, Total(rows=100, ticks=10), 10.0)
    assert text == "50 events read, 5/s, 0 of 10 ticks released, about 30 s left"
    text = line({"events": 100, "ticks_released": 10}, Total(rows=100, ticks=10), 10.0)
    assert text.endswith("writing")


def test_it_is_quiet_where_no_terminal_is() -> None:
    out = io.StringIO()
    with Progress(Console(file=out), lambda: {"events": 1}, Total, interval=0.01):
        time.sleep(0.05)
    assert out.getvalue() == ""


def test_it_shows_on_a_terminal_and_goes_away() -> None:
    out = io.StringIO()
    screen = Console(file=out, force_terminal=True, width=100)
    with Progress(screen, lambda: {"events": 1234}, Total, interval=0.01):
        time.sleep(0.2)
    assert "1,234 events read" in out.getvalue()


class Job:
    """A job on a cluster: its counts are in its metrics."""

    asked = 0

    def metrics(self) -> Job:
        self.asked += 1
        return self

    def query(self) -> dict[str, list[Any]]:
        def entry(namespace: str, name: str, value: int) -> Any:
            metric = SimpleNamespace(namespace=namespace, name=name)
            return SimpleNamespace(
                key=SimpleNamespace(metric=metric), committed=None, attempted=value
            )

        return {
            "counters": [
                entry("weir", "events", 5),
                entry("weir", "events", 7),
                entry("beam", "events", 99),
            ]
        }


def test_a_cluster_is_asked_for_its_metrics_now_and_then() -> None:
    job, here = Job(), dict[str, int]()
    watch = Watch(lambda: here, every=60)
    assert watch() == {}
    watch.follow(job)
    assert [watch(), watch()] == [{"events": 12}, {"events": 12}]
    assert job.asked == 1
    here["events"] = 3
    assert watch() == {"events": 3}


def test_without_a_terminal_progress_goes_to_the_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "LOGGED", 0.01)
    counts = {"events": 7}
    with discreet(form="json"), progress.Progress(Console(), lambda: counts, Total):
        time.sleep(0.2)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert lines and lines[0]["operator"] == counts
    assert "7 events read" in lines[0]["message"]
