"""How fast do events become canonical batches, compared with Arrow's bare readers?

CSV, clean and with every hundredth line bad in each way of BAD_CSV in turn, from a file and as a
run reads it (two chunks at a time), next to Arrow's bare reader of the clean bytes. Then, but not
in the short form, every format: one thread, the same bytes in memory for both, best of three
rounds, by processor seconds (``_on_the_clock``: by the clock). Events have a time, a key of 64
values, an id and two numbers. In the NDJSON with bad lines every hundredth is cut short, or has
text for a number, or is one of BAD in turn. ``filter`` adds the predicate, the clock, the keys. An
Arrow file is there without reading: no bare reader to compare. About a minute.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import fastavro
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from benchmarks.harness import Bench, main, rate
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.leaves.keys import Keys
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.formats.registry import FORMATS
from weir.transforms.local.memory import keep_freed
from weir.transforms.operators.filter import Assign
from weir.transforms.runtime.prefetch import ahead
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


def decode(form: str, data: bytes, assign: Assign | None = None) -> int:
    """Decodes, and filters where asked; how many events and dead letters came out."""
    count = 0
    for events, dead, _ in FORMATS[form].decode_bytes(data, SCHEMA, "benchmark"):
        count += 0 if dead is None else dead.num_rows
        if events is not None:
            count += events.num_rows
            if assign is not None:
                assign(events)
    return count


def spelled(events: pa.Table) -> pa.Table:
    """Times as text."""
    text = pa.compute.strftime(events["time"], "%Y-%m-%dT%H:%M:%SZ")
    return events.set_column(0, "time", text)


def csv_bytes(events: pa.Table, quoting: str = "needed") -> bytes:
    """CSV in memory."""
    sink = io.BytesIO()
    pa.csv.write_csv(spelled(events), sink, pa.csv.WriteOptions(quoting_style=quoting))
    return sink.getvalue()


def parquet_bytes(events: pa.Table) -> bytes:
    """Parquet in memory."""
    sink = io.BytesIO()
    pq.write_table(events, sink, row_group_size=2**18)
    return sink.getvalue()


def measure(bench: Bench) -> None:
    """CSV as a run reads it, then all formats in memory."""
    keep_freed()
    count = 300_000 if bench.short else EVENTS
    clean = csv_bytes(table(count), "none")
    lines = clean.splitlines()
    for turn, i in enumerate(range(1, len(lines), 100)):
        lines[i] = BAD_CSV[turn % len(BAD_CSV)](lines[i])
    with bench.folder() as folder:
        for name, data in (("clean", clean), ("1 % bad lines", b"\n".join(lines) + b"\n")):
            path = folder / f"{len(data)}.csv"
            path.write_bytes(data)
            source = FileSource("csv", str(path))
            (file,) = source.match()

            def ours() -> None:
                for split in source.splits(file):
                    for _ in source.decode(split, SCHEMA, ahead):
                        pass

            what = f"CSV, {count:,} lines, {name}, decoded"
            peer = "Arrow's bare reader on the clean file"
            bench.compare(what, peer, ours, lambda: bare("csv", clean), 0.6)
    if not bench.short:
        rates(bench)


def rates(bench: Bench) -> None:
    """Events a second of each format."""
    events = table(EVENTS)
    start = int(START.astype(np.int64))
    plan = PublicPlan(Clock(start, DAY, start + 100 * DAY), Keys.make("store", STORES, False, None))
    assign = Assign(plan, ("@id", "dollars"))
    rows = spelled(events).to_pylist()
    cases: list[tuple[str, str, bytes]] = [
        ("parquet", "parquet", parquet_bytes(events)),
        ("arrow", "arrow", arrow_bytes(events)),
        ("csv", "csv", csv_bytes(events)),
        ("ndjson", "ndjson", ndjson(rows)),
        *((f"ndjson, 1 % {name}", "ndjson", ndjson(rows, how)) for name, how in FAULTS.items()),
        ("avro", "avro", avro_bytes(events.slice(0, EVENTS // 5).to_pylist())),
    ]
    del rows
    for name, form, data in cases:
        n = EVENTS // 5 if form == "avro" else EVENTS
        assert decode(form, data) >= n  # a malformed value makes a dead letter of its own
        has_peer = "%" not in name and form != "arrow"
        bench.row(
            format=name,
            bytes_per_event=round(len(data) / n),
            decode_per_s=rate(lambda: decode(form, data), n, cpu=True),
            with_filter_per_s=rate(lambda: decode(form, data, assign), n, cpu=True),
            bare_reader_per_s=rate(lambda: bare(form, data), n, cpu=True) if has_peer else None,
            decode_per_s_on_the_clock=rate(lambda: decode(form, data), n),
        )


if __name__ == "__main__":
    main(measure)
