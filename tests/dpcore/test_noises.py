"""Which noise a plan takes, at what error, and at what price for what comes later."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.constant_noise import NoNoise
from tests.contracts.cases import noise
from tests.contracts.corners import candidates, moved, weights
from weir.dpcore.aggregates.program import Aggregates
from weir.dpcore.bounded_events import Events
from weir.dpcore.continual.ended import EndedSum
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.simulate import simulate
from weir.pipelines.config.job import loads
from weir.pipelines.graph.checks import plan_under

CLOCK = {"start": "2025-01-01T00:00:00Z", "period": "1d", "end": "2025-04-11T00:00:00Z"}
BINS = {"histogram": "x", "edges": list(range(401)), "over": 1}


def plan_of(
    aggregates: dict[str, Any], delta: float = 1e-6, privacy: Any = None, **more: Any
) -> Plan:
    privacy = {"epsilon": 1.0, "delta": delta, "protect_for": "all", **(privacy or {})}
    whole = {"name": "noises", "schema": {"time": "at"}, "clock": CLOCK, "privacy": privacy}
    return Plan.from_config(PlanConfig.from_dict({**whole, "aggregates": aggregates, **more}))


def test_a_bin_has_the_same_noise_however_many_bins_there_are() -> None:
    for bins in (2, 400):
        body = {"sizes": {**BINS, "edges": list(range(bins + 1))}}
        plan = plan_of(body, delta=0)
        chosen, *others = plan.alternatives
        assert (chosen.mechanism, chosen.noise) == ("independent", "laplace")
        assert plan.outputs[0].stddev_worst == pytest.approx(math.sqrt(2), rel=1e-6)
        k_norm = next(a for a in others if (a.mechanism, a.noise) == ("independent", "k_norm"))
        assert k_norm.stddev["sizes over=1"] == pytest.approx(math.sqrt(bins + 1), rel=1e-6)


def test_one_coordinate_is_priced_once_and_what_is_named_is_taken() -> None:
    count = {"n": {"count": "events"}}
    assert {a.noise for a in plan_of(count, delta=0).alternatives} == {"k_norm"}
    for named in ("laplace", "k_norm"):
        plan = plan_of(count, delta=0, mechanism={"noise": named})
        assert {a.noise for a in plan.alternatives} == {named}
    named = plan_of({"s": BINS}, delta=0, mechanism={"continual_sum": "independent"})
    assert [a.noise for a in named.alternatives if a.chosen] == ["k_norm"]


def test_sums_of_bins_are_split_jointly_with_other_outputs() -> None:
    """Noise of measured size, for outputs of different size and weight."""
    body = {"s": {**BINS, "edges": [0, 1, 2, 3, 4]}, "n": {"count": "events", "over": 1}}
    body |= {"paid": {"sum": "y", "clip": [0, 50], "over": 1, "weight": 4.0}}
    plan = plan_of(body, delta=0, mechanism={"noise": "laplace"})
    program = plan.program
    assert isinstance(program, Aggregates)
    (part,) = program.parts
    assert part.mechanism.loss(None).value <= 1.0
    keys = tuple(b"%d" % k for k in range(20_000))
    leaves = np.zeros((1, len(keys), part.mechanism.dimension), dtype=np.int64)
    _, (drawn,) = part.mechanism.step(part.mechanism.init(len(keys)), leaves, noise(0, keys))
    stated = part.mechanism.stddev(np.zeros(1, dtype=np.int64), 1)
    np.testing.assert_allclose(drawn.std(axis=1), stated, rtol=0.04)
    # One event moves a bin, the count and the sum: its log-likelihood ratio is at most epsilon.
    b = np.asarray(part.mechanism.scales) * part.mechanism.noise_scale
    steps = np.asarray([program.channels[c].bound / program.channels[c].resolution
                        for c in part.channels])  # fmt: skip
    first = np.cumsum([0, *(program.channels[c].size for c in part.channels)])[:-1]
    assert (steps / b[first]).sum() == pytest.approx(1.0, rel=1e-6)


def test_noise_that_is_none_of_a_sum_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="mechanism.noise = 'gumbel': is no noise of a sum"):
        plan_of({"n": {"count": "events"}}, mechanism={"noise": "gumbel"})


ONE = {"n": {"count": "events", "over": 1}}


@pytest.mark.parametrize("delta", [1e-6, 1e-9])
def test_pure_noise_is_priced_and_taken_where_it_is_better(delta: float) -> None:
    plan = plan_of(ONE, delta)
    assert plan.outputs[0].stddev_worst == pytest.approx(math.sqrt(2), rel=1e-6)
    assert plan.guarantee.epsilon == 1.0 and plan.guarantee.delta == delta
    assert plan.program.loss(None).kind == "pure"
    named = plan_of(ONE, delta, mechanism={"continual_sum": "independent"})
    assert named.outputs[0].stddev_worst > 4 and named.program.loss(None).kind != "pure"
    assert not any("not covered by delta" in text for text in plan.warnings)


@pytest.mark.parametrize("delta", [1e-11, 1e-12, 1e-14])
def test_pure_noise_is_not_taken_where_delta_does_not_cover_its_tails(delta: float) -> None:
    plan = plan_of(ONE, delta)
    assert plan.program.loss(None).kind == "gdp"
    assert not any("not covered by delta" in text for text in plan.warnings)
    named = plan_of(ONE, delta, mechanism={"noise": "laplace"})
    assert any("not covered by delta" in text for text in named.warnings)


def test_both_losses_are_priced_and_the_plan_says_why() -> None:
    shown = plan_of(ONE).to_json()
    losses = {a["noise"]: a["loss"] for a in shown["alternatives"] if a["loss"]}
    assert losses["k_norm"]["kind"] == "pure" and losses["k_norm"]["value"] == pytest.approx(1)
    assert losses["k_norm"]["mu"] == pytest.approx(1.2322, abs=1e-3)
    assert losses["gaussian"]["mu"] == pytest.approx(0.2367, abs=1e-4)
    assert "2.99 times the error" in shown["choice"]
    assert "epsilon 1 (mu 1.23), where gaussian noise costs mu 0.237" in shown["choice"]
    total = plan_of({"n": {"count": "events"}}).to_json()
    assert "Why gaussian noise" in total["choice"]
    assert "epsilon 1 (mu 1.23) in place of mu 0.237" in total["choice"]
    assert plan_of(ONE, mechanism={"noise": "gaussian"}).to_json()["choice"] == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "cells"), [(0.5, 8), (1.0, 8), (4.0, 11)], ids=["0.5", "1", "4"]
)
def test_pure_noise_wins_up_to_so_many_cells_of_a_user(epsilon: float, cells: int) -> None:
    """Its error grows with the cells, that of Gaussian noise with their root."""

    def noise_at(ticks: int) -> str:
        caps = {"ticks": ticks, "keys": 1, "events": 1}
        privacy = {"epsilon": epsilon, "unit": "user", "per": "50d", "contributions": caps}
        body = {"n": {"count": "users", "over": 1}}
        schema = {"time": "at", "unit": "who"}
        plan = plan_of(body, privacy=privacy, schema=schema)
        pair = (("independent", "k_norm"), ("independent", "gaussian"))
        errors = {(a.mechanism, a.noise): a.score for a in plan.alternatives}
        return "k_norm" if errors[pair[0]] < errors[pair[1]] else "gaussian"

    assert noise_at(cells) == "k_norm" and noise_at(cells + 1) == "gaussian"


@pytest.mark.slow
def test_pure_noise_is_left_where_it_gains_little() -> None:
    """Within 5 % of the error of Gaussian noise it costs later plans more than it gains."""
    taken = set[str]()
    for ticks in range(4, 12):
        caps = {"ticks": ticks, "keys": 1, "events": 1}
        privacy = {"unit": "user", "per": "50d", "contributions": caps}
        schema = {"time": "at", "unit": "who"}
        plan = plan_of({"n": {"count": "users", "over": 1}}, privacy=privacy, schema=schema)
        errors = {(a.mechanism, a.noise): a.score for a in plan.alternatives}
        ratio = errors["independent", "gaussian"] / errors["independent", "k_norm"]
        (chosen,) = [a.noise for a in plan.alternatives if a.chosen]
        assert chosen == ("k_norm" if ratio > 1.05 else "gaussian")
        taken.add(chosen)
    assert taken == {"k_norm", "gaussian"}


def test_a_job_with_a_ledger_leaves_pure_noise_out_unless_it_says_otherwise() -> None:
    text = """
