"""How many NDJSON events a second does a whole run take when 1 % of the lines are bad?

    python -m benchmarks.ndjson_speed [--events 2000000] [--rounds 5] [--short]

Files of 64 keys over 1,000 ticks, counted and summed, in one process, noise and results included:
clean, and with every hundredth line bad in each way of ``decode_speed.BAD`` in turn: cut short, of
another type, nested, a key twice, no time, NaN, binary garbage; and clean with the key inside of
another field. Peer, in the same run: Arrow's bare reader, one thread, over the clean bytes (nested:
those of the same file); it parses the three columns and does nothing with them. Turn about, the
middle of the rounds. Every line must come out as an event or a dead letter. Writes
benchmarks/results/ndjson_speed.csv and ndjson_speed.ratios.csv. About two minutes; short: less than
half of one, with ndjson_speed.short.ratios.csv alone.
"""

from __future__ import annotations

import argparse
import csv
import functools
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from benchmarks.beside import RESULTS, Ratio, beside, write
from benchmarks.decode_speed import BAD, STORES, ndjson, table
from benchmarks.pipeline_speed import weir
from weir.pipelines.config.job import loads
from weir.transforms.runtime import counters
from weir.transforms.runtime.allocation import keep_freed

AT_A_TIME = 200_000
ENDS = ("events", "malformed", "missing_time", "unreadable_time", "unreadable_key")
"""What a line may come to."""
KEYS = {"clean": "store", "1 % bad": "store", "nested": "meta.store"}
READ = {"time": pa.string(), "store": pa.string(), "dollars": pa.float64()}

CONFIG = """
name: speed
source: {{ndjson: {file}}}
schema: {{time: time}}
key: {{column: {key}, declared: [{keys}]}}
clock: {{start: 2024-01-01T00:00:00Z, period: 144m, end: 2024-04-10T00:00:00Z}}
privacy: {{epsilon: 1.0, delta: 1e-6, protect_for: 256}}
aggregates: {{events: {{count: events}}, total: {{sum: dollars, clip: [0, 200]}}}}
sink: {{parquet: {out}}}
"""


def make_files(folder: Path, events: int) -> dict[str, Path]:
    """The same events clean and with bad lines."""
    files = {lines: folder / f"{lines[-5:].strip()}.ndjson" for lines in KEYS}
    data = table(events)
    spelled = pc.strftime(data["time"], "%Y-%m-%dT%H:%M:%SZ")
    data = data.set_column(0, "time", spelled)
    clean, bad, nested = (open(files[lines], "wb") for lines in KEYS)  # noqa: SIM115
    with clean, bad, nested:
        for begin in range(0, events, AT_A_TIME):
            rows = data.slice(begin, AT_A_TIME).to_pylist()
            clean.write(ndjson(rows))
            bad.write(ndjson(rows, BAD))
            nested.write(ndjson([row | {"meta": {"store": row.pop("store")}} for row in rows]))
    return files


def bare(data: bytes, nested: bool = False) -> None:
    """The three columns by Arrow, one thread; nested: the store inside of another field."""
    read = READ | {"meta": pa.struct([("store", pa.string())])} if nested else READ
    pa.json.read_json(
        pa.BufferReader(data),
        read_options=pa.json.ReadOptions(use_threads=False, block_size=2**24),
        parse_options=pa.json.ParseOptions(
            explicit_schema=pa.schema(list(read.items())), unexpected_field_behavior="ignore"
        ),
    )


def run(file: Path, out: Path, events: int, key: str) -> None:
    """A whole run; no line may get lost."""
    counters.reset()
    weir(loads(CONFIG.format(file=file, out=out, keys=", ".join(STORES), key=key)))
    counts = counters.snapshot()
    found = sum(counts.get(name, 0) for name in ENDS)
    assert found == events, counts


def main() -> None:
    """Prints and writes events a second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=0, help="2,000,000; short: 300,000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--short", action="store_true")
    args = parser.parse_args()
    events = args.events or (300_000 if args.short else 2_000_000)
    keep_freed()  # as `weir run` does
    folder = Path(tempfile.mkdtemp(prefix="weir-ndjson-"))
    ratios: list[Ratio] = []
    found: list[list[Any]] = []
    try:
        files = make_files(folder, events)
        for lines, file in files.items():
            outs = iter(range(1 << 30))

            def ours(file: Path = file, outs: Any = outs, key: str = KEYS[lines]) -> None:
                run(file, folder / f"{file.stem}-{next(outs)}", events, key)

            # Reading the clean bytes is no part of the bound's time.
            data = files["clean" if lines != "nested" else lines].read_bytes()
            reading = functools.partial(bare, data, lines == "nested")
            rounds = min(args.rounds, 3) if args.short else args.rounds
            ratio, own, peer = beside(ours, reading, rounds)
            bound = "Arrow's bare reader" + (" on the clean file" if lines == "1 % bad" else "")
            ratios.append(Ratio(f"NDJSON, {events:,} lines, {lines}", bound, ratio, 0.8))
            for who, took in (("arrow, bare reader", peer), ("weir", own)):
                rates = [round(events / took.wall), round(events / took.cpu)]
                found.append([who, lines, *rates])
                print(*found[-1], sep="\t", flush=True)
    finally:
        shutil.rmtree(folder)
    write("ndjson_speed", ratios, args.short)
    if args.short:
        return
    with open(RESULTS / "ndjson_speed.csv", "w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(["who", "lines", "events_per_second", "events_per_cpu_second"])
        writer.writerows(found)


if __name__ == "__main__":
    main()
