"""Flink's REST interface, as far as a run needs it."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from weir.pipelines.engines.processes import EngineFailed

LIVE = frozenset({"INITIALIZING", "CREATED", "RUNNING", "RESTARTING", "FAILING", "RECONCILING"})
"""States of a job that still holds slots."""


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

    def jobs(self, live: bool = False) -> list[dict[str, Any]]:
        """Overviews of jobs, newest first; ``live``: only those that hold slots."""
        found = self.get("/jobs/overview")["jobs"]
        found = [job for job in found if not live or job["state"] in LIVE]
        return sorted(found, key=lambda job: -job["start-time"])

    def state(self, job: str) -> str:
        """State of a job, like RUNNING, FINISHED, FAILED, CANCELED."""
        return str(self.get(f"/jobs/{job}")["state"])

    def checkpoints(self, job: str) -> dict[str, Any]:
        """Counts, sizes and the latest of each kind."""
        found: dict[str, Any] = self.get(f"/jobs/{job}/checkpoints")
        return found

    def cancel(self, job: str) -> None:
        """Ends a job and keeps its last checkpoint."""
        self._ask("PATCH", f"/jobs/{job}?mode=cancel", None)

    def savepoint(self, job: str, folder: str | None = None, seconds: float = 120.0) -> str:
        """Takes a savepoint of a job that goes on. Returns its place."""
        body = {"cancel-job": False, **({"target-directory": folder} if folder else {})}
        return self._savepoint(job, "savepoints", body, seconds)

    def stop(
        self, job: str, folder: str | None = None, drain: bool = False, seconds: float = 120.0
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

    def wait_for(self, job: str, *states: str, seconds: float = 120.0) -> str:
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
        request = self.post(f"/jobs/{job}/{kind}", body)["request-id"]
        deadline = time.monotonic() + seconds
        while True:
            answer = self.get(f"/jobs/{job}/savepoints/{request}")
            if answer["status"]["id"] == "COMPLETED":
                break
            if time.monotonic() > deadline:
                raise EngineFailed(f"the savepoint of job {job} took more than {seconds:.0f} s.")
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
        except (OSError, ValueError) as error:
            raise EngineFailed(f"Flink at {self.url} does not answer: {error}.") from None
        return json.loads(text) if text else {}
