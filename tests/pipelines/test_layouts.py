"""Files of either layout hold the same, and are read as the same rows."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.transforms.doubles import FakePlan
from weir.dpcore.leaves.keys import Keys
from weir.dpcore.program import Released
from weir.pipelines.results.files import TYPES, ResultFile, is_flat, matrix, packed, read_file
from weir.transforms.release.flat import Flat, Layout
from weir.transforms.release.table import ReleaseWriter
from weir.transforms.sinks import formats, place
from weir.transforms.sinks.sorted_table import sorted_table

KEYS = sorted(
    key.encode()
    for key in ('say "hi", you', "zwei\nZeilen", "\u00fc\u2028", "", "back\\slash", "NA")
)
LABELS = ("", "[1, 2)", 'a "b", c', "\u00fc", "=1", "null")
PLAN = replace(FakePlan(), keys=Keys.make("k", [key.decode() for key in KEYS], False, None))
TICKS = 2
LAYOUTS: tuple[Layout, ...] = ("flat", "packed")


class Case:
    """Random outputs of a plan, and the table that they make."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.released = []
        named = []
        for number in range(rng.integers(1, 5)):
            over = None if number == 0 else number
            shape = (TICKS, len(KEYS), 1 if seed == 0 else int(rng.integers(1, len(LABELS))))
            some = rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-300, 12.0, 1e22], shape)
            values = np.where(rng.random(shape) < 0.5, some, rng.normal(size=shape))
            errors = np.abs(rng.normal(size=shape)) if rng.random() < 0.6 else None
            if errors is not None:
                errors[rng.random(shape) < 0.1] = np.nan
                errors[np.isnan(values)] = np.nan  # of nothing there is no error
            self.released.append(Released("a,b", over, values, errors))
            named.append(("a,b", over, LABELS[-shape[2] :]))
        self.flat = Flat(tuple(named), 2.0)
        batch = ReleaseWriter(PLAN).batch(0, 0, TICKS, KEYS, self.released)
        self.table = sorted_table([batch]).table

    def write(self, folder: Path, form: str, layout: Layout) -> ResultFile:
        path = folder / f"{layout}-{place.file_name(0, TICKS - 1, form)}"
        flat = self.flat if layout == "flat" else None
        path.write_bytes(formats.encode(self.table, form, flat))
        return ResultFile(path, 0, TICKS - 1)

    def truth(self) -> Iterator[tuple[str, int, int | None, Any, Any]]:
        """(key, tick, over, values, errors) in the order of files."""
        outputs = sorted(self.released, key=lambda one: one.over or 0)
        for tick in range(TICKS):
            for k, key in enumerate(KEYS):
                for one in outputs:
                    error = None if one.stddev is None else one.stddev[tick, k]
                    yield key.decode(), tick, one.over, one.value[tick, k], error


def rows_of(file: ResultFile) -> list[dict[str, Any]]:
    """A flat file as another program reads it."""
    if file.format == "parquet":
        return list(pq.read_table(file.path).to_pylist())
    text = file.path.read_bytes().decode()
    if file.format == "csv":
        return list(csv.DictReader(io.StringIO(text, newline="")))
    return [json.loads(line) for line in text.split("\n") if line]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
