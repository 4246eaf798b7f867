"""Rows of wide lists: bounded one by one, and those of as many columns where both can be."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.constant_noise import NoNoise
from weir.dpcore.bounded_events import Events
from weir.dpcore.config.schema import ListColumn
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.sparse_rows import SparseRows
from weir.dpcore.models.kit.inputs import DenseInputs, SparseInputs
from weir.dpcore.models.kit.rows import STEP
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate
from weir.transforms.columns.list_columns import to_rows
from weir.transforms.decode.lists import from_python

P, MOST = 12, 4
WIDE = SparseInputs("x", P, 2.0, MOST, "y", (-1.0, 3.0), (), math.inf)

NUMBERS = st.sampled_from([0.0, -0.0, 1.0, -2.0, 7.5, 1e-9, 1e300, math.nan, math.inf, None])
PLACES = st.integers(-1, P)
RECORDS = st.one_of(
    st.none(),
    st.just("no list"),
    st.dictionaries(PLACES.map(str), NUMBERS),
    st.lists(st.sampled_from([0.0, 1.5, -9.0]), min_size=P, max_size=P),
    st.lists(NUMBERS, max_size=P + 1),
)


def bound(records: list[Any], inputs: SparseInputs, y: float = 1.5) -> SparseRows:
    column, _ = from_python(records, inputs.size)
    given = {"x": to_rows(column, inputs.size), "y": np.full(len(records), y)}
    rows: SparseRows = inputs.bound(given, len(records)).rows
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("norm", [math.inf, 1.25])
def test_a_record_is_bounded_alone(norm: float) -> None:
    inputs = replace(WIDE, norm=norm)

    @settings(max_examples=150, database=None)
    @given(st.lists(RECORDS, min_size=1, max_size=5), RECORDS, st.data())
    def run(records: list[Any], other: Any, data: st.DataObject) -> None:
        spot = data.draw(st.integers(0, len(records) - 1))
        rows = bound(records, inputs)
        again = bound([*records[:spot], other, *records[spot + 1 :]], inputs)
        rest = np.arange(len(records)) != spot
        for mine, theirs in zip(rows[rest].words(), again[rest].words(), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        alone = bound([records[spot]], inputs)
        np.testing.assert_array_equal(alone.digests()[0], rows.digests()[spot])
        features, void = rows.features, np.isnan(rows.last)
        assert (features.lengths <= MOST).all() and (features.lengths[void] == 0).all()
        assert (np.abs(features.values) <= 1).all() and (features.values != 0).all()
        steps = features.values.astype(np.float64) / STEP
        assert (steps == np.rint(steps)).all() and rows.values.dtype == np.float32
        squares = np.square(features.dense()).sum(axis=1)
        assert (squares <= norm * norm).all()

    run()


def test_what_makes_a_row_void() -> None:
    column, bad = from_python(
        [
            {"1": 2.0},
            {"1": None},
            {"1": math.inf},
            {str(P): 1.0},
            {"1": 1.0, "01": 1.0},
            [1.0] * (P + 1),
            None,
            {},
        ],
        P,
    )
    rows = WIDE.bound({"x": to_rows(column, P), "y": np.full(8, 1.0)}, 8).rows
    assert bad.tolist() == [False, False, False, True, True, True, False, False]
    assert np.isnan(rows.last).tolist() == [False, *[True] * 6, False]
    found = WIDE.bound({"x": to_rows(column, P), "y": np.array([np.nan] * 8)}, 8)
    assert np.isnan(found.rows.last).all() and len(found.rows.features.values) == 0


def test_places_that_are_there_twice_make_no_list() -> None:
    column, bad = from_python([[1.0, 2.0], [1.0, 2.0]], P, [[3, 3], [3, 4]])
    assert bad.tolist() == [True, False]
    rows = WIDE.bound({"x": to_rows(column, P), "y": np.zeros(2)}, 2).rows
    assert np.isnan(rows.last).tolist() == [True, False]


def test_of_too_many_numbers_the_largest_stay() -> None:
    values = {str(j): v for j, v in enumerate([0.5, -1.5, 0.5, 0.5, 2.0, 0.5])}
    (rows,) = [bound([values], WIDE)]
    np.testing.assert_array_equal(rows.features.indices, [0, 1, 2, 4])  # the earlier of equals
    counted = WIDE.bound({"x": to_rows(from_python([values], P)[0], P), "y": np.zeros(1)}, 1)
    assert counted.clipped == 1 and counted.non_finite == 0


def test_rows_are_those_of_as_many_columns() -> None:
    rng = np.random.default_rng(3)
    n = 200
    x = np.where(rng.random((n, P)) < 0.8, 0.0, rng.normal(size=(n, P)) * 2)
    x[4, 2], x[5, 3] = np.nan, np.inf
    y = rng.normal(size=n)
    y[6] = np.nan
    names = tuple(f"x[{j}]" for j in range(P))
    ranges = (*([(-2.0, 2.0)] * P), (-1.0, 3.0))
    dense = DenseInputs(names, "y", ranges, (), math.inf)
    columns = {name: x[:, j] for j, name in enumerate(names)}
    wanted = dense.bound({**columns, "y": y}, n)
    given = {"x": SparseRows.from_dense(x), "y": y}
    found = replace(WIDE, most=P).bound(given, n)
    np.testing.assert_array_equal(found.rows.dense(), np.asarray(wanted.rows))
    assert (found.clipped, found.non_finite) == (wanted.clipped, wanted.non_finite)
    theta = np.where(rng.random((3, P + 1)) < 0.5, 0.0, rng.normal(size=(3, P + 1)))
    for intercept in (False, True):
        some = theta[:, : P + intercept]
        np.testing.assert_allclose(
            WIDE.coefficients(some, intercept, False),
            dense.coefficients(some, intercept, False),
            rtol=1e-15,
        )
        assert WIDE.names(intercept)[1] == dense.names(intercept)[1]


CONFIG = """
name: wide
schema: {{time: at, id: id}}
clock: {{start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-04T00:00:00Z}}
privacy: {{epsilon: 4, delta: 1e-6, protect_for: all, relation: replace_one}}
expect: {{events: 90}}
model:
  algorithm: optimize.frank_wolfe
  features: {features}
  target: y
  {target}
  set: {{l1_ball: 1}}
  block: 1d
  iterations: 9
