"""A stream on a Flink cluster, and kill -9 of each of its parts."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.runners.jobs import Job, Outcome, Running, on
from tests.runners.messages import Pace
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.processes import EngineFailed
from weir.pipelines.runners.ending import is_over

WORKER = b"weir.pipelines.engines.worker"
SETTLES = 180.0
"""Seconds in which a job must have a new checkpoint after whatever was done to it."""


def parents() -> dict[int, int]:
    """Process -> its parent, of all processes of this machine."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
            except OSError:
                continue
            found[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    return found


def below(process: int) -> Iterator[int]:
    """All processes that a process started, and those that they started."""
    tree = parents()
    found = {process}
    grown = True
    while grown:
        more = {child for child, parent in tree.items() if parent in found} - found
        found |= more
        grown = bool(more)
    yield from sorted(found - {process})


def python_workers(process: int) -> list[int]:
    """Workers that run Python for a TaskManager."""
    found = []
    for child in below(process):
        try:
            words = (Path("/proc") / str(child) / "cmdline").read_bytes()
        except OSError:
            continue
        if WORKER in words and b"/sh" not in words.split(b"\0")[0]:
            found.append(child)
    return found


def eventually(done: Callable[[], Any], deadline: float, what: str) -> Any:
    """Waits until ``done`` says something true, and returns that."""
    end = time.monotonic() + deadline
    while True:
        found = done()
        if found:
            return found
        assert time.monotonic() < end, f"{what}: not after {deadline:.0f} s"
        time.sleep(0.1)


class Lead:
    """Seconds from ``weir run`` to the start of the clock, by which the job must be there.

    As long as the last job of this process took to be there, and half as long again. The first one
    may take a minute: one that comes too late costs a second start.
    """

    MARGIN = 5.0
    seconds = 60.0

    @classmethod
    def learn(cls, took: float) -> None:
        """A job was there after so many seconds."""
        cls.seconds = min(max(1.5 * took + cls.MARGIN, 25.0), 240.0)


@dataclass
class Siege:
    """A job on a cluster whose parts are killed. A context manager; it leaves no process behind.

    Attributes:
      job: what runs. cluster: where. pace: of the stream. flags, environment: for ``weir run``.
    """

    job: Job
    cluster: FlinkCluster
    pace: Pace
    flags: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    client: Running = field(init=False)
    _id: str = ""

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.client.kill()
        if self._id in self._live():  # after a failure: its slots are the next test's
            self.cluster.rest.cancel(self._id)

    def _start(self, *more: str) -> None:
        before = {entry["jid"] for entry in self.cluster.rest.jobs()}
        flags = (*on(self.cluster), *self.flags, *more)
        self.client = self.job.start("flink", *flags, env=self.environment)

        def submitted() -> str | None:
            fresh = [one for one in self._live() if one not in before]
            return fresh[0] if fresh else None

        try:
            self._id = self.client.until(submitted)
        except BaseException:
            self.client.kill()
            raise

    def _live(self) -> list[str]:
        try:
            return [str(entry["jid"]) for entry in self.cluster.rest.jobs(live=True)]
        except EngineFailed:
            return []

    @property
    def id(self) -> str:
        """Flink's id of the job that runs now."""
        return self._id

    def checkpoints(self) -> int:
        """Completed ones of the job that runs now."""
        try:
            return int(self.cluster.rest.checkpoints(self._id)["counts"]["completed"])
        except EngineFailed:
            return 0

    @property
    def ahead(self) -> float:
        """Seconds until the clock starts, if it has not."""
        return max(0.0, self.pace.started - time.time())

    def settle(self, checkpoints: int = 1) -> None:
        """Waits for so many new checkpoints: the job runs, and what it did is safe."""
        wanted = self.checkpoints() + checkpoints
        eventually(lambda: self.checkpoints() >= wanted, SETTLES, "a checkpoint")

    def kill_taskmanager(self, number: int) -> None:
        """kill -9 of a TaskManager; another takes its place."""
        self.cluster.kill_taskmanager(number)
        self.cluster.start_taskmanager(number, wait=False)

    def kill_worker(self, number: int) -> None:
        """kill -9 of the Python worker of a TaskManager."""
        process = self.cluster.taskmanagers[number].pid
        worker = eventually(lambda: python_workers(process), SETTLES, "a Python worker")[-1]
        os.kill(worker, signal.SIGKILL)

    def kill_client(self) -> None:
        """kill -9 of ``weir run`` and its job server; the job must go on without them."""
        self.client.kill()

    def kill_jobmanager(self) -> None:
        """kill -9 of the JobManager, which forgets the job; a new one resumes it."""
        self.cluster.kill_jobmanager()
        self.client.kill()
        self.cluster.start_jobmanager()
        self._start("--resume")

    def go_on(self) -> None:
        """Resumes a job that was stopped."""
        self._start("--resume")

    def finish(self, deadline: float = 480) -> Outcome:
        """Waits for the end of the job, through its client if that still lives."""
        deadline += self.ahead
        if self.client.process.poll() is None:
            return self.client.finish(deadline)
        rest = self.cluster.rest
        eventually(lambda: is_over(rest, self._id), deadline, "the end of the stream")
        rest.stop(self._id, drain=True)
        rest.wait_for(self._id, "FINISHED")
        return Outcome(self.job.cells(), {}, self.client.text)


def longest_gap(job: Job, due: float) -> float:
    """Seconds without a new file of releases, at most, since the first was due (wall time)."""
    moments = sorted([due, *(path.stat().st_mtime for path in job.out.glob("ticks-*"))])
    return max(b - a for a, b in itertools.pairwise(moments))
