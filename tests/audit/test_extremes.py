"""Extreme but legal settings either work or are refused by name: never a traceback, never a lie."""

from __future__ import annotations

import json
import math
import tracemalloc
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weir.dpcore.accounting.calibrate import gdp_epsilon, gdp_mu, zcdp_epsilon, zcdp_rho
from weir.dpcore.bounded_events import Events
from weir.dpcore.errors import ConfigError
from weir.dpcore.noise.gaussian import exponential_from_bits, normal_from_bits
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.registry import CONTINUAL_SUMS
from weir.dpcore.simulate import simulate

SECRET = bytes(32)


def config(**change: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "name": "extreme",
        "schema": {"time": "at", "id": "id"},
        "clock": {"start": "2020-01-01T00:00:00Z", "period": "1d", "end": "2020-02-10T00:00:00Z"},
        "privacy": {"epsilon": 1.0, "delta": 1e-6, "protect_for": "8 ticks"},
        "aggregates": {
            "n": {"count": "events"},
            "s": {"sum": "x", "clip": [0.0, 10.0], "over": ["all", 3]},
            "v": {"variance": "x", "clip": [0.0, 10.0]},
        },
    }
    for dotted, value in change.items():
        section, _, name = dotted.partition("__")
        if name:
            base.setdefault(section, {})[name] = value
        else:
            base[section] = value
    if base["clock"].get("end", "") is None:
        del base["clock"]["end"]
    return base


def build(**change: Any) -> Plan:
    return Plan.from_config(PlanConfig.from_dict(config(**change)))


def sound(plan: Plan) -> None:
    """What holds for every plan that is not refused."""
    promise = plan.guarantee
    assert plan.program.loss(promise.window).epsilon(promise.delta) <= promise.epsilon * (1 + 1e-9)
    json.dumps(plan.to_json(), allow_nan=False)
    for info in plan.program.describe(plan.ticks_to_look_at()):
        assert math.isfinite(info.stddev_worst) and info.stddev_worst >= 0
    for part in plan.program.parts:  # type: ignore[attr-defined]
        mechanism = part.mechanism
        assert mechanism.sensitivity > 0 and mechanism.noise_scale >= 0
        assert all(math.isfinite(scale) and scale >= 0 for scale in mechanism.scales)


def runs(plan: Plan) -> None:
    """Two ticks of a few odd events."""
    odd = np.array([0.0, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 7.0])
    times = plan.clock.start + np.arange(len(odd)) % 2 * plan.clock.period
    ticks = min(2, plan.clock.ticks or 2)
    columns = dict.fromkeys(plan.program.columns, odd)
    (one,) = simulate(plan, Events(times, None, columns), SECRET, ticks=ticks)
    for released in one.released:
        assert np.isfinite(released.value).all()
        if released.stddev is None:  # a quantile has an interval of its own
            assert (np.asarray(released.low) <= np.asarray(released.high)).all()
        else:
            assert (released.stddev >= 0).all()