@pytest.mark.parametrize("seed", range(6))
def test_both_layouts_give_back_what_was_released(tmp_path: Path, form: str, seed: int) -> None:
    case = Case(seed)
    for layout in LAYOUTS:
        file = case.write(tmp_path, form, layout)
        assert is_flat(file) is (layout == "flat")
        keeps = form == "parquet" or (form == "csv" and layout == "flat")
        at = 0
        truth = list(case.truth())
        for batch in read_file(file, list(TYPES)):
            assert batch.schema.names == list(TYPES)
            for row in range(batch.num_rows):
                key, tick, over, values, errors = truth[at]
                found = {name: batch[name][row].as_py() for name in ("key", "tick", "over")}
                assert found == {"key": key, "tick": tick, "over": over}
                for name, wanted in (("value", values), ("stddev", errors)):
                    mine = matrix(batch[name], np.array([row]), len(values))[0]
                    if wanted is None:
                        assert not batch[name][row].is_valid
                        wanted = np.full(len(values), np.nan)
                    elif not keeps:  # texts of the packed layout, and JSON, have no infinity
                        wanted = np.where(np.isfinite(wanted), wanted, np.nan)
                    np.testing.assert_array_equal(mine, wanted)
                    assert list(np.signbit(mine)[wanted == 0]) == list(
                        np.signbit(wanted)[wanted == 0]
                    )
                at += 1
        assert at == len(truth)


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
def test_another_program_reads_flat_rows(tmp_path: Path, form: str) -> None:
    """Labels and margins as they are, but that CSV guards formulas; no cell of it holds a list."""
    case = Case(3)
    rows = rows_of(case.write(tmp_path, form, "flat"))
    labels = {over: labels for _, over, labels in case.flat.outputs}
    assert max(map(len, labels.values())) > 1
    wanted = [
        (key, label, index, value, None if errors is None else errors[index])
        for key, _, over, values, errors in case.truth()
        for index, (label, value) in enumerate(zip(labels[over], values, strict=True))
    ]
    assert len(rows) == len(wanted)
    for row, (key, label, index, value, error) in zip(rows, wanted, strict=True):
        shown = f"'{label}" if form == "csv" and label.startswith("=") else label
        assert (row["key"], row["label"], int(row["index"])) == (key, shown, index)
        bounds = [None, None] if error is None else [value - 2 * error, value + 2 * error]
        for name, number in zip(
            ("value", "stddev", "low", "high"), [value, error, *bounds], strict=True
        ):
            found = None if row[name] in (None, "") else float(row[name])
            if number is None or np.isnan(value) or (form == "ndjson" and not np.isfinite(number)):
                assert found is None
            else:
                assert found is not None
                np.testing.assert_equal(found, number)


@pytest.mark.parametrize("columns", [["tick"], ["stddev", "name"], ["value"], ["plan", "key"]])
def test_some_columns_have_as_many_rows_in_either_layout(
    tmp_path: Path, columns: list[str]
) -> None:
    case = Case(2)
    for form in ("parquet", "csv", "ndjson"):
        counts = []
        for layout in LAYOUTS:
            found = list(read_file(case.write(tmp_path, form, layout), columns))
            assert all(batch.schema.names == columns for batch in found)
            counts.append(sum(batch.num_rows for batch in found))
        assert counts[0] == counts[1] == len(list(case.truth()))


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
def test_no_vector_is_cut_where_a_batch_ends(tmp_path: Path, size: int) -> None:
    file = Case(4).write(tmp_path, "parquet", "flat")
    whole = pa.Table.from_batches(read_file(file, list(TYPES)))
    reader = pq.ParquetFile(file.path, read_dictionary=["key", "name"])
    names = [*TYPES, "index"]
    cut = pa.Table.from_batches(packed(reader.iter_batches(size, columns=names)))
    for name in ("key", "tick", "name", "over", "value", "stddev", "plan"):
        assert repr(cut[name].to_pylist()) == repr(whole[name].to_pylist())


def test_coordinates_lie_where_their_index_says() -> None:
    """Of a file from which somebody took rows away."""
    rows = [("a", 0, 1.0), ("a", 2, 3.0), ("b", 3, 4.0), ("b", 1, 2.0), ("b", 0, None)]
    key, index, value = (list(column) for column in zip(*rows, strict=True))
    batch = pa.RecordBatch.from_pydict(
        {
            "key": pa.array(key).dictionary_encode(),
            "tick": pa.array([0] * 5),
            "name": pa.array(["x"] * 5).dictionary_encode(),
            "over": pa.array([None] * 5, pa.int64()),
            "index": pa.array(index),
            "value": pa.array(value),
            "stddev": pa.array([None, 1.0, None, None, None]),
        }
    )
    found = pa.Table.from_batches(packed(iter([batch])))
    nan = float("nan")
    assert repr(found["value"].to_pylist()) == repr(
        [[1.0, nan, 3.0], [nan, nan, nan, 4.0], [nan, 2.0], [nan]]
    )
    assert repr(found["stddev"].to_pylist()) == repr([[nan, nan, 1.0], None, None, None])
    assert found["key"].to_pylist() == ["a", "b", "b", "b"]


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    empty = sorted_table([]).table
    for form in ("parquet", "csv"):
        for layout in LAYOUTS:
            path = tmp_path / f"{layout}-{place.file_name(0, 3, form)}"
            flat = Flat((), 2.0) if layout == "flat" else None
            path.write_bytes(formats.encode(empty, form, flat))
            found = list(read_file(ResultFile(path, 0, 3), list(TYPES)))
            assert sum(batch.num_rows for batch in found) == 0
