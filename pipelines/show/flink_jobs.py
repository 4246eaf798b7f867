"""Jobs on Flink, as its REST interface shows them, and as their folders do where it does not."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from weir.dpcore.errors import ConfigError
from weir.pipelines.engines.flink_rest import LIVE, FlinkRest
from weir.pipelines.engines.processes import EngineFailed
from weir.pipelines.run.watch import added
from weir.pipelines.runners.flink_counters import counters_of, metrics_of
from weir.pipelines.runners.state_folder import StateFolder
from weir.pipelines.show.alarms import alarms_of
from weir.pipelines.sources.limits import Limits
from weir.transforms.sinks import place as sinks_place

OURS = "weir-"
"""How the jobs are named that ``weir run`` submits."""
NEVER = -(1 << 62)
NOT_KNOWN = dict.fromkeys(("completed", "failed", "last", "bytes", "milliseconds", "place"))
GONE: dict[str, Any] = {
    "state": "UNKNOWN",
    "since": None,
    "restarts": None,
    "checkpoints": NOT_KNOWN,
    "last_tick": None,
    "watermark_lag_seconds": None,
}
"""An entry of a job without what Flink adds."""


def of_flink(
    url: str, wanted: str | None = None, limit: float | None = None
) -> list[dict[str, Any]]:
    """Our jobs on a cluster, newest first, JSON-able.

    Args:
      url: of Flink's REST interface. wanted: one job's id; None: all of ours that run, and if none
        does, the last that did.
      limit: ``limits.refused`` of the job, its default where nobody knows.

    Raises:
      ConfigError: Flink does not answer there, or knows no such job.
    """
    try:
        return jobs_on(url, wanted, limit)
    except EngineFailed:
        raise ConfigError(
            "--flink-master",
            url,
            "does not answer: give HOST:PORT of Flink's REST interface. (An embedded Flink ends "
            "with its `weir run`.)",
        ) from None


def jobs_on(url: str, wanted: str | None, limit: float | None) -> list[dict[str, Any]]:
    """As ``of_flink``. Raises EngineFailed where Flink does not answer."""
    rest = FlinkRest(url if "://" in url else f"http://{url}")
    jobs = [job for job in rest.jobs() if str(job["name"]).startswith(OURS)]
    if wanted is not None:
        jobs = [job for job in jobs if job["jid"] == wanted]
    live = [job for job in jobs if job["end-time"] < 0]
    return [job_of(rest, job, limit) for job in live or jobs[:1]]


def job_of(rest: FlinkRest, entry: Mapping[str, Any], limit: float | None = None) -> dict[str, Any]:
    """One job; limit: see ``of_flink``.

    Raises:
      EngineFailed: Flink does not answer.
    """
    job = str(entry["jid"])
    saved = rest.checkpoints(job)
    last = saved["latest"]["completed"] or {}
    running = metrics_of(rest, f"/jobs/{job}/metrics", ["numRestarts"])
    counts = counters_of(rest, job)
    return {
        "name": entry["name"],
        "job": job,
        "state": entry["state"],
        "since": moment(entry["start-time"]),
        "restarts": int(running.get("numRestarts", 0)),
        "checkpoints": {
            "completed": saved["counts"]["completed"],
            "failed": saved["counts"]["failed"],
            "last": moment(last.get("latest_ack_timestamp")),
            "bytes": last.get("state_size"),
            "milliseconds": last.get("end_to_end_duration"),
            "place": last.get("external_path"),
        },
        "last_tick": counts.pop("last_tick", None),
        "watermark_lag_seconds": lag_of(rest, job),
        "alarms": list(alarms_of(counts, Limits().refused if limit is None else limit)),
        "operator": counts,
    }


def lag_of(rest: FlinkRest, job: str, now: float | None = None) -> float | None:
    """Seconds that the slowest step's watermark is behind the wall clock; None where none has one.

    Raises:
      EngineFailed: Flink does not answer.
    """
    marks: list[int] = []
    for vertex in rest.get(f"/jobs/{job}")["vertices"]:
        path = f"/jobs/{job}/vertices/{vertex['id']}/watermarks"
        marks += [int(mark["value"]) for mark in rest.get(path)]
    known = [mark for mark in marks if mark > NEVER]
    if not known:
        return None
    wall = time.time() if now is None else now
    return max(0.0, round(wall - min(known) / 1000, 3))


def moment(milliseconds: int | None) -> str | None:
    """ISO text; None stays None."""
    if milliseconds is None or milliseconds < 0:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")


def of_state(state: StateFolder, noted: Mapping[str, Any]) -> dict[str, Any]:
    """The job that was last noted with the state: as Flink shows it, else as the folders of its
    state and of its releases do."""
    job, url, epoch = str(noted["job"]), str(noted["url"]), int(noted.get("epoch", 0))
    limit = Limits().refused if noted.get("refused") is None else float(noted["refused"])
    found, why = list[dict[str, Any]](), f"No job runs: Flink at {url} knows no job {job}"
    try:
        found = jobs_on(url, job, limit)
    except EngineFailed:
        why = f"No job is known to run: Flink at {url} does not answer"
    if found:
        (entry,) = found
        counts = added(entry["operator"], state.counted(epoch))
        why = f"No job runs: it is {entry['state']}"
    else:
        counts = state.counted()
        entry = {
            **GONE,
            "name": noted["name"],
            "job": job,
            "alarms": list(alarms_of(counts, limit)),
        }
        newest = state.newest()
        if newest is not None:
            at, uri = newest
            entry["checkpoints"] = {**NOT_KNOWN, "last": moment(int(at * 1000)), "place": uri}
    entry["operator"] = counts
    if entry["last_tick"] is None and noted.get("sink") is not None:
        entry["last_tick"] = last_in(str(noted["sink"]))
    acknowledged = state.acknowledged()
    if acknowledged is not None:
        entry["acknowledged"] = acknowledged.isoformat(timespec="seconds")
    if entry["state"] not in (*LIVE, "FINISHED"):
        cause = state.failure(epoch)
        more = "Start it again with --resume latest." if cause is None else f"It ended: {cause}"
        entry["alarms"] = [f"{why}. {more}", *entry["alarms"]]
    return entry


def last_in(sink: str) -> int | None:
    """The last tick of which a folder of results has a file; None where it has none."""
    ticks = 0
    with contextlib.suppress(ConfigError, OSError):
        ticks = sinks_place.ticks_in(sink)
    return ticks - 1 if ticks else None