clips = st.sampled_from(
    [[0.0, 1e-300], [0.0, 1e-60], [0.0, 1e-30], [0.0, 1.0], [0.0, 1e60], [-1e60, 1e60]]
    + [[1.0, math.nextafter(1, 2)], [-1e-50, 1e50], [5.0, 6.0], [-6.0, -5.0], [1e300, 1.1e300]]
    + [[1e59, 1.1e59], [-5e-324, 5e-324], [-1.7e308, 1.7e308], [0.9e308, 1.7e308], [-3.0, 0.0]]
)
spans = st.one_of(st.just("all"), st.integers(1, 50), st.sampled_from([10**6, 10**9, 2**40]))
overs = st.lists(spans, min_size=1, max_size=3, unique=True)
weights = st.sampled_from([1.0, 1e-3, 1e6, 1e-300, 1e300])
edges = st.sampled_from([[0.0, 1.0], [-math.inf, math.inf], [-1e308, 0.0, 5e-324, math.inf]])
ends = st.sampled_from(
    [[0.0, 5e-324, 1.0], {"log": [1e-300, 1e60, 30]}, {"linear": [-1e60, 1e60, 3]}, [0, 1, 2]]
)
aggregate = st.one_of(
    st.fixed_dictionaries({"count": st.just("events")}, optional={"over": overs}),
    st.fixed_dictionaries({"histogram": st.just("y"), "edges": edges}, optional={"over": overs}),
    st.fixed_dictionaries(
        {"quantile": st.just("y"), "at": st.sampled_from([0.5, [1e-9, 1 - 1e-9]]), "edges": ends},
        optional={"over": overs, "weight": weights},
    ),
    *(
        st.fixed_dictionaries(
            {kind: st.just("x"), "clip": clips}, optional={"over": overs, "weight": weights}
        )
        for kind in ("sum", "mean", "variance")
    ),
)
deltas = st.one_of(
    st.sampled_from([0.0, 5e-324, 1e-300, 1e-13, 1e-12, 0.5]),
    st.floats(-15, -0.4).map(lambda power: 10.0**power),
)
epsilons = st.one_of(
    st.sampled_from([5e-324, 1e-300, 1e16, 1e17, 1e300]),
    st.floats(-8, 4).map(lambda power: 10.0**power),
)
lengths = st.one_of(st.integers(1, 100), st.sampled_from([10**9, 2**40, 10**30]))
windows = st.one_of(st.just("all"), lengths.map("{} ticks".format))
clocks = st.sampled_from(
    [
        {"period": "1d", "end": "2020-01-02T00:00:00Z"},
        {"period": "1d", "end": "2020-01-04T00:00:00Z"},
        {"period": "1d", "end": "2020-02-10T00:00:00Z"},
        {"period": "1us", "end": "9999-12-31T00:00:00Z"},
        {"period": "10000w", "end": "9999-12-31T00:00:00Z"},
        {"period": "1s"},
    ]
)
mechanisms = st.fixed_dictionaries(
    {},
    optional={
        "continual_sum": st.sampled_from([*CONTINUAL_SUMS, "separate"]),
        "noise": st.sampled_from(["gaussian", "discrete_gaussian", "k_norm"]),
        "buffers": st.sampled_from([1, 8]),
        "gamma": st.sampled_from([0.5, 1.0, 2.0, 1e-300, 1e300]),
    },
)


