"""A disk that is full: no half file, no litter, and the same bits once there is room again.

A limit on the size of files stands for the full disk: it needs no rights, and a write fails in the
same place.
"""

from __future__ import annotations

import contextlib
import resource
from pathlib import Path

from tests.runners.besieged import besieged
from tests.runners.jobs import Job, check, differences
from tests.runners.kills import eventually, python_workers
from tests.runners.recording import Recording
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.servers import PubSubServer

ROOM = 4096
"""Bytes of a file that still fit; a file of releases is larger."""


def limit(process: int, room: int) -> None:
    """Lets a process, and what it starts, write files of so many bytes."""
    _, hard = resource.prlimit(process, resource.RLIMIT_FSIZE)
    resource.prlimit(process, resource.RLIMIT_FSIZE, (room, hard))


def test_a_run_over_files_fails_in_words_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    recording = Recording("sums")
    source = f"{{ndjson: '{recording.write(tmp_path / 'in')}'}}"
    job = Job(tmp_path, recording, source)
    with job.start("direct") as running:
        running.until(lambda: (job.out / "_plan.json").exists())
        limit(running.process.pid, ROOM)
        assert running.wait() == 1
    assert "Write" in running.text and "store-" not in running.text and len(running.text) < 1000
    names = sorted(path.name for path in job.out.iterdir())
    assert names == ["_held", "_marks.json", "_plan.json"]
    assert not list((job.out / "_held").iterdir())
    check(job.run("direct"), recording)


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
