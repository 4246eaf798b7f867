"""Many batches become one sorted table, the same however they came."""

from __future__ import annotations

import io
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.transforms.releases import batch
from weir.dpcore.plan import Plan
from weir.dpcore.program import Released
from weir.transforms.release.few import shape_for
from weir.transforms.release.table import ReleaseWriter
from weir.transforms.sinks import formats
from weir.transforms.sinks.sorted_table import sorted_table
from weir.transforms.sinks.writer import differences

CALLS = Plan.from_yaml("""
name: calls
schema: {time: at}
key: {column: host, declared: [a, b]}
clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-03T00:00:00Z}
privacy: {epsilon: 1, delta: 1e-6, protect_for: all}
aggregates: {p95: {quantile: ms, at: 0.95, edges: [1, 2, 3]}}
""")


def test_many_blocks_become_one_sorted_table() -> None:
    parts = [batch(2, 2, [b"b", b"d"], 1), batch(0, 4, [b"a", b"c"]), batch(0, 2, [b"b", b"d"], 1)]
    table = sorted_table(parts).table
    found = [(r["tick"], r["key"], r["name"], r["over"]) for r in table.to_pylist()]
    assert found == [
        (t, k, n, o)
        for t in range(4)
        for k in "abcd"
        for n, o in (("hist", None), ("sum", None), ("sum", 7))
    ]
    cells = {(r["tick"], r["key"]): r["value"] for r in table.to_pylist() if r["name"] == "hist"}
    assert cells[3, "d"] == [2003.0, -2003.0] and cells[3, "c"] == [7.0, -7.0]


def test_a_repeat_is_dropped_and_a_contradiction_is_an_alarm() -> None:
    first, same, other = (
        batch(0, 2, [b"a"]),
        batch(0, 2, [b"a"]),
        batch(1, 1, [b"a"], add=5),
    )
    alone = formats.parquet(sorted_table([first]).table)
    table, divergent = sorted_table([first, same])
    assert divergent == 0 and formats.parquet(table) == alone
    table, divergent = sorted_table([first, same, other])
    assert divergent == 3 and formats.parquet(table) == alone


def test_a_margin_that_differs_is_a_contradiction_and_one_that_is_missing_is_none() -> None:
    ones = np.ones((2, 1, 1))

    def batch_with(low: float) -> pa.RecordBatch:
        released = Released("p95", None, 2 * ones, None, low * ones, 3 * ones)
        return ReleaseWriter(CALLS).batch(0, 0, 2, [b"a"], [released])

    now, other = batch_with(1.0), batch_with(1.5)
    old = now.drop_columns(["low", "high"])
    for again, count in ((now, 0), (other, 2), (old, 0)):
        assert sorted_table([now, again]).divergent == count
        assert sorted_table([again, now]).divergent == count
        for form, layout in itertools.product(formats.FORMATS, ("flat", "packed")):
            shape: Any = shape_for(CALLS, layout)  # type: ignore[arg-type]
            if again is old and layout == "flat":
                continue  # these columns were always there
            files = [formats.encode(sorted_table([one]).table, form, shape) for one in (now, again)]
            assert differences(*files, form, whole=True) == count, (form, layout)


def test_the_same_rows_are_the_same_bytes_however_they_came() -> None:
    parts = [batch(0, 2, [b"b"], 1), batch(0, 2, [b"a", b"c"])]
    for write_form in formats.FORMATS.values():
        assert write_form(sorted_table(parts).table) == write_form(sorted_table(parts[::-1]).table)


def test_a_file_shows_the_keys_of_its_rows_and_no_others() -> None:
    one = batch(0, 2, [b"a", b"b", b"c"])
    key = one.column("key").to_pylist()
    some = one.filter(pa.array([name != "b" for name in key]))
    assert some.column("key").dictionary.to_pylist() == ["a", "b", "c"]
    table = sorted_table([some]).table
    assert table["key"].chunk(0).dictionary.to_pylist() == ["a", "c"]
    content = formats.encode(table, "parquet", None)
    read = pq.read_table(io.BytesIO(content), read_dictionary=["key"])
    assert read["key"].chunk(0).dictionary.to_pylist() == ["a", "c"]


def test_batches_of_an_earlier_version_have_no_ends_of_intervals() -> None:
    ones = np.ones((2, 1, 1))
    released = Released("p95", None, 2 * ones, ones, ones, 3 * ones)
    new = ReleaseWriter(CALLS).batch(0, 0, 2, [b"a"], [released])
    old = ReleaseWriter(CALLS).batch(1, 0, 2, [b"b"], [released]).drop_columns(["low", "high"])
    for batches in ([new, old], [old, new]):
        rows = sorted_table(batches).table.to_pylist()
        assert [row["key"] for row in rows] == ["a", "b", "a", "b"]
        assert [row["low"] for row in rows] == [[1.0], None, [1.0], None]