name: noises
schema: {time: at}
clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-04-11T00:00:00Z}
privacy: {epsilon: 1, delta: 1e-6, protect_for: all}
aggregates: {n: {count: events, over: 1}}
"""
    ledger = "ledger: {sqlite: l.db, scope: all, budget: {epsilon: 4, delta: 1e-5}}\n"
    alone, counted = (plan_under(loads(text + more)) for more in ("", ledger))
    asked = plan_under(loads(text + ledger + "mechanism: {pure: true}\n"))
    assert alone.program.loss(None).kind == asked.program.loss(None).kind == "pure"
    assert counted.program.loss(None).kind == "gdp"
    assert "mechanism.pure: true prices it" in counted.to_json()["choice"]
    again = Plan.from_config(PlanConfig.from_dict(counted.config.to_dict()))
    assert again.digest == counted.digest


# ---- sums around the middle of their clip

PAID = {"sum": "x", "clip": [0, 100], "over": 1}


def centres(plan: Plan) -> list[float]:
    program = plan.program
    assert isinstance(program, Aggregates)
    return [channel.centre for channel in program.channels if channel.kind == "value"]


def test_a_sum_next_to_a_count_is_taken_around_the_middle_of_its_clip() -> None:
    both = {**ONE, "paid": PAID}
    plain = plan_of(both, mechanism={"noise": "gaussian"})
    assert centres(plain) == [0.0]
    assert [info.stddev_worst for info in plain.outputs] == pytest.approx([5.975, 597.5], rel=1e-3)
    plan = plan_of(both, mechanism={"pure": False})
    assert centres(plan) == [50.0]
    assert [info.stddev_worst for info in plan.outputs] == pytest.approx([5.082, 457.1], rel=1e-3)
    assert any("summed around 50, the middle of its clip" in note for note in plan.notes)
    with_mean = plan_of({**both, "usual": {"mean": "x", "clip": [0, 100]}})
    assert centres(with_mean) == [50.0]


@pytest.mark.parametrize(
    "others",
    [
        {},
        {"n": {"count": "events", "over": 1, "where": "x > 3"}},
        {"n": {"count": "events", "over": 1, "weight": 1e-6}},
    ],
    ids=["no count", "a count of others", "a count of no weight"],
)
def test_a_sum_is_left_as_it_is_where_that_is_no_worse(others: dict[str, Any]) -> None:
    plan = plan_of({"paid": PAID, **others}, mechanism={"pure": False})
    gain = plan_of({"paid": PAID, **others}, mechanism={"noise": "gaussian"})
    ratio = plan.outputs[0].stddev_worst / gain.outputs[0].stddev_worst
    assert ratio == pytest.approx(1) if centres(plan) == [0.0] else ratio < 1


@pytest.mark.parametrize("relation", ["add_remove", "replace_one", "replace_anywhere"])
@pytest.mark.parametrize("over", [1, "all"])
def test_a_centred_sum_moves_by_no_more_than_is_paid_for(relation: str, over: Any) -> None:
    body = {"n": {"count": "events", "over": over}, "paid": {**PAID, "over": over}}
    plan = plan_of({**body, "low": {**PAID, "clip": [40, 60], "over": over}}, delta=1e-6,
                   privacy={"relation": relation})  # fmt: skip
    in_l1 = plan.program.sums[0].real_noise[0] == "laplace"
    (added,) = weights(plan.program, candidates({"x": (0.0, 100.0)}))
    assert 0.7 < moved(added, relation, False, in_l1) <= 1 + 1e-9
    assert centres(plan) == [50.0, 50.0] or relation == "replace_one"


def test_a_centred_sum_is_the_sum() -> None:
    """Without noise, to the last digit that the lattice holds; clips apply before."""
    rng = np.random.default_rng(5)
    plan = plan_of({"n": {"count": "events"}, "paid": {**PAID, "over": ["all", 3]}})
    assert centres(plan) == [50.0]
    x = rng.uniform(-40, 160, 700)
    times = plan.clock.start + np.sort(rng.integers(0, 100 * 86_400_000_000, 700))
    (run,) = simulate(plan, Events(times, None, {"x": x}), bytes(32), None, NoNoise(0))
    ticks = plan.clock.tick_of(times)
    for release in run.released:
        if release.name == "paid":
            first = 0 if release.over is None else 100 - release.over
            exact = np.clip(x, 0, 100)[ticks >= first].sum()
            assert release.value[-1, 0, 0] == pytest.approx(exact, abs=1e-3)


# ---- the same for ever


def test_a_short_horizon_is_priced_against_the_same_for_ever() -> None:
    """What the plan shows is what such a plan has, and its loss is that of this plan."""
    clock = {"start": "2024-01-01T00:00:00Z", "period": "1d", "end": "2026-09-27T00:00:00Z"}
    body = {"n": {"count": "events"}}
    plan = plan_of(body, privacy={"protect_for": "30d"}, clock=clock)
    same = plan.for_ever
    assert same is not None and same.ticks == 300
    assert same.epsilon == plan.program.loss(300).epsilon(1e-6) > 1
    assert (same.now, same.noise) == pytest.approx((9.18, 6.714), rel=2e-3)
    other = plan_of(body, privacy={"epsilon": same.epsilon}, clock=clock)
    assert other.outputs[0].stddev_worst == pytest.approx(same.noise, rel=1e-6)
    assert plan.to_json()["for_ever"]["noise"] == same.noise
    assert "for_ever" not in plan.to_json(prices=False)
    near = plan_of(body, privacy={"protect_for": "300d"}, clock=clock)
    assert near.for_ever is not None and near.for_ever.ticks is None
    assert near.for_ever.epsilon == near.program.loss(None).epsilon(1e-6)


@pytest.mark.parametrize(
    "more",
    [
        {"privacy": {"protect_for": "all"}},
        {"privacy": {"protect_for": "200d"}},
        {"privacy": {"protect_for": "10d"}, "mechanism": {"continual_sum": "independent"}},
    ],
    ids=["for ever", "longer than the clock", "nothing is lost later"],
)
def test_there_is_no_other_where_the_horizon_gains_nothing(more: dict[str, Any]) -> None:
    plan = plan_of({"n": {"count": "events"}}, **more)
    assert plan.for_ever is None and plan.to_json()["for_ever"] is None


# ---- noise that is fitted to the whole clock


def chosen(over: Any, days: int = 1000, **more: Any) -> str:
    end = str(np.datetime64("2024-01-01") + days) + "T00:00:00Z"
    clock = {"start": "2024-01-01T00:00:00Z", "period": "1d", "end": end}
    plan = plan_of({"n": {"count": "events", "over": over}}, clock=clock, **more)
    return next(a.mechanism for a in plan.alternatives if a.chosen)


def test_noise_fitted_to_the_clock_is_taken_where_every_output_gains() -> None:
    assert chosen("all") == "ended"
    # Differences of totals are worse at worst, though better on average.
    assert chosen(["all", 7]) != "ended" and chosen(["all", 28]) != "ended"
    assert chosen("all", mechanism={"noise": "gaussian"}) == "blt"
    for shorter in ("999d", "600d", "30d"):
        assert chosen("all", privacy={"protect_for": shorter}) != "ended"
    assert chosen("all", privacy={"protect_for": "1000d"}) == "ended"


def test_users_get_it_where_it_gains() -> None:
    caps = {"ticks": 4, "keys": 1, "events": 1}
    privacy = {"unit": "user", "per": "90d", "contributions": caps}
    schema = {"time": "at", "unit": "who"}
    assert chosen("all", 90, privacy=privacy, schema=schema) == "ended"


def test_what_is_lost_is_said_and_the_guarantee_is_that_of_the_whole_clock() -> None:
    clock = {"start": "2024-01-01T00:00:00Z", "period": "1d", "end": "2026-09-27T00:00:00Z"}
    plan = plan_of({"n": {"count": "events"}}, clock=clock)
    shown = plan.to_json()
    (row,) = [row for row in shown["alternatives"] if row["chosen"]]
    assert (row["mechanism"], row["note"]) == ("ended", "no graded expiration")
    assert "does not fade by degrees" in shown["choice"]
    assert "fall on the releases right after" in plan.guarantee.statement
    assert plan.outputs[0].stddev_worst == pytest.approx(12.58, rel=2e-3)
    assert plan.program.loss(None).epsilon(1e-6) <= 1.0
    lost = plan.program.loss(1).value
    assert lost == pytest.approx(plan.program.loss(None).value, rel=1e-3)


@pytest.mark.parametrize("part", ["worst", "mean"])
def test_a_gain_in_the_worst_tick_or_on_average_alone_is_not_enough(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = EndedSum.factor

    def factor(self: EndedSum, ticks: Any, over: Any) -> Any:
        out = np.array(right(self, ticks, over))
        if part == "worst":
            out[-1] *= 1.5
        else:
            out[:] = np.minimum(out * 2, 0.995 * 3.2717**2)
        return out

    monkeypatch.setattr(EndedSum, "factor", factor)
    assert chosen("all") == "blt"
