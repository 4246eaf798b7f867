"""Fits by stochastic steps: how far a record moves them, step by step and in the stream."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.bounded_events import Events
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.fitter import Draws, Stepped
from weir.dpcore.models.blocks.level import level_for
from weir.dpcore.models.blocks.objective import Objective, Softmax
from weir.dpcore.models.blocks.stochastic import Stochastic, dealt, stochastic_level
from weir.dpcore.models.kit.loss import Hinge, Huber, Logistic
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.plan import Plan
from weir.dpcore.program import Released
from weir.dpcore.simulate import simulate

ROOT = RootKey.derive(bytes(range(32)), "steps", bytes(32))
LOSSES: dict[str, Any] = {
    "logistic": Logistic(),
    "hinge": Hinge(0.5),
    "huber": Huber(0.3),
    "softmax": Softmax(3),
}
BUDGET = PrivacyLoss("pure", 1.0)
DRAWS = Draws(KeyedNoise(ROOT, 0, [b""], 0), 0, 1, np.zeros(2, dtype=np.uint64))


def fitter(name: str, n: int, strength: float, passes: int) -> Stepped:
    made = Objective(LOSSES[name], 2, True, 1.0, strength)
    return Stepped(made, stochastic_level(made, 1, n, 1, BUDGET, Fraction(1), passes))


def block(name: str, n: int, seed: int) -> tuple[Any, Any]:
    """Features of length 1, and targets as rows hold them."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    if name == "softmax":
        return x, rng.integers(0, 3, n) - 1.0
    return x, np.sign(rng.standard_normal(n))


def ended(made: Stepped, x: Any, y: Any, centre: Any, said: Any = None) -> Any:
    """Where steps end. said: which rows are not void."""
    places = np.arange(len(y)) if said is None else np.flatnonzero(said)
    fit = made.fit(x[places], y[places], centre, DRAWS, places=places)
    return fit.advance(*fit.start(), 0, made.steps)[0]


