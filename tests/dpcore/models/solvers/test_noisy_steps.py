"""Preconditioned steps: sensitivity by replay, the noise that is paid for, the set, refusals."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.constant_noise import NoNoise
from tests.dpcore.models.solvers.test_queries import D, P, design, problem, random_rows
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.bounded_events import Events
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.balls import L2Ball
from weir.dpcore.models.kit.short_rows import matrix_of, vector_of
from weir.dpcore.models.solvers.noisy_steps import NoisySteps, nearest
from weir.dpcore.models.solvers.queries import Queries
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate

ROOT = RootKey.derive(bytes(range(32)), "test", bytes(32))
BUDGETS = [PrivacyLoss("gdp", 0.5), PrivacyLoss("zcdp", 0.2), PrivacyLoss("pure", 4.0)]


class Recorded(Queries):
    """Keeps what gets noise, its sensitivity, its share, and the answer."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.asked: list[tuple[Any, float, Fraction, Any]] = []

    def _answer(self, exact: Any, sensitivity: float, share: Fraction, level: int) -> Any:
        answer = super()._answer(exact, sensitivity, share, level)
        self.asked.append((exact, sensitivity, share, answer))
        return answer


def asked_of(rows: Any, changes: int = 1, reach: float = 1.1) -> list[tuple[Any, float]]:
    """Sums of squared lengths and of second moments, with their sensitivities."""
    one, digests = problem(changes=changes), np.ones((1, 2), np.uint64)
    queries = Recorded(one, design(rows), NoNoise(3), digests, BUDGETS[0], Fraction(1))
    queries.squared_lengths(Fraction(1, 4))
    queries.second_moments(np.array([reach]), Fraction(1, 4))
    return [(exact[0], sensitivity) for exact, sensitivity, *_ in queries.asked]


@pytest.mark.parametrize("changes", [1, 2])
def test_swapped_rows_move_the_sums_by_no_more_than_is_paid_for(changes: int) -> None:
    rng, worst = np.random.default_rng(4), np.zeros(2)
    for trial in range(24):
        rows, other = random_rows(rng, 5), random_rows(rng, 5)
        if trial % 3 == 1:  # at right angles to what takes its place
            rows[:, :P], other[:, :P] = (1, 0, 0), (-1, 0, 0)
        elif trial % 3 == 2:  # as long as rows are
            rows[:, :P] = 1
        reach = float(rng.choice([0.2, 1.1, 1.9]))
        base = asked_of(rows, changes, reach)
        swapped = np.concatenate([other[:changes], rows[changes:]])
        for near in (swapped, rows[changes:], np.concatenate([rows, other[:changes]])):
            for place, ((a, most), (b, _)) in enumerate(
                zip(base, asked_of(near, changes, reach), strict=True)
            ):
                moved = math.sqrt(sum(int(v) ** 2 for v in (a - b).tolist()))
                assert moved <= most
                worst[place] = max(worst[place], moved / most)
    assert (worst > [0.99, 0.9]).all()


def test_rows_that_were_not_shortened_would_move_moments_by_more() -> None:
    """A mutant: second moments of rows over a reach that is below their length."""
    rows = np.ones((2, P + 1))
    (_, (short, most)) = asked_of(rows, reach=0.5)
    long = vector_of(np.ones((D, D)) * 4) * 2.0**20
    assert np.linalg.norm(short) <= 2 * most and np.linalg.norm(long) > 2 * most


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda b: b.kind)
def test_a_run_pays_for_all_that_it_asks_and_no_more(budget: PrivacyLoss) -> None:
    one, rows = problem({"huber": 0.5}), random_rows(np.random.default_rng(0), 200)
    solver = NoisySteps.make(one, None, budget)
    keyed, digests = KeyedNoise(ROOT, 0, (b"k",), 3), np.ones((1, 2), np.uint64)
    queries = Recorded(one, design(rows), keyed, digests, budget, Fraction(1))
    solver.solve(queries, np.zeros((1, D)), np.zeros(1))
    assert sum(share for *_, share, _ in queries.asked) == queries.paid.share == 1
    assert len(queries.asked) == 3 + solver.iterations
    assert all((exact != answer).any() for exact, *_, answer in queries.asked)  # none is un-noised