@settings(
    max_examples=150, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
@given(
    st.dictionaries(st.sampled_from("abc"), aggregate, min_size=1, max_size=3),
    st.fixed_dictionaries(
        {"epsilon": epsilons, "delta": deltas, "protect_for": windows},
        optional={"relation": st.sampled_from(["add_remove", "replace_one", "replace_anywhere"])},
    ),
    clocks,
    mechanisms,
    st.booleans(),
)
def test_a_plan_works_or_is_refused(
    aggregates: dict[str, Any],
    privacy: dict[str, Any],
    clock: dict[str, Any],
    mechanism: dict[str, Any],
    where: bool,
) -> None:
    data = config(aggregates=aggregates, privacy=privacy, mechanism=mechanism)
    data["clock"] = {"start": "2020-01-01T00:00:00Z", **clock}
    if where:
        data["where"] = "x > 0"
    try:
        plan = Plan.from_config(PlanConfig.from_dict(data))
    except ConfigError as refused:
        assert refused.field and "defect" not in str(refused)
        assert "overspent" not in str(refused)
        return
    sound(plan)
    if plan.program.state_bytes() < 1 << 20:
        runs(plan)


@settings(max_examples=60, derandomize=True)
@given(
    st.lists(st.sampled_from("abcde"), min_size=1, max_size=4, unique=True),
    st.floats(-2, 2).map(lambda power: 10.0**power),
    st.one_of(st.just(0.0), st.floats(-11, -2).map(lambda power: 10.0**power)),
    st.one_of(st.just("all"), st.integers(1, 60).map("{} ticks".format)),
    st.sampled_from(["add_remove", "replace_one", "replace_anywhere"]),
)
def test_ordinary_settings_are_served(
    kinds: list[str], epsilon: float, delta: float, window: str, relation: str
) -> None:
    all_of = {
        "a": {"count": "events", "over": ["all", 5]},
        "b": {"sum": "x", "clip": [-2.0, 9.0]},
        "c": {"mean": "x", "clip": [-2.0, 9.0], "over": [7]},
        "d": {"variance": "y", "clip": [0.0, 1.0]},
        "e": {"histogram": "y", "edges": [0.0, 1.0, 2.0], "over": [1, "all"]},
    }
    privacy = {"epsilon": epsilon, "delta": delta, "protect_for": window, "relation": relation}
    if kinds == ["a"] and relation == "replace_one":
        with pytest.raises(ConfigError, match="counts are public"):
            build(privacy=privacy, aggregates={"a": all_of["a"]})
        return
    plan = build(privacy=privacy, aggregates={kind: all_of[kind] for kind in kinds})
    sound(plan)
    runs(plan)


@pytest.mark.parametrize("epsilon", [1e-300, 1e-9, 1e-4, 1e6, 1e16, 1e17, 1e100, 1e300])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_any_epsilon(epsilon: float, delta: float) -> None:
    try:
        plan = build(privacy__epsilon=epsilon, privacy__delta=delta)
    except ConfigError as refused:
        assert epsilon < 1e-8
        assert ("2^53" if delta == 0 else "rounding to doubles") in str(refused)
    else:
        sound(plan)


def test_calibration_near_the_ends_of_delta_is_never_above_the_target() -> None:
    """The logarithm of delta loses digits near 1: budgets must not be the larger for it."""

    def exact(mu: float, epsilon: float) -> Any:
        with mpmath.workdps(60):
            m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
            return mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)

    for epsilon in (1e-9, 0.1, 1.0, 20.0):
        for delta in (1e-300, 1e-12, 0.5, 1 - 1e-6, 1 - 1e-10, 1 - 1e-13, 1 - 2.0**-53):
            assert exact(gdp_mu(epsilon, delta), epsilon) <= delta
    for epsilon in (1e16, 1e100, 1e300):
        mu, rho = gdp_mu(epsilon, 1e-6), zcdp_rho(epsilon, 1e-6)
        assert mu == pytest.approx(math.sqrt(2 * epsilon), rel=1e-6)
        assert gdp_epsilon(mu, 1e-6) <= epsilon * (1 + 1e-9)
        assert zcdp_epsilon(rho, 1e-6) <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["sum", "mean", "variance"])
@pytest.mark.parametrize(
    "clip",
    [[0, 1e-300], [0, 1e-61], [0, 1e61], [-1e300, 1e300], [0.9e308, 1.7e308], [1e300, 2e300]],
)
def test_clips_out_of_reach_are_refused_by_name(kind: str, clip: list[float]) -> None:
    with pytest.raises(ConfigError, match=r"aggregates\.s\.clip.*rescale"):
        build(aggregates={"s": {kind: "x", "clip": clip}})


@pytest.mark.parametrize("kind", ["sum", "mean", "variance"])
@pytest.mark.parametrize(
    "clip", [[0, 1e-59], [0, 1e60], [-1e60, 1e60], [1, 1 + 2e-16], [5, 6], [-6, -5], [-3, 0]]
)
def test_clips_at_the_ends_work(kind: str, clip: list[float]) -> None:
    plan = build(aggregates={"s": {kind: "x", "clip": clip}, "t": {"sum": "x", "clip": clip}})
    sound(plan)
    runs(plan)


