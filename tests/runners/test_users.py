"""Users as the unit, on real engines: what caps let through is released with its tick, always.

Cap closes ticks by timers, and Tick behind it must wait for them on every runner: nothing that was
in time may be overdue, and the bits are those of ``simulate``, whatever dies in between.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runners.besieged import HOUR_A_SECOND, behind
from tests.runners.jobs import Job, Outcome, differences
from tests.runners.messages import Pace, Post, Publisher, over_messages
from tests.runners.recording import Recording
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.servers import PubSubServer

LINES = 20
FEW = "deduplicate: {shards: 4}\n"
"""Shards: so many more would be stepped by one worker, one after the other."""


@pytest.fixture
def post(pubsub_server: PubSubServer, request: pytest.FixtureRequest) -> Iterator[Post]:
    """A topic and a subscription of this test alone."""
    with Post(pubsub_server.host, "users-" + request.node.originalname.replace("_", "-")) as made:
        yield made


def holds(outcome: Outcome, recording: Recording) -> None:
    """The bits of simulate; caps have bitten, and nothing was overdue."""
    assert not differences(outcome.cells, recording.releases)
    counts, expected = outcome.counters, recording.counters
    assert not {"overdue", "divergent"} & counts.keys()
    for name in ("events", "no_user", "late", "malformed", "unknown_key"):
        assert counts.get(name) == expected.get(name), name
    assert counts["capped_ticks"] > 50 and counts["capped_keys"] > 50
    assert counts["capped_spacing"] > 50 and counts["capped_ticks_per_key"] > 0


def test_the_recording_has_users_that_caps_bite() -> None:
    recording = Recording("users")
    assert recording.plan.person is not None and recording.counters["no_user"] > 50


@pytest.mark.parametrize("program", ["users", "active"])
def test_direct(tmp_path: Path, program: str) -> None:
    recording = Recording(program)
    job = Job(tmp_path, recording, f"{{ndjson: '{recording.write(tmp_path / 'in')}'}}")
    holds(job.run("direct"), recording)


def test_private_keys_are_found_in_several_periods_and_most_are_not() -> None:
    recording = Recording("private")
    births = {
        key: min(t for t, k, *_ in recording.releases if k == key) for key in found_in(recording)
    }
    assert 3 <= len(births) < 20 and len(set(births.values())) > 2
    assert recording.plan.discovery is not None and recording.plan.discovery.hidden


def found_in(recording: Recording) -> set[str]:
    return {key for _, key, *_ in recording.releases}


def test_direct_with_private_keys(tmp_path: Path) -> None:
    recording = Recording("private")
    job = Job(tmp_path, recording, f"{{ndjson: '{recording.write(tmp_path / 'in')}'}}")
    holds(job.run("direct"), recording)


@pytest.mark.parametrize("program", ["users", "active"])
def test_prism(prism_location: Any, post: Post, tmp_path: Path, program: str) -> None:
    recording = Recording(program)
    post.publish(data for data, _ in recording.messages(LINES, shuffled=True))
    job = over_messages(tmp_path, recording, post, Pace.soon(), extra=FEW)
    holds(job.run("prism"), recording)


@pytest.mark.parametrize("program", ["users", "active"])
def test_embedded_flink(job_server_jar: Any, post: Post, tmp_path: Path, program: str) -> None:
    recording = Recording(program)
    pace = Pace.soon(12)
    job = over_messages(tmp_path, recording, post, pace, extra=FEW)
    publisher = Publisher(post, recording, pace, LINES)
    publisher.start()
    outcome = job.run("flink", "--parallelism=2")
    publisher.finish()
    holds(outcome, recording)


def test_a_stream_over_all_shards_is_stopped_goes_on_and_is_drained_in_between(
    flink_cluster: FlinkCluster, post: Post, tmp_path: Path
) -> None:
    """A drain fires the timers of all 256 shards of Cap, and of Tick behind them, far before their
    time: it must end, with the bits of every tick until the last that was announced."""
    recording = Recording("users", ticks=240)
    speed = HOUR_A_SECOND / 8  # so many shards take a while to step
    with behind(flink_cluster, post, recording, tmp_path, 2, speed) as siege:
        job = siege.job
        siege.client.until(lambda: len(list(job.out.glob("ticks-*"))) >= 2)
        siege.client.process.send_signal(signal.SIGINT)
        siege.client.wait()
        flink_cluster.rest.wait_for(siege.id, "FINISHED", "CANCELED")
        before = job.cells()
        siege.go_on()
        siege.client.until(lambda: len(job.cells()) > len(before))
        flink_cluster.rest.stop(siege.id, drain=True, seconds=600)
        flink_cluster.rest.wait_for(siege.id, "FINISHED")
        left = siege.pace.wall_of_tick(recording.ticks) - time.time()
    assert left > 120, "timers were waited for"
    found = job.cells()
    assert before.items() <= found.items()
    last = max(cell[0] for cell in found)
    assert max(cell[0] for cell in before) < last < recording.ticks - 1
    expected = {cell: value for cell, value in recording.releases.items() if cell[0] <= last}
    assert not differences(found, expected)
    assert "overdue" not in {letter["reason"] for letter in job.letters()}
