"""How many events a second become a regression's statistics, beside one plain matrix product?

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.regression_speed [--millions 20 300]
                                                             [--rounds 3] [--short]

Statistics: Parquet of d float columns and a target, 24 ticks of one key, through the whole pipeline
in one process (files, decoding, bounding, exact sums, noise, models, files), turn about with two
peers over the same rows: numpy that reads the same file, times too, and adds up [x y]' [x y] batch
by batch (``file and GEMM``: no ticks, no bounds, nothing exact, no noise), and that product alone
on rows that lie in memory (``GEMM``), in the order that suits it. ``--millions`` is the number of
values in a file, so that wide events are fewer; of a small file the fixed cost of a run (0.07 s in
a process that has run before, docs/performance.md) is half, so it has no goal. ``statistics`` is
what the program itself needs: bounding and exact sums of rows in memory. Medians of the rounds,
events a second on the clock; ratios are of processor time (all threads) and of the clock, medians
of the ratios of neighbours. The two differ: the pipeline reads in one thread and adds up in
another, and the peer has Arrow's threads.

Solves: models a second on one core, from noisy moments to coefficients with their bands (``solve``
of the program), over the l2 and l1 balls, one key and 1,000 keys, and the bytes of state that a key
has. Set OPENBLAS_NUM_THREADS=1, or the peers use all cores. Writes
benchmarks/results/regression_speed.csv.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.beside import Ratio, write
from weir.dpcore.plan import Plan
from weir.pipelines.config.job import JobConfig, loads
from weir.pipelines.graph import build
from weir.pipelines.graph.parts import parts_of
from weir.transforms.runtime.allocation import keep_freed

Floats = NDArray[np.float64]

RESULTS = Path(__file__).parent / "results"
DIMENSIONS = (10, 50, 200)
TICKS, HOUR = 24, 3_600_000_000
START = 1_704_067_200_000_000
ROW_GROUP = 1 << 16
MANY = 1_000
SECONDS = 2.0
SHORT = 5.0
LARGE = 100.0
"""Millions of values from which on the fixed cost of a run hardly counts: there is a goal."""
MECHANISMS = ("blt", "tree", "hybrid", "toeplitz")

CONFIG = """
name: speed
source: {{parquet: {file}}}
schema: {{time: t}}
{key}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: {end}}}
privacy: {{epsilon: 1.0, delta: 1e-6, protect_for: all}}
{mechanism}
model:
  algorithm: regression.incremental
  features: [{features}]
  target: y
  intercept: false
  ranges: {{{ranges}}}
  set: {set}
  clip: {{features: {reach}}}
