"""How many NDJSON events a second does a whole run take when 1 % of the lines are bad?

Files of 64 keys over 1,000 ticks, counted and summed, in one process, noise and results included:
clean, and with every hundredth line bad in each way of ``decode_speed.BAD`` in turn: cut short, of
another type, nested, a key twice, no time, NaN, binary garbage; and clean with the key inside of
another field. The peer is Arrow's bare reader, one thread, of the clean bytes (nested: those of the
same file): it parses the three columns and does nothing with them; reading the file is no part of
its time. Every line must come out as an event or a dead letter. About two minutes; short: less than
half of one.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pyarrow.json

from benchmarks.decode_speed import BAD, STORES, ndjson, spelled, table
from benchmarks.harness import Bench, main
from benchmarks.whole_run import whole_run
from weir.pipelines.config.job import loads
from weir.pipelines.graph.parts import parts_of
from weir.transforms.runtime import counters

AT_A_TIME = 200_000
ENDS = ("events", "malformed", "missing_time", "unreadable_time", "unreadable_key")
"""What may become of a line."""
KEYS = {"clean": "store", "1 % bad": "store", "nested": "meta.store"}
READ = {"time": pa.string(), "store": pa.string(), "dollars": pa.float64()}
CONFIG = """
name: speed
source: {{ndjson: {file}}}
schema: {{time: time}}
key: {{column: {key}, declared: [{keys}]}}
clock: {{start: 2024-01-01T00:00:00Z, period: 144m, end: 2024-04-10T00:00:00Z}}
privacy: {{epsilon: 1.0, delta: 1e-6, protect_for: 256 ticks}}
aggregates: {{events: {{count: events}}, total: {{sum: dollars, clip: [0, 200]}}}}
sink: {{parquet: {out}}}
"""


def make_files(folder: Path, events: int) -> dict[str, Path]:
    """The same events clean, with bad lines, and with the key in another field."""
    files = {lines: folder / f"{lines[-5:].strip()}.ndjson" for lines in KEYS}
    data = spelled(table(events))
    clean, bad, nested = (open(files[lines], "wb") for lines in KEYS)  # noqa: SIM115
    with clean, bad, nested:
        for begin in range(0, events, AT_A_TIME):
            rows = data.slice(begin, AT_A_TIME).to_pylist()
            clean.write(ndjson(rows))
            bad.write(ndjson(rows, BAD))
            nested.write(ndjson([row | {"meta": {"store": row.pop("store")}} for row in rows]))
    return files


def bare(data: bytes, nested: bool) -> None:
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
    text = CONFIG.format(file=file, out=out, keys=", ".join(STORES), key=key)
    whole_run(parts_of(loads(text)))
    counts = counters.snapshot()
    assert sum(counts.get(name, 0) for name in ENDS) == events, counts


def measure(bench: Bench) -> None:
    """Each file next to the bare reader."""
    events = bench.args.events or (300_000 if bench.short else 2_000_000)
    with bench.folder() as folder:
        files, outs = make_files(folder, events), itertools.count()
        for lines, file in files.items():
            data = files["clean" if lines != "nested" else lines].read_bytes()
            found = bench.compare(
                f"NDJSON, {events:,} lines, {lines}",
                "Arrow's bare reader" + (" on the clean file" if lines == "1 % bad" else ""),
                lambda: run(file, folder / f"out-{next(outs)}", events, KEYS[lines]),
                lambda: bare(data, lines == "nested"),
                0.8,
            )
            for who, took in (("arrow, bare reader", found.peer), ("weir", found.ours)):
                bench.row(
                    who=who,
                    lines=lines,
                    events_per_second=events / took.wall,
                    events_per_cpu_second=events / took.cpu,
                )


if __name__ == "__main__":
    main(measure, events={"type": int, "help": "2,000,000; short: 300,000"})
