"""Flat rows: one a coordinate, with its label and its margin, and nothing lost on the way."""

from __future__ import annotations

from dataclasses import replace

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.typehints.schemas import named_tuple_to_schema

import weir
from tests.transforms.doubles import FakePlan
from tests.transforms.running import KEPT, keep
from weir.dpcore.program import Released
from weir.transforms.beam.releases import FlatReleases, ReleaseRow, rows_of
from weir.transforms.release.flat import FLAT_SCHEMA, Flat
from weir.transforms.release.table import PACKED_SCHEMA, RELEASE_SCHEMA, ReleaseWriter
from weir.transforms.sinks.sorted_table import sorted_table

PLAN = FakePlan()
KEYS = [b"a", b"b"]


def release(*released: Released, ticks: int = 2) -> pa.RecordBatch:
    return ReleaseWriter(PLAN).batch(0, 0, ticks, KEYS, released)


def some() -> pa.RecordBatch:
    values = np.arange(4.0).reshape(2, 2, 1)
    pair = np.concatenate([values, -values], axis=2)
    return release(
        Released("sum", 7, values / 8, None),
        Released("sum", None, values, np.full((2, 2, 1), 0.5)),
        Released("hist", None, pair, np.ones((1, 1, 2))),
        Released("theta", None, np.zeros((2, 2, 3)), None),
    )


def test_the_columns_are_those_of_the_design() -> None:
    told = {field.name: str(field.type) for field in RELEASE_SCHEMA}
    assert told == {
        "release": "string",
        "key": "string",
        "tick": "int64",
        "tick_start": "timestamp[us, tz=UTC]",
        "tick_end": "timestamp[us, tz=UTC]",
        "name": "string",
        "label": "string",
        "index": "int32",
        "over": "int64",
        "value": "double",
        "stddev": "double",
        "low": "double",
        "high": "double",
        "epsilon": "double",
        "delta": "double",
        "window": "int64",
        "plan": "string",
    }
    assert FLAT_SCHEMA.names == RELEASE_SCHEMA.names
    assert weir.RELEASE_SCHEMA is RELEASE_SCHEMA and weir.FlatReleases is FlatReleases
    assert [str(PACKED_SCHEMA.field(name).type) for name in ("value", "stddev")] == [
        "list<element: double>"
    ] * 2


def test_a_vector_becomes_a_row_a_coordinate() -> None:
    rows = Flat.of(PLAN).batch(some()).to_pylist()
    cell = [row for row in rows if row["tick"] == 1 and row["key"] == "b"]
    told = [(r["name"], r["over"], r["label"], r["index"], r["value"], r["stddev"]) for r in cell]
    assert told == [
        ("sum", 7, "", 0, 3 / 8, None),
        ("sum", None, "", 0, 3.0, 0.5),
        ("hist", None, "low, 1", 0, 3.0, 1.0),
        ("hist", None, "high", 1, -3.0, 1.0),
        *(("theta", None, str(i + 1), i, 0.0, None) for i in range(3)),
    ]
    assert [(r["low"], r["high"]) for r in cell] == [
        (None, None),
        (2.0, 4.0),
        (1.0, 5.0),
        (-5.0, -1.0),
        *[(None, None)] * 3,
    ]
    assert {row["window"] for row in rows} == {64} and rows[0]["plan"] == PLAN.digest


def test_the_band_is_that_of_the_plan() -> None:
    wide = Flat.of(replace(PLAN, band=3.0)).batch(some()).to_pylist()
    assert {row["high"] - row["value"] for row in wide if row["name"] == "hist"} == {3.0}


def test_a_vector_whose_error_is_not_a_number_has_no_band_there() -> None:
    errors = np.array([np.nan, 1.0, np.inf]).reshape(1, 1, 3)
    made = Flat.of(PLAN).batch(release(Released("x", None, np.zeros((2, 2, 3)), errors)))
    np.testing.assert_array_equal(made["high"].to_numpy()[:3], [np.nan, 2.0, np.inf])
    assert made["stddev"].null_count == 0


def test_no_key_gives_no_rows() -> None:
    empty = ReleaseWriter(PLAN).batch(3, 0, 2, [], ())
    made = Flat.of(PLAN).batch(empty)
    assert made.num_rows == 0 and made.schema.equals(RELEASE_SCHEMA)
    assert Flat.of(PLAN).table(sorted_table([empty]).table).schema.equals(FLAT_SCHEMA)


