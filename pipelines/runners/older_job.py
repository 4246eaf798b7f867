"""The job that had a stream before, and still holds slots."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weir.pipelines.engines.flink_rest import LIVE, FlinkRest
from weir.pipelines.engines.processes import EngineFailed

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
        """The job that was last noted beside the state, if it is alive."""
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