@pytest.mark.parametrize(
    "change",
    [
        {"clock__end": None, "privacy__protect_for": f"{10**9} ticks"},
        {"clock__end": None, "privacy__protect_for": f"{2**40} ticks"},
        {"clock__end": None, "privacy__protect_for": f"{10**9} ticks", "privacy__delta": 0.0},
        {"clock__end": None, "aggregates": {"n": {"count": "events", "over": 10**9}}},
        {"clock__end": None, "aggregates": {"n": {"count": "events", "over": ["all", 10**9]}}},
        {
            "clock__period": "1us",
            "clock__end": "9999-12-31T00:00:00Z",
            "privacy__protect_for": "all",
        },
    ],
)
def test_a_plan_is_made_without_the_memory_of_a_run(change: dict[str, Any]) -> None:
    """Thirty years of seconds: pricing allocates nothing of that size."""
    tracemalloc.start()
    try:
        sound(build(**change))
    except ConfigError as refused:
        assert "MiB of state per key" in str(refused)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 1 << 28


def test_spans_and_windows_without_end_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"aggregates\.n\.over"):
        build(aggregates={"n": {"count": "events", "over": 10**30}})
    with pytest.raises(ConfigError, match=r"privacy\.protect_for.*write all"):
        build(privacy__protect_for=f"{10**30} ticks")
    with pytest.raises(ConfigError, match=r"privacy\.delta"):
        build(privacy__delta=0.9)


def test_settings_of_a_split_are_those_of_its_parts() -> None:
    plan = build(mechanism={"continual_sum": "separate", "buffers": 1})
    assert all(
        len(part.mechanism.form.poles) <= 1
        for part in plan.program.parts  # type: ignore[attr-defined]
        if hasattr(part.mechanism, "form")
    )
    with pytest.raises(ConfigError, match=r"mechanism\.gamma"):
        build(mechanism={"continual_sum": "separate", "gamma": 1.0})


def test_keys_and_blocks_that_a_pipeline_could_not_hold_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"key\.declared.*UTF-8"):
        build(key={"column": "k", "declared": ["a", "\ud800"]})
    with pytest.raises(ConfigError, match=r"blocks"):
        build(blocks=1 << 40)


# ---- what real-valued noise cannot guarantee


def test_a_delta_below_the_grain_of_real_noise_is_served_by_exact_noise_only() -> None:
    """A normal made of 64 bits ends somewhere: beyond, an outcome is possible in one world only."""
    words = np.array([2**63 - 1, 2**63], dtype=np.uint64)  # the largest and the smallest
    last = normal_from_bits(words)
    assert np.abs(last).max() < 9.1
    # An event that moves a sum by 1 standard deviation makes outcomes beyond the end possible, with
    # a probability that no delta below it can cover.
    from scipy.stats import norm

    assert norm.sf(np.abs(last).max() - 1) > 1e-16
    for delta in (1e-30, 1e-13):
        plan = build(privacy__delta=delta)
        noises = {a.noise for a in plan.alternatives}
        assert noises == {"gaussian"} and all(part.drawn_exactly for part in plan.program.sums)
        sound(plan)
        with pytest.raises(ConfigError, match="noise of toeplitz is made of doubles"):
            build(privacy__delta=delta, mechanism={"continual_sum": "toeplitz"})
        assert build(privacy__delta=delta, mechanism={"continual_sum": "blt"}).alternatives
    assert build(privacy__delta=1e-12).alternatives[0].noise == "gaussian"


def test_pure_noise_says_where_its_tail_ends() -> None:
    assert exponential_from_bits(np.array([2**64 - 1], dtype=np.uint64))[0] < 45
    plan = build(privacy__delta=0.0)
    assert any("not covered by delta = 0" in text for text in plan.warnings)
    assert not any("not covered" in text for text in build().warnings)


def test_what_protects_nothing_later_is_never_chosen_by_itself() -> None:
    for window in (1, 8, 39):
        for delta in (0.0, 1e-6, 1e-20):
            plan = build(privacy__protect_for=f"{window} ticks", privacy__delta=delta)
            assert all(math.isfinite(row.epsilon) for row in plan.guarantee.expiration)
