"""What does it cost to read wide events: rows of 100,000 features of which 50 are not 0?

Each way of writing the same events is decoded to canonical lists and on to sparse rows, next to
Arrow's bare reader of the same bytes in the same run: events a second, bytes an event on disk and
in memory, and the peak of Arrow's and numpy's memory. No model is fitted here.

    python -m benchmarks.studies.list_columns
    python -m benchmarks.studies.list_columns --events 20000 --size 784 --numbers 150

Run on 2026-11-22 at 55e0b9f.
"""

from __future__ import annotations

import argparse
import io
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

from weir.dpcore.config.schema import ListColumn
from weir.transforms.columns.list_columns import to_rows
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.formats.registry import FORMATS

REPEATS = 3


def events(count: int, size: int, numbers: int) -> tuple[Any, Any]:
    """Places (n, numbers), increasing, and numbers."""
    made = np.random.default_rng(1)
    steps = made.integers(1, max(2, size // numbers), (count, numbers))
    return np.cumsum(steps, axis=1) - 1, made.integers(1, 100, (count, numbers)) / 8


def files(at: Any, value: Any, size: int) -> dict[str, tuple[str, bytes]]:
    """Way of writing -> format and bytes; lists of all numbers where they fit into a gigabyte."""
    n, numbers = at.shape
    offsets = pa.array(np.arange(n + 1) * numbers, pa.int32())
    table = pa.table(
        {
            "t": pa.array(np.full(n, 1_700_000_000_000_000)),
            "i": pa.ListArray.from_arrays(offsets, pa.array(at.ravel(), pa.int32())),
            "v": pa.ListArray.from_arrays(offsets, pa.array(value.ravel())),
        }
    )
    found = {"parquet, pair": ("parquet", parquet(table)), "arrow, pair": ("arrow", arrow(table))}
    rows = [
        {"t": 1_700_000_000_000_000, "x": dict(zip(map(str, spots), some, strict=True))}
        for spots, some in zip(at.tolist(), value.tolist(), strict=True)
    ]
    found["ndjson, object"] = ("ndjson", b"".join(orjson.dumps(row) + b"\n" for row in rows))
    if n * size * 8 <= 1 << 30:
        dense = np.zeros((n, size))
        np.put_along_axis(dense, at, value, axis=1)
        ends = pa.array(np.arange(n + 1) * size, pa.int32())
        whole = pa.ListArray.from_arrays(ends, pa.array(dense.ravel()))
        table = pa.table({"t": table["t"], "x": whole})
        found["parquet, list"] = ("parquet", parquet(table))
        found["arrow, list"] = ("arrow", arrow(table))
    return found


def parquet(table: pa.Table) -> bytes:
    """Parquet as it is written by default."""
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def arrow(table: pa.Table) -> bytes:
    """An IPC file of batches of 32,768 rows."""
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=1 << 15)
    return sink.getvalue()


def bare(form: str, data: bytes) -> int:
    """Arrow's own reader, and nothing else."""
    if form == "parquet":
        reader = pq.ParquetFile(pa.BufferReader(data))
        return sum(batch.num_rows for batch in reader.iter_batches(1 << 15, use_threads=False))
    if form == "arrow":
        file = pa.ipc.open_file(pa.BufferReader(data))
        return sum(file.get_batch(i).num_rows for i in range(file.num_record_batches))
    return sum(1 for line in data.splitlines() if orjson.loads(line)["x"])


def ours(form: str, data: bytes, schema: EventSchema, size: int) -> tuple[int, int]:
    """Decoded, and as sparse rows: how many, and their bytes."""
    count = held = 0
    assert schema.listed is not None
    for found in FORMATS[form].decode_bytes(data, schema, "file"):
        assert found.events is not None and found.dead is None
        rows = to_rows(found.events.column(schema.listed.name), size)
        count += len(rows)
        held += rows.packed.indices.nbytes + rows.packed.values.nbytes + rows.packed.lengths.nbytes
    return count, held


def timed(run: Callable[[], Any]) -> float:
    """Seconds of the processor, the least of several runs."""
    taken = []
    for _ in range(REPEATS):
        start = time.process_time()
        run()
        taken.append(time.process_time() - start)
    return min(taken)


def peak(run: Callable[[], Any]) -> float:
    """MiB that Python, numpy and Arrow hold at most beyond what is there."""
    before, pool = pa.total_allocated_bytes(), pa.proxy_memory_pool(pa.default_memory_pool())
    usual = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    tracemalloc.start()
    run()
    numpy_peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    pa.set_memory_pool(usual)
    assert before >= 0
    return float((numpy_peak + (pool.max_memory() or 0)) / 2**20)


def main() -> None:
    """Prints a table."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--events", type=int, default=50_000)
    asked.add_argument("--size", type=int, default=100_000)
    asked.add_argument("--numbers", type=int, default=50)
    given = asked.parse_args()
    at, value = events(given.events, given.size, given.numbers)
    print(f"{given.events:,} events of {given.size:,} features, {given.numbers} of them not 0")
    print("written as      bytes an event  bare reader/s  decoded/s  share  packed B  peak MiB")
    for name, (form, data) in files(at, value, given.size).items():
        pair = name.endswith("pair")
        listed = ListColumn(
            column=None if pair else "x",
            indices="i" if pair else None,
            values="v" if pair else None,
            size=given.size,
        )
        schema = EventSchema.build(Stamp("t", "epoch_us"), listed=listed)
        read = timed(lambda form=form, data=data: bare(form, data))
        took = timed(lambda form=form, data=data, of=schema: ours(form, data, of, given.size))
        count, held = ours(form, data, schema, given.size)
        most = peak(lambda form=form, data=data, of=schema: ours(form, data, of, given.size))
        n = given.events
        assert count == n
        print(
            f"{name:14}  {len(data) / n:14,.0f}  {n / read:13,.0f}  {n / took:9,.0f}"
            f"  {read / took:5.2f}  {held / n:8,.0f}  {most:8,.0f}"
        )


if __name__ == "__main__":
    main()
