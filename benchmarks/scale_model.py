"""What does a job of a billion keys cost: machines, money, delay?

Whole runs of ``weir run`` in processes of their own, small ones first: their processor time is
split by least squares into what a process costs, an event, an id that is remembered, a leaf (a key
that has events in a tick), a key when it is first seen, and a release (a key at a tick: noise,
state, solve, sort, Parquet). From these unit costs follow predictions for runs of 10^4, 10^5 and
10^6 keys, which are then made: predicted and measured stand side by side, and the bound is 25 %.
The last table applies the same unit costs to up to 10^9 keys and 10^7 events a second, with what an
event costs on its way through Pub/Sub and Flink and the state of a key as the plan tells it; prices
are arguments. Five minutes; short: without the run of 10^6 keys, two minutes.

docs/explanation/scale.md has what the model leaves out: shuffles, skew and checkpoints.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.optimize import nnls

from benchmarks.harness import Bench, main, progress
from benchmarks.whole_run import MINUTE, START
from weir.dpcore.plan import Plan

CONFIG = """\
name: scale
source: {{parquet: {folder}/events.parquet}}
schema: {{time: t{ids}}}
key: {{column: k, observed_keys_are_public: true}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1m, end: {end}}}
privacy: {{epsilon: 1.0, delta: 1e-6, protect_for: 256 ticks}}
aggregates: {{events: {{count: events}}}}
sink: {{parquet: {folder}/out, every: 128}}
"""


@dataclass(frozen=True)
class Case:
    """A run: how many of each; ids: whether events have one."""

    keys: int
    ticks: int
    events: int
    ids: bool = False

    @property
    def units(self) -> NDArray[np.float64]:
        """How often each cost falls due; leaves as expected of events that are spread evenly."""
        releases = self.keys * self.ticks
        leaves = releases * -math.expm1(-self.events / releases)
        ids = self.events * self.ids
        return np.array([1, self.events, ids, leaves, self.keys, releases], dtype=float)

    @property
    def text(self) -> str:
        """For people."""
        ids = ", ids" if self.ids else ""
        return f"{self.keys:>9,} keys x {self.ticks:>5,} ticks, {self.events:>10,} events{ids}"


ID_BYTES = 18
"""Of a stored id (benchmarks/studies/remembered_ids.py)."""

UNITS = ("a process", "an event", "its id", "a leaf", "a key, once", "a release")
CALIBRATION = (
    Case(1_000, 2, 10_000),
    Case(4_000, 2_048, 10_000),
    Case(1_000, 2, 20_000_000),
    Case(1_000, 2, 5_000_000, ids=True),
    Case(300_000, 2, 600_000),
    Case(4_000, 1_024, 8_000_000),
)
"""Each has much of one unit, so that a second of noise in a run moves little."""

CHECKED = (
    Case(10_000, 256, 3_000_000),
    Case(100_000, 64, 3_000_000, ids=True),
    Case(1_000_000, 16, 3_000_000),
)
LARGE = (
    # keys, ticks an hour, events a second
    (10**4, 3_600, 10**4),
    (10**6, 60, 10**5),
    (10**8, 12, 10**6),
    (10**9, 1, 10**7),
)


def write_events(case: Case, folder: Path) -> None:
    """Every key has an event at the first tick, the others are spread evenly."""
    rng = np.random.default_rng(1)
    spread = case.events - case.keys
    assert spread >= 0
    ticks = np.concatenate([np.zeros(case.keys), rng.integers(0, case.ticks, spread)])
    which = np.concatenate([np.arange(case.keys), rng.integers(0, case.keys, spread)])
    names = pa.array(np.char.mod("k%09d", np.arange(case.keys)))
    columns = {
        "t": pa.array((START + ticks * MINUTE).astype(np.int64)).cast(pa.timestamp("us", tz="UTC")),
        "k": pa.DictionaryArray.from_arrays(pa.array(which.astype(np.int32)), names),
    }
    if case.ids:
        columns["id"] = pa.array(np.char.mod("e%012d", np.arange(case.events)))
    pq.write_table(pa.table(columns), folder / "events.parquet", row_group_size=1 << 20)


def config_of(case: Case, folder: Path) -> str:
    """The job."""
    end = np.datetime64(START + case.ticks * MINUTE, "us")
    return CONFIG.format(folder=folder, end=f"{end}Z", ids=", id: id" if case.ids else "")


def run(case: Case) -> tuple[float, float, float]:
    """Processor seconds, wall seconds and peak memory in GB of a whole run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        writer = os.fork()  # its memory is not that of the run
        if not writer:
            write_events(case, folder)
            os._exit(0)
        if os.waitpid(writer, 0)[1]:
            raise SystemExit(f"the events of {case.text} were not written.")
        config = folder / "job.yaml"
        config.write_text(config_of(case, folder))
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "weir", "run", str(config), "--json"], stdout=subprocess.DEVNULL
        )
        _, status, used = os.wait4(process.pid, 0)
        wall = time.monotonic() - began
        if status:
            raise SystemExit(f"the run of {case.text} failed.")
        return used.ru_utime + used.ru_stime, wall, used.ru_maxrss / 1e6


