"""Incremental regression against least squares, and what its margins and errors claim."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.constant_noise import NoNoise
from tests.dpcore.models.regression.least_squares import least_squares
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.balls import L1Ball, L2Ball
from weir.dpcore.models.regression.quadratic import (
    PrivateQuadratic,
    adassp_for,
    lift_for,
    predicted,
    prior_of,
)
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.program import Released

ROOT = RootKey.derive(bytes(range(32)), "incremental", bytes(32))
CONFIG = """
name: shop
schema: {{time: t{more}}}
key: {{column: k, declared: [a, b]}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h{end}}}
privacy: {{epsilon: {epsilon}, delta: {delta}, protect_for: {window}{relation}}}
{mechanism}
model:
  algorithm: {algorithm}
  features: [u, v]
  target: {target}
  ranges: {{u: [0, 2], v: [-1, 3], y: [0, 16]{ranges}}}
  {model}
"""


def config_of(**changed: Any) -> PlanConfig:
    given = {
        "algorithm": "regression.incremental",
        "more": "",
        "end": ", end: 2024-01-03T00:00:00Z",
        "epsilon": 1.0,
        "delta": 1e-6,
        "window": "all",
        "relation": "",
        "mechanism": "",
        "target": "y",
        "ranges": "",
        "model": "set: {l2_ball: 50}",
    }
    values = {**given, **changed}
    if values["window"] != "all":
        values["window"] = f"{values['window']} ticks"
    if "ridge" not in values["model"]:  # what noise would pull is in the way of exact equality
        values["model"] += "\n  ridge: 0"
    if "clip" not in values["model"]:  # and so is what shortening makes of events
        values["model"] += "\n  clip: {features: 2}"
    return PlanConfig.from_yaml(CONFIG.format(**values))


def program_of(**changed: Any) -> Any:
    return Plan.from_config(config_of(**changed)).program


def on_grid(rng: Any, n: int) -> dict[str, Any]:
    """Columns on a grid that rows represent exactly, targets inside their ranges."""
    u, v = 1 + rng.integers(-64, 65, n) / 64, 1 + rng.integers(-128, 129, n) / 64
    noise = rng.integers(-32, 33, n) / 64
    return {"u": u, "v": v, "y": 6 + 2 * u - v + noise, "z": 1 - u / 2 + v / 4 - noise}


def run(program: Any, columns: Any, cells: Any, shape: tuple[int, int], noise: Any = None) -> Any:
    """Releases by name for n ticks of K keys, and the strides' noisy arrays."""
    n = len(cells)
    leaves = program.accumulate(program.bound(columns, n).rows, cells, shape[0] * shape[1])
    stream = leaves.reshape(*shape, -1)
    _, noisy = program.step(program.init(shape[1]), stream, noise or (lambda part: NoNoise()))
    return {one.name: one for one in program.solve(noisy, np.arange(shape[0]))}, noisy


def lstsq(columns: Any, mask: Any, target: str = "y") -> Any:
    """Plain least squares in the user's units, the constant last."""
    x = np.stack([columns["u"], columns["v"], np.ones(len(mask))], axis=1)[mask]
    return np.linalg.lstsq(x, columns[target][mask], rcond=None)[0]


def test_without_noise_it_is_least_squares_of_the_prefix() -> None:
    program, rng = program_of(), np.random.default_rng(1)
    n, shape = 4000, (40, 2)
    columns, cells = on_grid(rng, n), rng.integers(0, 80, n)
    found, _ = run(program, columns, cells, shape)
    ticks, keys = np.divmod(cells, 2)
    for tick in (0, 1, 7, 39):
        for key in (0, 1):
            expected = lstsq(columns, (ticks <= tick) & (keys == key))
            got = found["coefficients"].value[tick, key]
            np.testing.assert_allclose(got, expected, rtol=0, atol=1e-9)


def test_several_targets_are_fitted_side_by_side() -> None:
    program = program_of(target="[y, z]", ranges=", z: [-4, 4]")
    rng, n = np.random.default_rng(2), 2000
    columns = on_grid(rng, n)
    found, _ = run(program, columns, np.zeros(n, dtype=np.int64), (1, 1))
    everything = np.ones(n, dtype=bool)
    expected = [lstsq(columns, everything, target) for target in ("y", "z")]
    got = found["coefficients"].value[0, 0]
    np.testing.assert_allclose(got, np.concatenate(expected), atol=1e-9)
    names = {info.name: info.labels for info in program.describe(np.arange(3))}
    assert names["coefficients"][:4] == ("y.u", "y.v", "y.intercept", "z.u")
    assert names["band"] == ("y", "z")


