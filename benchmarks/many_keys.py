"""How many releases a second come out when nearly every key is silent?

    python -m benchmarks.many_keys [--keys 10000] [--ticks 1000] [--short]

Every key releases at every tick, whether or not it has events: 10,000 keys over 1,000 ticks are ten
million rows, noised, sorted and written as Parquet by one process, flat and packed. Peer, in the
same run, turn about: numpy draws as many Gaussians, adds them up per key, and pyarrow writes key,
tick and value only. Writes benchmarks/results/many_keys.csv.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import tempfile
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.beside import Ratio, beside, write
from weir.pipelines.config.job import JobConfig, loads
from weir.pipelines.graph import build
from weir.pipelines.graph.parts import Parts, parts_of
from weir.transforms.runtime.allocation import keep_freed

RESULTS = Path(__file__).parent / "results"
SHORT_TICKS = 128
EVENTS = 20_000
START = 1_704_067_200_000_000
MINUTE = 60_000_000
EVERY = 128

CONFIG = """
name: many
source: {{parquet: {file}}}
schema: {{time: t}}
key: {{column: k, declared: [{keys}]}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1m, end: {end}}}
privacy: {{epsilon: 1.0, delta: 1e-6, protect_for: 256}}
aggregates: {{events: {{count: events}}}}
sink: {{parquet: {out}, every: 128, layout: {layout}}}
"""


def job_of(folder: Path, keys: int, ticks: int, layout: str) -> JobConfig:
    """The config, and a small file of events."""
    rng = np.random.default_rng(1)
    names = [f"k{i:06d}" for i in range(keys)]
    times = pa.array(rng.integers(0, ticks * MINUTE, EVENTS) + START)
    chosen = pa.array([names[i] for i in rng.integers(0, keys, EVENTS)])
    table = pa.table({"t": times.cast(pa.timestamp("us", tz="UTC")), "k": chosen})
    pq.write_table(table, folder / "events.parquet")
    end = np.datetime64(START + ticks * MINUTE, "us")
    return loads(
        CONFIG.format(
            file=folder / "events.parquet",
            keys=", ".join(names),
            end=f"{end}Z",
            out=folder / layout,
            layout=layout,
        )
    )


def weir(parts: Parts) -> None:
    """A whole run."""
    pipeline = beam.Pipeline(runner=build.in_process_runner())
    build.build(pipeline, parts)
    pipeline.run().wait_until_finish()


def numpy_peer(folder: Path, keys: int, ticks: int) -> None:
    """Independent noise per tick, summed up, in files of three columns."""
    rng = np.random.default_rng(1)
    names = pa.array([f"k{i:06d}" for i in range(keys)])
    total = np.zeros(keys)
    for first in range(0, ticks, EVERY):
        n = min(EVERY, ticks - first)
        noisy = total + np.cumsum(rng.normal(size=(n, keys)), axis=0)
        total = noisy[-1]
        key = pa.DictionaryArray.from_arrays(
            pa.array(np.tile(np.arange(keys, dtype=np.int32), n)), names
        )
        tick = np.repeat(np.arange(first, first + n), keys)
        table = pa.table({"key": key, "tick": tick, "value": noisy.ravel()})
        pq.write_table(table, folder / f"peer-{first}.parquet")


def main() -> None:
    """Prints and writes key-ticks a second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--ticks", type=int, default=1_000)
    parser.add_argument("--short", action="store_true", help="few ticks: what the guard holds")
    args = parser.parse_args()
    ticks, rounds = (SHORT_TICKS, 3) if args.short else (args.ticks, 5)
    keep_freed()  # as `weir run` does
    folder = Path(tempfile.mkdtemp(prefix="weir-keys-"))
    cells = args.keys * ticks
    found, ratios = [], []
    try:
        for layout in ("flat",) if args.short else ("flat", "packed"):
            parts = parts_of(job_of(folder, args.keys, ticks, layout))
            out = folder / layout

            def ours(parts: Parts = parts, out: Path = out) -> None:
                shutil.rmtree(out, ignore_errors=True)  # a complete one is not written again
                weir(parts)

            ratio, own, peer = beside(ours, lambda: numpy_peer(folder, args.keys, ticks), rounds)
            rows = sum(pq.read_metadata(file).num_rows for file in out.rglob("*.parquet"))
            assert rows == cells, (rows, cells)
            found.append((f"weir, {layout}", cells / own.wall, own.cpu))
            what = f"{args.keys:,} keys by {ticks:,} ticks, nearly all empty, to Parquet, {layout}"
            ratios.append(Ratio(what, "numpy noise and Arrow's writer", ratio, 0.6))
    finally:
        shutil.rmtree(folder)
    found.append(("numpy", cells / peer.wall, peer.cpu))
    for who, rate, seconds in found:
        print(f"{who:12} {rate / 1e6:7.3f} M key-ticks/s, {seconds:.2f} s of CPU, {cells:,} rows")
    write("many_keys", ratios, args.short)
    if args.short:
        return
    with open(RESULTS / "many_keys.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["who", "keys", "ticks", "key_ticks_per_second", "cpu_seconds"])
        for who, rate, seconds in found:
            writer.writerow([who, args.keys, ticks, f"{rate:.0f}", f"{seconds:.2f}"])


if __name__ == "__main__":
    main()
