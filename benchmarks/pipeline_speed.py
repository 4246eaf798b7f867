"""How many events a second does the whole pipeline take, beside plain numpy and PipelineDP?

    python -m benchmarks.pipeline_speed [--events 10000000] [--[no-]pipeline-dp] [--short]

Parquet of 64 keys (text) over 1,000 ticks, counted and summed, in one process: sorted by time,
shuffled, and shuffled with string ids of which 10 % come twice; and ten files of the first sort.
Peers, in the same run: a numpy loop over the same files that counts and sums by key and tick, and
draws no noise, turn about with ours, with ids once more with ``np.unique`` of their 128-bit hashes
behind it; PipelineDP, where it is installed (it is in the extra ``bench``), that counts 200,000
events, by key once on its local backend, and by key and tick, as Weir does, on Beam in the same
in-process runner. Medians of the rounds; the ratio is the median of the ratios of neighbours.
Writes benchmarks/results/pipeline_speed.csv and pipeline_speed.ratios.csv; ``--short`` takes
1,000,000 events, where the fixed cost of a run is most of it, without PipelineDP and the ten files,
and writes pipeline_speed.short.ratios.csv alone. Some six minutes; short: less than half of one.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import itertools
import shutil
import tempfile
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.beside import RESULTS, Ratio, Took, beside, write
from weir.dpcore.leaves.id_hash import id_hashes
from weir.pipelines.config.job import JobConfig, loads
from weir.pipelines.graph import build
from weir.pipelines.graph.parts import parts_of
from weir.transforms.runtime.allocation import keep_freed

KEYS, TICKS, MINUTE = 64, 1_000, 60_000_000
START = 1_704_067_200_000_000
NAMES = [f"key{i:02d}" for i in range(KEYS)]
PEER_EVENTS = 200_000
ROW_GROUP = 1 << 18

CONFIG = """
name: speed
source: {{parquet: {file}}}
schema: {{time: t{id}}}
key: {{column: k, declared: [{keys}]}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1m, end: 2024-01-01T16:40:00Z}}
privacy: {{epsilon: 1.0, delta: 1e-6, protect_for: 256}}
aggregates: {{events: {{count: events}}, total: {{sum: v, clip: [0, 10]}}}}
sink: {{parquet: {out}}}
"""


def make_files(folder: Path, events: int) -> dict[str, Path]:
    """The inputs: sorted, shuffled, shuffled with ids, and the first ten times over."""
    rng = np.random.default_rng(1)
    times = np.sort(rng.integers(0, TICKS * MINUTE, events)) + START
    keys = rng.integers(0, KEYS, events).astype(np.int32)
    table = pa.table(
        {
            "t": pa.array(times).cast(pa.timestamp("us", tz="UTC")),
            "k": pa.array(NAMES).take(pa.array(keys)),
            "v": rng.gamma(2, 2, events),
        }
    )
    files = {name: folder / f"{name}.parquet" for name in ("sorted", "shuffled", "ids")}
    pq.write_table(table, files["sorted"], row_group_size=ROW_GROUP)
    mixed = table.take(rng.permutation(events))
    pq.write_table(mixed, files["shuffled"], row_group_size=ROW_GROUP)
    numbers = np.arange(events)
    twice = rng.random(events) < 0.1
    numbers[twice] = rng.integers(0, events, int(twice.sum()))
    ids = pa.array(np.char.mod("event-%d", numbers))
    pq.write_table(mixed.append_column("id", ids), files["ids"], row_group_size=ROW_GROUP)
    files["ten-files"] = folder / "ten"
    files["ten-files"].mkdir()
    for i in range(10):
        (files["ten-files"] / f"{i}.parquet").hardlink_to(files["sorted"])
    return files


def job_of(file: Path, out: Path, with_id: bool) -> JobConfig:
    """The config of one run."""
    keys = ", ".join(NAMES)
    text = CONFIG.format(file=file, out=out, keys=keys, id=", id: id" if with_id else "")
    return loads(text)


def weir(job: JobConfig) -> None:
    """A whole run, noise and files included."""
    parts = parts_of(job)
    pipeline = beam.Pipeline(runner=build.in_process_runner())
    build.build(pipeline, parts)
    parts.sink.prepare(parts.plan, parts.secrets, True)
    pipeline.run().wait_until_finish()
    parts.sink.finish(parts.plan, True)


def numpy_loop(file: Path) -> Any:
    """Counts and sums per key and tick: no noise, no files, nothing exact."""
    counts = np.zeros(KEYS * TICKS)
    sums = np.zeros(KEYS * TICKS)
    place = {name: i for i, name in enumerate(NAMES)}
    files = sorted(file.iterdir()) if file.is_dir() else [file]
    opened = (pq.ParquetFile(one) for one in files)
    asked = (one.iter_batches(ROW_GROUP, columns=["t", "k", "v"]) for one in opened)
    for batch in itertools.chain.from_iterable(asked):
        tick = (batch.column("t").view(pa.int64()).to_numpy() - START) // MINUTE
        keys = batch.column("k").dictionary_encode()
        row = np.array([place[name] for name in keys.dictionary.to_pylist()])
        cell = row[keys.indices.to_numpy()] * TICKS + tick
        value = np.clip(np.nan_to_num(batch.column("v").to_numpy()), 0, 10)
        counts += np.bincount(cell, minlength=len(counts))
        sums += np.bincount(cell, weights=value, minlength=len(sums))
    return counts, sums


def pipeline_dp_count(file: Path, on_beam: bool) -> None:
    """PipelineDP counting events: by key on its local backend, or by key and tick on Beam."""
    import pipeline_dp

    table = pq.read_table(file, columns=["t", "k"]).slice(0, PEER_EVENTS)
    ticks = (table["t"].combine_chunks().view(pa.int64()).to_numpy() - START) // MINUTE
    parts: list[Any] = table["k"].to_pylist()
    public: list[Any] = NAMES
    if on_beam:
        parts = list(zip(parts, ticks.tolist(), strict=True))
        public = [(name, tick) for name in NAMES for tick in range(TICKS)]
    budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1.0, total_delta=1e-6)
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: 1,
    )
    params = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.COUNT],
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        noise_kind=pipeline_dp.NoiseKind.GAUSSIAN,
    )
    rows = list(enumerate(parts))
    if not on_beam:
        engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
        found = engine.aggregate(rows, params, extractors, public_partitions=public)
        budget.compute_budgets()
        assert len(list(found)) == KEYS
        return
    with beam.Pipeline(runner=build.in_process_runner()) as pipeline:
        engine = pipeline_dp.DPEngine(budget, pipeline_dp.BeamBackend())
        events = pipeline | beam.Create(rows)
        found = engine.aggregate(events, params, extractors, public_partitions=public)
        budget.compute_budgets()
        found | beam.combiners.Count.Globally()


def unique_loop(file: Path) -> Any:
    """The loop, and how many ids there are: by keyed hashes in one array, sorted by numpy."""
    found = numpy_loop(file)
    key = bytes(16)
    batches = pq.ParquetFile(file).iter_batches(ROW_GROUP, columns=["id"])
    hashes = np.concatenate([id_hashes(batch.column("id"), key).hashes for batch in batches])
    return found, len(np.unique(hashes.view([("high", "<u8"), ("low", "<u8")])))


WITHOUT = (
    "PipelineDP is not installed, so there are no rows beside it: pip install -e '.[bench]' (or "
    "pip install pipeline-dp)."
)


def main() -> None:
    """Prints and writes events a second, and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=0, help="10,000,000; short: 1,000,000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--pipeline-dp",
        action=argparse.BooleanOptionalAction,
        help="beside PipelineDP too; without a word, where it is installed",
    )
    parser.add_argument("--short", action="store_true")
    args = parser.parse_args()
    there = importlib.util.find_spec("pipeline_dp") is not None
    if args.pipeline_dp and not there:
        parser.error(WITHOUT)
    with_peer = there and not args.short if args.pipeline_dp is None else args.pipeline_dp
    if not there and args.pipeline_dp is None and not args.short:
        print(WITHOUT, flush=True)
    count = args.events or (1_000_000 if args.short else 10_000_000)
    rounds = min(args.rounds, 3) if args.short else args.rounds
    keep_freed()  # as `weir run` does
    folder = Path(tempfile.mkdtemp(prefix="weir-speed-"))
    found: list[tuple[str, str, float, float]] = []
    ratios: list[Ratio] = []

    def note(who: str, what: str, events: int, took: Took) -> float:
        rate = events / took.wall
        found.append((who, what, rate, took.cpu))
        line = f"{who:12} {what:28} {rate / 1e6:8.3f} M events/s, {took.cpu:.2f} s of CPU"
        print(line, flush=True)
        return rate

    try:
        files = make_files(folder, count)
        runs: list[tuple[str, Any, str, float]] = [
            ("sorted", numpy_loop, "numpy loop", 0.75),
            ("shuffled", numpy_loop, "numpy loop", 0.75),
            ("ids", numpy_loop, "numpy loop", 0.3),
        ]
        if not args.short:
            runs.append(("ids", unique_loop, "numpy loop and np.unique of hashes", 0.3))
            runs.append(("ten-files", numpy_loop, "numpy loop", 0.9))
        for name, loop, bound, goal in runs:
            outs = iter(range(1 << 30))

            def ours(name: str = name, bound: str = bound, outs: Any = outs) -> None:
                out = folder / f"out-{name}-{len(bound)}-{next(outs)}"
                weir(job_of(files[name], out, name == "ids"))

            ratio, own, peer = beside(ours, lambda f=files[name], loop=loop: loop(f), rounds)
            events = 10 * count if files[name].is_dir() else count
            note(bound, name, events, peer)
            note("weir", name, events, own)
            found.append((f"weir / {bound}", name, ratio, 0.0))
            ratios.append(Ratio(f"Parquet, {events:,} events, {name}", bound, ratio, goal))
        if with_peer:
            small = folder / "small.parquet"
            table = pq.read_table(files["sorted"]).slice(0, PEER_EVENTS)
            pq.write_table(table, small, row_group_size=ROW_GROUP)
            outs = iter(range(1 << 30))
            for what, on_beam, goal in (
                ("by key, local", False, 1.0),
                ("by key and tick, Beam", True, 80.0),
            ):
                ratio, own, peer = beside(
                    lambda: weir(job_of(small, folder / f"out-small-{next(outs)}", False)),
                    lambda on_beam=on_beam: pipeline_dp_count(small, on_beam),  # type: ignore[misc]
                    rounds,
                )
                note("PipelineDP", what, PEER_EVENTS, peer)
                note("weir", f"{PEER_EVENTS:,} events", PEER_EVENTS, own)
                found.append((f"weir / PipelineDP, {what}", f"{PEER_EVENTS:,} events", ratio, 0.0))
                bound = f"PipelineDP, {what}"
                ratios.append(Ratio(f"{PEER_EVENTS:,} events", bound, ratio, goal))
    finally:
        shutil.rmtree(folder)
    write("pipeline_speed", ratios, args.short)
    if args.short:
        return
    with open(RESULTS / "pipeline_speed.csv", "w", newline="", encoding="utf-8") as file_:
        writer = csv.writer(file_)
        writer.writerow(["who", "what", "events_per_second", "cpu_seconds"])
        writer.writerows((who, what, f"{r:.3g}", f"{cpu:.2f}") for who, what, r, cpu in found)


if __name__ == "__main__":
    main()
