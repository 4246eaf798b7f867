"""What a record has left at 2W and 10W: the table holds, and its rows are reached."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.audit.verdict import audit, claimed_mu, separation
from tests.audit.world import DAY, Neighbours, Placed, World, make
from weir.dpcore.accounting.calibrate import gdp_epsilon
from weir.dpcore.simulate import simulate

SPAN, TICKS = 4, 48
SMALL = " n: {count: events}\n s: {sum: a, clip: [-1, 3]}"
GRADED = ("blt", "toeplitz", "tree", "hybrid", "independent", "merging_tree")


def world_of(mechanism: str, noise: str = "gaussian", keys: int = 2000, **more: object) -> World:
    options = {"epsilon": 6.0, "window": SPAN, "ticks": TICKS, "aggregates": SMALL} | more
    return World.of(make(mechanism, noise, keys=keys, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("times", [1, 2, 10])
@pytest.mark.parametrize("mechanism", GRADED)
def test_rows_of_the_table_hold(mechanism: str, times: int) -> None:
    world = world_of(mechanism)
    span = times * SPAN
    found = audit(world, world.worst("add_remove", False, span), span)
    assert found.exact <= found.claimed * (1 + 1e-9)
    assert not found.violated()
    assert abs(found.measured - found.exact) < 4 * found.error
    if mechanism in ("blt", "toeplitz"):
        assert found.exact >= found.claimed * (1 - 1e-6)
    (row,) = [row for row in world.plan.guarantee.expiration if row.ticks == span]
    assert row.epsilon == gdp_epsilon(found.claimed, row.delta)


def test_a_window_tree_keeps_nothing_after_its_window() -> None:
    """The table guarantees nothing after W ticks, and rightly so: the loss grows with every block,
    and a second run on other data has the same noise around a record that has left the window."""
    world = world_of("window_tree", keys=20)
    table = {row.ticks: row.epsilon for row in world.plan.guarantee.expiration}
    assert math.isfinite(table[SPAN]) and math.isinf(table[2 * SPAN])
    best = int(np.argmax([sum(world.sizes(leaf)) for leaf in world.leaves]))
    pair = Neighbours((Placed(0, 0, best),), ())
    one, two, ten = (world.attack(pair, times * SPAN)[1] for times in (1, 2, 10))
    assert one == pytest.approx(world.plan.program.loss(SPAN).value)
    assert two > 1.2 * one and ten > 2 * one
    runs = [world.sums(world.events(placed, 1), 1)[0] for placed in (pair.here, pair.there)]
    apart = (runs[0] - runs[1])[:, :, 0]
    assert (np.ptp(apart[:SPAN], axis=1) > 0).all()
    assert (apart[2 * SPAN :] == world.leaves[best][0]).all()


@pytest.mark.parametrize("mechanism", ["blt", "toeplitz", "tree", "hybrid", "merging_tree"])
def test_a_second_run_on_other_data_never_shares_the_noise_of_what_differs(mechanism: str) -> None:
    world = world_of(mechanism, keys=20)
    best = int(np.argmax([sum(world.sizes(leaf)) for leaf in world.leaves]))
    runs = [world.sums(world.events(placed, 1), 1)[0] for placed in ((Placed(0, 3, best),), ())]
    apart = runs[0] - runs[1]
    assert (apart[:3] == 0).all()
    assert (np.ptp(apart[3:], axis=1) > 0).all()


@pytest.mark.parametrize("over", [4, 8])
def test_sliding_sums_never_expire(over: int) -> None:
    plan = make("sliding", keys=2000, ticks=TICKS, epsilon=6.0, window=SPAN,
                aggregates=f" n: {{count: events, over: {over}}}")  # fmt: skip
    world = World.of(plan)
    found = audit(world, world.worst("add_remove", False, TICKS), TICKS)
    assert all(row.epsilon <= 6.0 for row in plan.guarantee.expiration)
    assert "permanent" in plan.guarantee.statement
    assert 0.99 * found.claimed <= found.exact <= found.claimed * (1 + 1e-9)
    assert not found.violated()


@pytest.mark.parametrize("ticks", [1, 3, SPAN])
def test_a_clock_that_ends_inside_the_window_protects_for_ever(ticks: int) -> None:
    for mechanism in ("blt", "window_tree", "merging_tree"):
        world = world_of(mechanism, ticks=ticks, window=SPAN)
        promise = world.plan.guarantee
        assert promise.window is None and len(promise.expiration) == 1
        found = audit(world, world.worst("add_remove", False, ticks), ticks)
        assert found.claimed == claimed_mu(world, None)
        assert found.exact <= found.claimed * (1 + 1e-9) and not found.violated()


@pytest.mark.parametrize("mechanism", ["blt", "tree", "window_tree", "hybrid", "merging_tree"])
def test_keys_that_appear_late_are_protected_alike(mechanism: str) -> None:
    """Discovered keys, born at tick 5 by an event that both worlds hold; the audited event comes
    with them, or two ticks later."""
    birth, keys = 5, 2000
    plan = make(mechanism, keys=2, ticks=16, epsilon=6.0, window=SPAN, aggregates=SMALL)
    text = plan.config.to_dict()
    text["key"] = {"column": "k", "observed_keys_are_public": True}
    from weir.dpcore.bounded_events import Events
    from weir.dpcore.plan import Plan
    from weir.dpcore.plan_config import PlanConfig

    plan = Plan.from_config(PlanConfig.from_dict(text))
    names = [f"k{i}" for i in range(keys)]
    for tick in (birth, birth + 2):
        runs = []
        for secret, present in ((1, True), (2, False)):
            ticks = [birth] * keys + [tick] * keys * present
            who = names * (1 + present)
            x = np.full(len(who), 3.0)
            times = plan.clock.start + np.asarray(ticks) * DAY
            found = simulate(plan, Events(times, who, {"a": x}), secret.to_bytes(32, "big"))
            assert {one.first_tick for one in found} == {birth}
            stop = tick + SPAN - birth
            both = [np.stack([one.released[i].value[:stop, 0, 0] for one in found]) for i in (0, 1)]
            runs.append(np.concatenate(both, axis=1))
        # The best linear statistic there is, from the sample itself (it can only look better).
        pooled = (np.cov(runs[0].T) + np.cov(runs[1].T)) / 2
        moved = runs[0].mean(axis=0) - runs[1].mean(axis=0)
        weights = np.linalg.pinv(pooled, rcond=1e-9) @ moved
        size, error = separation(runs[0] @ weights, runs[1] @ weights)
        claimed = plan.program.loss(SPAN).value
        assert size <= claimed + 5 * error
        assert size >= 0.55 * claimed


def test_the_arrival_of_two_versions_is_the_earlier_one() -> None:
    """Moved in time: what is released within the window of the earlier version is covered."""
    world = World.of(make("blt", relation="replace_anywhere", keys=2))
    claimed = world.plan.program.loss(8).value
    best = int(np.argmax([sum(world.sizes(leaf)) for leaf in world.leaves]))
    for later in range(1, 12):
        pair = Neighbours((Placed(0, 2, best),), (Placed(0, 2 + later, best),))
        assert world.attack(pair, 8)[1] <= claimed * (1 + 1e-9)
    assert "the earlier of the two" in world.plan.guarantee.statement
