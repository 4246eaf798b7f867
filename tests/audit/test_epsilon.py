"""Lower bounds of epsilon, from what an observer finds: below the claim, and near it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.audit.verdict import audit, epsilon_bound, separation, tampered
from tests.audit.world import DAY, WINDOW, World, make
from weir.dpcore.bounded_events import Events
from weir.dpcore.simulate import simulate

KEYS = 6000


@pytest.mark.parametrize(
    ("mechanism", "noise", "relation", "least"),
    [
        ("blt", "gaussian", "add_remove", 0.6),
        ("blt", "gaussian", "replace_anywhere", 0.45),  # two keys make one trial: half as many
        ("separate", "gaussian", "add_remove", 0.55),
        ("window_tree", "gaussian", "replace_one", 0.55),
        ("tree", "discrete_gaussian", "add_remove", 0.5),  # zCDP gives up a tenth of mu here
    ],
)
def test_epsilon_is_approached_and_never_passed(
    mechanism: str, noise: str, relation: str, least: float
) -> None:
    over = "[all, 3]" if mechanism == "separate" else "all"
    plan = make(mechanism, noise, relation, over, KEYS, ticks=10, epsilon=2.0, delta=0.01)
    world = World.of(plan)
    found = audit(world, world.worst(relation, False, WINDOW), WINDOW)
    assert found.epsilon <= plan.guarantee.epsilon
    assert found.epsilon >= least * plan.guarantee.epsilon


def test_half_the_noise_passes_the_claim() -> None:
    plan = make("blt", keys=KEYS, ticks=10, epsilon=2.0, delta=0.01)
    half = tampered(plan.program, noise_scale=lambda scale: scale / 2)
    world = World.of(plan, half)
    found = audit(world, world.worst("add_remove", False, WINDOW), WINDOW)
    assert found.epsilon > plan.guarantee.epsilon


def test_bounds_of_epsilon_are_sound() -> None:
    """Clopper and Pearson: no finding, no claim; and exact shares give less than their ratio."""
    some, none = np.arange(1000) < 100, np.zeros(1000, dtype=bool)
    assert epsilon_bound(none, some, 0.0) < 0
    assert 1.5 < epsilon_bound(some, none, 0.0) < np.log(100)
    assert epsilon_bound(some, some, 0.0) < 0


def test_released_values_alone_tell_no_more() -> None:
    """A plain observer: the last count of the window, in the user's units, as a sink gets it."""
    plan = make(
        "blt", keys=4000, ticks=WINDOW, epsilon=6.0, delta=0.01, aggregates=" n: {count: events}"
    )
    names = [key.decode() for key in plan.keys.ordered]
    runs = []
    for secret, present in ((1, True), (2, False)):
        keys = names if present else []
        times = np.full(len(keys), plan.clock.start + DAY // 2)
        events = Events(times, keys, {})
        found = simulate(plan, events, secret.to_bytes(32, "big"))
        counts = np.stack([one.released[0].value[:, 0, 0] for one in found])
        runs.append(counts)
    claimed = plan.program.loss(WINDOW).value
    every = [separation(runs[0][:, t], runs[1][:, t]) for t in range(WINDOW)]
    assert all(size <= claimed + 4 * error for size, error in every)
    # The best weights for all of them together reach the claim.
    b = plan.program.parts[0].mechanism.materialize(WINDOW)  # type: ignore[attr-defined]
    weights = np.linalg.inv(b @ b.T) @ np.ones(WINDOW)
    size, error = separation(runs[0] @ weights, runs[1] @ weights)
    assert abs(size - claimed) < 4 * error