def test_a_window_is_of_its_ticks_alone() -> None:
    program = program_of(model="over: 5\n  set: {l2_ball: 50}")
    rng, n = np.random.default_rng(3), 3000
    columns, cells = on_grid(rng, n), rng.integers(0, 30, n)
    found, _ = run(program, columns, cells, (30, 1))
    assert found["coefficients"].over == 5
    for tick in (3, 4, 12, 29):
        expected = lstsq(columns, (cells <= tick) & (cells > tick - 5))
        np.testing.assert_allclose(found["coefficients"].value[tick, 0], expected, atol=1e-9)


def test_a_bound_set_and_a_ridge_are_those_of_plain_least_squares() -> None:
    rng, n = np.random.default_rng(4), 1500
    columns = on_grid(rng, n)
    for spec in ("{l2_ball: 0.2}", "{l1_ball: 0.3}", "{box: [-0.1, 0.3]}", "{simplex: 0.5}"):
        program = program_of(model=f"set: {spec}\n  ridge: 30")
        found, _ = run(program, columns, np.zeros(n, dtype=np.int64), (1, 1))
        rows = program.bound(columns, n).rows / 2**16
        plain = least_squares(rows[:, :3], rows[:, 3:], np.array([n]), program.set, 30.0)
        np.testing.assert_allclose(found["theta"].value[0, 0], plain[0, 0], atol=1e-6)
        assert program.set.contains(found["theta"].value[0], 1e-9).all()


def test_the_paper_s_solver_comes_close() -> None:
    rng, n = np.random.default_rng(5), 1500
    columns = on_grid(rng, n)
    exact = program_of(model="set: {l2_ball: 1}")
    paper = program_of(
        model="set: {l2_ball: 1}\n  solver: noisy_projected_gradient\n  steps: 20000"
    )
    cells = np.zeros(n, dtype=np.int64)
    theta = [run(p, columns, cells, (1, 1))[0]["theta"].value[0, 0] for p in (exact, paper)]
    assert np.linalg.norm(theta[0] - theta[1]) < 0.1
    assert exact.canonical() != paper.canonical()


def test_errors_are_those_of_the_released_model() -> None:
    program = program_of(model="error: true\n  set: {l2_ball: 50}")
    rng, n = np.random.default_rng(6), 3000
    columns = on_grid(rng, n)
    found, _ = run(program, columns, np.zeros(n, dtype=np.int64), (1, 1))
    assert np.isnan(found["mse"].value).all() and np.isnan(found["r2"].stddev).all()
    columns = {name: np.tile(column, 8) for name, column in columns.items()}
    n *= 8
    found, _ = run(program, columns, np.zeros(n, dtype=np.int64), (1, 1))
    everything = np.ones(n, dtype=bool)
    rest = columns["y"] - np.stack([columns["u"], columns["v"], everything], 1) @ lstsq(
        columns, everything
    )
    assert found["mse"].value[0, 0, 0] == pytest.approx((rest**2).mean(), rel=1e-9)
    assert found["r2"].value[0, 0, 0] == pytest.approx(1 - rest.var() / columns["y"].var())
    assert (found["mse"].stddev > 0).all() and (found["r2"].stddev > 0).all()


def many_releases(count: int, **changed: Any) -> tuple[Any, dict[str, Released]]:
    """Releases of many keys of the same events, which differ in their noise alone."""
    program = program_of(**changed)
    rng, n = np.random.default_rng(7), 40_000
    columns = on_grid(rng, n)
    leaf = program.accumulate(program.bound(columns, n).rows, np.zeros(n, dtype=np.int64), 1)
    stream = np.repeat(leaf[None], count, axis=1)
    keys = [str(i).encode() for i in range(count)]
    _, noisy = program.step(program.init(count), stream, lambda p: KeyedNoise(ROOT, p, keys, 0))
    return program, {one.name: one for one in program.solve(noisy, np.arange(1))}


