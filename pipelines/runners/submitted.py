"""A job that was submitted to a cluster: waited for, and the cause of its failure."""

from __future__ import annotations

import contextlib
import logging
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from weir.dpcore.errors import WeirError
from weir.pipelines.engines.flink import FlinkRest, as_flink
from weir.pipelines.engines.processes import EngineFailed, Process
from weir.pipelines.runners.ending import LOOK, End, metrics_of
from weir.pipelines.runners.options import FlinkTarget
from weir.transforms.runtime import fence


class KeptMetrics:
    """The last metrics of a job, which Beam asks of a job server that will be gone."""

    def __init__(self, result: Any) -> None:
        self._found = result.metrics().query()

    def metrics(self) -> KeptMetrics:
        """As Beam's own result."""
        return self

    def query(self) -> Any:
        """As Beam's own metrics."""
        return self._found


class Waiter:
    """Waits for Beam's result in a thread, so that Ctrl-C reaches us and not Beam."""

    def __init__(self, result: Any) -> None:
        self.error: Exception | None = None
        self._result = result
        self._thread = threading.Thread(target=self._wait, name="wait", daemon=True)
        self._thread.start()

    def _wait(self) -> None:
        try:
            self._result.wait_until_finish()
        except Exception as error:
            self.error = error

    def join(self, seconds: float) -> bool:
        """Waits so long at most; whether the job has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM is Ctrl-C here: anyone who stops a service gets a savepoint."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


READY = 60.0
"""Seconds for it to answer."""
BRIEF = "-XX:TieredStopAtLevel=1"
"""Of a JVM that only hands a job over: compiling for speed costs it more than it gains."""


@contextlib.contextmanager
def serving(folder: Path, jar: str, target: FlinkTarget, port: int) -> Iterator[Callable[[], None]]:
    """The job server, and inside it an embedded Flink. Not in our group: Ctrl-C is ours.

    Yields at once; what it yields waits until the server answers.

    Args:
      folder: for its files; Flink's settings are read from ``conf`` in it with each job.
      target: where jobs go. port: on which it takes them.
    """
    command = [
        "java",
        *(() if target.embedded else (BRIEF,)),
        f"-Djava.io.tmpdir={folder}",
        "-jar",
        jar,
        *("--flink-master", target.master),
        *("--flink-conf-dir", str(folder / "conf")),
        *("--artifacts-dir", str(folder / "artifacts")),
        *("--job-port", str(port)),
        *("--artifact-port", "0", "--expansion-port", "-1"),
    ]
    server = Process("Flink's job server", command, folder / "job-server.log")

    def await_answer() -> None:
        server.wait_until(lambda: _listens(port), READY, "it answered")

    try:
        yield await_answer
    finally:
        server.stop(3.0)


def _listens(port: int) -> bool:
    with socket.socket() as item:
        item.settimeout(0.5)
        return item.connect_ex(("127.0.0.1", port)) == 0


WORDS = 600
"""Letters of a cause that are told, at most."""
_CAUSE = re.compile(r"^(?:Caused by: )?([\w.$]+(?:Exception|Error))(?:: (.*))?$", re.MULTILINE)
_OWN = (
    "org.apache.flink.",
    "java.io.",
    "java.nio.",
    "java.util.concurrent.",
    "java.lang.IllegalStateException",
    "java.lang.RuntimeException",
    "java.lang.Exception",
)
"""Errors of Flink's; others of Java's are believed to be where no part of Beam was at work."""
_WORKER = ("SDK", "Traceback", "Python")
"""What stands in every failure that a worker told of, whose words may be of events."""
_BROKEN = re.compile(
    r"EOFException|UTFDataFormat|StreamCorrupted|FileNotFound|NoSuchFile|Cannot find|"
    r"checkpoint\.metadata\.Metadata"
)
"""In the trace of a job whose checkpoint is broken, or gone."""
_REFUSED = re.compile(
    r"(?:dpcore\.errors\.(?:ConfigError|CodecError)|transforms\.(?:"
    r"sinks\.(?:held\.Contradicted|kafka\.TopicRefused|rows\.TableRefused)|"
    r"runtime\.fence\.(?:Fenced|Removed)|runtime\.pubsub_client\.Gone|"
    r"sources\.kafka\.faults\.(?:TopicGone|RecordsLost)|runtime\.acked\.Outdated)): "
    r"([^\n\[]{1,1000})"
)


class Cause(NamedTuple):
    """Why a job does not run.

    Attributes:
      words: kind and message of the innermost error. unreadable: it is that what was to be resumed
        is broken, or gone.
    """

    words: str
    unreadable: bool


@as_flink()
def cause_of(rest: FlinkRest, job: str) -> Cause | None:
    """The cause of a job's last failure; None where there is none that may be told.

    Raises:
      EngineFailed: Flink does not answer.
    """
    history = rest.get(f"/jobs/{job}/exceptions?maxExceptions=3")
    return cause_in(str(history.get("root-exception") or ""))


def cause_in(text: str) -> Cause | None:
    """What Flink says in a stack trace: of a worker's failure nothing, as it may quote events."""
    result = _CAUSE.findall(text)
    own = _OWN if "org.apache.beam" in text else (*_OWN, "java.")
    if not result or any(word in text for word in _WORKER):
        return None
    if not all(kind.startswith(own) for kind, _ in result):
        return None
    kind, words = result[-1]
    said = f"{kind.rpartition('.')[2]}: {words}" if words else kind.rpartition(".")[2]
    if "operator is not available" in words:
        said = (
            f"{said[:WORDS]} (The state was made by a job of other steps: go on with the options "
            "that it had.)"
        )
        return Cause(said, False)
    return Cause(said[:WORDS], _BROKEN.search(text) is not None)


