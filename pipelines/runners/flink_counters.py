"""Counters of a job, read from Flink."""

from __future__ import annotations

import contextlib

from weir.pipelines.engines.flink_rest import FlinkRest

PREFIX = "weir_"
"""How Flink spells a counter or gauge of Beam's namespace ``weir``."""


LATEST_GAUGES = frozenset({"last_tick", "watermark_lag_ms"})


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
            if short in LATEST_GAUGES:
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

    found: dict[str, int] = {}
    for entry in rest.get(f"{path}?get={quote(','.join(names))}"):
        gauge = entry["id"].rpartition(".")[2].removeprefix(PREFIX) in LATEST_GAUGES
        value = entry.get("value", entry.get("max" if gauge else "sum"))
        with contextlib.suppress(TypeError, ValueError):
            found[entry["id"]] = int(float(value))
    return found
