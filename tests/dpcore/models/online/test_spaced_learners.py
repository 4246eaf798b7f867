"""Learners whose model changes at every n-th tick: what is played, and what is paid."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.constant_noise import NoNoise
from weir.dpcore.arrays import arrays_of
from weir.dpcore.bounded_events import Events, bounded
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import leaves_for, simulate

HOUR, TICKS, EVERY = 3_600_000_000, 48, 6
SECRET = bytes(range(32))
LEARNERS = {
    "leader": "online.follow_the_leader, schedule: linear",
    "averaged": "online.follow_the_leader, schedule: constant",
    "second": "online.follow_the_leader, schedule: second_order",
    "free": "online.conditional_gradient, set: {l1_ball: 2}",
    "pftal": "online.pftal",
    "pqftl": "online.pqftl",
    "pocg": "online.pocg",
}


def plan(name: str, every: int | None = None, period: int = 1, more: str = "") -> Plan:
    rest = "" if every is None else f"release_every: {every}\n"
    return Plan.from_yaml(f"""
name: spaced
schema: {{time: t}}
clock: {{start: 1970-01-01T00:00:00Z, period: {period}h, end: 1970-01-03T00:00:00Z}}
privacy: {{epsilon: 1.0, delta: 1e-6, protect_for: all, relation: replace_one}}
expect: {{events: {10 * period}}}
model: {{algorithm: {LEARNERS[name]}, features: [u, v], target: y,
  ranges: {{u: [-1, 1], v: [-1, 1], y: [-1, 1]}}{more}}}
{rest}""")


def events(seed: int = 0) -> Events:
    rng, n = np.random.default_rng(seed), 10 * TICKS
    u, v = rng.uniform(-1, 1, (2, n))
    y = 0.5 * u - 0.3 * v + 0.2 + 0.1 * rng.normal(size=n)
    times = np.sort(rng.integers(0, TICKS * HOUR, n))
    return Events(times, None, {"u": u, "v": v, "y": y})


def released(made: Plan, given: Events | None = None) -> dict[str, Any]:
    (one,) = simulate(made, events() if given is None else given, SECRET)
    return {part.name: part.value[:, 0] for part in one.released}


def quiet(made: Plan, given: Events, cuts: tuple[int, ...] = (TICKS,)) -> Any:
    program: Any = made.program
    leaves = leaves_for(made, bounded(made, given, TICKS), TICKS, SECRET)([0])
    state, at, found = program.init(1), 0, []
    for n in cuts:
        state, noisy = program.step(state, leaves(at, at + n), lambda _, at=at: NoNoise(at))
        found.append(noisy)
        at += n
    return state, [np.concatenate(parts) for parts in zip(*found, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_models_change_at_every_nth_tick_and_see_all_that_was_before(name: str) -> None:
    found = released(plan(name, EVERY))
    assert [info.name for info in plan(name, EVERY).outputs] == list(found)
    theta = found["theta"]
    changes = np.flatnonzero((np.diff(theta, axis=0) != 0).any(axis=1)) + 1
    assert changes.tolist() == list(range(EVERY, TICKS, EVERY))
    if "loss" in found:
        told = ~np.isnan(found["loss"]).any(axis=1)
        assert np.array_equal(told, np.arange(TICKS) >= EVERY - 1)
        ticks = found["loss"][told, 0] / found["loss"][told, 1]
        assert np.allclose(ticks, np.arange(EVERY, TICKS + 1) // EVERY * EVERY)
    # An event of tick 11 is in the model that is played from tick 12 on, and in none before.
    given = events()
    at = np.flatnonzero(given.times // HOUR == 2 * EVERY - 1)
    columns = {key: column.copy() for key, column in given.columns.items()}
    columns["y"][at] *= -1
    _, plain = quiet(plan(name, EVERY), given)
    _, other = quiet(plan(name, EVERY), replace(given, columns=columns))
    first = np.flatnonzero((plain[0] != other[0]).any(axis=(1, 2)))[0]
    assert first == 2 * EVERY


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_strides_change_nothing_and_states_are_values(name: str) -> None:
    made: Any = plan(name, EVERY)
    leaves = leaves_for(made, bounded(made, events(), TICKS), TICKS, SECRET)([0])
    root = RootKey.derive(SECRET, "spaced", bytes(32))

    def run(cuts: tuple[int, ...]) -> Any:
        state, at, found = made.program.init(1), 0, []
        for n in cuts:
            before = [array.copy() for array in arrays_of(state)]
            noise = KeyedNoise(root, 0, [b""], at)
            given = leaves(at, at + n)
            new, noisy = made.program.step(state, given, lambda _, noise=noise: noise)
            pairs = zip(before, arrays_of(state), strict=True)
            assert all(np.array_equal(*pair, equal_nan=True) for pair in pairs)
            state, at = new, at + n
            found.append(noisy)
        return arrays_of(state), [np.concatenate(one) for one in zip(*found, strict=True)]

    whole, parts = run((TICKS,)), run((1, 2, 7, 1, 1, 20, 16))
    for one, two in zip([*whole[0], *whole[1]], [*parts[0], *parts[1]], strict=True):
        assert np.array_equal(one, two, equal_nan=True)
    again = pickle.loads(pickle.dumps(made.program))
    assert again.canonical() == made.program.canonical() != plan(name).program.canonical()
    size = sum(array.nbytes for array in arrays_of(made.program.init(1)))
    assert made.program.state_bytes() == size


@pytest.mark.parametrize("name", LEARNERS)
def test_it_costs_the_noise_of_so_many_releases(name: str) -> None:
    spaced: Any = plan(name, EVERY).program
    coarse: Any = plan(name, None, EVERY).program
    for ticks, steps in ((None, None), (1, 1), (6, 1), (7, 2), (TICKS, TICKS // EVERY)):
        assert spaced.loss(ticks).value == pytest.approx(coarse.loss(steps).value, rel=1e-9)
    assert spaced.loss(None).epsilon(1e-6) <= 1 + 1e-9
    own, at = plan(name), np.arange(TICKS)
    if name == "pocg":
        due = spaced.descent.due(at)
        each = spaced.descent.sensitivity(at[due]) / spaced.descent.sigma(at[due])
        assert np.sqrt((each**2).sum()) == pytest.approx(spaced.descent.budget, rel=1e-6)
    elif name != "pqftl":
        mine, theirs = spaced.gradient_stddev(at), coarse.gradient_stddev(np.arange(8))
        assert np.array_equal(mine[5:], np.repeat(theirs, EVERY)[: TICKS - 5])
        every: Any = own.program
        assert mine.max() < 0.9 * every.gradient_stddev(at).max()


@pytest.mark.parametrize("name", ["leader", "averaged", "second", "free", "pqftl"])
def test_without_noise_it_is_the_learner_of_longer_ticks(name: str) -> None:
    """The same gradients at the same points, so the same models, at every n-th tick."""
    given = events()
    spaced, coarse = plan(name, EVERY), plan(name, None, EVERY)
    _, fine = quiet(spaced, given)
    program: Any = coarse.program
    few = TICKS // EVERY
    leaves = leaves_for(coarse, bounded(coarse, given, few), few, SECRET)([0])
    _, whole = program.step(program.init(1), leaves(0, few), lambda _: NoNoise(0))
    assert np.array_equal(fine[0][::EVERY], whole[0])