def refusal_in(text: str) -> str | None:
    """What our own errors say inside a text that holds more; those never hold content."""
    result = _REFUSED.findall(text)
    return result[-1].strip() if result else None


class UnreadableCheckpoint(EngineFailed):
    """What was to be resumed cannot be read.

    Args:
      place: URI of the checkpoint. cause: in Flink's words.
    """

    def __init__(self, place: str, cause: str) -> None:
        super().__init__(f"{place} cannot be read: {cause.removesuffix('.')}.")
        self.place = place


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
      lasting: whether its cluster outlives the run.
      resumed: URI of what it goes on from. savepoints: where they go.
      often: seconds between its checkpoints.
      fence: tells whether another job has taken its place. end: looks for the end of its stream.
      note: keeps its id for anyone who resumes; called once, at its first checkpoint.
    """

    name: str
    rest: FlinkRest
    streaming: bool
    lasting: bool
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
                    raise self.ended(job) from waiter.error
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
                return UnreadableCheckpoint(self.resumed, cause.words)
            if cause is not None:
                return EngineFailed(f"Flink does not run {self.name}: {cause.words}")
        return None

    def ended(self, job: str) -> WeirError:
        """Why a job has failed, or where to look. ``job``: empty where Flink does not know it."""
        result = self.failure(job)
        if result is not None:
            return result
        state, page = "failed", ""
        if not job:
            state = "did not start"
        elif self.lasting:
            page = f"{self.rest.url}/#/job/{job}/exceptions or "
            with contextlib.suppress(EngineFailed):
                state = f"is {self.rest.state(job)}"
        return EngineFailed(
            f"{self.name} {state} on Flink. What it says may quote events and is not repeated "
            f"here: look at {page}weir --debug run."
        )

    def running(self, waiter: Waiter) -> str:
        """The job's id on Flink, as soon as it is there.

        Raises:
          EngineFailed: it did not come up.
        """
        deadline = time.monotonic() + SUBMITTED
        while time.monotonic() < deadline:
            over = waiter.join(0.1)  # ahead of the look: a job that ends in between is there
            with contextlib.suppress(EngineFailed):
                for entry in self.rest.jobs():
                    if entry["name"] == self.name:
                        return str(entry["jid"])
            if over:
                if waiter.error is not None:
                    raise self.ended("") from waiter.error
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
                    _log.info("the stream is over: the job is requested to end")
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
