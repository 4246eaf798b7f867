"""How many events a second does the whole pipeline take, compared with plain numpy and PipelineDP?

Parquet of 64 keys (text) over 1,000 ticks, counted and summed, in one process: sorted by time,
shuffled, and shuffled with string ids of which 10 % come twice; and ten files of the first sort.
The first peer is a numpy loop over the same files that counts and sums by key and tick and draws no
noise; with ids once more followed by ``np.unique`` of their 128-bit hashes. The second is
PipelineDP (in the extra ``bench``) that counts 200,000 events: by key once on its local backend,
and by key and tick, as Weir does, on Beam in its in-process runner. Short: 1,000,000 events,
where the fixed cost of a run is most of it, without PipelineDP and the ten files. Six minutes;
short: half of one.
"""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Bench, Compared, main
from benchmarks.whole_run import MINUTE, START, whole_run
from weir.dpcore.leaves.hashes import id_hashes
from weir.pipelines.config.job import loads
from weir.pipelines.graph import build
from weir.pipelines.graph.parts import parts_of

KEYS, TICKS = 64, 1_000
NAMES = [f"key{i:02d}" for i in range(KEYS)]
PEER_EVENTS = 200_000
ROW_GROUP = 1 << 18
CONFIG = """
name: speed
source: {{parquet: {file}}}
schema: {{time: t{id}}}
key: {{column: k, declared: [{keys}]}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1m, end: 2024-01-01T16:40:00Z}}
privacy: {{epsilon: 1.0, delta: 1e-6, protect_for: 256 ticks}}
aggregates: {{events: {{count: events}}, total: {{sum: v, clip: [0, 10]}}}}
sink: {{parquet: {out}}}
"""
WITHOUT = (
    "PipelineDP is not installed, so no row compares with it. Run: pip install -e '.[bench]' (or "
    "pip install pipeline-dp)."
)


def make_files(folder: Path, events: int, rng: np.random.Generator) -> dict[str, Path]:
    """The inputs: sorted, shuffled, shuffled with ids, and the first ten times over."""
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


def weir(file: Path, out: Path, with_id: bool = False) -> None:
    """A whole run."""
    keys = ", ".join(NAMES)
    text = CONFIG.format(file=file, out=out, keys=keys, id=", id: id" if with_id else "")
    whole_run(parts_of(loads(text)))


def numpy_loop(file: Path) -> Any:
    """Counts and sums per key and tick: no noise, no files, nothing exact."""
    counts = np.zeros(KEYS * TICKS)
    sums = np.zeros(KEYS * TICKS)
    place = {name: i for i, name in enumerate(NAMES)}
    files = sorted(file.iterdir()) if file.is_dir() else [file]
    opened = (pq.ParquetFile(one) for one in files)
    batches = (one.iter_batches(ROW_GROUP, columns=["t", "k", "v"]) for one in opened)
    for batch in itertools.chain.from_iterable(batches):
        tick = (batch.column("t").view(pa.int64()).to_numpy() - START) // MINUTE
        keys = batch.column("k").dictionary_encode()
        row = np.array([place[name] for name in keys.dictionary.to_pylist()])
        cell = row[keys.indices.to_numpy()] * TICKS + tick
        value = np.clip(np.nan_to_num(batch.column("v").to_numpy()), 0, 10)
        counts += np.bincount(cell, minlength=len(counts))
        sums += np.bincount(cell, weights=value, minlength=len(sums))
    return counts, sums


def unique_loop(file: Path) -> Any:
    """The loop, and how many ids there are: by keyed hashes in one array, sorted by numpy."""
    found = numpy_loop(file)
    batches = pq.ParquetFile(file).iter_batches(ROW_GROUP, columns=["id"])
    hashes = np.concatenate([id_hashes(batch.column("id"), bytes(16)).hashes for batch in batches])
    return found, len(np.unique(hashes.view([("high", "<u8"), ("low", "<u8")])))


def pipeline_dp_count(file: Path, on_beam: bool) -> None:
    """PipelineDP counting events: by key on its local backend, or by key and tick on Beam."""
    import pipeline_dp

    table = pq.read_table(file, columns=["t", "k"])
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


def measure(bench: Bench) -> None:
    """Each file next to each loop, then PipelineDP."""
    count = bench.args.events or (1_000_000 if bench.short else 10_000_000)
    cases: list[tuple[str, Any, str, float]] = [
        ("sorted", numpy_loop, "numpy loop", 0.75),
        ("shuffled", numpy_loop, "numpy loop", 0.75),
        ("ids", numpy_loop, "numpy loop", 0.3),
    ]
    if not bench.short:
        cases.append(("ids", unique_loop, "numpy loop and np.unique of hashes", 0.3))
        cases.append(("ten-files", numpy_loop, "numpy loop", 0.9))

    def note(what: str, peer: str, events: int, found: Compared) -> None:
        for who, took in ((peer, found.peer), ("weir", found.ours)):
            bench.row(
                who=who, what=what, events_per_second=events / took.wall, cpu_seconds=took.cpu
            )

    with bench.folder() as folder:
        files, outs = make_files(folder, count, bench.rng()), itertools.count()
        for name, loop, bound, goal in cases:
            file, events = files[name], 10 * count if name == "ten-files" else count
            found = bench.compare(
                f"Parquet, {events:,} events, {name}",
                bound,
                lambda: weir(file, folder / f"out-{next(outs)}", name == "ids"),
                lambda: loop(file),
                goal,
            )
            note(name, bound, events, found)
        if bench.short:
            return
        if importlib.util.find_spec("pipeline_dp") is None:
            print(WITHOUT, flush=True)
            return
        small = folder / "small.parquet"
        pq.write_table(pq.read_table(files["sorted"]).slice(0, PEER_EVENTS), small)
        what = f"{PEER_EVENTS:,} events"
        for on_beam, peer, goal in (
            (False, "PipelineDP, by key, local", 1.0),
            (True, "PipelineDP, by key and tick, Beam", 80.0),
        ):
            found = bench.compare(
                what,
                peer,
                lambda: weir(small, folder / f"out-{next(outs)}"),
                lambda: pipeline_dp_count(small, on_beam),
                goal,
            )
            note(what, peer, PEER_EVENTS, found)


if __name__ == "__main__":
    main(measure, events={"type": int, "help": "10,000,000; short: 1,000,000"})
