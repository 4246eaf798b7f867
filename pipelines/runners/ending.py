"""How a job ended: its state and its counters."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from weir.dpcore.errors import WeirError
from weir.pipelines.engines.flink import FlinkRest, as_flink
from weir.pipelines.engines.processes import EngineFailed
from weir.transforms.runtime.counters import UNREAD

PREFIX = "weir_"
"""How Flink spells a counter or gauge of Beam's namespace ``weir``."""


def is_gauge(name: str) -> bool:
    """Whether a metric says what is now, so that the values of workers are not added up."""
    return name in ("last_tick", "watermark_lag_ms") or name.startswith(UNREAD)


@as_flink()
def counters_of(rest: FlinkRest, job: str) -> dict[str, int]:
    """Our counters, summed over workers; of gauges the largest.

    Raises:
      EngineFailed: Flink does not answer.
    """
    totals: dict[str, int] = {}
    for vertex in rest.get(f"/jobs/{job}")["vertices"]:
        path = f"/jobs/{job}/vertices/{vertex['id']}/subtasks/metrics"
        ids = [str(entry["id"]) for entry in rest.get(path)]
        ours = [name for name in ids if name.rpartition(".")[2].startswith(PREFIX)]
        for name, value in metrics_of(rest, path, ours).items():
            short = name.rpartition(".")[2].removeprefix(PREFIX)
            if is_gauge(short):
                totals[short] = max(totals.get(short, value), value)
            else:
                totals[short] = totals.get(short, 0) + value
    return dict(sorted(totals.items()))


def metrics_of(rest: FlinkRest, path: str, names: list[str]) -> dict[str, int]:
    """Values of metrics: sums over subtasks, maxima of gauges.

    Raises:
      EngineFailed: Flink does not answer.
    """
    if not names:
        return {}
    from urllib.parse import quote

    results: dict[str, int] = {}
    for entry in rest.get(f"{path}?get={quote(','.join(names))}"):
        gauge = is_gauge(entry["id"].rpartition(".")[2].removeprefix(PREFIX))
        value = entry.get("value", entry.get("max" if gauge else "sum"))
        with contextlib.suppress(TypeError, ValueError):
            results[entry["id"]] = int(float(value))
    return results


END_OF_TIME = 9_223_371_950_454_775
"""Milliseconds: a watermark from here on says that nothing will ever come (Beam's last moment)."""
BELIEVED = 30
"""Looks after which a stream that seems to be over is, though no sink shows it."""
LOOK = 1.0
"""Seconds between two looks at a job."""
AHEAD = 20
"""Looks of a worker for which the client has the first word."""
_log = logging.getLogger("weir.ending")


@as_flink()
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


class End:
    """Looks at one job, again and again, for its end.

    Watermarks alone do not say that the last bundles are done. A folder shows it; of other sinks
    the end is believed after a while, and not before the last tick was stepped.

    Args:
      ticks: of the clock; None: it never ends.
      written: whether the last tick is in the sink, where that can be seen.
    """

    def __init__(self, ticks: int | None, written: Callable[[], bool | None]) -> None:
        self._ticks, self._written = ticks, written
        self._looks = 0

    def has_come(self, rest: FlinkRest, job: str) -> bool:
        """One look.

        Raises:
          EngineFailed: Flink does not answer.
        """
        if self._ticks is None or not is_over(rest, job):
            self._looks = 0
            return False
        self._looks += 1
        return bool(self._written()) or (self._looks >= BELIEVED and self._stepped(rest, job))

    def _stepped(self, rest: FlinkRest, job: str) -> bool:
        """Whether the last tick was released, as far as Flink's metrics tell."""
        last = counters_of(rest, job).get("last_tick")
        return last is None or self._ticks is None or last >= self._ticks - 1


def live(rest: FlinkRest, name: str) -> list[str]:
    """Ids of the jobs of a name that hold slots: one or none.

    Raises:
      EngineFailed: Flink does not answer.
    """
    return [str(job["jid"]) for job in rest.jobs(live=True) if job["name"] == name]


def cancel(url: str, name: str) -> None:
    """Ends a job at once, whose last checkpoint stays; nothing happens where Flink is not there."""
    with contextlib.suppress(EngineFailed):
        rest = FlinkRest(url, timeout=3.0)
        for job in live(rest, name):
            rest.cancel(job)


@dataclass(frozen=True)
class Warden:
    """A worker that ends its own job.

    Attributes:
      url: of Flink's REST interface; where workers cannot reach it, nothing happens.
      name: of the job. ticks, written: see ``End``. savepoints: folder of the one that a drain
        leaves. finish: marks the results as complete. draining: notes the drain, and tells whether
        this worker was the first: of two drains at once each makes the other fail.
      differs: whether releases came twice and differ: then the results are not marked.
    """

    url: str
    name: str
    ticks: int | None
    savepoints: str
    written: Callable[[], bool | None]
    finish: Callable[[], None]
    draining: Callable[[], bool]
    differs: Callable[[], bool] = bool

    def watch(self) -> None:
        """From now on, in a thread, looks for the end of the stream and then ends the job."""
        with _lock:
            if self.name in _watched or self.ticks is None:
                return
            _watched.add(self.name)
            _left.discard(self.url)  # a later Flink may be given the same port
        threading.Thread(target=self._watch, name="ending", daemon=True).start()

    def _watch(self) -> None:
        rest, end, looks = FlinkRest(self.url, timeout=3.0), End(self.ticks, self.written), 0
        while self.url not in _left:
            time.sleep(LOOK)
            with contextlib.suppress(EngineFailed, OSError, WeirError):
                for job in live(rest, self.name):
                    looks = looks + 1 if end.has_come(rest, job) else 0
                    if looks >= AHEAD and self.draining():
                        _log.info("the stream is over and nobody waits for its job: it ends itself")
                        if self.written() and not self.differs():
                            self.finish()
                        rest.stop(job, self.savepoints, drain=True)


def leave(url: str, name: str) -> None:
    """A Flink of this process is gone, and its job with it: nobody looks for its end any more."""
    with _lock:
        _left.add(url)
        _watched.discard(name)


_lock = threading.Lock()
_watched: set[str] = set()
_left: set[str] = set()