@pytest.mark.slow
@pytest.mark.parametrize("budget", BUDGETS, ids=lambda b: b.kind)
def test_moments_have_the_noise_that_they_cost(budget: PrivacyLoss) -> None:
    k, quarter = 1500, Fraction(1, 4)
    keyed = KeyedNoise(ROOT, 0, tuple(b"%d" % i for i in range(k)), 3)
    one, digests = problem(), np.ones((k, 2), np.uint64)
    queries = Recorded(one, design([]), keyed, digests, budget, Fraction(1))
    moments, stddev = queries.second_moments(np.ones(k), quarter)
    ((_, sensitivity, *_),) = queries.asked
    drawn = np.stack([vector_of(item) for item in moments])
    ratio = drawn.std() / stddev
    assert ratio == pytest.approx(1, abs=0.05) and not 0.9 < 1.2 * ratio < 1.1
    if budget.kind != "pure":
        mu = budget.value if budget.kind == "gdp" else math.sqrt(2 * budget.value)
        assert sensitivity / 2**20 / stddev == pytest.approx(mu * math.sqrt(quarter), rel=1e-3)
    assert matrix_of(drawn[0], D) == pytest.approx(moments[0])
    again = Recorded(one, design([]), keyed, digests + 1, budget, Fraction(1))
    other, _ = again.second_moments(np.ones(k), quarter)
    assert (other != moments).all()  # other data: noise is never used twice


def test_the_nearest_point_of_a_ball_is_nearest_in_the_metric() -> None:
    rng, ball = np.random.default_rng(3), L2Ball(1.0, D)
    root = rng.normal(size=(D, D))
    metric, point = root @ root.T + 0.1 * np.eye(D), 3 * rng.normal(size=D)
    z = nearest(ball, point, metric)
    assert ball.contains(z[None]).all()
    others = ball.project(z + 0.2 * rng.normal(size=(4000, D)))
    off = others - point
    least = np.einsum("ij,jk,ik->i", off, metric, off).min()
    assert (z - point) @ metric @ (z - point) <= least * (1 + 1e-6)
    assert (nearest(ball, z / 2, metric) == z / 2).all()


CONFIG = """
name: s
schema: {{time: t, id: i}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-02T00:00:00Z}}
privacy: {{epsilon: 1, delta: {delta}, protect_for: all}}
model: {{algorithm: regression.erm, solver: steps, features: {features}, target: y, every: 24,
  ranges: {ranges}{more}}}
"""


def plan(more: str = "", features: str = "[u]", ranges: str = "{u: [0, 1], y: [0, 1]}") -> Plan:
    delta = "0" if "delta" in more else "1e-6"
    more = more.replace("delta", "")
    return Plan.from_yaml(CONFIG.format(delta=delta, features=features, ranges=ranges, more=more))


def test_its_set_is_wide_unless_one_is_given() -> None:
    assert plan().program.problem.set.reach == 10  # type: ignore[attr-defined]
    assert plan(", set: {l2_ball: 3}").program.problem.set.reach == 3  # type: ignore[attr-defined]
    assert plan("delta").alternatives[0].noise == "k_norm"


def plan_of(model: str, features: int = 1) -> Plan:
    """Of a model that names no solver, unless ``model`` does."""
    names = [f"x{j}" for j in range(features)]
    ranges = ", ".join(f"{name}: [0, 1]" for name in (*names, "y"))
    text = CONFIG.replace(", solver: steps", "").format(
        delta="1e-6", features=f"[{', '.join(names)}]", ranges=f"{{{ranges}}}", more=model
    )
    return Plan.from_yaml(text)


