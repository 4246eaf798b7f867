"""Files that are whole grids: what is put in place is what sorting gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.transforms.doubles import FakePlan
from weir.dpcore.leaves.keys import Keys
from weir.dpcore.program import Released
from weir.transforms.release.table import IN_FLIGHT_SCHEMA, ReleaseWriter
from weir.transforms.sinks import formats, sorted_table
from weir.transforms.sinks.grid import grid_table

PLAN = FakePlan()
NAMES = ["", "b", "a", "ö", "Z", "k" * 40, "10", "9"]
OUTPUTS: list[tuple[str, int | None]] = [("sum", 7), ("sum", None), ("events", None), ("sum", 10)]


def batch(
    keys: list[str],
    rng: np.random.Generator,
    outputs: list[tuple[str, int | None]],
    first: int = 0,
    ticks: int = 5,
    errors: bool = True,
    width: int = 1,
) -> pa.RecordBatch:
    plan = replace(PLAN, keys=Keys.make("k", NAMES, False, None))
    shape = (ticks, len(keys), width)
    stddev = rng.random(shape) if errors else None
    released = [Released(name, over, rng.normal(size=shape), stddev) for name, over in outputs]
    return ReleaseWriter(plan).batch(0, first, ticks, [key.encode() for key in keys], released)


def plain(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return [one.replace_schema_metadata(None) for one in batches]


def by_sorting(batches: list[pa.RecordBatch], monkeypatch: pytest.MonkeyPatch) -> pa.Table:
    with monkeypatch.context() as without:
        without.setattr(sorted_table, "grid_table", lambda batches: None)
        return sorted_table.sorted_table(batches).table


@pytest.mark.slow
@pytest.mark.parametrize("errors", [True, False])
@pytest.mark.parametrize("outputs", [OUTPUTS[:1], OUTPUTS[1:2], OUTPUTS])
@pytest.mark.parametrize("cuts", [[8], [3, 8], [1, 2, 7, 8]])
def test_a_grid_is_what_sorting_gives(
    errors: bool, outputs: Any, cuts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(len(cuts))
    names = [NAMES[i] for i in rng.permutation(len(NAMES))]
    parts = [names[low:high] for low, high in zip([0, *cuts], cuts, strict=False)]
    batches = [batch(part, rng, outputs, errors=errors) for part in parts]
    for some in (batches, batches[::-1]):
        found = grid_table(plain(some))
        assert found is not None and found.schema.equals(IN_FLIGHT_SCHEMA)
        found.validate(full=True)
        wanted = by_sorting(some, monkeypatch)
        assert found.to_pylist() == wanted.to_pylist()
        for form in ("parquet", "csv", "ndjson"):
            assert formats.encode(found, form, None) == formats.encode(wanted, form, None)


def test_what_is_no_grid_is_sorted() -> None:
    rng = np.random.default_rng(0)
    one = batch(["a", "b"], rng, OUTPUTS)
    others = {
        "a key twice": batch(["b", "Z"], rng, OUTPUTS),
        "other ticks": batch(["Z"], rng, OUTPUTS, first=5),
        "fewer ticks": batch(["Z"], rng, OUTPUTS, ticks=4),
        "other outputs": batch(["Z"], rng, OUTPUTS[::-1]),
        "without errors": batch(["Z"], rng, OUTPUTS, errors=False),
        "vectors": batch(["Z"], rng, OUTPUTS, width=2),
        "rows gone": batch(["Z", "9"], rng, OUTPUTS).slice(1),
        "another order": batch(["Z", "9"], rng, OUTPUTS).take(pa.array([1, 0, *range(2, 40)])),
    }
    assert grid_table(plain([one])) is not None
    for what, other in others.items():
        assert grid_table(plain([one, other])) is None, what
    values = np.array([[[1.0]], [[np.nan]]])
    writer = ReleaseWriter(PLAN)
    silent = writer.batch(0, 0, 2, [b"Z"], [Released("sum", None, values, np.ones(values.shape))])
    assert grid_table(plain([silent])) is None
