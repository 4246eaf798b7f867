from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves import lattice
from weir.dpcore.leaves.lattice import (
    Lattice,
    LatticeRows,
    check_capacity,
    resolution_for,
    sum_cells,
)


@pytest.mark.parametrize(
    ("bound", "exponent"), [(1.0, -20), (1.5, -19), (2.0, -19), (200.0, -12), (0.75, -20)]
)
def test_resolution(bound: float, exponent: int) -> None:
    assert resolution_for(bound) == 2.0**exponent


@given(st.floats(1e-200, 1e200))
def test_resolution_gives_about_twenty_bits(bound: float) -> None:
    grid = Lattice.fitting(bound)
    assert 2**19 < bound / grid.resolution <= 2**20
    assert grid.steps(bound) <= 2**20


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan, math.inf, 1e-320, 1e308])
def test_refuses_extreme_bounds(bound: float) -> None:
    with pytest.raises(ConfigError):
        resolution_for(bound)


@pytest.mark.parametrize("resolution", [0.3, 0.0, -1.0, math.nan])
def test_refuses_other_steps(resolution: float) -> None:
    with pytest.raises(ConfigError):
        Lattice(resolution)


@settings(max_examples=100)
@given(st.lists(st.floats(-1000, 1000), min_size=1, max_size=20), st.integers(-20, 3))
def test_truncation_never_lengthens(values: list[float], exponent: int) -> None:
    grid = Lattice(2.0**exponent)
    steps = grid.truncate(np.array(values))
    assert steps.dtype == np.int64
    for value, step in zip(values, steps.tolist(), strict=True):
        assert step == math.trunc(value / grid.resolution)
        assert abs(step) * grid.resolution <= abs(value)


def test_capacity() -> None:
    check_capacity(2**20, 2**41)
    with pytest.raises(ConfigError, match="at most"):
        check_capacity(2**20, 2**42)
    with pytest.raises(ConfigError) as refusal:
        Lattice(1.0).check_capacity(2.0**31, 2**31, field="clock.period")
    assert refusal.value.field == "clock.period"


def reference(
    cells: list[int], rows: list[LatticeRows], n_cells: int, dimension: int
) -> list[list[int]]:
    out = [[0] * dimension for _ in range(n_cells)]
    for start, coordinate, amount in rows:
        for i, cell in enumerate(cells):
            value = amount if isinstance(amount, int) else int(amount[i])
            offset = 0 if coordinate is None else int(coordinate[i])
            if offset >= 0:
                out[cell][start + offset] += value
    return out


@pytest.mark.slow
@settings(max_examples=100)
@given(st.data())
def test_sums_against_python_ints(data: st.DataObject) -> None:
    n_cells = data.draw(st.integers(1, 6))
    n = data.draw(st.integers(0, 25))
    dimension = data.draw(st.integers(1, 6))
    cells = data.draw(st.lists(st.integers(0, n_cells - 1), min_size=n, max_size=n))
    rows = []
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, dimension - 1))
        size = data.draw(st.integers(1, dimension - start))
        offsets = data.draw(st.lists(st.integers(-1, size - 1), min_size=n, max_size=n))
        coordinate = np.array(offsets, dtype=np.int64) if data.draw(st.booleans()) else None
        bits = data.draw(st.sampled_from([1, 20, 40, 53, 56]))
        amount: object = data.draw(st.integers(0, 2**20))
        if data.draw(st.booleans()):
            whole = st.integers(-(2**bits), 2**bits)
            drawn = data.draw(st.lists(whole, min_size=n, max_size=n))
            amount = np.array(drawn, dtype=np.int64 if data.draw(st.booleans()) else np.float64)
        rows.append(LatticeRows(start, coordinate, amount))  # type: ignore[arg-type]
    sums = sum_cells(np.array(cells, dtype=np.int64), rows, n_cells, dimension)
    assert sums.dtype == np.int64
    assert sums.tolist() == reference(cells, rows, n_cells, dimension)


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_chunks_are_exact(monkeypatch: pytest.MonkeyPatch, dtype: type) -> None:
    rng = np.random.default_rng(3)
    n, cells = 200_000, rng.integers(0, 7, 200_000)
    amount = rng.integers(-(2**36), 2**36, n)  # fits 2^17 events at a time
    sums = sum_cells(cells, [LatticeRows(0, None, amount.astype(dtype))], 7, 1)
    for cell in range(7):
        assert sums[cell, 0] == sum(amount[cells == cell].tolist())


def test_order_and_cuts_do_not_matter() -> None:
    rng = np.random.default_rng(4)
    n = 10_000
    cells, amount = rng.integers(0, 50, n), rng.integers(-(2**45), 2**45, n)
    whole = sum_cells(cells, [LatticeRows(0, None, amount)], 50, 1)
    order = rng.permutation(n)
    shuffled = sum_cells(cells[order], [LatticeRows(0, None, amount[order])], 50, 1)
    parts = sum(
        sum_cells(cells[a : a + 999], [LatticeRows(0, None, amount[a : a + 999])], 50, 1)
        for a in range(0, n, 999)
    )
    assert (whole == shuffled).all() and (whole == parts).all()


def test_refuses_what_is_outside() -> None:
    cells = np.array([0, 1])
    with pytest.raises(ValueError, match="cell"):
        sum_cells(cells, [LatticeRows(0, None, 1)], 1, 1)
    with pytest.raises(ValueError, match="coordinate"):
        sum_cells(cells, [LatticeRows(0, np.array([0, 2]), 1)], 2, 2)
    with pytest.raises(ValueError, match="coordinate"):
        sum_cells(cells, [LatticeRows(0, np.array([0, -2]), 1)], 2, 2)
    with pytest.raises(ValueError, match="whole number"):
        sum_cells(cells, [LatticeRows(0, None, np.array([math.nan, 1.0]))], 2, 1)
    with pytest.raises(ValueError, match="whole number"):
        sum_cells(cells, [LatticeRows(0, None, np.array([2.0**62, 1.0]))], 2, 1)
    with pytest.raises(ValueError):
        sum_cells(np.array([-1]), [LatticeRows(0, None, 1)], 2, 1)


def test_no_events() -> None:
    empty = np.array([], dtype=np.int64)
    assert not sum_cells(empty, [LatticeRows(0, empty, empty)], 3, 2).any()
    assert lattice.EXACT == 2**53
