"""The job that had a stream before, and still holds slots."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from weir.dpcore.config import durations
from weir.dpcore.errors import ConfigError
from weir.pipelines.connectors.paths import local
from weir.pipelines.engines import job_server
from weir.pipelines.engines.flink import LIVE, FlinkRest
from weir.pipelines.engines.job_server import MAP_STATE, ResidualStorage, kept_by
from weir.pipelines.engines.processes import EngineFailed, free_ports
from weir.pipelines.engines.tools import need
from weir.pipelines.graph.parts import Parts
from weir.pipelines.runners import flink_options
from weir.pipelines.runners.ending import End, Warden, cancel, leave
from weir.pipelines.runners.options import DONE, RUNNING, STOPPED, Ended, FlinkTarget
from weir.pipelines.runners.state_folder import LATEST, StateFolder
from weir.pipelines.runners.submitted import KeptMetrics, Submitted, Waiter, serving, terminable
from weir.transforms.runtime import fence, files
from weir.transforms.runtime import stored_counts as kept_counts

_log = logging.getLogger(__name__)
REPLACED = 20.0
"""Seconds in which a job that was replaced ends by itself; then it is cancelled."""


@dataclass(frozen=True)
class OlderJob:
    """Attributes:
    rest: of its cluster. job: its id there.
    """

    rest: FlinkRest
    job: str

    @classmethod
    def of(cls, noted: Mapping[str, Any]) -> OlderJob | None:
        """The job that was last noted next to the state, if it is alive."""
        if not noted:
            return None
        rest = FlinkRest(str(noted["url"]), timeout=3.0)
        with contextlib.suppress(EngineFailed):
            if any(entry["jid"] == noted["job"] for entry in rest.jobs(live=True)):
                return cls(rest, str(noted["job"]))
        return None

    def end(self) -> None:
        """Waits until it has seen that it was replaced, and cancels it if it does not."""
        _log.warning("takes over from job %s, which ends", self.job)
        deadline = time.monotonic() + REPLACED
        with contextlib.suppress(EngineFailed):
            while self.rest.state(self.job) in LIVE:
                if time.monotonic() > deadline:
                    self.rest.cancel(self.job)
                    deadline = math.inf
                time.sleep(0.2)


HEAD = 1 << 20
"""Bytes of a file that are looked at: the names of the states in it come first."""
NAMED = b"sdf_checkpoint:"
"""How names of a state begin that holds the rest of one call."""


def refuse_foreign(savepoint: str, jar: str) -> None:
    """Refuses a checkpoint or savepoint that this job server cannot go on from.

    Args:
      savepoint: its URI.

    Raises:
      ConfigError: it keeps residuals in the other place. Where neither tells, nothing is refused.
    """
    result, retained = in_a_map(savepoint), kept_by(jar)
    if result is None or retained is None or result is (retained is ResidualStorage.ONE_MAP):
        return
    built = (
        "Apache's of Beam 2.76 or newer" if result else "that of `make flink`, or an older Apache's"
    )
    raise ConfigError(
        "--resume",
        savepoint,
        f"was made with another job server ({built}), and the one given here ({jar}) does not find "
        "in it where the sources were: they would stand still. Go on with the one that it was "
        "made with: --flink-job-server-jar JAR.",
    )


def in_a_map(savepoint: str) -> bool | None:
    """Whether residuals lie in one map (else under names); None where no file shows it."""
    named = False
    for data in _heads(savepoint):
        if MAP_STATE.encode() in data:
            return True
        named |= NAMED in data  # of timers too, which may lie in a file without the map
    return False if named else None


def _heads(savepoint: str) -> Iterator[bytes]:
    """What is looked at, file by file; the metadata hold small states themselves."""
    folder = local(savepoint)
    for path in sorted(files.join(folder, name) for name in files.names(folder)):
        if files.exists(path):
            with files.open_raw(path) as file:
                yield file.read(HEAD)


class FlinkRun:
    """Submits one pipeline.

    Args:
      job: its parts. target: where. state: folder of what a resume needs.
      streaming: events may never end.
      flags: the user's options for Beam.
    """

    def __init__(
        self,
        job: Parts,
        target: FlinkTarget,
        state: StateFolder,
        streaming: bool,
        flags: Sequence[str],
    ) -> None:
        if target.detach and target.embedded:
            raise ConfigError(
                "--detach",
                True,
                "needs a cluster: an embedded Flink ends with this process. Add --flink-master.",
            )
        if target.resume is not None and not streaming:
            raise ConfigError(
                "--resume",
                target.resume,
                "is for streams: a job over files goes on from its folder of results by itself.",
            )
        if target.rewind is not None and target.resume in (None, LATEST):
            raise ConfigError(
                "--rewind",
                target.rewind,
                "goes with --resume PLACE, the savepoint that it was made right before.",
            )
        need("java", "Flink's job server")
        self._jar = target.jar or str(job_server.jar())
        if (
            streaming
            and job_server.kept_by(self._jar) is job_server.ResidualStorage.NEW_NAMES
            and flink_options.OPTION not in flink_options.names_of(flags)
        ):
            _log.warning(job_server.FORGETFUL.format(jar=self._jar))
        self._job, self._target, self._state = job, target, state
        self._streaming = streaming
        self._savepoint = (
            None
            if target.resume is None
            else state.resolve(target.resume, target.rewind is not None)
        )
        if self._savepoint is not None:
            refuse_foreign(self._savepoint, self._jar)
        self.name = f"weir-{job.name}-{os.getpid():x}-{time.time_ns() // 1_000_000:x}"
        self._given = flags
        self._rest_port, self._job_port = free_ports(2)
        url = f"http://127.0.0.1:{self._rest_port}" if target.embedded else target.url
        self.rest = FlinkRest(url)
        self.fence = fence.OPEN
        self.flags: list[str] = []
        self._end = End(None, lambda: False)
        self._parallelism = 0
        self._opened = contextlib.ExitStack()

    def serve(self) -> None:
        """Starts the job server, which comes up while a pipeline is built. ``close`` ends it."""
        folder = tempfile.TemporaryDirectory(prefix="weir-flink-", ignore_cleanup_errors=True)
        self._folder = Path(self._opened.enter_context(folder))
        server = serving(self._folder, self._jar, self._target, self._job_port)
        self._answers = self._opened.enter_context(server)

    def close(self) -> None:
        """Ends the job server, if it runs."""
        self._opened.close()

    def take_over(
        self,
        ticks: int | None,
        places: Sequence[str],
        written: Callable[[], bool | None],
        finish: Callable[[], None],
    ) -> None:
        """Takes slots, and as a stream the state and the sink, from whatever job has them.

        What can be refused without it has been refused by now. Sets ``flags`` and ``fence``.

        Args:
          ticks: of the clock; None: it never ends. places: folders next to that of the state.
          written: whether the last tick is in the sink, where that can be seen.
          finish: marks the results as complete.

        Raises:
          ConfigError: too few slots, or what it resumes from has been outdated since.
        """
        before = (self._state.running() or {}) if self._streaming else {}
        older = OlderJob.of(before)
        lent = int(before.get("parallelism", 0)) if older is not None else 0
        self._parallelism = flink_options.parallelism_of(
            self._target, self._job.engine, before.get("parallelism"), lent
        )
        resumed = self._target.resume is not None
        many = flink_options.settled(self._job.plan, self._given, self._state, resumed)
        flink_options.refuse_more(self._parallelism, many)
        if self._streaming:
            claims = [fence.claim(place, self.name) for place in (self._state.path, *places)]
            warden = Warden(
                self.rest.url,
                self.name,
                ticks,
                self._state.savepoints,
                written,
                finish,
                partial(fence.note_drain, claims[0]),
                partial(_differs, self._state, claims[0].epoch),
            )
            stop = partial(cancel, self.rest.url, self.name)
            self.fence = fence.Fence(claims[0], tuple(claims[1:]), stop, warden.watch)
            self._end = End(ticks, written)
            if older is not None:
                older.end()
            if self._target.resume is None:
                self._state.forget()
            else:
                rewound = self._target.rewind is not None
                self._savepoint = self._state.resolve(self._target.resume, rewound)
            flink_options.keep(self._state, many)
        self.flags = [
            *flink_options.flags_of(
                self._job.engine,
                self._target,
                self._given,
                self._parallelism,
                self._streaming,
                self.name,
                self._state,
                self._savepoint,
                many,
            ),
            f"--job_endpoint=localhost:{self._job_port}",
        ]

    @property
    def resumed(self) -> str | None:
        """URI of what it resumes from."""
        return self._savepoint

    def run(
        self,
        submit: Callable[[], Any],
        tell: Callable[[str], None],
        follow: Callable[[Any], None],
    ) -> Ended:
        """Runs the pipeline until it ends, is stopped, or is left alone. ``serve`` comes first.

        Args:
          submit: gives the pipeline to Beam and returns its result; called once.
          tell: says a sentence to the user.
          follow: is given Beam's result, to watch it.

        Raises:
          WeirError: it could not be submitted, or failed.
        """
        try:
            flink_options.write_settings(
                self._folder / "conf",
                flink_options.settings_of(
                    self._target,
                    self._state,
                    self._streaming,
                    self._rest_port,
                    self._savepoint,
                    durations.duration(self._job.engine.bundle_time),
                ),
            )
            with terminable():
                self._answers()
                result = submit()
                follow(result)
                return self._follow(result, tell)
        finally:
            self.close()
            if self._target.embedded:  # its workers were in this process
                kept_counts.leave(self.fence)
                leave(self.rest.url, self.name)

    def _follow(self, result: Any, tell: Callable[[str], None]) -> Ended:
        waiter = Waiter(result)
        submitted = self._submitted()
        job = submitted.running(waiter)
        if self._target.detach:
            submitted.wait_for_begin(waiter, job)
            return Ended(RUNNING, job, self.rest.url)
        try:
            submitted.wait(waiter, job)
        except KeyboardInterrupt:
            return self._stop(job, tell, waiter)
        if waiter.error is not None:
            raise submitted.ended(job) from waiter.error
        return Ended(DONE, job, self.rest.url, result=KeptMetrics(result))

    def _submitted(self) -> Submitted:
        return Submitted(
            self.name,
            self.rest,
            self._streaming,
            not self._target.embedded,
            self._savepoint,
            self._state.savepoints,
            durations.duration(self._job.engine.checkpoint_every) / 1e6,
            self.fence,
            self._end,
            self._note,
        )

    def _note(self, job: str) -> None:
        self._state.remember(
            self.rest.url,
            job,
            self.name,
            self._job.limits.refused,
            self._parallelism,
            0 if self.fence.state is None else self.fence.state.epoch,
            None if self._job.sink.place is None else local(self._job.sink.place),
        )

    def _stop(self, job: str, tell: Callable[[str], None], waiter: Waiter) -> Ended:
        """Stops with a savepoint if there is state to save; a second Ctrl-C cancels."""
        if not self._streaming:
            self.rest.cancel(job)
            waiter.join(30.0)
            raise KeyboardInterrupt
        tell("stopping with a savepoint (Ctrl-C again: without one) ...")
        try:
            place = self.rest.stop(job, self._state.savepoints)
        except (KeyboardInterrupt, EngineFailed) as error:
            with contextlib.suppress(EngineFailed):
                self.rest.cancel(job)
            waiter.join(30.0)
            if isinstance(error, KeyboardInterrupt):
                return Ended(STOPPED, job, self.rest.url, self._state.latest())
            raise
        waiter.join(60.0)
        return Ended(STOPPED, job, self.rest.url, place)


def _differs(state: StateFolder, epoch: int) -> bool:
    """Whether releases of a job came twice and differ."""
    return state.divergent(epoch) > 0
