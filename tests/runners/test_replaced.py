"""One stream through the hands of many jobs: other numbers of workers, jobs that replace each
other, and one that may not go on. The same bits as if there had been one."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tests.runners.besieged import HOUR_A_SECOND
from tests.runners.jobs import Job, Running, differences_until, last_tick, on
from tests.runners.kills import eventually
from tests.runners.messages import Pace, Post, Publisher, over_messages
from tests.runners.recording import Recording
from weir.dpcore.errors import ConfigError
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.processes import EngineFailed
from weir.pipelines.engines.servers import PubSubServer
from weir.pipelines.runners.state_folder import METADATA, StateFolder
from weir.transforms.runtime.acked import FOLDER


@contextmanager
def third_worker(cluster: FlinkCluster) -> Iterator[None]:
    """One more TaskManager."""
    cluster.start_taskmanager(2)
    try:
        yield
    finally:
        cluster.taskmanagers.pop(2).stop(0.0)


def stop(client: Running) -> None:
    """Stops with a savepoint, as an operator does."""
    client.process.send_signal(signal.SIGTERM)
    assert client.wait() == 0, client.account


def live(cluster: FlinkCluster) -> list[tuple[str, int]]:
    """Jobs that have a checkpoint, each with its workers."""
    found = []
    with contextlib.suppress(EngineFailed):  # a job that is being submitted has no checkpoints yet
        for entry in cluster.rest.jobs(live=True):
            job = str(entry["jid"])
            if cluster.rest.checkpoints(job)["counts"]["completed"]:
                vertices = cluster.rest.get(f"/jobs/{job}")["vertices"]
                found.append((job, max(int(vertex["parallelism"]) for vertex in vertices)))
    return found


def detached(job: Job, cluster: FlinkCluster, *flags: str) -> str:
    """Starts a job, waits for ``weir run`` and returns the job's id."""
    with job.start("flink", f"--flink-master={cluster.master}", "--detach", *flags) as client:
        assert client.wait() == 0, client.account
    ((found, _),) = live(cluster)
    return found


def refused(job: Job, cluster: FlinkCluster, code: int, *flags: str) -> str:
    """What a run says that must not start."""
    with job.start("flink", f"--flink-master={cluster.master}", *flags) as client:
        assert client.wait() == code, client.account
        return client.text


def test_many_jobs_one_after_the_other_release_what_one_would_have(
    flink_cluster: FlinkCluster, pubsub_server: PubSubServer, tmp_path: Path
) -> None:
    recording = Recording("sums", ticks=600, events=40_000)
    pace = Pace.soon(5, HOUR_A_SECOND)
    with Post(pubsub_server.host, "replaced") as post, third_worker(flink_cluster):
        # Of what was acknowledged one knows while a checkpoint before it is one of three retained.
        often = "engine: {checkpoint_every: 2s}\n"
        job = over_messages(tmp_path, recording, post, pace, ", readers: 3", every=1, extra=often)
        state = StateFolder(str(tmp_path / ".weir" / "rehearsal"))
        publisher = Publisher(post, recording, pace, 80)
        publisher.start()

        with job.start("flink", *on(flink_cluster)) as client:
            client.until(lambda: last_tick(job) >= 1)
            stop(client)
        savepoint = state.latest()
        assert savepoint is not None and "savepoint" in savepoint

        one = detached(job, flink_cluster, "--resume", "--parallelism=1")
        assert live(flink_cluster) == [(one, 1)]
        eventually(lambda: acknowledged_since(state, savepoint), 90, "an acknowledgement")
        assert "was acknowledged" in refused(job, flink_cluster, 2, "--resume", savepoint)
        eventually(lambda: live(flink_cluster) == [(one, 1)], 30, "one job, the same")

        three = detached(job, flink_cluster, "--resume", "--parallelism=3")
        assert live(flink_cluster) == [(three, 3)]
        assert flink_cluster.rest.state(one) == "CANCELED"
        taken = last_tick(job)

        flags = "--resume", "--parallelism=2", f"--flink-master={flink_cluster.master}"
        with job.start("flink", *flags) as client:
            client.until(lambda: [count for _, count in live(flink_cluster)] == [2])
            client.until(lambda: last_tick(job) > taken + 10)
            stop(client)
            counted = json.loads(client.told)["operator"]
        publisher.stop()

        broken = copy_of(job, state)
        assert "lacks messages" in refused(broken, flink_cluster, 1, "--resume", "--detach")
    last, found = last_tick(job), job.cells()
    assert last > taken + 10, "those of every job"
    assert not differences_until(last, found, recording.releases)
    assert not {"overdue", "divergent"} & counted.keys()
    arrived = sum(row["seen"] <= pace.start_of_tick(last) for row in recording.rows)
    assert counted["events"] >= arrived, "those of all jobs"


def acknowledged_since(state: StateFolder, savepoint: str) -> bool:
    """Whether messages were acknowledged when there was a newer checkpoint than a savepoint."""
    last = state.acknowledged()
    try:
        state.refuse_outdated(savepoint, savepoint)
    except ConfigError:
        return last is not None
    return False


def copy_of(job: Job, state: StateFolder) -> Job:
    """The job on a copy of its state whose newest checkpoint is cut in half, and which knows that
    messages have been acknowledged since the one before it; into another folder."""
    place = job.folder / "broken"
    shutil.copytree(state.path, place)
    newest = StateFolder(str(place)).latest()
    assert newest is not None
    file = Path(newest.removeprefix("file://")) / METADATA
    content, at = file.read_bytes(), file.stat().st_mtime
    file.write_bytes(content[: len(content) // 2])
    os.utime(file, (at, at))
    for note in (place / FOLDER).iterdir():
        now = datetime.now(UTC).isoformat()
        note.write_text(json.dumps({**json.loads(note.read_text()), "at": now}))
    extra = f"engine: {{checkpoint_every: 1s, checkpoints: {place}}}\n"
    return replace(job, name="broken-out", extra=extra)
