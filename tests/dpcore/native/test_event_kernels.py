"""Events that kernels bound and sum: the bits of the path in numpy, whatever comes in."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from weir.dpcore.models.moments import Moments
from weir.dpcore.models.regression import event_kernel
from weir.dpcore.models.regression.event_kernel import EventKernel
from weir.dpcore.models.regression.rows import EventRows
from weir.dpcore.program import Runs

HARD = (np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1e308, -1e308, 2.0, -2.0, 1.9999999999999998)


def rows_of(
    p: int,
    k: int,
    intercept: bool,
    reach: float,
    height: float,
    outer: float = 0.0,
    bits: int = 16,
    squares: bool = False,
) -> EventRows:
    """Features within [-2, 2] and targets within [0, 10]; with ``outer``, features that may be as
    large as that."""
    features = tuple(f"f{i}" for i in range(p))
    targets = tuple(f"y{i}" for i in range(k))
    moments = Moments(p + intercept, k, squares, reach, height, bits, max(1.0, reach, height))
    low, high = (-2.0,) * p + (0.0,) * k, (2.0,) * p + (10.0,) * k
    wide = ((-outer, outer),) * p if outer else ()
    return EventRows(features, targets, low, high, intercept, moments, wide)


def columns_of(rows: EventRows, n: int, spread: float = 2.5, hard: float = 0.0) -> dict[str, Any]:
    """Columns, of which a share ``hard`` is odd numbers."""
    rng = np.random.default_rng(n)
    found = {}
    for name in rows.columns:
        middle = 5.0 if name.startswith("y") else 0.0
        values = middle + rng.uniform(-spread, spread, n) * (4.0 if middle else 1.0)
        odd = rng.random(n) < hard
        values[odd] = rng.choice(HARD, int(odd.sum()))
        found[name] = values
    return found


def without(rows: EventRows, monkeypatch: pytest.MonkeyPatch) -> EventRows:
    """The same, in numpy alone."""
    with monkeypatch.context() as patch:
        patch.setattr(event_kernel, "kernels", None)
        slow: EventRows = pickle.loads(pickle.dumps(rows))
        assert slow._kernel is None
    return slow


CASES = {
    "plain": (rows_of(10, 1, False, 1.6, 1.0), 2.0, 0.0),
    "constant": (rows_of(3, 1, True, 1.7, 1.0), 2.5, 0.0),
    "all long": (rows_of(5, 2, True, 0.02, 0.1), 2.5, 0.0),
    "few long": (rows_of(20, 1, False, 3.0, 5.0), 2.0, 0.0),
    "targets": (rows_of(2, 5, True, 5.0, 0.9), 2.5, 0.0),
    "constant alone": (rows_of(0, 1, True, 1.0, 0.5), 2.5, 0.1),
    "odd numbers": (rows_of(4, 2, True, 1.1, 0.8), 2.5, 0.05),
    "nearly all odd": (rows_of(4, 2, False, 1.1, 0.8), 2.5, 0.9),
    "wide": (rows_of(4, 1, True, 1.5, 1.0, outer=40.0), 90.0, 0.02),
    "norms that float64 cannot add": (rows_of(9, 1, False, 1.5, 1.0, outer=1e9), 4e8, 0.1),
    "norms beyond float64": (rows_of(3, 1, False, 1.5, 1.0, outer=1e300), 4.0, 0.5),
    "few exact sums": (rows_of(3, 1, False, 1.5, 1.0, bits=22, squares=True), 2.0, 0.0),
    "columns of a page": (rows_of(70, 2, True, 4.0, 1.0, squares=True), 2.0, 0.001),
}
SIZES = (1, 7, 8, 511, 512, 513, 3000)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", CASES)
def test_rows_are_the_same_whole_numbers(
    compiled: Any, monkeypatch: pytest.MonkeyPatch, name: str, n: int
) -> None:
    rows, spread, hard = CASES[name]
    given = columns_of(rows, n, spread, hard)
    fast, slow = rows.bound(given, n), without(rows, monkeypatch).bound(given, n)
    assert rows._kernel is not None
    assert fast[1:] == slow[1:]
    assert np.array_equal(fast.rows, slow.rows)
    assert fast.rows.flags.f_contiguous or n < 2 or fast.rows.strides[0] == 8


@pytest.mark.parametrize("lanes", [2, 4, 8])
@pytest.mark.parametrize("name", CASES)
def test_sums_are_the_same_whatever_the_registers(
    compiled: Any, monkeypatch: pytest.MonkeyPatch, name: str, lanes: int
) -> None:
    rows, spread, hard = CASES[name]
    monkeypatch.setattr(event_kernel, "LANES", lanes)
    rows = pickle.loads(pickle.dumps(rows))
    n = 2500
    given = columns_of(rows, n, spread, hard)
    # In order, one run empty, one cell twice, one never; some events in none.
    starts, stops = [0, 3, 3, 700, 1500], [3, 3, 690, 1500, 2499]
    runs = Runs(*(np.array(one, dtype=np.int64) for one in (starts, stops, [4, 0, 1, 4, 2])))
    fast, counts = rows.sum_runs(given, n, runs, 6)
    slow, expected = without(rows, monkeypatch).sum_runs(given, n, runs, 6)
    assert counts == expected and counts.rows is None
    assert fast.dtype == np.int64 and np.array_equal(fast, slow)
    assert not fast[[0, 3, 5]].any() and fast[4].any()


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_sums_are_those_of_python_integers(
    compiled: Any, monkeypatch: pytest.MonkeyPatch, lanes: int
) -> None:
    monkeypatch.setattr(event_kernel, "LANES", lanes)
    rows = rows_of(6, 2, True, 3.0, 1.5, squares=True)
    n, d = 1100, 7
    given = columns_of(rows, n, 2.0)
    whole = rows.bound(given, n).rows.astype(np.int64).astype(object)
    runs = Runs(*(np.array([one]) for one in (0, n, 0)))
    (sums,), _ = rows.sum_runs(given, n, runs, 1)
    x, y = whole[:, :d], whole[:, d:]
    i, j = np.triu_indices(d)
    expected = [*(x.T @ x)[i, j], *(y.T @ x).ravel(), *(y * y).sum(axis=0)]
    assert sums.tolist() == expected


def test_largest_rows_add_up_exactly(compiled: Any) -> None:
    """Every product is the largest there is, of as many rows as a sum takes and some more."""
    rows = rows_of(3, 1, False, 2.0, 1.0, bits=23)
    assert rows.moments.together < 512
    n = 2000
    given = {name: np.full(n, 10.0 if name == "y0" else -2.0) for name in rows.columns}
    runs = Runs(np.array([0]), np.array([n]), np.array([0]))
    (sums,), _ = rows.sum_runs(given, n, runs, 1)
    one = n * 2**46
    assert sums.tolist() == [one] * 6 + [-one] * 3


def test_columns_of_any_type_and_place_are_read(compiled: Any) -> None:
    rows = rows_of(2, 1, False, 1.5, 1.0)
    room = np.zeros(90, dtype=np.uint8)
    crooked = room[1 : 1 + 80].view(np.float64)
    crooked[:] = np.linspace(-2, 2, 10)
    given = {"f0": crooked, "f1": np.arange(30, dtype=np.int32)[::3] % 3, "y0": [5.0] * 10}
    plain = {name: np.array(list(values), dtype=np.float64) for name, values in given.items()}
    assert np.array_equal(rows.bound(given, 10).rows, rows.bound(plain, 10).rows)
    with pytest.raises(ValueError, match="10 events"):
        rows.bound({**plain, "y0": np.zeros(9)}, 10)


def test_rows_that_are_too_wide_are_left_to_numpy(compiled: Any) -> None:
    width = event_kernel.WIDEST + 1
    rows = rows_of(width - 1, 1, False, 40.0, 1.0)
    assert rows._kernel is None
    given = columns_of(rows, 3)
    assert rows.bound(given, 3).rows.shape == (3, width)


def test_no_kernel_travels_with_a_plan(compiled: Any) -> None:
    rows = rows_of(2, 1, False, 1.5, 1.0)
    assert isinstance(rows._kernel, EventKernel)
    assert "_kernel" not in vars(pickle.loads(pickle.dumps(rows)))


def arguments(**changed: Any) -> list[Any]:
    """What ``event_sums`` takes, of two columns and three events."""
    ints = {"dtype": np.int64}
    given: dict[str, Any] = {
        "columns": (np.zeros(3), np.ones(3)),
        "ends": np.array([[-1.0, 1.0, 0.0, 65536.0, np.inf]] * 2),
        "shape": np.array([1, 2, 0], **ints),
        "bounds": np.array([65536.0, 2.0**32, 65536.0, 2.0**32, 65536.0]),
        "counts": np.zeros(2, **ints),
        "starts": np.array([0], **ints),
        "stops": np.array([3], **ints),
        "cells": np.array([0], **ints),
        "sums": np.zeros((1, 2), **ints),
        "kind": np.array([1 << 21, 0, 8], **ints),
    }
    return list({**given, **changed}.values())


def test_arguments_that_fit_are_taken(compiled: Any) -> None:
    given = arguments(columns=(np.array([0.5, 0.5, -1.0]), np.ones(3)))
    assert compiled.event_sums(*given)
    assert given[8].tolist() == [[(2**30) * 6, 0]]


@pytest.mark.parametrize(
    "changed",
    [
        {"columns": ()},
        {"columns": (np.zeros(3), np.ones(4))},
        {"columns": (np.zeros(3),)},
        {"columns": (np.zeros(3), np.zeros(25, dtype=np.uint8)[1:])},
        {"columns": (np.zeros(3, dtype=np.float32), np.zeros(3, dtype=np.float32))},
        {"ends": np.zeros((1, 5))},
        {"shape": np.array([2, 2, 0])},
        {"shape": np.array([0, 2, 0])},
        {"shape": np.array([1, 2, 1])},
        {"shape": np.array([1, 2, 2])},
        {"shape": np.array([1, 1 << 40, 0])},
        {"bounds": np.zeros(4)},
        {"counts": np.zeros(3, dtype=np.int64)},
        {"starts": np.array([-1])},
        {"starts": np.array([0, 0])},
        {"starts": np.array([4])},
        {"stops": np.array([4])},
        {"cells": np.array([1])},
        {"cells": np.array([-1])},
        {"sums": np.zeros(3, dtype=np.int64)},
        {"kind": np.array([0, 0, 8])},
        {"kind": np.array([1, 0])},
    ],
)
def test_arguments_that_do_not_fit_are_refused(compiled: Any, changed: Any) -> None:
    with pytest.raises(ValueError, match="fit|must|one column"):
        compiled.event_sums(*arguments(**changed))


def test_buffers_are_asked_for_as_they_are_used(compiled: Any) -> None:
    frozen = np.zeros((1, 2), dtype=np.int64)
    frozen.flags.writeable = False
    for wrong in ({"sums": frozen}, {"counts": frozen[0]}, {"columns": (np.zeros(6)[::2],) * 2}):
        with pytest.raises((BufferError, TypeError, ValueError)):
            compiled.event_sums(*arguments(**wrong))
    with pytest.raises(TypeError, match="tuple of columns"):
        compiled.event_sums(*arguments(columns=[np.zeros(3), np.ones(3)]))
    with pytest.raises(TypeError, match="tuple of columns"):
        compiled.event_sums(*arguments()[:-1])
    head = arguments()[:5]
    with pytest.raises(ValueError, match="no room"):
        compiled.event_rows(*head, np.zeros((2, 2)))
    with pytest.raises(ValueError, match="no room"):
        compiled.event_rows(*head, np.zeros(7))
    assert compiled.event_rows(*head, np.zeros((2, 5)))
