"""How many releases a second come out when nearly every key is silent?

Every key releases at every tick, whether or not it has events: 10,000 keys over 1,000 ticks are ten
million rows, noised, sorted and written as Parquet by one process, flat and packed. The peer draws
as many Gaussians with numpy, adds them up per key, and writes key, tick and value alone with Arrow.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Bench, main
from benchmarks.whole_run import MINUTE, START, whole_run
from weir.pipelines.config.job import JobConfig, loads
from weir.pipelines.graph.parts import parts_of

EVENTS = 20_000
EVERY = 128
CONFIG = """
name: many
source: {{parquet: {file}}}
schema: {{time: t}}
key: {{column: k, declared: [{keys}]}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1m, end: {end}}}
privacy: {{epsilon: 1.0, delta: 1e-6, protect_for: 256 ticks}}
aggregates: {{events: {{count: events}}}}
sink: {{parquet: {out}, every: 128, layout: {layout}}}
"""


def job_of(folder: Path, keys: int, ticks: int, layout: str, rng: np.random.Generator) -> JobConfig:
    """The config, and a small file of events."""
    names = [f"k{i:06d}" for i in range(keys)]
    times = pa.array(rng.integers(0, ticks * MINUTE, EVENTS) + START)
    chosen = pa.array([names[i] for i in rng.integers(0, keys, EVENTS)])
    table = pa.table({"t": times.cast(pa.timestamp("us", tz="UTC")), "k": chosen})
    file = folder / "events.parquet"
    pq.write_table(table, file)
    end = f"{np.datetime64(START + ticks * MINUTE, 'us')}Z"
    out = folder / layout
    return loads(CONFIG.format(file=file, keys=", ".join(names), end=end, out=out, layout=layout))


def numpy_peer(folder: Path, keys: int, ticks: int, rng: np.random.Generator) -> None:
    """Independent noise per tick, summed up, in files of three columns."""
    names = pa.array([f"k{i:06d}" for i in range(keys)])
    total = np.zeros(keys)
    for first in range(0, ticks, EVERY):
        n = min(EVERY, ticks - first)
        noisy = total + np.cumsum(rng.normal(size=(n, keys)), axis=0)
        total = noisy[-1]
        place = pa.array(np.tile(np.arange(keys, dtype=np.int32), n))
        key = pa.DictionaryArray.from_arrays(place, names)
        tick = np.repeat(np.arange(first, first + n), keys)
        table = pa.table({"key": key, "tick": tick, "value": noisy.ravel()})
        pq.write_table(table, folder / f"peer-{first}.parquet")


def measure(bench: Bench) -> None:
    """Both layouts; short: one of them, over few ticks."""
    keys, ticks = bench.args.keys, 128 if bench.short else bench.args.ticks
    cells = keys * ticks
    with bench.folder() as folder:
        for layout in ("flat",) if bench.short else ("flat", "packed"):
            parts, out = parts_of(job_of(folder, keys, ticks, layout, bench.rng())), folder / layout

            def ours() -> None:
                shutil.rmtree(out, ignore_errors=True)
                whole_run(parts)

            found = bench.compare(
                f"{keys:,} keys by {ticks:,} ticks, nearly all empty, to Parquet, {layout}",
                "numpy noise and Arrow's writer",
                ours,
                lambda: numpy_peer(folder, keys, ticks, bench.rng(1)),
                0.6,
            )
            rows = sum(pq.read_metadata(file).num_rows for file in out.rglob("*.parquet"))
            assert rows == cells, (rows, cells)
            for who, took in ((f"weir, {layout}", found.ours), ("numpy", found.peer)):
                bench.row(
                    who=who,
                    keys=keys,
                    ticks=ticks,
                    key_ticks_per_second=cells / took.wall,
                    cpu_seconds=took.cpu,
                )


if __name__ == "__main__":
    main(measure, keys=10_000, ticks=1_000)
