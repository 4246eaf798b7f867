"""From a config to a program: what is chosen, what follows, and what is refused and how."""

from __future__ import annotations

import math
from typing import Any

import pytest

from weir.dpcore.accounting.calibrate import gdp_epsilon, gdp_mu
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.balls import L1Ball
from weir.dpcore.models.erm.schedule import FOREVER
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.registry import MODELS, SOLVERS

PLAN = """
name: t
schema: {{time: at, id: id}}
clock: {{start: 2020-01-01T00:00:00Z, period: 1h{end}}}
privacy: {{epsilon: {epsilon}, delta: {delta}, protect_for: {window}}}
mechanism: {{{mechanism}}}
model:
  algorithm: regression.{algorithm}
  features: [x, z]
  target: y
  ranges: {{x: [0, 1], z: [0, 1], y: [0, 1]}}
  {more}
"""
END = ", end: 2020-03-01T00:00:00Z"
T = 1440


def plan(
    more: str = "rows: 1000",
    *,
    end: str = END,
    epsilon: float = 1.0,
    delta: str = "1e-6",
    window: Any = "all",
    mechanism: str = "",
    algorithm: str = "erm",
) -> Plan:
    window = window if window == "all" else f"{window} ticks"
    return Plan.from_yaml(PLAN.format(**locals()))


def phases(made: Plan) -> Any:
    return made.program.schedule.phases  # type: ignore[attr-defined]


