"""A job that was submitted from here, as it comes up, begins, fails or ends."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from weir.dpcore.errors import WeirError
from weir.pipelines.engines.flink_rest import FlinkRest
from weir.pipelines.engines.processes import EngineFailed
from weir.pipelines.runners.ending import LOOK, End
from weir.pipelines.runners.flink_cause import Unreadable, cause_of, refusal_in
from weir.pipelines.runners.flink_counters import metrics_of
from weir.pipelines.runners.waiter import Waiter
from weir.transforms.runtime import fence

_log = logging.getLogger(__name__)
SUBMITTED = 180.0
"""Seconds for a job to run."""
TRIES = 3
"""Restarts before the first checkpoint after which a job is given up."""


@dataclass
class Submitted:
    """What is known of it.

    Attributes:
      name: on Flink. rest: of its cluster. streaming: whether events may never end.
      resumed: URI of what it goes on from. savepoints: where they go.
      often: seconds between its checkpoints.
      fence: tells whether another job has taken its place. end: looks for the end of its stream.
      note: keeps its id for whoever resumes; called once, at its first checkpoint.
    """

    name: str
    rest: FlinkRest
    streaming: bool
    resumed: str | None
    savepoints: str
    often: float
    fence: fence.Fence
    end: End
    note: Callable[[str], None]
    _begun: bool = False

    def wait_for_begin(self, waiter: Waiter, job: str) -> None:
        """Returns when the job may be left alone: it runs, and as a stream it has a checkpoint.

        Raises:
          WeirError: it failed, or had none in time; it is cancelled.
        """
        patience = SUBMITTED + 10 * self.often
        deadline = time.monotonic() + patience
        while not (self._has_begun(job) if self.streaming else self._runs(job)):
            if waiter.join(LOOK):
                if waiter.error is not None:
                    raise self.failure(job) or waiter.error
                return  # it was short, and is done
            if time.monotonic() > deadline:
                self.rest.cancel(job)
                raise self.failure(job) or EngineFailed(
                    f"{self.name} had no checkpoint after {patience:.0f} s and was "
                    "cancelled: look at the logs of its workers."
                )

    def _runs(self, job: str) -> bool:
        with contextlib.suppress(EngineFailed):
            return self.rest.state(job) == "RUNNING"
        return False

    def _has_begun(self, job: str) -> bool:
        """Whether it has made a checkpoint: then what it was given was taken, and is noted.

        Raises:
          WeirError: it fails again and again before that; it is cancelled.
        """
        if self._begun:
            return True
        failure = None
        with contextlib.suppress(EngineFailed):
            if self.rest.checkpoints(job)["counts"]["completed"]:
                self._begun = True
                self.note(job)
                _log.info("runs as job %s on %s", job, self.rest.url)
                return True
            restarts = metrics_of(self.rest, f"/jobs/{job}/metrics", ["numRestarts"])
            if restarts.get("numRestarts", 0) >= TRIES:
                failure = self.failure(job)
                if failure is not None:
                    self.rest.cancel(job)
        if failure is not None:
            raise failure
        return False

    def failure(self, job: str) -> WeirError | None:
        """Why a job fails, as far as it may be told."""
        try:
            self.fence.check()
        except fence.Fatal as ended:
            return ended
        noted = self._noted()
        if noted is not None:
            return WeirError(noted)
        with contextlib.suppress(EngineFailed):
            history = self.rest.get(f"/jobs/{job}/exceptions?maxExceptions=3")
            refused = refusal_in(str(history.get("root-exception") or ""))
            if refused is not None:
                return WeirError(refused)
            cause = cause_of(self.rest, job)
            if cause is not None and self.resumed is not None and cause.unreadable:
                return Unreadable(self.resumed, cause.words)
            if cause is not None:
                return EngineFailed(f"Flink does not run {self.name}: {cause.words}")
        return None

    def running(self, waiter: Waiter) -> str:
        """The job's id on Flink, as soon as it is there.

        Raises:
          EngineFailed: it did not come up.
        """
        deadline = time.monotonic() + SUBMITTED
        while time.monotonic() < deadline:
            with contextlib.suppress(EngineFailed):
                for entry in self.rest.jobs():
                    if entry["name"] == self.name:
                        return str(entry["jid"])
            if waiter.join(0.1):
                if waiter.error is not None:
                    raise waiter.error
                return ""  # it was so short that Flink has already forgotten it
        raise EngineFailed(f"{self.name} does not run on {self.rest.url} after {SUBMITTED:.0f} s.")

    def wait(self, waiter: Waiter, job: str) -> None:
        """Returns when the job has ended; ends it when its stream has.

        Raises:
          WeirError: the workers refuse what they were given; restarting would not help.
        """
        ending = False
        while not waiter.join(LOOK):
            if not job or not self.streaming:
                continue
            self._has_begun(job)
            with contextlib.suppress(EngineFailed):
                refused = self._refusal(job)
                if refused is not None:
                    self.rest.cancel(job)
                    waiter.join(30.0)
                    raise WeirError(refused)
                if not ending and self.end.has_come(self.rest, job):
                    _log.info("the stream is over: the job is asked to end")
                    # Flink keeps a job whose sources have ended, so that it can save. A drain that
                    # fails, as when a worker dies in it, restarts the job: then it is asked again.
                    if self.fence.state is not None:
                        fence.note_drain(self.fence.state)
                    self.rest.stop(job, self.savepoints, drain=True)
                    ending = True

    def _noted(self) -> str | None:
        """Why a worker has ended the job, as it noted it."""
        with contextlib.suppress(OSError):
            return None if self.fence.state is None else fence.failure(self.fence.state)
        return None

    def _refusal(self, job: str) -> str | None:
        """Our own words in the last failure of a job that is being restarted."""
        if self.rest.state(job) == "RUNNING":
            return None
        noted = self._noted()
        if noted is not None:
            return noted
        history = self.rest.get(f"/jobs/{job}/exceptions?maxExceptions=3")
        return refusal_in(str(history.get("root-exception") or ""))