@pytest.mark.parametrize("name", LOSSES)
def test_no_replaced_record_moves_the_steps_by_more_than_is_paid_for(name: str) -> None:
    """Whatever place it has, and void rows among them."""
    most = 0.0
    for n, strength, passes in ((70, 0.5, 1), (70, 0.02, 3), (128, 0.1, 2), (1, 0.1, 2)):
        made = fitter(name, n, strength, passes)
        paid = made.level.noise.moved
        for seed in range(6):
            x, y = block(name, n, seed)
            if seed % 3 == 0:  # duplicates of one record
                x[:], y[:] = x[0], y[0]
            centre = np.random.default_rng(seed).standard_normal(made.dimension) * (seed % 4)
            whole = ended(made, x, y, centre)
            orders = [dealt(n, number) for number in range(passes)]
            for at in {orders[0][0], orders[0][-1], orders[-1][0], orders[-1][-1], n // 2}:
                fresh, label = block(name, 1, 100 + seed)
                for other in range(3):
                    p, t, said = x.copy(), y.copy(), np.ones(n, dtype=bool)
                    p[at], t[at] = (fresh[0], label[0]) if other == 0 else (-x[at], y[at])
                    said[at] = other != 2
                    moved = float(np.linalg.norm(ended(made, p, t, centre, said) - whole))
                    assert moved <= paid
                    most = max(most, moved / paid)
    assert most > 0.3


def test_the_sensitivity_is_attained_where_losses_are_straight() -> None:
    made = fitter("huber", 96, 2.0, 4)
    x, y = block("huber", 96, 1)
    whole = ended(made, x, y, np.zeros(3))
    y[5] = -y[5]
    moved = float(np.linalg.norm(ended(made, x, y, np.zeros(3)) - whole))
    exact = made.objective.moves(96.0)
    assert 0.9 * exact < moved <= made.level.noise.moved < 1.1 * exact


def test_steps_that_break_the_rule_are_caught_by_the_replay() -> None:
    """1 / (10 sqrt(t)), as in an experiment that its own bound does not cover."""

    class Long(Stochastic):
        def length(self, t: int) -> float:
            return 10 / (self.convexity * t)

    good = fitter("huber", 96, 0.5, 2)
    fields = {name: getattr(good.level, name) for name in good.level.__dataclass_fields__}
    made = Stepped(good.objective, Long(**fields))
    x, y = block("huber", 96, 1)
    worst = 0.0
    for at in range(96):
        t = y.copy()
        t[at] = -t[at]
        moved = np.linalg.norm(ended(made, x, t, np.zeros(3)) - ended(made, x, y, np.zeros(3)))
        worst = max(worst, float(moved))
    assert worst > made.level.noise.moved


@pytest.mark.parametrize("strength", [0.01, 0.3])
def test_every_step_keeps_to_the_rule_and_a_pass_meets_each_row_once(strength: float) -> None:
    level = fitter("logistic", 333, strength, 5).level
    gamma, beta = level.convexity, level.smoothness
    lengths = np.array([level.length(t) for t in range(1, level.total + 1)])
    assert (lengths <= 2 / (beta + gamma)).all() and lengths[0] == 1 / beta
    assert (lengths * gamma * np.arange(1, level.total + 1) <= 1 + 1e-12).all()
    left = np.array([np.prod(1 - gamma * lengths[t:]) for t in range(1, level.total + 1)])
    assert (lengths * left <= (1 + 1e-9) / (gamma * level.total)).all()  # by brute force
    for number in range(level.passes):
        met = np.concatenate([level.batch(number, i) for i in range(level.batches)])
        assert sorted(met) == list(range(333))
        sizes = [len(level.batch(number, i)) for i in range(level.batches)]
        share = (beta - gamma) / Objective(LOSSES["logistic"], 2, True, 1.0, strength).smoothness
        assert max(sizes) * level.batches / 333 <= share
    assert not np.array_equal(dealt(333, 0), dealt(333, 1))


def test_more_passes_end_nearer_to_the_minimiser_at_the_same_noise() -> None:
    made = Objective(LOSSES["logistic"], 2, True, 1.0, 0.05)
    certified = level_for(made, 1, 640.0, 640, 1, BUDGET, Fraction(1))
    x, y = block("logistic", 640, 3)
    y = np.sign(x[:, 0] + 0.3 * y)
    points, w = made.points(x), np.zeros(3)
    z = w
    for k in range(certified.minimiser.steps):
        w, z = certified.minimiser.step(
            k, w, z, lambda v: made.gradient(v, np.zeros(3), points, y, 640.0)
        )
    ends = {}
    for passes in (1, 8, 64):
        one = fitter("logistic", 640, 0.05, passes)
        ends[passes] = float(np.linalg.norm(ended(one, x, y, np.zeros(3)) - w))
        assert one.level.noise.variance == pytest.approx(certified.noise.variance, rel=1e-6)
    assert ends[64] < ends[8] / 4 < ends[1] / 8
    assert ends[8] < 0.2 * math.sqrt(3 * certified.noise.variance)


def test_a_centre_that_is_far_away_is_shortened_before_rounding_could_matter() -> None:
    made = fitter("logistic", 64, 0.1, 2)
    far = np.full(3, 1e150)
    x, y = block("logistic", 64, 1)
    fit = made.fit(x, y, far, DRAWS)
    assert np.linalg.norm(fit.centre) <= made.level.room * (1 + 1e-12)
    assert np.isfinite(ended(made, x, y, far)).all()


CONFIG = """
name: steps
schema: {{time: t, id: i{more}}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-02T00:00:00Z}}
privacy: {{epsilon: 2.0, delta: 1e-6, protect_for: all{unit}}}
model:
  algorithm: {algorithm}
  features: [u, v]
  target: y
  classes: [0, 1]
  ranges: {{u: [-1, 1], v: [-1, 1]}}
  block: {block}
{model}
"""


def plan(model: str, algorithm: str = "erm.sliding_window", block: Any = 20, **more: str) -> Plan:
    text = CONFIG.format(
        algorithm=algorithm, block=block, model=model, more=more.get("more", ""),
        unit=more.get("unit", ""),
    )  # fmt: skip
    return Plan.from_yaml(text)


def events(n: int = 200) -> Events:
    rng = np.random.default_rng(2)
    start = int(np.datetime64("2024-01-01T00:00:00", "us").astype(np.int64))
    u, v = rng.uniform(-1, 1, n), rng.uniform(-1, 1, n)
    y = (u + 0.2 * rng.standard_normal(n) > 0).astype(float)
    u[::9] = np.nan
    times = start + np.arange(n) // 10 * 3_600_000_000  # so that no id decides about a block
    return Events(times, None, {"u": u, "v": v, "y": y}, [str(i) for i in range(n)])


def theta(made: Plan, given: Events) -> Any:
    [one] = simulate(made, given, bytes(range(32)))
    found: Released = one.released[0]
    return found.value[:, 0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "algorithm", ["erm.sliding_window", "erm.continual", "erm.output_perturbation"]
)
def test_a_stream_is_followed_and_its_price_stands_beside_the_minimiser(algorithm: str) -> None:
    own = "  window: 3\n" if algorithm.endswith("window") else ""
    made, usual = plan(f"{own}  solver: sgd", algorithm), plan(f"{own}  solver: output", algorithm)
    assert {"output"} == {a.mechanism for a in made.alternatives} - {
        a.mechanism for a in usual.alternatives
    }
    assert "sgd" in {a.mechanism for a in usual.alternatives if not a.chosen}
    assert made.digest != usual.digest
    assert made.program.loss(None).epsilon(1e-6) <= 2 * (1 + 1e-9)
    loud = CONFIG.replace("epsilon: 2.0", "epsilon: 20000.0")
    own += "  regularise: 0.1\n"
    text = loud.format(algorithm=algorithm, block=20, model=f"{own}  solver: sgd\n  passes: 200",
                       more="", unit="")  # fmt: skip
    near = (
        Plan.from_yaml(text),
        Plan.from_yaml(text.replace("solver: sgd\n  passes: 200", "solver: output")),
    )
    steps, exact = (theta(one, events()) for one in near)
    assert np.array_equal(np.isnan(steps), np.isnan(exact))
    told = ~np.isnan(exact)
    assert np.abs(steps[told] - exact[told]).max() < 0.02 < np.abs(exact[told]).max()


def test_steps_serve_where_double_precision_leaves_a_certificate_no_room() -> None:
    large = {"algorithm": "erm.output_perturbation", "block": 100_000}
    with pytest.raises(ConfigError, match="solver: sgd"):
        plan("  regularise: 0.0001", **large)
    made = plan("  regularise: 0.0001\n  solver: sgd", **large)
    others = {a.mechanism: a for a in made.alternatives if not a.chosen}
    assert others["output"].epsilon_10w is None  # cannot serve, and says why
    assert made.program.loss(None).epsilon(1e-6) <= 2 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("model", "algorithm", "block", "field"),
    [
        ("  passes: 3", "erm.sliding_window", 20, "model.passes"),
        ("  solver: sgd\n  sample: 0.5", "erm.sampled", 20, "model.solver"),
        ("  solver: sgd\nexpect: {events: 5}", "erm.sliding_window", "2h", "model.solver"),
        ("  solver: newton", "erm.sliding_window", 20, "model.solver"),
        ("  solver: sgd\n  passes: 0", "erm.sliding_window", 20, "model.passes"),
        ("  solver: sgd\n  passes: 1024", "erm.output_perturbation", 1_000_000, "model.passes"),
    ],
)
def test_what_steps_cannot_serve_is_refused(
    model: str, algorithm: str, block: Any, field: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        plan(model, algorithm, block)
    assert refused.value.field == field