@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_lost_whatever_the_shapes(seed: int) -> None:
    """Against the same thing written with loops, on slices too."""
    rng = np.random.default_rng(seed)
    released = []
    for place in range(rng.integers(1, 5)):
        shape = (3, 2, int(rng.integers(1, 5)))
        values = rng.choice([0.0, -0.0, np.nan, np.inf, -1e-300, 7.25], shape)
        errors = None if rng.random() < 0.4 else np.abs(rng.normal(size=shape))
        released.append(Released(f"n{place % 2}", place or None, values, errors))
    table = sorted_table([release(*released, ticks=3)]).table
    table = table.slice(int(rng.integers(0, 4)))
    flat = Flat.of(PLAN)
    wanted = []
    for row in table.to_pylist():
        for index, value in enumerate(row["value"]):
            known = row["stddev"] is not None and value is not None
            error = row["stddev"][index] if known else None
            band = [None, None] if error is None else [value - 2.0 * error, value + 2.0 * error]
            label = "" if len(row["value"]) == 1 else str(index + 1)
            own = {"label": label, "index": index, "value": value, "stddev": error}
            wanted.append({**row, **own, "low": band[0], "high": band[1]})
    found = flat.table(table).to_pylist()
    names = RELEASE_SCHEMA.names
    assert [repr([row[n] for n in names]) for row in found] == [
        repr([row[n] for n in names]) for row in wanted
    ]


def test_users_of_python_get_flat_rows() -> None:
    pipeline = beam.Pipeline(runner=FnApiRunner())
    source = pipeline | beam.Create([some()], reshuffle=False).with_output_types(pa.RecordBatch)
    token = keep(source | FlatReleases(PLAN), "flat")
    pipeline.run().wait_until_finish()
    (made,) = KEPT.pop(token)
    assert made.equals(Flat.of(PLAN).batch(some()))


def test_typed_rows_say_the_same_and_have_types_that_every_language_knows() -> None:
    flat = Flat.of(PLAN).batch(some())
    rows = list(rows_of(flat))
    assert ReleaseRow._fields == tuple(RELEASE_SCHEMA.names)
    for row, told in zip(rows, flat.to_pylist(), strict=True):
        times = {name: getattr(row, name).to_utc_datetime(has_tz=True) for name in TIMES}
        assert row._asdict() | times == told
    fields = named_tuple_to_schema(ReleaseRow).fields
    kinds = {field.name: field.type.WhichOneof("type_info") for field in fields}
    assert {name for name, kind in kinds.items() if kind != "atomic_type"} == set(TIMES)
    assert all(field.type.logical_type.urn == MICROS for field in fields if field.name in TIMES)
    assert {field.name for field in fields if field.type.nullable} == {
        *("tick", "tick_start", "tick_end"), "over", "value", "stddev", "low", "high", "window",
    }  # fmt: skip


TIMES = ("tick_start", "tick_end")
MICROS = "beam:logical_type:micros_instant:v1"


@pytest.mark.parametrize("seed", range(4))
def test_a_key_has_rows_from_its_birth_on_and_none_before(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ticks, keys = 6, (b"a", b"b", b"c", b"d")
    births = np.array([0, 0, *sorted(rng.integers(0, ticks, 2).tolist())])
    found = []
    for name, over, size, stddev in (("n", None, 1, True), ("v", 3, 2, False), ("n", 2, 1, True)):
        value = rng.normal(size=(ticks, len(keys), size))
        value[rng.random(value.shape) < 0.1] = np.nan
        error = rng.random((ticks, 1, size)) if stddev else None
        found.append(Released(name, over, value, error))
    writer = ReleaseWriter(PLAN)
    ours = sorted_table([writer.batch(3, 12, ticks, keys, found, births)]).table
    alone = []
    for row, birth in enumerate(births.tolist()):
        own = [
            one._replace(
                value=one.value[birth:, row : row + 1],
                stddev=None if one.stddev is None else one.stddev[birth:],
            )
            for one in found
        ]
        alone.append(writer.batch(3, 12 + birth, ticks - birth, keys[row : row + 1], own))
    theirs = sorted_table(alone).table
    assert ours.num_rows == 3 * (4 * ticks - births.sum())
    for name in ours.schema.names:
        assert ours[name].to_pylist() == theirs[name].to_pylist() or name in ("value", "stddev")
        if name in ("value", "stddev"):
            assert repr(ours[name].to_pylist()) == repr(theirs[name].to_pylist())
