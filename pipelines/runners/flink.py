"""A job on Flink from here: submitted, followed, stopped with a savepoint, or left to itself."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dpcore.errors import ConfigError, WeirError
from pipelines.engines import job_server
from pipelines.engines.flink_rest import FlinkRest
from pipelines.engines.processes import EngineFailed, Process, free_ports
from pipelines.engines.tools import need
from pipelines.graph.parts import Parts
from pipelines.runners import flink_options
from pipelines.runners.flink_counters import counters_of
from pipelines.runners.flink_target import DONE, RUNNING, STOPPED, Ended, FlinkTarget
from pipelines.runners.residuals import refuse_foreign
from pipelines.runners.state_folder import StateFolder

_log = logging.getLogger(__name__)
READY = 60.0
SUBMITTED = 180.0
"""Seconds for the job server to answer, and for a job to run."""
BELIEVED = 30
"""Looks after which a stream that seems to be over is, though no sink shows it."""
LOOK = 1.0
"""Seconds between two looks at a job."""
END_OF_TIME = 9_223_371_950_454_775
"""Milliseconds: a watermark from here on says that nothing will ever come (Beam's last moment)."""
_REFUSED = re.compile(
    r"(?:dpcore\.errors\.(?:ConfigError|CodecError)|transforms\.sinks\.held\.Contradicted): "
    r"([^\n\[]{1,1000})"
)


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
        need("java", "Flink's job server")
        self._jar = target.jar or str(job_server.jar())
        if (
            streaming
            and job_server.kept_by(self._jar) is job_server.Kept.NEW_NAMES
            and "max_parallelism" not in flink_options.names_of(flags)
        ):
            _log.warning(job_server.FORGETFUL.format(jar=self._jar))
        self._job, self._target, self._state = job, target, state
        self._streaming = streaming
        self._savepoint = None if target.resume is None else state.resolve(target.resume)
        if self._savepoint is not None:
            refuse_foreign(self._savepoint, self._jar)
        self.name = f"weir-{job.name}-{os.getpid():x}-{time.time_ns() // 1_000_000:x}"
        parallelism = flink_options.parallelism_of(target, job.engine)
        self._rest_port, self._job_port = free_ports(2)
        self.flags = [
            *flink_options.flags_of(
                job.engine, target, flags, parallelism, streaming, self.name, state, self._savepoint
            ),
            f"--job_endpoint=localhost:{self._job_port}",
        ]
        url = f"http://127.0.0.1:{self._rest_port}" if target.embedded else target.url
        self.rest = FlinkRest(url)
        self._written: Callable[[], bool] = lambda: False
        self._over = 0

    @property
    def resumed(self) -> str | None:
        """URI of what it resumes from."""
        return self._savepoint

    def run(
        self,
        submit: Callable[[], Any],
        tell: Callable[[str], None],
        follow: Callable[[Any], None],
        written: Callable[[], bool] = lambda: False,
    ) -> Ended:
        """Runs the pipeline until it ends, is stopped, or is left alone.

        Args:
          submit: gives the pipeline to Beam and returns its result; called once.
          tell: says a sentence to the user.
          follow: is given Beam's result, to watch it.
          written: whether the last tick of the clock is in the sink, where that can be seen.

        Raises:
          WeirError: it could not be submitted, or failed.
        """
        self._written = written
        folder = Path(tempfile.mkdtemp(prefix="weir-flink-"))
        try:
            with self._server(folder), _terminable():
                result = submit()
                follow(result)
                return self._follow(result, tell)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def _server(self, folder: Path) -> Iterator[Process]:
        """The job server, and inside it an embedded Flink. Not in our group: Ctrl-C is ours."""
        values = flink_options.settings_of(
            self._target, self._state, self._streaming, self._rest_port, self._savepoint
        )
        flink_options.write_settings(folder / "conf", values)
        command = [
            "java",
            f"-Djava.io.tmpdir={folder}",
            "-jar",
            self._jar,
            *("--flink-master", self._target.master),
            *("--flink-conf-dir", str(folder / "conf")),
            *("--artifacts-dir", str(folder / "artifacts")),
            *("--job-port", str(self._job_port)),
            *("--artifact-port", "0", "--expansion-port", "-1"),
        ]
        server = Process("Flink's job server", command, folder / "job-server.log")
        try:
            server.wait_until(lambda: _listens(self._job_port), READY, "it answered")
            yield server
        finally:
            server.stop(3.0)

    def _follow(self, result: Any, tell: Callable[[str], None]) -> Ended:
        waiter = _Waiter(result)
        job = self._running(waiter)
        if self._streaming:
            refused = self._job.limits.refused
            self._state.remember(self.rest.url, job, self.name, refused)
            _log.info("runs as job %s on %s", job, self.rest.url)
        if self._target.detach:
            return Ended(RUNNING, job, self.rest.url)
        try:
            self._wait(waiter, job)
        except KeyboardInterrupt:
            return self._stop(job, tell, waiter)
        if waiter.error is not None:
            raise waiter.error
        return Ended(DONE, job, self.rest.url, result=_Kept(result))

    def _running(self, waiter: _Waiter) -> str:
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

    def _wait(self, waiter: _Waiter, job: str) -> None:
        """Returns when the job has ended; ends it when its stream has.

        Raises:
          WeirError: the workers refuse what they were given; restarting would not help.
        """
        ending = False
        while not waiter.join(LOOK):
            if not job or not self._streaming:
                continue
            with contextlib.suppress(EngineFailed):
                refused = self._refusal(job)
                if refused is not None:
                    self.rest.cancel(job)
                    waiter.join(30.0)
                    raise WeirError(refused)
                if not ending and self._is_over(job):
                    _log.info("the stream is over: the job is asked to end")
                    # Flink keeps a job whose sources have ended, so that it can save. A drain that
                    # fails, as when a worker dies in it, restarts the job: then it is asked again.
                    self.rest.stop(job, self._state.savepoints, drain=True)
                    ending = True

    def _refusal(self, job: str) -> str | None:
        """Our own words in the last failure of a job that is being restarted."""
        if self.rest.state(job) == "RUNNING":
            return None
        history = self.rest.get(f"/jobs/{job}/exceptions?maxExceptions=3")
        return refusal_in(str(history.get("root-exception") or ""))

    def _is_over(self, job: str) -> bool:
        """Whether nothing will ever come at any vertex, and all that came is in the sink.

        Watermarks alone do not say that the last bundles are done. A folder shows it; of other
        sinks the end is believed after a while, and not before the last tick was stepped.
        """
        if self._job.clock.end is None or not is_over(self.rest, job):
            self._over = 0
            return False
        self._over += 1
        return self._written() or (self._over >= BELIEVED and self._stepped(job))

    def _stepped(self, job: str) -> bool:
        """Whether the last tick was released, as far as Flink's metrics tell."""
        last = counters_of(self.rest, job).get("last_tick")
        ticks = self._job.clock.to_clock().ticks
        return last is None or ticks is None or last >= ticks - 1

    def _stop(self, job: str, tell: Callable[[str], None], waiter: _Waiter) -> Ended:
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


def is_over(rest: FlinkRest, job: str) -> bool:
    """Whether every vertex of a job has seen the end of time: its stream is over, all is written.

    Raises:
      EngineFailed: Flink does not answer.
    """
    vertices = rest.get(f"/jobs/{job}")["vertices"]
    for vertex in vertices:
        marks = rest.get(f"/jobs/{job}/vertices/{vertex['id']}/watermarks")
        values = [int(mark["value"]) for mark in marks]
        if values and min(values) < END_OF_TIME:
            return False
        if not values and not str(vertex["name"]).startswith("Source"):
            return False
    return bool(vertices)


def refusal_in(text: str) -> str | None:
    """What our own errors say inside a text that holds more; those never hold content."""
    found = _REFUSED.findall(text)
    return found[-1].strip() if found else None


class _Kept:
    """The last metrics of a job, which Beam asks of a job server that will be gone."""

    def __init__(self, result: Any) -> None:
        self._found = result.metrics().query()

    def metrics(self) -> _Kept:
        """As Beam's own result."""
        return self

    def query(self) -> Any:
        """As Beam's own metrics."""
        return self._found


class _Waiter:
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
def _terminable() -> Iterator[None]:
    """SIGTERM is Ctrl-C here: whoever stops a service gets a savepoint."""
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


def _listens(port: int) -> bool:
    import socket

    with socket.socket() as one:
        one.settimeout(0.5)
        return one.connect_ex(("127.0.0.1", port)) == 0
