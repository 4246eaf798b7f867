"""A Flink cluster on this machine, and its REST interface."""

from __future__ import annotations

import contextlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from weir.pipelines.engines import flink_config
from weir.pipelines.engines.flink_config import TaskManagerMemory
from weir.pipelines.engines.processes import EngineFailed, Process, Workplace, free_ports
from weir.pipelines.engines.tools import need
from weir.pipelines.engines.worker import environment_config

LIVE = frozenset({"INITIALIZING", "CREATED", "RUNNING", "RESTARTING", "FAILING", "RECONCILING"})
"""States of a job that still holds slots."""


@contextlib.contextmanager
def as_flink() -> Iterator[None]:
    """Inside, answers of Flink are read. Raises EngineFailed for those of another server."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError):
        raise EngineFailed(NO_FLINK) from None


NO_FLINK = "what answers there is no Flink of the version that Weir knows."


@dataclass(frozen=True)
class FlinkRest:
    """A cluster's REST interface. ``url``: like ``http://127.0.0.1:8081``."""

    url: str
    timeout: float = 10.0

    def get(self, path: str) -> Any:
        """Answer to GET.

        Raises:
          EngineFailed: no answer, or an error; Flink's first words are quoted, no stack.
        """
        return self._ask("GET", path, None)

    def post(self, path: str, body: Any) -> Any:
        """Answer to POST. Raises as ``get``."""
        return self._ask("POST", path, body)

    def overview(self) -> tuple[str, int, int]:
        """Version of Flink, slots that are free, and all slots."""
        with as_flink():
            seen = self.get("/overview")
            return (
                str(seen["flink-version"]),
                int(seen["slots-available"]),
                int(seen["slots-total"]),
            )

    def jobs(self, live: bool = False) -> list[dict[str, Any]]:
        """Overviews of jobs, newest first; ``live``: only those that hold slots."""
        with as_flink():
            result: list[dict[str, Any]] = self.get("/jobs/overview")["jobs"]
            result = [job for job in result if not live or job["state"] in LIVE]
            return sorted(result, key=lambda job: -job["start-time"])

    def state(self, job: str) -> str:
        """State of a job, like RUNNING, FINISHED, FAILED, CANCELED."""
        with as_flink():
            return str(self.get(f"/jobs/{job}")["state"])

    def checkpoints(self, job: str) -> dict[str, Any]:
        """Counts, sizes and the latest of each kind."""
        result: dict[str, Any] = self.get(f"/jobs/{job}/checkpoints")
        return result

    def cancel(self, job: str) -> None:
        """Ends a job and keeps its last checkpoint."""
        self._ask("PATCH", f"/jobs/{job}?mode=cancel", None)

    def savepoint(self, job: str, folder: str | None = None, seconds: float = 300.0) -> str:
        """Takes a savepoint of a job that goes on. Returns its place."""
        body = {"cancel-job": False, **({"target-directory": folder} if folder else {})}
        return self._savepoint(job, "savepoints", body, seconds)

    def stop(
        self, job: str, folder: str | None = None, drain: bool = False, seconds: float = 300.0
    ) -> str:
        """Stops a job with a savepoint. Returns the savepoint's place.

        Args:
          job: its id.
          folder: where to, as a URI; None: as the cluster is set up.
          drain: ends the stream for good: every timer fires. Not for a job that is to go on.
          seconds: how long to wait.

        Raises:
          EngineFailed: it failed, or took longer.
        """
        body = {"drain": drain, **({"targetDirectory": folder} if folder else {})}
        return self._savepoint(job, "stop", body, seconds)

    def wait_for(self, job: str, *states: str, seconds: float = 300.0) -> str:
        """Returns the state of a job as soon as it is one of ``states``.

        Raises:
          EngineFailed: it did not get there in time.
        """
        deadline = time.monotonic() + seconds
        while (state := self.state(job)) not in states:
            if time.monotonic() > deadline:
                raise EngineFailed(f"job {job} is {state}, not {' or '.join(states)}.")
            time.sleep(0.1)
        return state

    def _savepoint(self, job: str, kind: str, body: dict[str, Any], seconds: float) -> str:
        deadline = time.monotonic() + seconds
        with as_flink():
            request = self.post(f"/jobs/{job}/{kind}", body)["request-id"]
            while True:
                answer = self.get(f"/jobs/{job}/savepoints/{request}")
                if answer["status"]["id"] == "COMPLETED":
                    break
                if time.monotonic() > deadline:
                    took = f"the savepoint of job {job} took more than {seconds:.0f} s."
                    raise EngineFailed(took)
                time.sleep(0.1)
            place = answer["operation"].get("location")
            if not place:
                cause = answer["operation"].get("failure-cause", {}).get("class", "no reason given")
                raise EngineFailed(f"the savepoint of job {job} failed: {cause}.")
            return str(place)

    def _ask(self, method: str, path: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise EngineFailed(f"Flink refuses {method} {path}: {error.code}.") from None
        except (OSError, ValueError, HTTPException) as error:
            raise EngineFailed(f"Flink at {self.url} does not answer: {error}.") from None
        with as_flink():
            return json.loads(text) if text else {}


READY = 90.0
"""Seconds in which a JVM must answer; a busy machine needs them."""


class FlinkCluster:
    """A cluster; a context manager, started on entry and stopped on exit.

    Args:
      folder: for settings, logs, checkpoints and savepoints, kept at the end; None: a temporary
        one, removed at the end.
      taskmanagers: how many. slots: of each; keep 1, so that each has its own Python worker.
      settings: Flink settings by dotted name, over the defaults of ``flink_config``.
      environment: variables of the JVMs, and of the Python workers that they start.
      memory: shares of each TaskManager.
    """

    def __init__(
        self,
        folder: Path | None = None,
        taskmanagers: int = 2,
        slots: int = 1,
        settings: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        memory: TaskManagerMemory | None = None,
    ) -> None:
        self._temporary = Workplace("weir-flink-") if folder is None else None
        chosen = folder if self._temporary is None else self._temporary.folder
        assert chosen is not None
        self.folder = chosen.absolute()
        self._count = taskmanagers
        self._slots = slots
        self._settings = dict(settings or {})
        self._environment = dict(environment or {})
        self._memory = memory or TaskManagerMemory()
        self._home: Path | None = None
        self._started = 0
        self._jobmanager_since = 0.0
        self._since: dict[int, float] = {}
        self.jobmanager: Process | None = None
        self._names: dict[int, str] = {}
        self.taskmanagers: dict[int, Process] = {}
        """Running TaskManagers by number, from 0."""
        self._rest_port, self._rpc_port = free_ports(2)

    @property
    def master(self) -> str:
        """HOST:PORT, for ``--flink-master``."""
        return f"127.0.0.1:{self._rest_port}"

    @property
    def url(self) -> str:
        """Base address of REST and of the web page."""
        return f"http://{self.master}"

    @property
    def rest(self) -> FlinkRest:
        """What REST tells and takes."""
        return FlinkRest(self.url)

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def savepoints(self) -> Path:
        return self.folder / "savepoints"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def environment_config(self) -> str:
        """``--environment_config`` of a job here, next to ``--environment_type=PROCESS``."""
        return environment_config(self.folder / "worker")

    def start(self) -> FlinkCluster:
        """Starts all of it and returns when every slot is there.

        Raises:
          EngineMissing: Flink is not in the cache.
          InstallFailed: there is no Java.
          EngineFailed: a JVM did not come up.
        """
        self._home = flink_config.home()
        need("java", "running Flink")
        for name in ("checkpoints", "savepoints", "logs", "tmp"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        values = flink_config.settings(
            self.folder, self._rest_port, self._rpc_port, self._slots, self._settings
        )
        flink_config.write(self.folder / "conf", values)
        try:
            self.start_jobmanager(wait=False)
            for number in range(self._count):
                self.start_taskmanager(number, wait=False)
            self.wait_for_taskmanagers(self._count)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Ends every process of the cluster, Python workers too."""
        for number in list(self.taskmanagers):
            self.taskmanagers.pop(number).stop(3.0)
        if self.jobmanager is not None:
            self.jobmanager.stop(3.0)
            self.jobmanager = None
        if self._temporary is not None:
            self._temporary.remove()

    def start_jobmanager(self, wait: bool = True) -> None:
        """Starts the JobManager on its old ports. It knows no job of the one before it."""
        assert self._home is not None, "start() comes first"
        if self.jobmanager is not None:
            self.jobmanager.stop(0.0)
        self._jobmanager_since = time.time()
        log = self.logs / "jobmanager.log"
        command = flink_config.jobmanager_command(self._home, self.folder / "conf", log)
        self.jobmanager = self._launch("Flink's JobManager", command, log)
        if wait:
            self.wait_for_taskmanagers(len(self.taskmanagers))

    def start_taskmanager(self, number: int, wait: bool = True) -> None:
        """Starts a TaskManager, after killing what is left of the one of that number."""
        assert self._home is not None, "start() comes first"
        if number in self.taskmanagers:
            self.taskmanagers.pop(number).stop(0.0)
        self._started += 1
        self._since[number] = time.time()
        self._names[number] = name = f"tm-{number}-{self._started}"
        log = self.logs / f"taskmanager-{number}.log"
        command = flink_config.taskmanager_command(
            self._home, self.folder / "conf", log, name, self._memory
        )
        self.taskmanagers[number] = self._launch(f"Flink's TaskManager {number}", command, log)
        if wait:
            self.wait_for_taskmanagers(len(self.taskmanagers))

    def kill_jobmanager(self) -> None:
        """SIGKILL. Its jobs are gone; resume them from their last checkpoint."""
        if self.jobmanager is not None:
            self.jobmanager.kill()

    def kill_taskmanager(self, number: int) -> None:
        """SIGKILL to the JVM alone; its Python worker is left to notice, as after a real crash."""
        self.taskmanagers[number].kill()

    def wait_for_taskmanagers(self, count: int, seconds: float = READY) -> None:
        """Returns when ``count`` living TaskManagers are registered.

        Raises:
          EngineFailed: not in time.
        """
        assert self.jobmanager is not None, "start() comes first"
        awaited = {
            self._names[number]: process
            for number, process in self.taskmanagers.items()
            if process.alive
        }

        def registered() -> bool:
            for process in awaited.values():
                if not process.alive:
                    process.wait_until(lambda: None, 0.0, "it registered")
            try:
                result = self.rest.get("/taskmanagers")["taskmanagers"]
            except EngineFailed:
                return False
            ready = {entry["id"] for entry in result if entry["slotsNumber"]}
            return len(awaited) >= count and awaited.keys() <= ready

        self.jobmanager.wait_until(registered, seconds, f"{count} TaskManagers registered")

    @property
    def alive(self) -> bool:
        """Whether the JobManager and every TaskManager run."""
        parts = [self.jobmanager, *self.taskmanagers.values()]
        return all(part is not None and part.alive for part in parts)

    def is_worn(self, jobs: int) -> bool:
        """Whether a TaskManager has seen so many jobs, each of which loaded its classes again.

        True also where nobody knows: a JobManager that is younger than they are has forgotten.
        """
        oldest = min(self._since.values(), default=0.0)
        if self._jobmanager_since > oldest:
            return True
        seen = [job for job in self.rest.jobs() if job["start-time"] >= oldest * 1000]
        return len(seen) >= jobs

    def __enter__(self) -> FlinkCluster:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _launch(self, name: str, command: list[str], log: Path) -> Process:
        return Process(
            name, command, log.with_suffix(".out"), self._environment, self.folder / "tmp"
        )