def test_models_are_scored_on_noise_that_they_have_not_seen() -> None:
    """Two sums over the same leaves, whose losses are the budget; other noise in each."""
    whole, split = program_of(), program_of(model="error: true\n  set: {l2_ball: 50}")
    assert whole.scores is None and split.scores is not None
    main, other = split.parts[0], split.scores
    assert other.noise_scale / main.noise_scale == pytest.approx(math.sqrt(7), rel=1e-6)
    assert 0.999 < split.loss(None).value / whole.loss(None).value <= 1 + 1e-9
    assert split.loss(None).value > main.loss(None).value
    _, noisy = run(
        split, on_grid(np.random.default_rng(0), 9), np.zeros(9, dtype=np.int64), (1, 1),
        lambda part: KeyedNoise(ROOT, part, [b"a"], 0),
    )  # fmt: skip
    assert abs(np.corrcoef(noisy[0][0, 0], noisy[1][0, 0])[0, 1]) < 0.9


def test_pure_budgets_are_split_straight() -> None:
    split = program_of(model="error: true\n  set: {l2_ball: 50}", delta=0.0)
    assert split.scores.noise_scale / split.parts[0].noise_scale == pytest.approx(7, rel=1e-6)
    assert 0.99 < split.loss(None).value <= 1.0


def test_bands_are_what_the_noise_does() -> None:
    """Coefficients, errors and predictions over many draws, against their plug-in deviations."""
    count = 3000
    program, found = many_releases(count, epsilon=4.0, model="error: true\n  set: {l2_ball: 50}")
    slack = 5 / math.sqrt(2 * count)
    for name in ("theta", "coefficients", "mse", "r2"):
        one = found[name]
        spread = one.value[0].std(axis=0)
        claimed = np.sqrt((one.stddev[0] ** 2).mean(axis=0))
        np.testing.assert_allclose(spread, claimed, rtol=slack + 0.05, err_msg=name)
    rng = np.random.default_rng(7)
    columns = on_grid(rng, 40_000)
    x = np.stack([columns["u"], columns["v"], np.ones(40_000)], axis=1)[:500]
    predictions = found["coefficients"].value[0] @ x.T
    typical = math.sqrt(predictions.var(axis=0).mean())
    claimed = math.sqrt((found["band"].value[0] ** 2).mean())
    assert typical == pytest.approx(claimed, rel=slack + 0.1)


def test_moments_have_the_claimed_noise_and_no_other() -> None:
    count = 4000
    program, found = many_releases(count, model="statistics: true\n  error: true")
    one = found["moments"]
    ratio = one.value[0].std(axis=0) / one.stddev[0, 0]
    slack = 5 / math.sqrt(2 * count)
    assert (abs(ratio - 1) < slack).all()
    assert (abs(2 * ratio - 1) > slack).all() and (abs(ratio / 2 - 1) > slack).all()
    (names,) = (i.labels for i in program.describe(np.arange(1)) if i.name == "moments")
    off = names.index("u v")
    assert one.stddev[0, 0, off] == pytest.approx(one.stddev[0, 0, 0] / math.sqrt(2))


@pytest.mark.parametrize("relation", ["replace_one", "add_remove", "replace_anywhere"])
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_plans_spend_their_budget_and_no_more(relation: str, delta: float) -> None:
    plan = Plan.from_config(config_of(relation=f", relation: {relation}", delta=delta))
    assert 0.99 < plan.program.loss(None).epsilon(delta) <= 1.0 + 1e-9
    assert plan.program.parts[0].sensitivity >= plan.program.rows.moments.sensitivity(relation)
    if delta == 0 and relation == "replace_anywhere":
        once = plan.program.rows.moments.sensitivity("add_remove")
        assert plan.program.parts[0].sensitivity >= 2 * once


