"""What a file says and how its columns are stored, in every format."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.transforms.releases import PLAN
from weir.dpcore.leaves.keys import Keys
from weir.dpcore.program import Released
from weir.pipelines.results.files import read_file, result_files
from weir.transforms.release.table import (
    ReleaseWriter,
)
from weir.transforms.sinks import formats
from weir.transforms.sinks.sorted_table import sorted_table
from weir.transforms.sinks.writer import differences


def test_odd_text_and_numbers_survive() -> None:
    keys = ['say "hi", you', "zwei\nZeilen", "\u00fc\u2028", "", "back\\slash", "=1+1"]
    plan = replace(PLAN, keys=Keys.make("k", keys, False, None))
    ordered = sorted(key.encode() for key in keys)
    values = np.array([np.inf, -np.inf, np.nan, 1e-300, 0.1, -0.0]).reshape(1, 6, 1)
    one = ReleaseWriter(plan).batch(0, 0, 1, ordered, [Released("a,b", None, values, None)])
    table = sorted_table([one]).table
    lines = [json.loads(x) for x in formats.ndjson(table).decode().split("\n") if x]
    assert [row["key"].encode() for row in lines] == ordered
    assert [row["value"][0] for row in lines] == [None, None, None, 1e-300, 0.1, -0.0]
    texts = list(csv.DictReader(io.StringIO(formats.csv(table).decode(), newline="")))
    assert [row["key"].removeprefix("'").encode() for row in texts] == ordered
    back = pq.read_table(pa.BufferReader(formats.parquet(table))).to_pylist()
    assert [row["key"].encode() for row in back] == ordered
    assert back[0]["value"] == [np.inf] and back[2]["value"] == [None]


FORMULAS = ["=1+1", "+49", "-5", "@x", "\tx", "\rx", "'=1", "''-", "=", "'"]
NO_FORMULAS = ["", "a=b", "'s-Hertogenbosch", "5", "''", "\nx", '"=', " =1"]


def test_text_that_a_spreadsheet_would_run_is_guarded_in_csv_and_given_back(tmp_path: Path) -> None:
    keys = [*FORMULAS, *NO_FORMULAS]
    plan = replace(PLAN, keys=Keys.make("k", keys, False, None))
    ordered = sorted(key.encode() for key in keys)
    values = -np.arange(len(keys), dtype=float).reshape(1, -1, 1)
    one = ReleaseWriter(plan).batch(0, 0, 1, ordered, [Released("=x", None, values, None)])
    content = formats.csv(sorted_table([one]).table)
    shown = list(csv.DictReader(io.StringIO(content.decode(), newline="")))
    assert not [row for row in shown if row["key"][:1] in tuple("=+-@\t\r")]
    assert {row["name"] for row in shown} == {"'=x"}
    assert [json.loads(row["value"])[0] for row in shown] == values.ravel().tolist()
    plain = {row["key"] for row in shown} & set(NO_FORMULAS)
    assert plain == set(NO_FORMULAS)
    path = tmp_path / "ticks-000000000000-000000000000.csv"
    path.write_bytes(content)
    (file,) = result_files(tmp_path)
    (back,) = read_file(file, ["key", "name", "value"])
    assert [key.encode() for key in back["key"].to_pylist()] == ordered
    assert set(back["name"].to_pylist()) == {"=x"}


def test_a_file_without_guards_says_the_same_as_one_with_them(tmp_path: Path) -> None:
    """Guards are for spreadsheets: they are no part of what a file says."""
    plan = replace(PLAN, keys=Keys.make("k", ["=1+1", "b"], False, None))
    values = np.ones((1, 2, 1))
    one = ReleaseWriter(plan).batch(0, 0, 1, [b"=1+1", b"b"], [Released("n", None, values, None)])
    now = formats.csv(sorted_table([one]).table)
    before = now.replace(b"'=1+1", b"=1+1")
    assert now != before and differences(before, now, "csv", whole=True) == 0


@pytest.mark.parametrize("layout", ["flat", "packed"])
def test_noise_is_not_compressed_and_what_repeats_is(layout: str) -> None:
    noise = np.random.default_rng(1).normal(size=9999)
    for numbers, kept in ((noise, "UNCOMPRESSED"), (np.repeat(noise[:99], 101), "SNAPPY")):
        value = pa.array(numbers) if layout == "flat" else pa.array(numbers[:, None].tolist())
        content = formats.parquet(pa.table({"tick": np.zeros(9999, int), "value": value}))
        group = pq.read_metadata(io.BytesIO(content)).row_group(0)
        assert [group.column(i).compression for i in range(2)] == ["SNAPPY", kept]
