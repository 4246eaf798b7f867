"""What does a second key column cost, from bytes to the row of a key?

    python -m benchmarks.studies.key_columns

Decode, the filter and the look-up of keys, one thread, best of five; seconds of this process. The
same events each time, with a key of one column of 64 values, of one column of 4,096, and of two of
64 that make as many combinations. Half a minute.

Run on 2026-11-22 at 770dba9.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from benchmarks.decode_speed import DAY, START, PublicPlan, csv_bytes, parquet_bytes
from benchmarks.harness import Bench, main, rate
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.leaves.keys import Keys, key_text
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.formats.registry import FORMATS
from weir.transforms.operators.filter import Assign
from weir.transforms.operators.key_index import KeyIndex

EVENTS = 1_000_000
NAMES = [f"name-{i:02d}" for i in range(64)]
PAIRS = [(one, two) for one in NAMES for two in NAMES]
CASES: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "one column, 64 keys": (("city",), NAMES),
    "one column, 4,096 keys": (("both",), ["-".join(pair) for pair in PAIRS]),
    "two columns, 4,096 keys": (("city", "product"), [key_text(pair) for pair in PAIRS]),
}


def table(n: int) -> pa.Table:
    """Events in order of time, over 100 days."""
    rng = np.random.default_rng(11)
    times = START + np.sort(rng.integers(0, 100 * DAY, n)).astype("timedelta64[us]")
    pair = pa.array(rng.integers(0, len(PAIRS), n))
    columns = {
        "city": pa.array([one for one, _ in PAIRS]).take(pair),
        "product": pa.array([two for _, two in PAIRS]).take(pair),
        "both": pa.array(CASES["one column, 4,096 keys"][1]).take(pair),
        "dollars": pa.array(np.round(rng.random(n) * 200, 2)),
    }
    return pa.table({"time": pa.array(times).cast(pa.timestamp("us", "UTC")), **columns})


def looked_up(data: bytes, form: str, columns: tuple[str, ...], keys: list[str]) -> int:
    """Bytes -> rows of keys; how many events have one."""
    schema = EventSchema.build(Stamp("time"), key=columns, numbers=["dollars"])
    start = int(START.astype(np.int64))
    known = Keys.make(columns, keys, False, None)
    plan = PublicPlan(Clock(start, DAY, start + 100 * DAY), known, None)
    assign, index, count = Assign(plan, ("dollars",)), KeyIndex(known), 0
    for events, _, _ in FORMATS[form].decode_bytes(data, schema, "benchmark"):
        assert events is not None
        rows = index.of(assign(events).events)
        assert rows is not None
        count += len(rows)
    return count


def measure(bench: Bench) -> None:
    """Each format with each key."""
    events = table(EVENTS)
    for form, data in (("parquet", parquet_bytes(events)), ("csv", csv_bytes(events))):
        usual = 0.0
        for name, (columns, keys) in CASES.items():
            assert looked_up(data, form, columns, keys) == EVENTS
            found = rate(lambda: looked_up(data, form, columns, keys), EVENTS, 0.0, 5, cpu=True)
            usual = usual or found
            bench.row(format=form, key=name, events_per_s=found, of_one_column_of_64=found / usual)


if __name__ == "__main__":
    main(measure)
