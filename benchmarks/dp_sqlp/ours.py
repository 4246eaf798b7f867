"""Weir on the same events: a config through the whole pipeline, Parquet in, Parquet out."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.dp_sqlp.data import MINUTES, START
from benchmarks.dp_sqlp.errors import Errors, errors
from benchmarks.dp_sqlp.published import CAP, DELTA, EPSILON
from benchmarks.harness import Took, process_memory

CONFIG = """\
name: dp-sqlp
source: {{parquet: {file}}}
schema: {{time: time, unit: user, id: id}}
key: {{column: key, discover: {discover}}}
clock: {{start: {start}Z, period: {period}m, end: {end}Z}}
privacy:
  epsilon: {epsilon}
  delta: {delta}
  unit: user
  per: all
  protect_for: all
  contributions: {contributions}
aggregates:
  n: {aggregate}
sink: {{parquet: {out}, layout: packed}}
"""


class Way(NamedTuple):
    """What counts of a user, and how it is asked for.

    Attributes:
      contributions: the caps. All ways let a user into 32 cells of a key and a tick.
      aggregate: what is counted.
      discover: people a key must have before it is looked at; and the share of the budget for the
        count that keys are found by, where that count is not what is released.
    """

    contributions: str
    aggregate: str
    discover: str = "{min_users: 1}"


ONCE = f"{{ticks: {CAP}, keys: {CAP}, events: 1, ticks_per_key: 1, total: {CAP}}}"
ANY = f"{{ticks: {CAP}, keys: {CAP}, events: 1, total: {CAP}}}"
WAYS = {
    "once a key": Way(ONCE, "{count: users, per: period}"),
    "once a key, min_users 20": Way(ONCE, "{count: users, per: period}", "{min_users: 20}"),
    "any 32 events": Way(ANY, "{count: events}", "{min_users: 1, share: 0.7}"),
}


class Ran(NamedTuple):
    """What a run released and took.

    Attributes:
      errors: at the last tick.
      rows: releases of all ticks.
      seconds: start of the interpreter included.
      gigabytes: peak memory of the process and all that it started, looked at ten times a second.
    """

    errors: Errors
    rows: int
    seconds: Took
    gigabytes: float


def config(way: Way, file: Path, out: Path, ticks: int) -> str:
    """The config as a user writes it."""
    return CONFIG.format(
        file=file,
        out=out,
        start=np.datetime64(START, "us").astype("datetime64[s]"),
        end=np.datetime64(START, "us").astype("datetime64[s]") + np.timedelta64(MINUTES, "m"),
        period=MINUTES // ticks,
        epsilon=EPSILON,
        delta=DELTA,
        contributions=way.contributions,
        aggregate=way.aggregate,
        discover=way.discover,
    )


def run(way: Way, file: Path, folder: Path, ticks: int, truth: NDArray[np.int64]) -> Ran:
    """``weir run`` in a process of its own.

    Raises:
      RuntimeError: it failed; its words are on the terminal.
    """
    out, job = folder / "out", folder / "job.yaml"
    job.write_text(config(way, file, out, ticks))
    began = time.perf_counter()
    words = [sys.executable, "-m", "weir", "run", str(job)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    peak, over = [0.0], threading.Event()
    watch = threading.Thread(target=_watch, args=(process.pid, peak, over))
    watch.start()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = Took(time.perf_counter() - began, usage.ru_utime + usage.ru_stime)
    over.set()
    watch.join()
    if os.waitstatus_to_exitcode(status):
        raise RuntimeError(f"weir run {job} ended with {os.waitstatus_to_exitcode(status)}")
    found, rows = released(out, ticks, truth)
    # What the system notes of a process (``ru_maxrss``) begins with what this one holds.
    return Ran(found, rows, seconds, peak[0])


def _watch(process: int, peak: list[float], over: threading.Event) -> None:
    """Notes the most that a process and its descendants had together, in GB."""
    while not over.wait(0.1):
        peak[0] = max(peak[0], process_memory(process) / 2**30)


def released(out: Path, ticks: int, truth: NDArray[np.int64]) -> tuple[Errors, int]:
    """The errors at the last tick, and how many releases there are."""
    rows, last = 0, []
    for file in sorted(out.rglob("*.parquet")):
        table = pq.read_table(file, columns=["key", "tick", "value"])
        rows += table.num_rows
        last.append(table.filter(pc.equal(table["tick"], ticks - 1)))
    table = pa.concat_tables(last)
    key = pc.cast(table["key"].combine_chunks(), pa.int64()).to_numpy()
    value = table["value"].combine_chunks()
    if pa.types.is_list(value.type) or pa.types.is_large_list(value.type):
        value = value.flatten()
    live = np.zeros(len(truth), dtype=np.bool_)
    live[key] = True
    values = np.zeros(len(truth))
    values[key] = value.to_numpy()
    return errors(truth, live, values), rows
