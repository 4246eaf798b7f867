"""Whether a live job fails again and again: Flink would restart a stream for ever."""

from __future__ import annotations

import contextlib
import threading
from types import TracebackType

from weir.dpcore.errors import WeirError
from weir.pipelines.engines.flink_rest import FlinkRest
from weir.pipelines.engines.processes import EngineFailed
from weir.pipelines.runners.flink_counters import metrics_of
from weir.pipelines.runners.state_folder import StateFolder

LOOK = 2.0
"""Seconds between two looks."""
TRIES = 3
"""Restarts after which a job is given up; before its first checkpoint the runner does so itself."""


class Restarts:
    """Looks at a job, in a thread, and cancels one that restarts too often.

    Args:
      state: folder in which the job is noted.
    """

    def __init__(self, state: str) -> None:
        self._state = StateFolder.of(state)
        self._halt = threading.Event()
        self._given_up = False
        self._thread = threading.Thread(target=self._watch, name="restarts", daemon=True)

    def refuse(self) -> None:
        """Tells of a job that was cancelled.

        Raises:
          WeirError: it was.
        """
        if self._given_up:
            raise WeirError(
                f"the job failed {TRIES} times over the messages of the audit and was cancelled: a "
                "record that stops a job takes the releases of all others with it (weir --debug "
                "audit ... shows why it fails)."
            )

    def _watch(self) -> None:
        while not self._halt.wait(LOOK):
            noted = self._state.running()
            if noted is None:
                continue
            rest, job = FlinkRest(str(noted["url"]), timeout=3.0), str(noted["job"])
            with contextlib.suppress(EngineFailed):
                found = metrics_of(rest, f"/jobs/{job}/metrics", ["numRestarts"])
                if found.get("numRestarts", 0) >= TRIES:
                    self._given_up = True
                    rest.cancel(job)
                    return

    def __enter__(self) -> Restarts:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._halt.set()
        self._thread.join()
