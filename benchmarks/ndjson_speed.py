"""How many NDJSON events a second does a whole run take when 1 % of the lines are bad?

    python -m benchmarks.ndjson_speed [--events 2000000] [--rounds 3]

Files of 64 keys over 1,000 ticks, counted and summed, in one process, noise and results included:
clean, and with every hundredth line bad in each way of ``decode_speed.BAD`` in turn: cut short, of
another type, nested, a key twice, no time, NaN, binary garbage. Peer, in the same run: Arrow's bare
reader, one thread, over the clean bytes; it parses the three columns and does nothing with them.
Turn about, the middle of the rounds. Every line must come out as an event or a dead letter.
Writes benchmarks/results/ndjson_speed.csv. About a minute.
"""

from __future__ import annotations

import argparse
import csv
import functools
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from benchmarks.decode_speed import BAD, STORES, ndjson, table
from benchmarks.pipeline_speed import Took, middle, timed, weir
from pipelines.config.job import loads
from transforms.runtime import counters

RESULTS = Path(__file__).parent / "results"
AT_A_TIME = 200_000
READ = {"time": pa.string(), "store": pa.string(), "dollars": pa.float64()}

CONFIG = """
name: speed
source: {{ndjson: {file}}}
schema: {{time: time}}
key: {{column: store, declared: [{keys}]}}
clock: {{start: 2024-01-01T00:00:00Z, period: 144m, end: 2024-04-10T00:00:00Z}}
privacy: {{epsilon: 1.0, delta: 1e-6, protect_for: 256}}
aggregates: {{events: {{count: events}}, total: {{sum: dollars, clip: [0, 200]}}}}
sink: {{parquet: {out}}}
"""


def make_files(folder: Path, events: int) -> dict[str, Path]:
    """The same events clean and with bad lines."""
    files = {"clean": folder / "clean.ndjson", "1 % bad": folder / "bad.ndjson"}
    data = table(events)
    spelled = pc.strftime(data["time"], "%Y-%m-%dT%H:%M:%SZ")
    data = data.set_column(0, "time", spelled)
    with open(files["clean"], "wb") as clean, open(files["1 % bad"], "wb") as bad:
        for begin in range(0, events, AT_A_TIME):
            rows = data.slice(begin, AT_A_TIME).to_pylist()
            clean.write(ndjson(rows))
            bad.write(ndjson(rows, BAD))
    return files


def bare(data: bytes) -> None:
    """The three columns by Arrow, one thread."""
    pa.json.read_json(
        pa.BufferReader(data),
        read_options=pa.json.ReadOptions(use_threads=False, block_size=2**24),
        parse_options=pa.json.ParseOptions(
            explicit_schema=pa.schema(list(READ.items())), unexpected_field_behavior="ignore"
        ),
    )


def run(file: Path, out: Path, events: int) -> None:
    """A whole run; no line may get lost."""
    counters.reset()
    weir(loads(CONFIG.format(file=file, out=out, keys=", ".join(STORES))))
    counts = counters.snapshot()
    found = sum(counts.get(name, 0) for name in ("events", "malformed", "missing_time"))
    assert found == events, counts


def main() -> None:
    """Prints and writes events a second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="weir-ndjson-"))
    rounds: dict[tuple[str, str], list[Took]] = {}
    try:
        files = make_files(folder, args.events)
        for i in range(args.rounds):
            data = files["clean"].read_bytes()
            took = timed(functools.partial(bare, data))
            rounds.setdefault(("arrow, bare reader", "clean"), []).append(took)
            del data
            for lines, file in files.items():
                work = functools.partial(run, file, folder / f"{file.stem}-{i}", args.events)
                rounds.setdefault(("weir", lines), []).append(timed(work))
    finally:
        shutil.rmtree(folder)
    RESULTS.mkdir(exist_ok=True)
    with open(RESULTS / "ndjson_speed.csv", "w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(["who", "lines", "events_per_second", "events_per_cpu_second"])
        for (who, lines), every in rounds.items():
            took = middle(every)
            row = [who, lines, round(args.events / took.wall), round(args.events / took.cpu)]
            writer.writerow(row)
            print(*row, sep="\t")


if __name__ == "__main__":
    main()