def test_a_known_clock_is_run_by_the_papers_rule() -> None:
    made = plan()
    (phase,) = phases(made)
    assert (phase.every, phase.stop) == (math.ceil((T * 3) ** (1 / 3)), T)
    assert phase.share * (T // phase.every) == 1
    assert made.guarantee.expiration[0].epsilon == pytest.approx(1.0)
    assert [a.noise for a in made.alternatives] == ["gaussian", "discrete_gaussian"]
    assert made.alternatives[0].chosen and made.alternatives[1].score > 1


def test_a_window_and_a_stream_without_end_share_as_they_say() -> None:
    made = plan(end="", window=48)
    (phase,) = phases(made)
    assert phase.stop is None and phase.every == math.ceil((48 * 3) ** (1 / 3))
    assert phase.share * -(-48 // phase.every) == 1
    fades = [row.epsilon for row in made.guarantee.expiration]
    assert fades[0] == pytest.approx(1.0) and fades == sorted(fades) and fades[-1] > 3
    made = plan(end="")
    assert phases(made)[-1].stop == FOREVER and len(phases(made)) == 35
    assert made.guarantee.expiration[0].ticks is None
    assert any("phases that double" in one for one in made.warnings)
    assert phases(plan(window=5 * T)) == phases(plan())  # longer than the clock: for ever


def test_the_plan_prints_how_state_grows() -> None:
    made = plan("rows: 2000")
    assert made.program.waiting == 2000  # type: ignore[attr-defined]
    assert made.to_json()["state_bytes_per_key"] == 2 * 2000 * 28 + 40 + 24
    assert any("28 bytes" in one and "2,000 rows" in one for one in made.warnings)
    whole = plan("cap: 10")
    assert whole.program.problem.limit == 10 * T  # type: ignore[attr-defined]


def test_delta_decides_the_noise() -> None:
    assert [a.noise for a in plan(delta="0", window=6).alternatives] == ["k_norm"]
    assert plan(delta="0").guarantee.delta == 0
    assert [a.noise for a in plan(delta="1e-14").alternatives] == ["discrete_gaussian"]
    made = plan(mechanism="noise: discrete_gaussian")
    assert [a.noise for a in made.alternatives] == ["discrete_gaussian"]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("algorithm", ["erm", "naive"])
def test_configs_come_back_and_every_setting_is_in_the_digest(solver: str, algorithm: str) -> None:
    base = f"rows: 1000\n  solver: {solver}"
    settings = [
        "iterations: 3",
        "loss: {huber: 0.5}",
        "set: {l1_ball: 1}",
        "clip: {gradient: 0.5}",
        "curvature: 1.0",
        "cap: 7",
        *(["every: 9"] if algorithm == "erm" else []),
    ]
    found = {plan(base, algorithm=algorithm, epsilon=20.0).digest}
    for more in settings:
        made = plan(f"{base}\n  {more}", algorithm=algorithm, epsilon=20.0)
        again = PlanConfig.from_dict(made.config.to_dict())
        assert again.model_dump() == made.config.model_dump()
        assert Plan.from_config(again).digest == made.digest
        found.add(made.digest)
    assert len(found) == len(settings) + 1
    centre = f"{base}\n  curvature: 1.0\n  centre: [0.1, 0.1, 0.1]"
    moved = plan(centre, algorithm=algorithm, epsilon=20.0)
    assert moved.digest not in found


def test_rules_are_read_by_name() -> None:
    (strong,) = phases(plan("rows: 1000\n  curvature: 2.0"))
    (named,) = phases(plan("rows: 1000\n  curvature: 2.0\n  every: strongly_convex"))
    clip = math.sqrt(3) / 2
    assert strong == named
    assert strong.every == math.ceil(math.sqrt(3 * clip) / (math.sqrt(2.0) * math.sqrt(2.0)))


def test_the_rule_of_frank_and_wolfes_solver() -> None:
    base = "rows: 1000\n  solver: frank_wolfe\n  set: {l1_ball: 2}"
    (phase,) = phases(plan(base))
    (named,) = phases(plan(f"{base}\n  every: frank_wolfe"))
    # sqrt(T w) C_l^(1/4) / ((L ||C||)^(1/4) sqrt(eps)), rows of length sqrt(3) at most
    width, clip = L1Ball(2.0, 3).gaussian_width(), math.sqrt(3) / 2
    exact = math.sqrt(T * width) * (4.0**2 * 3 / (clip * 2.0)) ** 0.25
    assert phase == named and phase.every == math.ceil(exact)
    (fixed,) = phases(plan(f"{base}\n  every: 7"))
    assert fixed.every == 7


def test_the_baseline_is_calibrated_by_advanced_composition() -> None:
    made = plan(algorithm="naive")
    (phase,) = phases(made)
    assert phase.every == 1 and phase.share * T == 1
    each = 1.0 / (2 * math.sqrt(2 * T * math.log(2 / 1e-6)))
    mu = gdp_mu(each, 1e-6 / (2 * T)) * math.sqrt(T)
    assert made.program.loss(None).value == pytest.approx(mu, rel=1e-6)
    assert made.program.loss(None).value <= mu
    spent = made.guarantee.expiration[0].epsilon
    assert spent == pytest.approx(gdp_epsilon(mu, 1e-6), rel=1e-4) and spent < 0.1
    generous = plan(algorithm="naive", epsilon=500.0)
    assert generous.guarantee.expiration[0].epsilon <= 500.0
    assert phases(plan(end="", window=48, algorithm="naive"))[0].share * 48 == 1


@pytest.mark.parametrize(
    ("field", "words", "given"),
    [
        ("model.rows", "the clock has no end", {"more": "cap: 5", "end": ""}),
        ("model.rows", "at most 9,586,980 rows fit", {"more": "rows: 100000000"}),
        ("model.rows", "at most", {"more": "cap: 100000"}),
        ("model.every", "nothing would ever be fitted", {"more": "rows: 9\n  every: 1441"}),
        ("model.every", "curvature", {"more": "rows: 9\n  every: strongly_convex"}),
        ("model.every", "convex, strongly_convex", {"more": "rows: 9\n  every: often"}),
        ("model.every", "is for solver: frank_wolfe", {"more": "rows: 9\n  every: frank_wolfe"}),
        ("model.solver", "without a corner", {"more": "solver: frank_wolfe\n  loss: absolute"}),
        ("model.solver", "noisy_sgd", {"more": "rows: 9\n  solver: accelerated"}),
        ("model.iterations", "65,536", {"more": "rows: 9\n  iterations: 65537"}),
        ("model.step", "not a setting", {"more": "rows: 9\n  step: constant"}),
        ("model.tolerance", "not a setting", {"more": "rows: 9\n  tolerance: 0.1"}),
        ("model.centre", "3 numbers", {"more": "rows: 9\n  centre: [1.0]"}),
        ("mechanism.continual_sum", "sums nothing", {"mechanism": "continual_sum: blt"}),
        ("mechanism.buffers", "is not for", {"mechanism": "buffers: 2"}),
        ("privacy.delta", "k_norm", {"mechanism": "noise: gaussian", "delta": "0"}),
        ("model.every", "not a setting", {"more": "rows: 9\n  every: 3", "algorithm": "naive"}),
        ("clock.end", "is needed", {"end": "", "algorithm": "naive"}),
        ("mechanism.noise", "gaussian", {"mechanism": "noise: k_norm", "algorithm": "naive"}),
        ("privacy.delta", "too small", {"delta": "1e-14", "algorithm": "naive"}),
        ("privacy.delta", "too small", {"delta": "0", "algorithm": "naive"}),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(
    field: str, words: str, given: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError) as refused:
        plan(**given)
    assert refused.value.field == field and words in str(refused.value)


def test_solvers_are_added_by_a_file_and_a_line() -> None:
    for name, solver in SOLVERS.items():
        assert solver.name == name and solver.title and solver.source
        for one in ("regression.erm", "regression.naive"):
            assert name in MODELS[one].model_json_schema()["properties"]["solver"]["enum"]
