"""What a Flink cluster tells of its jobs, for the message of a test that waited in vain."""

from __future__ import annotations

from collections.abc import Iterator

from weir.pipelines.engines.flink import FlinkCluster, FlinkRest
from weir.pipelines.engines.processes import EngineFailed

LINES = 25
"""Of each log, from its end."""


def account(cluster: FlinkCluster) -> str:
    """State, failures, checkpoints and watermarks of all jobs, and the ends of all logs."""
    told = []
    try:
        told += [line for job in cluster.rest.jobs() for line in _of(cluster.rest, job["jid"])]
    except (EngineFailed, KeyError) as error:
        told.append(f"no account: {error}")
    for log in sorted(cluster.logs.glob("*.log")):
        told += [f"--- {log.name}", *log.read_text(errors="replace").splitlines()[-LINES:]]
    return "\n".join(told)


def _of(rest: FlinkRest, job: str) -> Iterator[str]:
    yield f"--- job {job}: {rest.state(job)}"
    if rest.state(job) in ("CANCELED", "FINISHED"):
        return
    history = rest.get(f"/jobs/{job}/exceptions?maxExceptions=3")
    yield str(history.get("root-exception"))[-3000:]
    yield str(rest.checkpoints(job)["counts"])
    for vertex in rest.get(f"/jobs/{job}")["vertices"]:
        marks = rest.get(f"/jobs/{job}/vertices/{vertex['id']}/watermarks")
        yield f"{vertex['status']} {[mark['value'] for mark in marks]} {vertex['name'][:80]}"
