"""How fast do events become canonical batches, and how far is that from Arrow's bare readers?

    python -m benchmarks.decode_speed [--short]

One thread, the same bytes in memory for both, best of three; seconds of this process, so that a
busy machine does not count, and beside them seconds on the clock. Events have a time, a key of 64
values, an id and two numbers. In the NDJSON with bad lines every hundredth is cut short, or has
text for a number, or is one of BAD in turn. ``filter`` adds the predicate, the clock, the keys. An
Arrow file is there without reading: no bare reader to compare.
Writes benchmarks/results/decode_speed.csv. About a minute.

Then CSV, clean and with every hundredth line bad in each way of BAD_CSV in turn, from a file and as
a run reads it (two chunks at a time), beside Arrow's bare reader over the clean bytes, turn about:
benchmarks/results/decode_speed.ratios.csv; ``--short`` does that alone, with fewer lines.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from benchmarks.beside import RESULTS, Ratio, beside, write
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.leaves.keys import Keys
from weir.transforms.decode.formats import decode_bytes
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.runtime.ahead import ahead
from weir.transforms.runtime.allocation import keep_freed
from weir.transforms.select.filter import Assign
from weir.transforms.sources.files import FileSource

Row = dict[str, Any]

EVENTS = 1_000_000
WHERE = "items > 0"
START = np.datetime64("2024-01-01T00:00:00", "us")
DAY = 86_400_000_000
STORES = tuple(f"store-{i:02d}" for i in range(64))
SCHEMA = EventSchema.build(Stamp("time"), key="store", id="order", where=WHERE, numbers=["dollars"])


@dataclass(frozen=True)
class PublicPlan:
    """What the filter reads of a plan."""

    clock: Clock
    keys: Keys
    where: str | None = WHERE

    def block_of(self, keys: Any) -> Any:
        """Blocks of keys."""
        return self.keys.block_of(keys)

    def block_keys(self, block: int) -> tuple[bytes, ...]:
        """Keys of a block."""
        return self.keys.block_keys(block)


def table(n: int) -> pa.Table:
    """Events in order of time, over 100 days."""
    generator = np.random.default_rng(7)
    times = np.sort(generator.integers(0, 100 * DAY, n))
    return pa.table(
        {
            "time": pa.array(START + times.astype("timedelta64[us]")).cast(
                pa.timestamp("us", "UTC")
            ),
            "store": pa.array(STORES).take(pa.array(generator.integers(0, 64, n))),
            "order": pa.array([f"order-{i:09d}" for i in range(n)]),
            "items": generator.integers(0, 9, n),
            "dollars": np.round(generator.random(n) * 200, 2),
            "comment": pa.array(["left at the door"] * n),
        }
    )


def _cut(row: Row) -> bytes:
    return orjson.dumps(row)[:-20]


def _text_for_number(row: Row) -> bytes:
    return orjson.dumps(row | {"dollars": "?"})


def _garbage(row: Row) -> bytes:
    return hashlib.shake_128(orjson.dumps(row)).digest(100).replace(b"\n", b"")


BAD: tuple[Callable[[Row], bytes], ...] = (
    _cut,
    lambda row: _cut(row) + b"}",
    _text_for_number,
    lambda row: orjson.dumps(row | {"items": [1, 2]}),
    lambda row: orjson.dumps(row | {"store": {"name": row["store"]}}),
    lambda row: orjson.dumps(row)[:-1] + b',"store":"store-00"}',
    lambda row: orjson.dumps(row | {"time": 5}),
    lambda row: orjson.dumps(row | {"time": "2024-02-31T00:00:00Z"}),
    lambda row: orjson.dumps(row | {"dollars": 0}).replace(b'"dollars":0', b'"dollars":NaN'),
    _garbage,
    lambda row: b"{" + _garbage(row) + b"}",
)
"""Cut short, of another type, nested, a key twice, no time, no number, and binary garbage."""

BAD_CSV: tuple[Callable[[bytes], bytes], ...] = (
    lambda line: line[: len(line) // 2],
    lambda line: line + b",more",
    lambda line: b",".join([*line.split(b",")[:4], b"?", line.split(b",")[5]]),
    lambda line: line + b'"',
    lambda line: b'"' + line,
    lambda line: b"2024-02-31T00:00:00Z" + line[line.index(b",") :],
    lambda line: line[:-6] + b"\xff",
)
"""Cut short, a field more, text for a number, quotes amiss, no such day, not UTF-8."""

FAULTS = {"cut short": (_cut,), "of another type": (_text_for_number,), "mixed": BAD}


def ndjson(rows: list[Row], faults: Sequence[Callable[[Row], bytes]] = ()) -> bytes:
    """One line an event; every hundredth made bad, each way in turn."""
    lines = [orjson.dumps(row) for row in rows]
    for turn, i in enumerate(range(0, len(lines) if faults else 0, 100)):
        lines[i] = faults[turn % len(faults)](rows[i])
    return b"\n".join(lines) + b"\n"


def arrow_bytes(events: pa.Table) -> bytes:
    """An IPC file in memory."""
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, events.schema) as writer:
        writer.write_table(events, max_chunksize=2**17)
    return sink.getvalue()


def avro_bytes(rows: list[dict[str, Any]]) -> bytes:
    """An object container in memory."""
    fields: list[Any] = [
        {"name": "time", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        *({"name": name, "type": "string"} for name in ("store", "order", "comment")),
        {"name": "items", "type": "long"},
        {"name": "dollars", "type": "double"},
    ]
    sink = io.BytesIO()
    fastavro.writer(sink, {"type": "record", "name": "event", "fields": fields}, rows)
    return sink.getvalue()


def bare(form: str, data: bytes) -> Any:
    """What Arrow (fastavro for Avro) needs for the same columns, one thread."""
    if form == "parquet":
        columns = list(SCHEMA.needed)
        return pq.read_table(pa.BufferReader(data), columns=columns, use_threads=False)
    if form == "arrow":
        return pa.ipc.open_file(pa.BufferReader(data)).read_all()
    if form == "csv":
        options = pa.csv.ConvertOptions(include_columns=list(SCHEMA.needed))
        reading = pa.csv.ReadOptions(use_threads=False)
        return pa.csv.read_csv(io.BytesIO(data), read_options=reading, convert_options=options)
    if form == "ndjson":
        kinds = {"items": pa.float64(), "dollars": pa.float64()}
        schema = pa.schema([(name, kinds.get(name, pa.string())) for name in SCHEMA.needed])
        return pa.json.read_json(
            io.BytesIO(data),
            read_options=pa.json.ReadOptions(use_threads=False, block_size=2**24),
            parse_options=pa.json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore"
            ),
        )
    return list(fastavro.reader(io.BytesIO(data)))


class Took(NamedTuple):
    """Seconds of this process, and seconds on the clock."""

    cpu: float
    wall: float


def seconds(run: Callable[[], Any], times: int = 3) -> Took:
    """Best of several."""
    found = []
    for _ in range(times):
        began = time.process_time(), time.perf_counter()
        run()
        found.append((time.process_time() - began[0], time.perf_counter() - began[1]))
    return Took(*map(min, zip(*found, strict=True)))


def decode(form: str, data: bytes, assign: Assign | None = None) -> int:
    """Decodes, and filters where asked; how many events and dead letters came out."""
    count = 0
    for events, dead, _ in decode_bytes(data, form, SCHEMA, "benchmark"):
        count += 0 if dead is None else dead.num_rows
        if events is not None:
            count += events.num_rows
            if assign is not None:
                assign(events)
    return count


def lines_of_csv(events: pa.Table) -> tuple[bytes, bytes]:
    """Clean, and with bad lines."""
    sink = io.BytesIO()
    spelled = pa.compute.strftime(events["time"], "%Y-%m-%dT%H:%M:%SZ")
    options = pa.csv.WriteOptions(quoting_style="none")
    pa.csv.write_csv(events.set_column(0, "time", spelled), sink, options)
    lines = sink.getvalue().splitlines()
    for turn, i in enumerate(range(1, len(lines), 100)):
        lines[i] = BAD_CSV[turn % len(BAD_CSV)](lines[i])
    return sink.getvalue(), b"\n".join(lines) + b"\n"


def ratios(short: bool) -> None:
    """CSV as a run reads it, beside the bare reader."""
    keep_freed()  # as `weir run` does
    count = 300_000 if short else EVENTS
    clean, bad = lines_of_csv(table(count))
    rows = []
    with tempfile.TemporaryDirectory(prefix="weir-csv-") as folder:
        for name, data in (("clean", clean), ("1 % bad lines", bad)):
            path = Path(folder) / f"{len(rows)}.csv"
            path.write_bytes(data)
            source = FileSource("csv", str(path))
            (file,) = source.match()

            def ours(source: FileSource = source, file: Any = file) -> None:
                for split in source.splits(file):
                    for _ in source.decode(split, SCHEMA, ahead):
                        pass

            ratio, _, _ = beside(ours, lambda: bare("csv", clean), 3 if short else 5)
            what = f"CSV, {count:,} lines, {name}, decoded"
            rows.append(Ratio(what, "Arrow's bare reader on the clean file", ratio, 0.6))
    write("decode_speed", rows, short)


def main() -> None:
    """Measures and writes the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true")
    short = parser.parse_args().short
    ratios(short)
    if not short:
        rates()