def test_events_of_neighbours_move_a_leaf_by_the_sensitivity_at_most() -> None:
    """Through ``bound`` and ``accumulate``, as the pipeline runs them, bad values included."""
    rng, n = np.random.default_rng(8), 6000
    for changed in ({}, {"model": "clip: {features: 0.8, target: 0.5}\n  error: true"}):
        program = program_of(**changed)
        columns = {
            "u": rng.choice([0.0, 2.0, -9.0, math.nan, 1.3], n),
            "v": rng.choice([-1.0, 3.0, 1e30, 1.1], n),
            "y": rng.choice([0.0, 16.0, math.inf, 7.7], n),
        }
        leaves = program.accumulate(program.bound(columns, n).rows, np.arange(n), n)
        scaled = leaves / np.asarray(program.parts[0].scales)
        moved = np.linalg.norm(scaled[: n // 2] - scaled[n // 2 :], axis=1)
        assert moved.max() <= program.parts[0].sensitivity
        assert moved.max() > 0.5 * program.parts[0].sensitivity


def test_the_least_noise_is_chosen_and_every_sum_serves() -> None:
    plan = Plan.from_config(config_of())
    able = {a.mechanism for a in plan.alternatives if math.isfinite(a.score)}
    assert plan.alternatives[0].mechanism == "blt" and {"tree", "toeplitz", "hybrid"} <= able
    sliding = Plan.from_config(config_of(model="over: 12"))
    assert "sliding" in {a.mechanism for a in sliding.alternatives}
    endless = Plan.from_config(config_of(end="", mechanism="mechanism: {continual_sum: hybrid}"))
    assert endless.program.parts[0].name == "hybrid"
    assert Plan.from_config(config_of(end="")).program.parts[0].name == "blt"


def test_a_sliding_sum_pays_for_both_cells_of_a_moved_event() -> None:
    named = {"mechanism": "mechanism: {continual_sum: sliding}", "model": "over: 12"}
    program = program_of(relation=", relation: replace_anywhere", **named)
    moments = program.rows.moments
    assert program.parts[0].sensitivity >= 2 * moments.sensitivity("add_remove")
    blt = program_of(relation=", relation: replace_anywhere", model="over: 12\n  error: true",
                     mechanism="mechanism: {continual_sum: blt}")  # fmt: skip
    once = blt.rows.moments.sensitivity("add_remove")
    assert blt.parts[0].sensitivity >= math.sqrt(2) * once


FLOW = "{flow: {nodes: 3, edges: [[0, 1], [1, 2], [0, 2]], source: 0, sink: 2}}"
HARD = {
    "no event": {"u": [], "v": [], "y": []},
    "one event": {"u": [1.5], "v": [2.0], "y": [9.0]},
    "x = 0": {"u": [1.0] * 9, "v": [1.0] * 9, "y": [8.0] * 9},
    "collinear": {"u": np.arange(9) / 4, "v": np.arange(9) / 2 - 1, "y": np.arange(9) + 1.0},
    "constant target": {"u": np.arange(9) / 4, "v": np.arange(9) % 3, "y": [5.0] * 9},
    "outside": {"u": [99.0] * 9, "v": [-1e300] * 9, "y": [-1e300, 1e300, 0] * 3},
    "not finite": {"u": [math.nan, 1.0], "v": [1.0, 1.0], "y": [math.inf, math.nan]},
}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("solver", ["accelerated", "noisy_projected_gradient"])
@pytest.mark.parametrize("quiet", [True, False], ids=["quiet", "noisy"])
def test_hard_events_give_a_model_in_the_set(name: str, solver: str, quiet: bool) -> None:
    program = program_of(model=f"solver: {solver}\n  error: true\n  set: {{l2_ball: 2}}")
    columns = {column: np.asarray(values, float) for column, values in HARD[name].items()}
    n = len(columns["u"])
    noise = None if quiet else (lambda part: KeyedNoise(ROOT, part, [b"a"], 0))
    found, _ = run(program, columns, np.zeros(n, dtype=np.int64), (3, 1), noise)
    for one in found.values():
        silent = np.isnan(one.value) if one.name in ("mse", "r2") else np.zeros(1, dtype=bool)
        assert (np.isfinite(one.value) | silent).all(), one.name
        if one.stddev is not None:
            fine = np.isfinite(one.stddev) & (one.stddev >= 0)
            assert np.array_equal(np.isnan(one.stddev), np.isnan(one.value)), one.name
            assert (fine | silent).all(), one.name
    assert program.set.contains(found["theta"].value.reshape(3, -1), 1e-9).all()
    if quiet and solver == "accelerated" and name == "constant target":
        np.testing.assert_allclose(found["coefficients"].value[2, 0], [0, 0, 5], atol=1e-9)
    if name == "outside":
        bounded = program.bound(columns, n)
        assert bounded.clipped == 24 and bounded.non_finite == 0
    if name == "not finite":
        bounded = program.bound(columns, n)
        assert bounded.non_finite == 3 and not bounded.rows.any()


def test_one_feature_and_no_constant() -> None:
    text = CONFIG.replace("[u, v]", "[u]").replace("v: [-1, 3], ", "")
    given = {"algorithm": "regression.incremental", "more": "", "end": "", "epsilon": 1,
             "delta": 1e-6, "window": "100 ticks", "relation": "", "mechanism": "", "target": "y",
             "ranges": "",
             "model": "intercept: false\n  set: {box: [-9, 9]}\n  ridge: 0\n"
                      "  clip: {features: 1}"}  # fmt: skip
    program = Plan.from_config(PlanConfig.from_yaml(text.format(**given))).program
    assert program.dimension == 2
    rng = np.random.default_rng(9)
    u = 1 + rng.integers(-64, 65, 500) / 64
    columns = {"u": u, "y": 8 + 4 * (u - 1)}
    found, _ = run(program, columns, np.zeros(500, dtype=np.int64), (1, 1))
    np.testing.assert_allclose(found["theta"].value[0, 0], [0.5], atol=1e-12)
    np.testing.assert_allclose(found["coefficients"].value[0, 0], [4, 4], atol=1e-12)
    assert set(found) == {"theta", "coefficients"}


def test_models_do_not_depend_on_strides_or_on_other_keys() -> None:
    program = program_of(model="set: {l1_ball: 0.5}")
    rng, n = np.random.default_rng(10), 3000
    columns, cells = on_grid(rng, n), rng.integers(0, 60, n)
    leaves = program.accumulate(program.bound(columns, n).rows, cells, 60).reshape(20, 3, -1)

    def noise(keys: list[bytes], first: int) -> Any:
        return lambda part: KeyedNoise(ROOT, part, keys, first)

    _, noisy = program.step(program.init(3), leaves, noise([b"a", b"b", b"c"], 0))
    whole = program.solve(noisy, np.arange(20))
    state, pieces = program.init(1), []
    for first, last in ((0, 7), (7, 8), (8, 20)):
        state, part = program.step(state, leaves[first:last, 1:2], noise([b"b"], first))
        pieces.append(program.solve(part, np.arange(first, last)))
    for place, one in enumerate(whole):
        joined = np.concatenate([piece[place].value for piece in pieces])
        assert np.array_equal(joined[:, 0], one.value[:, 1]), one.name


@pytest.mark.parametrize(
    ("changed", "field", "words"),
    [
        ({"model": "loss: huber"}, "model.loss", "huber"),
        ({"model": "loss: absolute"}, "model.loss", "squared"),
        ({"model": "error: true\n  intercept: false"}, "model.error", "model.intercept: true"),
        ({"model": f"set: {FLOW}"}, "model.set", "projection"),
        ({"model": "clip: {gradient: 1.0}"}, "model.clip.gradient", "not a setting"),
        ({"model": "clip: {features: 0}"}, "model.clip.features", "or more"),
        ({"model": "clip: {target: .nan}"}, "model.clip.target", "finite"),
        ({"model": "curvature: 2"}, "model.curvature", "not a setting"),
        ({"model": "ridge: -1"}, "model.ridge", "0 or more"),
        ({"model": "tolerance: 0"}, "model.tolerance", "between"),
        ({"model": "steps: 0"}, "model.steps", "whole number"),
        ({"model": "solver: newton"}, "model.solver", "accelerated"),
        ({"model": "over: 0"}, "model.over", r"2\^40"),
        ({"model": "over: last"}, "model.over", "all"),
        ({"model": "every: 4"}, "model.every", "not a setting"),
        ({"model": "solver: noisy_projected_gradient\n  tolerance: 1e-3"}, "model.tolerance",
         "model.steps"),
        ({"target": "[y, y]"}, "model.target", "twice"),
        ({"target": "[]"}, "model.target", "at least one"),
        ({"target": "[y, u]"}, "model.target", "predict itself"),
        ({"target": "[y, 3]"}, "model.target", "column"),
        ({"mechanism": "mechanism: {continual_sum: forest}"}, "mechanism.continual_sum", "blt"),
        ({"mechanism": "mechanism: {continual_sum: tree, buffers: 3}"}, "mechanism.buffers",
         "tree"),
        ({"mechanism": "mechanism: {continual_sum: tree}", "end": ""},
         "mechanism.continual_sum", "end"),
        ({"algorithm": "regression.two_trees", "target": "[y]"}, "model.target", "one column"),
        ({"algorithm": "regression.two_trees", "end": ""}, "clock.end", "number of ticks"),
        ({"algorithm": "regression.two_trees", "delta": 0}, "privacy.delta", "above 0"),
    ],
)  # fmt: skip
def test_refused_by_name(changed: Any, field: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        Plan.from_config(config_of(**changed))
    assert caught.value.field.startswith(field)


@pytest.mark.slow
def test_wide_models_are_priced_in_little_memory() -> None:
    names = [f"f{i}" for i in range(199)]
    data = config_of().to_dict()
    data["model"].update(features=names, ranges={**dict.fromkeys(names, [0, 1]), "y": [0, 1]})
    plan = Plan.from_config(PlanConfig.from_dict(data))
    assert plan.program.dimension == 20_300
    assert plan.program.state_bytes() < 2 * 10**6
    assert len(str(plan.program.canonical())) < 50_000


def test_without_a_number_each_direction_is_lifted_by_itself() -> None:
    """What many events show is not pulled at all; what none shows is lifted to twice the lift."""
    program = program_of(model="set: {l2_ball: 2}\n  ridge:")
    assert program.canonical()["ridge"] == "lift"
    assert program_of().canonical()["ridge"] == (0.0).hex(), "another ridge is another plan"
    deviation = program.stddev(np.array([11]))
    (lift,) = lift_for(deviation, prior_of(program.set), program.set.dimension)
    prior = 2 / math.sqrt(6)
    assert lift == pytest.approx(deviation[0] * math.sqrt(1 + 2 / 2) / prior)
    assert prior_of(L2Ball(3.0, 8)) == pytest.approx(3 / 4)
    assert prior_of(L1Ball(3.0, 16)) == pytest.approx(3 / math.sqrt(10))  # few, or a single one
    matrix = np.diag([1e6 * lift, 3 * lift, -lift])[None]
    quadratic = PrivateQuadratic(matrix, np.ones((1, 1, 3)), 0.0, np.array([lift]))
    found = np.diagonal(quadratic.convex[0]) / lift
    np.testing.assert_allclose(found, [1e6, 3 + 1 / 3, 2])
    np.testing.assert_allclose(quadratic.added[0] / lift, [3, 1 / 3, 0], atol=1e-5)


def test_an_event_spread_evenly_over_its_ranges_is_as_long_as_the_clip() -> None:
    plain = config_of(model="ridge: 0\n  clip: {}")
    plan = Plan.from_config(plain)
    program: Any = plan.program
    assert program.rows.moments.reach == pytest.approx(math.sqrt(2 / 3 + 1))
    said = [text for text in plan.warnings if "Without model.clip.features" in text]
    assert len(said) == 1 and "of 1.73, which no event exceeds" in said[0]


def test_adassp_pulls_by_what_is_not_certain_of_the_least_eigenvalue() -> None:
    stddev, d = np.array([2.0, 2.0, 2.0, 0.0]), 4
    wanted = 2 * math.sqrt(4 * math.log(2 * 16 / 0.05))
    noise = 2 * math.sqrt(8)
    least = np.array([-3.0, noise + 1, 1000.0, 0.0])
    np.testing.assert_allclose(adassp_for(stddev, least, d), [wanted, wanted - 1, 0, 0])
    program = program_of(model="set: {l2_ball: 2}\n  ridge: adassp")
    assert program.canonical()["ridge"] == "adassp"
    lattice = np.zeros((1, 1, program.dimension))
    assert np.isfinite(program.solve((lattice,), np.array([3]))[0].value).all()
    same = program_of(model="set: {l2_ball: 2}\n  ridge: default").canonical()
    assert same == program_of(model="set: {l2_ball: 2}\n  ridge:").canonical()


def test_predicted_risks_are_those_of_the_model_they_state() -> None:
    """Coefficients drawn as the prior says, moments spread evenly, noise as known."""
    rng = np.random.default_rng(5)
    events, s, t, d, runs = 3000.0, 40.0, 0.3, 4, 4000
    eigenvalue = events / 3
    truth = t * rng.standard_normal((runs, d))
    noise = s * math.sqrt(1 + d * t * t / 2) * rng.standard_normal((runs, d))
    lift = s**2 * (1 + d * t * t / 2) / (t * t * eigenvalue)
    adassp = float(adassp_for(np.array([s]), np.array([eigenvalue]), d)[0])
    for rule, pull in ((None, lift), ("adassp", adassp), (500.0, 500.0), (0.0, 0.0)):
        model = (eigenvalue * truth + noise) / (eigenvalue + pull)
        seen = np.mean(np.sum((model - truth) ** 2, axis=1)) * eigenvalue / events
        assert predicted(rule, events, s, t, d) == pytest.approx(seen, rel=0.06)
    risks = [predicted(rule, events, s, t, d) for rule in (None, "adassp", 500.0, 0.0)]
    assert min(risks) == risks[0]
