"""A fit of most of a minute: the stream goes on next to it, survives a death and ends within it."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any, Self

import numpy as np

from tests.runners.besieged import besieged
from tests.runners.fitting import EARLY, LATE, Fitting
from tests.runners.jobs import differences
from tests.runners.messages import Pace, Publisher
from tests.runners.recording import cells_of
from weir.pipelines.engines.flink import FlinkCluster, FlinkRest
from weir.pipelines.engines.processes import EngineFailed
from weir.pipelines.engines.servers import PubSubServer

HALF_A_SECOND = 7200.0
"""Speed at which a tick of an hour takes half a second."""
KILL = 17.0
"""Seconds into the fit: what was due seven seconds before is out by then, on a busy machine too."""


class Checkpoints:
    """All that a job completes: (wall time of the trigger, seconds) of each.

    The savepoint of a drain is none of them: what is left of a fit is part of it.
    """

    def __init__(self, rest: FlinkRest, job: str) -> None:
        self._rest, self._job = rest, job
        self._halt = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._found: dict[int, tuple[float, float]] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._halt.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._halt.wait(2.0):  # Flink remembers the last ten
            try:
                told = self._rest.checkpoints(self._job)["history"]
            except EngineFailed:
                continue
            for one in told:
                if one["status"] == "COMPLETED" and not one["is_savepoint"]:
                    took = one["trigger_timestamp"] / 1e3, one["end_to_end_duration"] / 1e3
                    self._found[one["id"]] = took

    def between(self, first: float, last: float) -> Any:
        """Seconds that each took of those triggered in between, in their order."""
        return np.array([took for at, took in sorted(self._found.values()) if first < at < last])


def released(messages: list[Any]) -> tuple[dict[tuple[int, str], float], list[dict[str, Any]]]:
    """(tick, key) -> wall time of its first publication; rows, each once. Repeats are the same."""
    first: dict[str, Any] = {}
    for message in messages:
        kept = first.setdefault(message.attributes["id"], message)
        assert kept.data == message.data, "a release was published again with other bits"
    rows: list[dict[str, Any]] = []
    moments: dict[tuple[int, str], float] = {}
    for message in first.values():
        for line in message.data.splitlines():
            rows.append(json.loads(line))
            moments[rows[-1]["tick"], rows[-1]["key"]] = message.publish_time.timestamp()
    return moments, rows


def test_a_long_fit_delays_no_checkpoint_and_no_other_key_and_survives_a_kill(
    flink_cluster: FlinkCluster, pubsub_server: PubSubServer, tmp_path: Path
) -> None:
    fitting = Fitting()
    simulating = threading.Thread(target=lambda: fitting.releases)
    simulating.start()
    run, rest = fitting.every - 1, flink_cluster.rest
    given: dict[str, Any] = {"every": 1, "speed": HALF_A_SECOND, "published": True}
    with besieged(flink_cluster, pubsub_server.host, fitting, tmp_path, **given) as (siege, post):
        pace: Pace = siege.pace
        publisher = Publisher(post, fitting, pace, 200)
        publisher.start()
        began = pace.wall_of_tick(run + 2)  # the clock announces a tick one tick late
        with Checkpoints(rest, siege.id) as checkpoints:
            time.sleep(max(0.0, began + KILL - time.time()))
            killed = time.time()
            siege.kill_taskmanager(int(fitting.plan.keys.block_of([EARLY.encode()])[0]) % 2)
            siege.settle(2)
            rest.stop(siege.id, drain=True)  # the rest of the fit is part of it
            rest.wait_for(siege.id, "FINISHED")
        publisher.stop()
        messages = post.drain(post.subscription.replace("-in", "-out"))
    simulating.join()
    moments, rows = released(messages)
    found = cells_of(rows)
    last = max(cell[0] for cell in found)
    expected = {cell: value for cell, value in fitting.releases.items() if cell[0] <= last}
    assert last > run + 21 and not differences(found, expected)

    def delays(keys: tuple[str, ...], first: int, stop: int) -> Any:
        """Seconds from when the clock announces a tick to its release."""
        cells = [(tick, key) for key in keys for tick in range(first, stop)]
        return np.array([moments[cell] - pace.wall_of_tick(cell[0] + 2) for cell in cells])

    end = moments[run, EARLY]
    assert end - began > KILL, "the fit was over before the kill"
    waited = [moments[tick, EARLY] for tick in range(run, last + 1)]
    assert min(waited) > began + KILL, "a later tick came before the one that is fitted"
    # A machine that is busy with other things is slow without a fit too.
    calm = checkpoints.between(pace.started, began)
    # The first one after the kill waits for workers to start again; a fit would hold it to its end.
    restart, *later = checkpoints.between(killed, end)
    assert restart < (end - began) / 3
    took = np.array([*checkpoints.between(began, killed), *later])
    assert len(took) > 5
    assert np.quantile(took, 0.99) < max(2.0, 2 * np.quantile(calm, 0.99)), (calm, took)
    alone, beside = delays((EARLY,), run - 20, run), delays(LATE, run + 3, run + 21)
    longer = np.median(beside) - np.median(alone)
    assert longer < max(0.5, np.median(alone)), (alone, beside)
    assert beside.max() < (end - began) / 3, "a key waited for the fit of another"
    shown = [np.round(np.quantile(each, [0.5, 0.99]), 2) for each in (calm, took, alone, beside)]
    print(f"fit of {end - began:.0f} s; checkpoints without and in it, delays without and in it:")
    print(*shown)
