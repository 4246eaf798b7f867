"""Streams on Flink through a server out of reach, and a full disk. Started by ``make chaos``."""

from __future__ import annotations

import contextlib
import resource
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.runners.besieged import besieged
from tests.runners.jobs import differences
from tests.runners.kills import eventually, python_workers
from tests.runners.messages import Pace, Post, Publisher, over_messages
from tests.runners.recording import Recording
from tests.runners.test_full_disk import ROOM, limit
from tests.runners.test_streams import LINES
from tests.runners.wire import Wire
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.servers import PubSubServer

BROKEN = ("malformed", "missing_time")
"""Why a line is no event."""


def test_the_server_is_out_of_reach_for_30_s_and_comes_back(
    job_server_jar: Any, pubsub_server: PubSubServer, tmp_path: Path
) -> None:
    with Post(pubsub_server.host, "out-of-reach") as post:
        recording = Recording("sums")
        pace = Pace.soon(12, 3600)
        job = over_messages(tmp_path, recording, post, pace, every=1)
        publisher = Publisher(post, recording, pace, LINES)
        publisher.start()
        with (
            Wire(pubsub_server.host) as wire,
            job.start("flink", env={"PUBSUB_EMULATOR_HOST": wire.host}) as running,
        ):
            running.until(lambda: len(list(job.out.glob("ticks-*"))) >= 3)
            wire.cut()
            time.sleep(30)
            assert pubsub_server.counts(post.topic)["unacked"] > 0
            wire.mend()
            outcome = running.finish()
        publisher.finish()
        assert not differences(outcome.cells, recording.releases)
        found, expected = Counter(outcome.counters), Counter(recording.counters)
        assert not expected - found
        again = found - expected
        assert again.pop("source_errors") > 0
        # What could not be acknowledged in time came a second time, and no further than its ids.
        assert not again.keys() & {"clipped", "non_finite", "out_of_range", "overdue", "divergent"}
        counts = pubsub_server.counts(post.topic)
        lines = again["events"] + sum(again[reason] for reason in BROKEN)
        assert lines <= LINES * (counts["deliveries"] - counts["messages"])


def test_a_stream_waits_for_room_and_goes_on(
    flink_cluster: FlinkCluster, pubsub_server: PubSubServer, tmp_path: Path
) -> None:
    recording = Recording("sums")
    with besieged(flink_cluster, pubsub_server.host, recording, tmp_path, 4) as (siege, post):
        job = siege.job
        post.publish(data for data, _ in recording.messages(20, shuffled=True))
        siege.client.until(lambda: len(list(job.out.glob("ticks-*"))) >= 2)
        managers = [process.pid for process in flink_cluster.taskmanagers.values()]
        workers = [worker for manager in managers for worker in python_workers(manager)]
        for worker in workers:
            limit(worker, ROOM)
        path = f"/jobs/{siege.id}/metrics?get=numRestarts"
        eventually(lambda: int(flink_cluster.rest.get(path)[0]["value"]) >= 1, 180, "a restart")
        for worker in workers:
            with contextlib.suppress(ProcessLookupError):  # Flink may have replaced it
                limit(worker, resource.RLIM_INFINITY)
        outcome = siege.finish()
    assert not differences(outcome.cells, recording.releases)
    assert not list(job.out.glob(".*.part"))
    assert not {"overdue", "divergent"} & outcome.counters.keys()
