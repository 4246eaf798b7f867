"""How many events a second become a regression's statistics, compared with one matrix product?

Statistics: Parquet of d float columns and a target, 24 ticks of one key, through the whole pipeline
in one process (files, decoding, bounding, exact sums, noise, models, files). The peers have the
same rows: numpy that reads the same file, times too, and adds up [x y]' [x y] batch by batch
(``file and GEMM``: no ticks, no bounds, nothing exact, no noise), and that product alone of rows in
memory (``GEMM``), in the order that suits it. ``--millions`` is the number of values in a file, so
that wide events are fewer; of a small file the fixed cost of a run (0.07 s in a process that ran
before, benchmarks/results/stages.md) is half, so it has no goal. ``weir statistics`` is what the
program itself needs: bounding and exact sums of rows in memory. Ratios are of processor time (all
threads) and, but for short forms, of the clock. The two differ: the pipeline reads in one thread
and adds up in another, and the peer has Arrow's threads.

Solves: models a second on one core, from noisy moments to coefficients with their margins
(``solve``
of the program), over the l2 and l1 balls, one key and 1,000 keys, and the bytes of state that a key
has. Set OPENBLAS_NUM_THREADS=1, or the peers use all cores.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.harness import Bench, interleaved, main, median, rate
from benchmarks.whole_run import START, whole_run
from weir.dpcore.plan import Plan
from weir.pipelines.config.job import JobConfig, loads
from weir.pipelines.graph.parts import parts_of

Floats = NDArray[np.float64]
DIMENSIONS = (10, 50, 200)
TICKS, HOUR = 24, 3_600_000_000
ROW_GROUP = 1 << 16
MANY = 1_000
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


def statistics_speed(bench: Bench, millions: float, d: int) -> None:
    """Events a second, and ratios."""
    events = int(millions * 1e6 / (d + 1))
    with bench.folder() as folder:
        file, rows, outs = folder / "events.parquet", rows_of(d, events), iter(range(1_000))
        write_file(file, rows)
        program = Plan.from_config(job_of(d).plan_config()).program
        columns = {f"x{i}": np.ascontiguousarray(rows[:, i]) for i in range(d)}
        columns["y"] = np.ascontiguousarray(rows[:, d])
        works = {
            "weir pipeline": lambda: whole_run(parts_of(job_of(d, file, folder / f"{next(outs)}"))),
            "weir statistics": lambda: own_statistics(program, columns, events),
            "file and GEMM": lambda: file_and_gemm(file, d),
            "GEMM": lambda: gemm(rows),
        }
        took = interleaved(works, min(bench.rounds, 3), f"{millions:g} M values, d = {d}")
    goal = 0.9 if millions >= LARGE else 0.0
    for at, how in ((1, ""),) if bench.short else ((1, ""), (0, ", by the clock")):
        what = f"statistics of a regression, {millions:g} M values, d = {d}{how}"
        ours, peer = ([one[at] for one in took[who]] for who in ("weir pipeline", "file and GEMM"))
        bench.note(what, "file and GEMM", ours, peer, goal)
    for who, found in took.items():
        wall, cpu = median(found)
        bench.row(what="statistics", who=who, d=d, keys=1, per_second=events / wall,
                  per_cpu_second=events / cpu, millions=millions)  # fmt: skip


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


def solve_speed(bench: Bench) -> None:
    """Models a second of processor time."""
    sizes = [(d, 1) for d in DIMENSIONS] + [(DIMENSIONS[0], MANY)]
    for ball, (d, keys) in ((ball, size) for ball in ("l2_ball", "l1_ball") for size in sizes):
        job = job_of(d, convex_set=f"{{{ball}: 1}}", keys=keys)
        program: Any = Plan.from_config(job.plan_config()).program
        ticks = 2 if keys > 1 else TICKS
        noisy, at = noisy_moments(program, ticks, keys), np.arange(ticks)
        found = rate(lambda: program.solve((noisy,), at), ticks * keys, 2.0, 1, cpu=True)
        bench.row(what="solve", who=ball, d=d, keys=keys, per_cpu_second=found)


def state(bench: Bench) -> None:
    """Bytes of state of a key, at 1,000 ticks."""
    for name in MECHANISMS:
        for d in DIMENSIONS:
            plan = Plan.from_config(job_of(d, mechanism=name, ticks=1_000).plan_config())
            size = plan.program.state_bytes()
            bench.row(what="state", who=name, d=d, keys=1, bytes=size,
                      bytes_of_a_sum=size / plan.program.dimension)  # fmt: skip


def measure(bench: Bench) -> None:
    """Statistics; but for short forms, state and solves first."""
    if not bench.short:
        state(bench)
        solve_speed(bench)
    for millions in [SHORT] if bench.short else bench.args.millions:
        for d in DIMENSIONS:
            statistics_speed(bench, millions, d)


if __name__ == "__main__":
    main(measure, millions={"type": float, "nargs": "+", "default": [20.0, 300.0]})
