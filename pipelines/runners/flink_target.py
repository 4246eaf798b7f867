"""Where a job runs on Flink, and how it ended there: plain values, cheap to import."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

EMBEDDED = "[local]"
DONE, STOPPED, RUNNING = "done", "stopped", "running"
HELD = "held"
"""Done, and its releases are not published."""


@dataclass(frozen=True)
class FlinkTarget:
    """Where and how a job runs on Flink.

    Attributes:
      master: ``[local]`` for a Flink inside the job server, else HOST:PORT of its REST interface.
      parallelism: workers; None: what the config says, or the slots that are free.
      resume: ``latest``, or path or URI of a checkpoint or savepoint; None: start anew.
      detach: return once it runs.
      jar: of the job server; None: the one in the cache.
      rewind: Pub/Sub snapshot that the subscription is taken back to, for an older savepoint.
    """

    master: str = EMBEDDED
    parallelism: int | None = None
    resume: str | None = None
    detach: bool = False
    jar: str | None = None
    rewind: str | None = None

    @property
    def embedded(self) -> bool:
        """Whether Flink lives and dies with this process."""
        return self.master == EMBEDDED

    @property
    def url(self) -> str:
        """Of a cluster's REST interface."""
        return self.master if "://" in self.master else f"http://{self.master}"


@dataclass(frozen=True)
class Ended:
    """How it went.

    Attributes:
      how: DONE, STOPPED or RUNNING (detached).
      savepoint: URI of the savepoint that it stopped with, if any.
      job: id on Flink. url: of its REST interface.
      result: Beam's, for its metrics; None where it was left alone.
    """

    how: str
    job: str
    url: str
    savepoint: str | None = None
    result: Any = None