sink: {{parquet: {out}}}
"""


def job_of(
    d: int,
    file: Path | str = "events.parquet",
    out: Path | str = "out",
    convex_set: str = "{l2_ball: 1}",
    keys: int = 1,
    mechanism: str = "",
    ticks: int = TICKS,
) -> JobConfig:
    """The config of one run."""
    names = [f"x{i}" for i in range(d)]
    declared = ", ".join(f"k{i}" for i in range(keys))
    end = np.datetime64("2024-01-01T00:00:00") + np.timedelta64(ticks, "h")
    text = CONFIG.format(
        file=file,
        out=out,
        key=f"key: {{column: k, declared: [{declared}]}}" if keys > 1 else "",
        end=f"{end}Z",
        mechanism=f"mechanism: {{continual_sum: {mechanism}}}" if mechanism else "",
        features=", ".join(names),
        ranges=", ".join(f"{name}: [-1, 1]" for name in (*names, "y")),
        set=convex_set,
        reach=d**0.5 / 2,
    )
    return loads(text)


def rows_of(d: int, events: int) -> Floats:
    """(events, d + 1) features and target, within [-1, 1], few of them longer than the clip."""
    rng = np.random.default_rng(1)
    table = rng.random((events, d + 1)) * 1.6 - 0.8
    table[:, d] = np.clip(table[:, :d] @ np.full(d, 0.5 / d), -1, 1)
    return np.asarray(table)


def write_file(path: Path, rows: Floats) -> None:
    """Parquet, sorted by time."""
    d = rows.shape[1] - 1
    times = np.sort(np.random.default_rng(2).integers(0, TICKS * HOUR, len(rows))) + START
    columns = {f"x{i}": np.ascontiguousarray(rows[:, i]) for i in range(d)}
    table = {"t": pa.array(times).cast(pa.timestamp("us", tz="UTC")), **columns, "y": rows[:, d]}
    pq.write_table(pa.table(table), path, row_group_size=ROW_GROUP, use_dictionary=False)


def weir(job: JobConfig) -> None:
    """A whole run, noise, models and files included."""
    parts = parts_of(job)
    pipeline = beam.Pipeline(runner=build.in_process_runner())
    build.build(pipeline, parts)
    parts.sink.prepare(parts.plan, parts.secrets, True)
    pipeline.run().wait_until_finish()
    parts.sink.finish(parts.plan, True)


def file_and_gemm(file: Path, d: int) -> Floats:
    """Reads the file and multiplies."""
    names = [*(f"x{i}" for i in range(d)), "y"]
    total = np.zeros((d + 1, d + 1))
    room = np.empty(
        (d + 1, ROW_GROUP)
    )  # made once: new memory in each turn costs more than the rest
    # Or Arrow keeps all that it has read of the file.
    groups = pq.ParquetFile(file, pre_buffer=False)
    for batch in groups.iter_batches(ROW_GROUP, columns=["t", *names]):
        part = room[:, : batch.num_rows]
        np.stack([column.to_numpy() for column in batch.columns[1:]], out=part)
        total += part @ part.T
    return total


def gemm(rows: Floats) -> Floats:
    """Multiplies rows in memory, as much at a time as from a file."""
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for first in range(0, len(rows), ROW_GROUP):
        part = rows[first : first + ROW_GROUP]
        total += part.T @ part
    return total


def own_statistics(program: Any, columns: dict[str, Floats], n: int) -> Any:
    """Bounds and sums rows in memory, by tick, as much at a time as from a file."""
    ticks = np.arange(n) * TICKS // n
    total = np.zeros((TICKS, program.dimension), dtype=np.int64)
    for first in range(0, n, ROW_GROUP):
        piece = slice(first, min(n, first + ROW_GROUP))
        some = {name: column[piece] for name, column in columns.items()}
        bounded = program.bound(some, piece.stop - first)
        total += program.accumulate(bounded.rows, ticks[piece], TICKS)
    return total


class Took(NamedTuple):
    """Seconds on the clock, and seconds of all cores."""

    wall: float
    cpu: float


def seconds(work: Callable[[], Any]) -> Took:
    """Runs it once."""
    began = time.perf_counter(), time.process_time()
    work()
    return Took(time.perf_counter() - began[0], time.process_time() - began[1])


def timed(d: int, events: int, rounds: int, folder: Path) -> dict[str, list[Took]]:
    """Seconds of each round, after one that warms up."""
    file, rows = folder / "events.parquet", rows_of(d, events)
    write_file(file, rows)
    program = Plan.from_config(job_of(d).plan_config()).program
    columns = {f"x{i}": np.ascontiguousarray(rows[:, i]) for i in range(d)}
    columns["y"] = np.ascontiguousarray(rows[:, d])
    took: dict[str, list[Took]] = {}
    for i in range(rounds + 1):
        job = job_of(d, file, folder / f"out{i}")
        works: dict[str, Callable[[], Any]] = {
            "weir pipeline": lambda job=job: weir(job),  # type: ignore[misc]
            "weir statistics": lambda: own_statistics(program, columns, events),
            "file and GEMM": lambda: file_and_gemm(file, d),
            "GEMM": lambda: gemm(rows),
        }
        for name, work in works.items():
            took.setdefault(name, []).append(seconds(work))
    return {name: all_[1:] for name, all_ in took.items()}


def statistics_speed(millions: float, rounds: int) -> list[list[Any]]:
    """Events a second, and ratios."""
    found: list[list[Any]] = []
    for d in DIMENSIONS:
        events = int(millions * 1e6 / (d + 1))
        folder = Path(tempfile.mkdtemp(prefix="weir-regression-"))
        try:
            took = timed(d, events, rounds, folder)
        finally:
            shutil.rmtree(folder)
        peers = took["file and GEMM"], took["GEMM"]
        for name, mine in took.items():
            rate = events / statistics.median(one.wall for one in mine)
            ratios = [
                statistics.median(b.cpu / a.cpu for a, b in zip(mine, peer, strict=True))
                for peer in peers
            ]
            neighbours = zip(mine, peers[0], strict=True)
            ratios.append(statistics.median(b.wall / a.wall for a, b in neighbours))
            shown = [f"{r:.3f}" for r in ratios]
            found.append(["statistics", name, d, 1, f"{rate:.0f}", *shown, millions])
            print(
                f"{millions:g} M values, d = {d:<4} {name:16} {rate / 1e6:8.3f} M events/s, "
                f"{ratios[0]:6.2f} of file and GEMM ({ratios[2]:.2f} by the clock), "
                f"{ratios[1]:6.2f} of GEMM",
                flush=True,
            )
    return found


def noisy_moments(program: Any, ticks: int, keys: int) -> Any:
    """Moments of 20,000 events a key with noise, as ``step`` releases them: (ticks, keys, D)."""
    d = program.rows.moments.features
    rows = rows_of(d, 20_000)
    columns = {name: rows[:, i] for i, name in enumerate(program.columns)}
    exact = program.accumulate(program.bound(columns, len(rows)).rows, np.zeros(len(rows), int), 1)
    (part,) = program.parts
    spread = part.stddev(np.arange(ticks), None)[:, None, :]
    noise = np.random.default_rng(3).normal(size=(ticks, keys, program.dimension))
    return exact[0] + np.rint(noise * spread)


def solve_speed() -> list[list[Any]]:
    """Models a second of processor time."""
    found: list[list[Any]] = []
    sizes = [(d, 1) for d in DIMENSIONS] + [(DIMENSIONS[0], MANY)]
    for ball, (d, keys) in ((ball, size) for ball in ("l2_ball", "l1_ball") for size in sizes):
        job = job_of(d, convex_set=f"{{{ball}: 1}}", keys=keys)
        program: Any = Plan.from_config(job.plan_config()).program
        ticks = 2 if keys > 1 else TICKS
        noisy, at = noisy_moments(program, ticks, keys), np.arange(ticks)
        program.solve((noisy,), at)
        began, done = time.process_time(), 0
        while time.process_time() - began < SECONDS:
            program.solve((noisy,), at)
            done += ticks * keys
        rate = done / (time.process_time() - began)
        found.append(["solve", ball, d, keys, f"{rate:.0f}", *[""] * 4])
        print(f"d = {d:<4} {keys:5,} keys, {ball}: {rate:10,.0f} models/s", flush=True)
    return found


def state() -> list[list[Any]]:
    """Bytes of state of a key, at 1,000 ticks."""
    found: list[list[Any]] = []
    for name in MECHANISMS:
        shown = f"state of a key, {name:9}"
        for d in DIMENSIONS:
            plan = Plan.from_config(job_of(d, mechanism=name, ticks=1_000).plan_config())
            size = plan.program.state_bytes()
            found.append(["state", name, d, 1, size, *[""] * 4])
            shown += f"   d = {d}: {size:,} bytes ({size / plan.program.dimension:.0f} a sum)"
        print(shown, flush=True)
    return found


def tell(found: list[list[Any]], short: bool) -> None:
    """Writes the whole pipeline's ratios to the file and one matrix product; of short runs those
    of processor time alone, which others on the machine disturb less."""
    told = ((5, ""),) if short else ((5, ""), (7, ", by the clock"))
    rows = [
        Ratio(
            f"statistics of a regression, {line[8]:g} M values, d = {line[2]}{how}",
            "file and GEMM",
            float(line[at]),
            0.9 if line[8] >= LARGE else 0.0,
        )
        for line in found
        if line[1] == "weir pipeline"
        for at, how in told
    ]
    write("regression_speed", rows, short)


def main() -> None:
    """Measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--millions", type=float, nargs="+", default=[20.0, 300.0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--short", action="store_true", help="statistics of few events alone")
    args = parser.parse_args()
    keep_freed()  # as `weir run` does
    if args.short:
        tell(statistics_speed(SHORT, 1), True)
        return
    found = [*state(), *solve_speed()]
    for millions in args.millions:
        found += statistics_speed(millions, args.rounds)
    tell(found, False)
    RESULTS.mkdir(exist_ok=True)
    with open(RESULTS / "regression_speed.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            [
                *("what", "who", "d", "keys", "a_second_or_bytes"),
                *("of_file", "of_gemm", "of_file_by_clock", "millions"),
            ]
        )
        writer.writerows(found)


if __name__ == "__main__":
    main()