def rates() -> None:
    """Events a second."""
    events = table(EVENTS)
    start = int(START.astype(np.int64))
    plan = PublicPlan(Clock(start, DAY, start + 100 * DAY), Keys.make("store", STORES, False, None))
    assign = Assign(plan, ("@id", "dollars"))
    parquet, comma = io.BytesIO(), io.BytesIO()
    pq.write_table(events, parquet, row_group_size=2**18)
    spelled = pa.compute.strftime(events["time"], "%Y-%m-%dT%H:%M:%SZ")
    text = events.set_column(0, "time", spelled)
    pa.csv.write_csv(text, comma)
    rows = text.to_pylist()
    cases: list[tuple[str, str, bytes, int]] = [
        ("parquet", "parquet", parquet.getvalue(), EVENTS),
        ("arrow", "arrow", arrow_bytes(events), EVENTS),
        ("csv", "csv", comma.getvalue(), EVENTS),
        ("ndjson", "ndjson", ndjson(rows), EVENTS),
        *(
            (f"ndjson, 1 % {name}", "ndjson", ndjson(rows, faults), EVENTS)
            for name, faults in FAULTS.items()
        ),
        ("avro", "avro", avro_bytes(events.slice(0, EVENTS // 5).to_pylist()), EVENTS // 5),
    ]
    del rows
    RESULTS.mkdir(exist_ok=True)
    with open(RESULTS / "decode_speed.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            [
                "format",
                "bytes_per_event",
                "decode_per_s",
                "with_filter_per_s",
                "bare_reader_per_s",
                "decode_per_s_on_the_clock",
            ]
        )
        for name, form, data, n in cases:
            assert decode(form, data) >= n  # a value that is spoilt makes a letter of its own
            decoded = seconds(lambda form=form, data=data: decode(form, data))
            filtered = seconds(lambda form=form, data=data: decode(form, data, assign))
            reader = ""
            if "%" not in name and form != "arrow":
                took = seconds(lambda form=form, data=data: bare(form, data))
                reader = str(round(n / took.cpu))
            row = [name, round(len(data) / n), round(n / decoded.cpu), round(n / filtered.cpu)]
            row += [reader, round(n / decoded.wall)]
            writer.writerow(row)
            print(*row, sep="\t", flush=True)


if __name__ == "__main__":
    main()