"""


@pytest.mark.parametrize("classes", [False, True])
def test_sparse_and_dense_rows_give_the_same_models_but_for_noise(classes: bool) -> None:
    target = "ranges: {x: [-2, 2], y: [-1, 3]}"
    if classes:
        target = "classes: [0, 1]\n  ranges: {x: [-2, 2]}"
    text = CONFIG.format(features=f"{{column: x, size: {P}}}", target=target)
    dense = Plan.from_yaml(text)
    program: Any = dense.program
    kinds = (None, (0.0, 1.0)) if classes else ((-1.0, 3.0), ())
    inputs = SparseInputs("x", P, 2.0, P, "y", *kinds, math.inf)
    sparse = replace(dense, program=replace(program, inputs=inputs))
    rng = np.random.default_rng(5)
    n = 250
    x = np.where(rng.random((n, P)) < 0.6, 0.0, rng.normal(size=(n, P)))
    y = (x[:, 2] > 0).astype(float) if classes else x[:, 2] - x[:, 5]
    times = np.datetime64("2025-01-01", "us").astype(np.int64) + np.arange(n) * 10**9
    events = Events(times, None, {"x": x, "y": y}, [f"e{i}" for i in range(n)])
    one, other = (simulate(plan, events, bytes(32), noise=NoNoise()) for plan in (dense, sparse))
    for mine, theirs in zip(one[0].released, other[0].released, strict=True):
        np.testing.assert_allclose(mine.value, theirs.value, rtol=1e-14, atol=1e-300)
    np.testing.assert_array_equal(one[0].released[0].value, other[0].released[0].value)
    assert np.isfinite(one[0].released[0].value[-1]).all()


def test_config_of_wide_lists() -> None:
    assert ListColumn(column="x", size=5000).filled == 1024
    assert ListColumn(column="x", size=5000, most=70).filled == 70
    text = CONFIG.format(
        features="{column: x, size: 100, most: 5}", target="ranges: {x: [-2, 2], y: [-1, 3]}"
    )
    with pytest.raises(ConfigError, match="more than 4,096 features only"):
        Plan.from_yaml(text)
    with pytest.raises(ConfigError, match=r"features.most"):
        Plan.from_yaml(text.replace("100, most: 5", "9000, most: 9001"))