@pytest.mark.parametrize(
    ("model", "features", "solver", "reach", "why"),
    [
        ("", 1, "steps", 10, "by default: the loss has no corner"),
        (", set: {l2_ball: 3}", 1, "steps", 3, "by default"),
        (", loss: logistic", 255, "steps", 10, "by default"),
        (", loss: absolute", 1, "noisy_projected_gradient", 2, "absolute has a corner"),
        ("", 256, "noisy_projected_gradient", 2, "257 coefficients are more than the 256"),
        (", solver: noisy_sgd", 1, "noisy_sgd", 2, "noisy sgd"),
        (", solver: noisy_projected_gradient", 1, "noisy_projected_gradient", 2, "gradient"),
    ],
)
def test_steps_are_the_default_where_they_serve_and_a_named_solver_wins(
    model: str, features: int, solver: str, reach: float, why: str
) -> None:
    made = plan_of(model, features)
    program: Any = made.program
    assert program.solver.name == solver and program.problem.set.reach == reach
    (fitted,) = (words for name, words in made.facts if name == "fitted by")
    assert why in fitted and ("default" in fitted) == (", solver" not in model)
    section: Any = made.config.model
    settled = section.settled(made.config.terms())
    assert settled.solver == solver and settled.set == {"l2_ball": reach}
    assert settled.settled(made.config.terms()) is settled


def test_the_default_releases_what_the_named_solver_does() -> None:
    assert plan_of("").digest == plan_of(", solver: steps").digest


def test_what_it_cannot_serve_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="steps': needs a loss without a corner"):
        plan(", loss: absolute")
    names = [f"x{j}" for j in range(256)]
    ranges = ", ".join(f"{name}: [0, 1]" for name in (*names, "y"))
    with pytest.raises(ConfigError, match="second moments of 257 coefficients, more than 256"):
        plan(features=f"[{', '.join(names)}]", ranges=f"{{{ranges}}}")


HIDDEN = """
name: hidden
schema: {time: t, id: i}
clock: {start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-01T01:00:00Z}
privacy: {epsilon: 1, delta: 1e-6, protect_for: all}
expect: {events: 1000}
model:
  algorithm: regression.erm
  solver: steps
  every: 1
  cap: 1000
  features: [a, b, c]
  target: y
  set: {l2_ball: 4}
  ranges: {a: [-1, 1], b: [-1, 1], c: [-1, 1], y: [-1, 1]}
"""


def hides(*swaps: tuple[str, str]) -> list[str]:
    """Warnings that noise may hide the model."""
    text = HIDDEN
    for swap in swaps:
        assert swap[0] in text
        text = text.replace(*swap)
    return [words for words in Plan.from_yaml(text).warnings if "Noise may hide" in words]


@pytest.mark.slow
def test_a_plan_says_where_a_constant_would_do_as_well() -> None:
    few, classes = ("events: 1000", "events: 200"), ("target: y", "target: y\n  loss: logistic")
    assert hides() == [] == hides(classes)
    (words,) = hides(few)
    assert "of the 0.06 that a constant loses. Take more records, fewer features" in words
    assert hides(few, ("solver: steps", "solver: noisy_projected_gradient"))
    assert hides(few, ("expect: {events: 200}", "")) == []
    endless = (", end: 2024-01-01T01:00:00Z", ""), ("cap: 1000", "cap: 9\n  rows: 5000")
    assert hides(("events: 1000", "events: 1"), *endless)
    (words,) = hides(("events: 1000", "events: 40"), classes)
    assert "of the 0.6931 that a constant loses" in words


@pytest.mark.slow
def test_the_predicted_excess_is_of_the_size_that_is_measured() -> None:
    rng, n = np.random.default_rng(1), 1000
    x = rng.uniform(-1, 1, (n, 3))
    y = np.clip(x @ np.array([0.5, -0.3, 0.2]) + 0.1 * rng.standard_normal(n), -1, 1)
    plan = Plan.from_yaml(HIDDEN)
    solver, schedule = plan.program.solver, plan.program.schedule  # type: ignore[attr-defined]
    share = schedule.share(schedule.last_run(1))
    predicted = solver.expected(schedule.budget, share, n)
    points = np.concatenate([x, np.ones((n, 1))], axis=1)
    best = np.linalg.lstsq(points, y, rcond=None)[0]
    columns = {**dict(zip("abc", x.T, strict=True)), "y": y}
    events = Events(np.full(n, 1_704_067_200_000_000), None, columns, [f"e{i}" for i in range(n)])
    excess = []
    for seed in range(6):
        (run,) = simulate(plan, events, bytes([seed]) * 32)
        value = run.released[0].value
        assert value is not None
        excess.append(np.mean((points @ (value[-1, 0] - best)) ** 2) / 2)
    assert predicted / 4 < np.mean(excess) < 4 * predicted
    assert solver.expected(schedule.budget, share, 100) > 8 * predicted
