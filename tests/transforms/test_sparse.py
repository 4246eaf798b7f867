"""Vectors that a program declares sparse: flat rows without zeros, and read back whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.transforms.doubles import CountSum, FakePlan
from weir.dpcore.geometry.balls import L1Ball, L2Ball
from weir.dpcore.geometry.boxes import Simplex
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.leaves.sparse_rows import MOST_DENSE
from weir.dpcore.program import SPARSE_FROM, OutputInfo, Released
from weir.pipelines.results.files import TYPES, ResultFile, matrix, read_file
from weir.transforms.beam.publish import to_messages
from weir.transforms.release.few import FEW_SCHEMA, Few, shape_for
from weir.transforms.release.flat import Flat
from weir.transforms.release.table import ReleaseWriter
from weir.transforms.sinks import formats, place
from weir.transforms.sinks.sorted_table import sorted_table
from weir.transforms.sinks.targets import bigquery_schema, to_records
from weir.transforms.sinks.writer import differences

SIZE, TICKS = 6, 3
KEYS = [b"a", b"b"]
LABELS = tuple(f"x{i}" for i in range(SIZE))


@dataclass(frozen=True)
class Sparse(CountSum):
    """As its base, but for what it says of its outputs."""

    sparse: bool = True

    def describe(self, ticks: Any) -> tuple[OutputInfo, ...]:
        one = OutputInfo("theta", None, SIZE, 1.0, float("nan"), LABELS, self.sparse)
        return (one, one._replace(over=7), one._replace(name="dense", sparse=False))


@dataclass(frozen=True)
class Wide(CountSum):
    """As its base, but for what it says of its outputs."""

    output: OutputInfo | None = None

    def describe(self, ticks: Any) -> tuple[OutputInfo, ...]:
        assert self.output is not None
        return (self.output,)


PLAN = replace(FakePlan(), program=Sparse())
DENSE = replace(FakePlan(), program=Sparse(sparse=False))


def releases(seed: int) -> list[Released]:
    """Mostly zeros of both signs; one vector of nothing else, one that is full."""
    rng = np.random.default_rng(seed)
    found = []
    for name, over in (("theta", None), ("theta", 7), ("dense", None)):
        shape = (TICKS, len(KEYS), SIZE)
        values = np.where(rng.random(shape) < 0.7, 0.0, rng.normal(size=shape))
        values[rng.random(shape) < 0.1] = rng.choice([np.nan, -0.0, np.inf])
        values[0, 0], values[1, 1] = 0.0, np.arange(1, SIZE + 1)
        found.append(Released(name, over, values, None))
    return found


def table_of(plan: Any, found: list[Released]) -> pa.Table:
    return sorted_table([ReleaseWriter(plan).batch(0, 0, TICKS, KEYS, found)]).table


@pytest.mark.parametrize("seed", range(5))
def test_only_what_is_not_zero_has_a_row(seed: int) -> None:
    found = releases(seed)
    table = table_of(PLAN, found)
    whole = Flat.of(DENSE).table(table).to_pylist()
    rows = Flat.of(PLAN).table(table).to_pylist()
    empty = {
        (one.name, one.over, KEYS[key].decode(), tick)
        for one in found
        for tick, key in np.argwhere((one.value == 0).all(axis=2)).tolist()
    }
    assert empty

    def stays(row: dict[str, Any]) -> bool:
        alone = (row["name"], row["over"], row["key"], row["tick"]) in empty and row["index"] == 0
        return row["name"] == "dense" or row["value"] != 0 or alone

    assert repr(rows) == repr([row for row in whole if stays(row)])
    assert all(row["label"] == LABELS[row["index"]] for row in rows)


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
@pytest.mark.parametrize("seed", range(3))
def test_files_give_back_the_zeros(tmp_path: Path, form: str, seed: int) -> None:
    found = releases(seed)
    path = tmp_path / place.file_name(0, TICKS - 1, form)
    path.write_bytes(formats.encode(table_of(PLAN, found), form, Flat.of(PLAN)))
    sizes = {("theta", None): SIZE, ("theta", 7): SIZE, ("nobody", None): 3}
    seen = 0
    for batch in read_file(ResultFile(path, 0, TICKS - 1), list(TYPES), sizes):
        for row in range(batch.num_rows):
            name, over = batch["name"][row].as_py(), batch["over"][row].as_py()
            (one,) = (r for r in found if (r.name, r.over) == (name, over))
            key = KEYS.index(batch["key"][row].as_py().encode())
            wanted = one.value[batch["tick"][row].as_py(), key]
            if form == "ndjson":
                wanted = np.where(np.isfinite(wanted), wanted, np.nan)
            np.testing.assert_array_equal(matrix(batch["value"], np.array([row]), SIZE)[0], wanted)
            assert len(batch["value"][row]) == SIZE and not batch["stddev"][row].is_valid
            seen += 1
    assert seen == 3 * TICKS * len(KEYS)


def test_a_vector_with_an_error_keeps_its_zeros() -> None:
    found = [one._replace(stddev=np.ones((1, 1, SIZE))) for one in releases(1)[:1]]
    assert Flat.of(PLAN).table(table_of(PLAN, found)).num_rows == TICKS * len(KEYS) * SIZE


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
def test_a_file_that_lists_zeros_says_the_same(form: str) -> None:
    found = releases(2)
    table = table_of(PLAN, found)
    old = formats.encode(table, form, Flat.of(DENSE))
    new = formats.encode(table, form, Flat.of(PLAN))
    assert old != new
    assert differences(old, new, form, True, frozenset({"theta"})) == 0
    assert differences(old, new, form, False, frozenset({"theta"})) == 0
    assert differences(old, new, form, True) > 0
    found[0].value[1, 1, 2] += 1.0
    other = formats.encode(table_of(PLAN, found), form, Flat.of(PLAN))
    assert differences(old, other, form, True, frozenset({"theta"})) == 1


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
def test_packed_files_are_what_they_were(form: str) -> None:
    found = releases(3)
    mine, before = (
        formats.encode(table_of(plan, found), form, shape_for(plan, "packed"))
        for plan in (PLAN, DENSE)
    )
    assert mine == before


@pytest.mark.parametrize(
    ("convex_set", "sparse"),
    [(L1Ball(1.0, 100), True), (Simplex(1.0, 100), True), (L2Ball(1.0, 100), False)],
)
def test_sets_whose_minimisers_have_few_coordinates(convex_set: ConvexSet, sparse: bool) -> None:
    costs = np.random.default_rng(0).normal(size=(20, 100))
    few = (convex_set.linear_oracle(costs) != 0).sum(axis=1) == 1
    assert convex_set.sparse is sparse is bool(few.all())
    projected = convex_set.project(costs) != 0
    assert bool((projected.sum(axis=1) < SPARSE_FROM).all()) is sparse


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
def test_a_wide_vector_that_says_nothing_has_one_row(tmp_path: Path, form: str) -> None:
    size = MOST_DENSE + 1
    info = OutputInfo("theta", None, size, 1.0, float("nan"), tuple(map(str, range(size))), True)
    plan = replace(FakePlan(), program=Wide(output=info))
    values = np.zeros((4, 1, size))
    values[0], values[1, 0, 0], values[3, 0, -1] = np.nan, np.nan, 1.5
    found = [Released("theta", None, values, None)]
    table = sorted_table([ReleaseWriter(plan).batch(0, 0, 4, KEYS[:1], found)]).table
    rows = Flat.of(plan).table(table).to_pylist()
    assert [(row["tick"], row["index"], row["value"]) for row in rows] == [
        (0, 0, None),
        (1, 0, None),
        (1, 1, 0.0),
        (2, 0, 0.0),
        (3, size - 1, 1.5),
    ]
    path = tmp_path / place.file_name(0, 3, form)
    path.write_bytes(formats.encode(table, form, Flat.of(plan)))
    batches = read_file(ResultFile(path, 0, 3), list(TYPES), {("theta", None): size})
    read = pa.Table.from_batches(list(batches)).combine_chunks()["value"].chunk(0)
    np.testing.assert_array_equal(matrix(read, np.arange(4), size), values[:, 0])


@dataclass(frozen=True)
class Both(CountSum):
    """As its base, but for what it says of its outputs."""

    size: int = MOST_DENSE + 1

    def describe(self, ticks: Any) -> tuple[OutputInfo, ...]:
        labels = tuple(map(str, range(self.size)))
        one = OutputInfo("theta", None, self.size, 1.0, float("nan"), labels, True)
        return (one, one._replace(over=3), OutputInfo("of", None, 2, 0.0, 0.0, ("first", "last")))


WIDE = replace(FakePlan(), program=Both())


def wide_releases() -> list[Released]:
    """Silent, silent at first, all zeros, and a few numbers; next to them short vectors."""
    values = np.zeros((4, 1, MOST_DENSE + 1))
    values[0], values[1, 0, 0], values[3, 0, [1, 7, -1]] = np.nan, np.nan, [0.25, -3.0, 1.5]
    short = np.array([[[np.nan, 1.0]], [[0.0, 2.0]], [[-0.0, 3.0]], [[5.0, 0.0]]])
    return [
        Released("theta", None, values, None),
        Released("of", None, short, np.ones(2)),
        Released("theta", 3, values[::-1].copy(), None),
    ]


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
def test_packed_rows_of_wide_vectors_have_what_is_not_zero_and_where(
    tmp_path: Path, form: str
) -> None:
    found = wide_releases()
    table = sorted_table([ReleaseWriter(WIDE).batch(0, 0, 4, KEYS[:1], found)]).table
    shape = shape_for(WIDE, "packed")
    assert isinstance(shape, Few)
    rows = shape.table(table).to_pylist()
    theta = {row["tick"]: row for row in rows if (row["name"], row["over"]) == ("theta", None)}
    assert [(theta[t]["indices"], theta[t]["value"]) for t in range(4)] == [
        ([0], [None]),
        ([0, 1], [None, 0.0]),
        ([0], [0.0]),
        ([1, 7, MOST_DENSE], [0.25, -3.0, 1.5]),
    ]
    assert all(row["stddev"] is None for row in theta.values())
    assert all((row["indices"] is None) == (row["name"] == "of") for row in rows)
    content = formats.encode(table, form, shape)
    path = tmp_path / place.file_name(0, 3, form)
    path.write_bytes(content)
    assert len(content) < 20_000
    sizes = {("theta", None): MOST_DENSE + 1, ("theta", 3): MOST_DENSE + 1}
    for batch in read_file(ResultFile(path, 0, 3), list(TYPES), sizes):
        for row in range(batch.num_rows):
            named = batch["name"][row].as_py(), batch["over"][row].as_py()
            (one,) = (r for r in found if (r.name, r.over) == named)
            size = one.value.shape[2]
            mine = matrix(batch["value"], np.array([row]), size)[0]
            assert len(batch["value"][row]) == size
            np.testing.assert_array_equal(mine, one.value[batch["tick"][row].as_py(), 0])
    ticks = [batch["tick"].to_pylist() for batch in read_file(ResultFile(path, 0, 3), ["tick"])]
    assert sorted(sum(ticks, [])) == sorted([*range(4)] * 3)


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
def test_a_packed_file_with_all_zeros_is_the_same(form: str) -> None:
    found = wide_releases()
    names = frozenset({"theta"})

    def written(whole: bool) -> bytes:
        table = sorted_table([ReleaseWriter(WIDE).batch(0, 0, 4, KEYS[:1], found)]).table
        return formats.encode(table, form, None if whole else shape_for(WIDE, "packed"))

    old, new = written(True), written(False)
    assert len(new) < len(old) / (2 if form == "parquet" else 10)
    assert differences(old, new, form, True, names) == 0
    found[0].value[3, 0, 5] = 1.0
    assert differences(old, written(False), form, True, names) == 1


def test_packed_rows_of_wide_vectors_in_bigquery_and_messages() -> None:
    batch = ReleaseWriter(WIDE).batch(0, 0, 4, KEYS[:1], wide_releases())
    shape = shape_for(WIDE, "packed")
    records = [row for row in to_records(batch, shape) if row["name"] == "theta"]
    fields = bigquery_schema("packed", few=True)["fields"]
    assert [field["name"] for field in fields] == list(records[0])
    assert next(one for one in fields if one["name"] == "indices")["mode"] == "REPEATED"
    assert (records[0]["indices"], records[0]["value"]) == ([], [])
    assert (records[3]["indices"], records[3]["value"]) == ([1, 7, MOST_DENSE], [0.25, -3.0, 1.5])
    for form in ("ndjson", "arrow"):
        told = [one.data for one in to_messages(batch, "aa", form, shape)]
        assert len(told) == 4 and sum(map(len, told)) < 20_000
    assert pa.ipc.open_stream(told[3]).schema.names == FEW_SCHEMA.names
