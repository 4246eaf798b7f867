"""Every model of the registry: an event without its target or a feature teaches nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.constant_noise import NoNoise
from tests.contracts.test_models import (
    BY_SOLVER,
    COUNTED,
    KEYS,
    NAMES,
    PLACED,
    SECRET,
    TICKS,
    config_of,
    events,
    plan,
    taken,
    with_rows,
)
from weir.dpcore.bounded_events import Events, bounded
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.gradients import Gradients
from weir.dpcore.models.kit.loss import Absolute, Hinge, Huber, Logistic, PinballLoss, Squared
from weir.dpcore.models.kit.rows import Scaling, is_void
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.simulate import leaves_for

BAD = (np.nan, np.inf, -np.inf)


def spoilt(given: Events, which: Any, column: str | None = None) -> Events:
    """The same events, some without a column's number (None: one column or another)."""
    columns = {name: given.columns[name].copy() for name in ("u", "v", "y")}
    for i, at in enumerate(which):
        name = column or ("y", "u", "v")[i % 3]
        columns[name][at] = BAD[i % 3]
    return Events(given.times, given.keys, with_rows(columns), given.ids)


def released(made: Plan, given: Events) -> list[bytes]:
    """All releases of all keys, without noise."""
    program: Any = made.program
    leaves = leaves_for(made, bounded(made, given, TICKS), TICKS, SECRET)(list(range(len(KEYS))))
    state = program.init(len(KEYS))
    _, noisy = program.step(state, leaves(0, TICKS), lambda part: NoNoise(0))
    return [one.value.tobytes() for one in program.solve(tuple(noisy), np.arange(TICKS))]


@pytest.mark.slow
@pytest.mark.parametrize("column", ["y", "u", None])
@pytest.mark.parametrize("name", COUNTED)
def test_half_of_the_events_void_is_half_of_the_events(name: str, column: str | None) -> None:
    # These stay at their start while rows are few next to their noise.
    shy = name in ("regression.naive", BY_SOLVER)
    made, given = plan(name), events(12_000 if shy else 200, seed=3)
    every = np.arange(len(given.times))
    void = every[np.random.default_rng(4).random(len(every)) < 0.5]
    found = released(made, spoilt(given, void, column))
    assert found == released(made, taken(given, np.setdiff1d(every, void)))
    assert found != released(made, given)


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["replace_one", "add_remove", "replace_anywhere"])
@pytest.mark.parametrize("name", COUNTED)
def test_a_void_row_moves_no_release_by_itself(name: str, relation: str) -> None:
    """So a neighbour that voids a row, or fills one, changes what a leaf adds up to by that row
    alone: at most half of what exchanging it may, which is what is paid for."""
    made, given = plan(name, relation), events(90, seed=5)
    without = taken(given, np.arange(3, 90))
    assert released(made, spoilt(given, [0, 1, 2])) == released(made, without)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLACED)
def test_a_void_row_that_has_a_place_says_nothing_there(name: str) -> None:
    """Whatever its other numbers are, and whatever made it void; but no other takes its place."""
    made, given = plan(name), events(300, seed=6)
    void = np.arange(0, 300, 3)
    found = released(made, spoilt(given, void, "y"))
    other = dict(spoilt(given, void, "u").columns)
    for column, value in (("v", 3.0), ("y", 0.0)):
        other[column] = np.where(np.arange(300) % 3 == 0, value, other[column])
    assert found == released(made, Events(given.times, given.keys, with_rows(other), given.ids))
    assert found != released(made, given)
    assert found != released(made, taken(given, np.setdiff1d(np.arange(300), void)))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_number_that_is_missing_is_counted_once(name: str) -> None:
    program: Any = plan(name).program
    given = events(60, seed=8)
    clean = {key: np.nan_to_num(given.columns[key], nan=1.0) for key in ("u", "v", "y")}
    clean = with_rows(clean)
    assert program.bound(clean, 60).non_finite == 0
    bad = spoilt(Events(given.times, given.keys, clean), range(0, 60, 4)).columns
    assert program.bound(bad, 60).non_finite == 15
    both = with_rows({**bad, "u": np.where(np.arange(60) == 0, np.nan, bad["u"])})
    assert program.bound(both, 60).non_finite == 16  # one event that lacks two


@pytest.mark.parametrize("name", NAMES)
def test_the_plan_says_what_becomes_of_such_events(name: str) -> None:
    section: Any = PlanConfig.from_yaml(config_of(name, "replace_one", ("a",))).algorithm
    said = list(section.refused())
    assert sum("teaches the model nothing" in one for one in said) == 1
    assert not any("the middle" in one for one in said)


def test_void_rows_are_of_the_same_bits_and_clean_ones_stay() -> None:
    scaling = Scaling(("u", "v", "y"), (0.0, -1.0, 0.0), (2.0, 3.0, 16.0))
    given = events(300, seed=6)
    clean = {name: np.nan_to_num(given.columns[name], nan=1.0) for name in ("u", "v", "y")}
    given = Events(given.times, given.keys, clean)
    void = np.arange(0, 300, 2)
    whole, part = (scaling.bound(e.columns, 300) for e in (given, spoilt(given, void)))
    assert np.array_equal(np.flatnonzero(is_void(part.rows)), void)
    assert part.rows[1::2].tobytes() == whole.rows[1::2].tobytes()
    assert len({row.tobytes() for row in part.rows[void]}) == 1 and part.non_finite == 150
    leaf = RowLeaf.from_events(
        np.zeros(300, np.int64), part.rows, given.times, np.zeros((300, 2), np.uint64), 1
    )
    again = RowLeaf.from_bytes(leaf.to_bytes())
    assert again.to_bytes() == leaf.to_bytes() and is_void(again.rows).sum() == 150


@pytest.mark.parametrize(
    "loss", [Squared(), Absolute(), PinballLoss(0.8), Huber(0.5), Logistic(), Hinge()]
)
@pytest.mark.parametrize("intercept", [False, True])
def test_a_void_row_has_no_gradient_and_no_loss(loss: Any, intercept: bool) -> None:
    gradients = Gradients(loss, 1.0, 2.0, 2, intercept)
    rows = np.array([[0.0, 0.0, np.nan], [0.5, -0.25, 0.75]])
    found = gradients.of_rows(np.full((2, gradients.parameters), 0.3), rows)
    assert not found[0].any() and found[1].any()