def fit(cases: tuple[Case, ...], seconds: list[float]) -> NDArray[np.float64]:
    """Seconds of each unit: least squares of relative errors, none below zero."""
    rows = np.array([case.units for case in cases]) / np.array(seconds)[:, None]
    scale = np.abs(rows).max(axis=0)
    found, _ = nnls(rows / scale, np.ones(len(cases)))
    return np.asarray(found / scale)


def state_of_key() -> float:
    """Bytes that Tick stores for a key, as the plan says."""
    case = Case(1_000, 2, 1_000)
    return float(Plan.from_yaml(config_of(case, Path("."))).to_json()["state_bytes_per_key"])


def predictions(
    costs: NDArray[np.float64],
    streamed: float,
    core_hour: float,
    gigabyte_month: float,
    horizon_hours: float,
) -> Iterator[dict[str, float | str]]:
    """Machines and money of the large cases. streamed: seconds of an event on its way in."""
    _, event, own_id, leaf, _, release = costs
    size = state_of_key()
    for keys, an_hour, rate in LARGE:
        for_events = rate * (event + own_id + streamed)
        ticks = keys * an_hour / 3600  # of all keys, a second
        for_releases = ticks * release - ticks * math.expm1(-rate / ticks) * leaf
        cores = math.ceil(for_events / 0.6) + math.ceil(for_releases / 0.6)  # 60 % busy
        period = 3600 / an_hour
        stored = keys * size / 1e9 + rate * horizon_hours * 3600 * ID_BYTES / 1e9
        yield {
            "keys": f"{keys:.0e}",
            "period": f"{period:,.0f} s",
            "events/s": f"{rate:.0e}",
            "busy cores, events": round(for_events, 2),
            "busy cores, releases": round(for_releases, 2),
            "cores at 60 %": cores,
            "tick to last release, s": round(keys * (release + leaf) / cores, 2),
            "state, GB": round(stored, 1),
            "euros a month": round(cores * core_hour * 730 + stored * gigabyte_month),
        }


def measure(bench: Bench) -> None:
    """Calibrates, checks, extrapolates."""
    args = bench.args

    def least(case: Case) -> tuple[float, float, float]:
        return min(run(case) for _ in range(args.repeat))

    found = []
    for case in progress(CALIBRATION, "calibration"):
        seconds, wall, memory = least(case)
        found.append(seconds)
        print(f"{case.text}: {seconds:6.1f} s of processor, {wall:6.1f} s, {memory:.2f} GB")
    costs = fit(CALIBRATION, found)
    shown = (
        f"{name} {cost:.2f} s" if cost > 0.1 else f"{name} {cost * 1e6:.3f} us"
        for name, cost in zip(UNITS, costs.tolist(), strict=True)
    )
    print("unit costs: " + "; ".join(shown))
    within = True
    for case in CHECKED[: 2 if bench.short else 3]:
        expected = float(case.units @ costs)
        seconds, wall, memory = least(case)
        within &= 0.75 <= expected / seconds <= 1.25
        row = {"run": case.text.strip(), "predicted, s": expected, "measured, s": seconds}
        row |= {"predicted / measured": expected / seconds, "wall, s": wall, "memory, GB": memory}
        bench.row(**row)
    money = args.core_hour, args.gigabyte_month, args.horizon_hours
    for large in predictions(costs, args.streamed / 1e6, *money):
        bench.row("_large", **large)
    print("within 25 %" if within else "NOT within 25 %")


if __name__ == "__main__":
    main(
        measure,
        repeat={"type": int, "default": 1, "help": "take the least of so many runs"},
        streamed={
            "type": float,
            "default": 3.6,
            "help": "microseconds of processor for an event from Pub/Sub through Flink, server and "
            "publisher included: 2 cores at 562,000 events/s (benchmarks/stream_throughput.py)",
        },
        core_hour={"type": float, "default": 0.045, "help": "euros"},
        gigabyte_month={"type": float, "default": 0.10, "help": "euros"},
        horizon_hours={"type": float, "default": 1.0, "help": "ids are kept so long"},
    )
