"""One release of all rows is the release of a clock with one tick, for whatever is registered."""

from __future__ import annotations

import math
import random
import re
from pathlib import Path
from typing import Any

import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

import weir
from tests.contracts import versions
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.registry import AGGREGATES, CONTINUAL_SUMS

CLOCK = "clock: {start: 2024-01-01T00:00:00Z, period: 1d, end: 2024-01-02T00:00:00Z}"
OF_TICKS = (", protect_for: all", ", per: all", "ticks: 1, ")
USERS = """
schema: {time: t, unit: w}
key: {column: k, declared: [east, north, west]}
privacy: {epsilon: 2.0, delta: 1e-5, protect_for: all, unit: user, per: all,
          contributions: {ticks: 1, keys: 2, events: 2}}
aggregates:
  visits: {count: events}
  paid: {sum: y, clip_user: [0, 20]}
  usual: {mean: y, clip: [0, 10], of: users}
  people: {count: users, per: period}
"""
EVENTS = versions.AGGREGATES.replace("OVER", "all") + "  half: {quantile: y, at: [0.5]}\n".replace(
    "[0.5]", "[0.5], edges: {linear: [0, 16, 32]}"
)
HEAD = """
schema: {time: t}
key: {column: k, declared: [east, north, west]}
privacy: {epsilon: 2.0, delta: 1e-5, protect_for: all}
"""


def cases() -> dict[str, str]:
    """A config with a clock of one tick for each continual sum and noise, unit and model."""
    found = {"users": USERS, "events": HEAD + EVENTS}
    found["regression"] = HEAD + versions.MODEL.replace("NAME", "regression.incremental").replace(
        "SET", "l2_ball"
    )
    for name in CONTINUAL_SUMS.own:
        for noise in CONTINUAL_SUMS[name].kinds if CONTINUAL_SUMS[name].serves((None,)) else ():
            text = HEAD + versions.AGGREGATES.replace("OVER", "all")
            text += f"mechanism: {{continual_sum: {name}, noise: {noise}}}\n"
            pure = text.replace("delta: 1e-5", "delta: 0")
            found[f"{name}/{noise}"] = pure if noise == "k_norm" else text
    return found


CASES = cases()


def test_every_aggregate_is_tried() -> None:
    assert all(f"{name}:" in " ".join(CASES.values()) for name in AGGREGATES.own)


def both(text: str) -> tuple[Plan, Plan]:
    """Plans with a clock of one tick, and without a clock. Equal mechanisms are named."""
    if "mechanism" not in text and "model:" not in text:
        text += "mechanism: {continual_sum: independent}\n"
    once = text.replace("time: t, ", "").replace("{time: t}", "{}").replace(", over: [all]", "")
    for words in OF_TICKS:
        once = once.replace(words, "")
    return Plan.from_yaml(f"name: n\n{CLOCK}\n{text}"), Plan.from_yaml(f"name: n\n{once}")


@pytest.mark.parametrize("case", CASES)
def test_it_is_the_program_of_a_clock_of_one_tick(case: str) -> None:
    try:
        clocked, once = both(CASES[case])
    except ConfigError as error:
        assert "mechanism" in error.field, error  # it does not serve a clock so short
        return
    assert once.clock.once and once.clock.ticks == 1
    assert once.program.canonical() == clocked.program.canonical()
    assert once.program.loss(None) == clocked.program.loss(None)
    spread = [[out.stddev_worst for out in plan.outputs] for plan in (once, clocked)]
    assert spread[0] == pytest.approx(spread[1], rel=0, abs=0, nan_ok=True)
    assert once.digest != clocked.digest
    assert not re.search(r"\bticks?\b|stream|period", once.guarantee.statement)


def gaussian(epsilon: float, delta: float, sensitivity: float) -> float:
    """The exact Gaussian mechanism (Balle, Wang 2018, Theorem 8), solved here by bisection."""

    def over(sd: float) -> float:
        ratio, shift = sensitivity / (2 * sd), epsilon * sd / sensitivity
        return float(ndtr(ratio - shift) - math.exp(epsilon) * ndtr(-ratio - shift) - delta)

    return float(brentq(over, 1e-3 * sensitivity, 1e4 * sensitivity, xtol=1e-13, rtol=1e-13))


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-9), (8.0, 1e-5)])
@pytest.mark.parametrize(
    ("unit", "outputs", "sensitivity"),
    [
        ("", "{n: {count: events}}", 1.0),
        ("", "{n: {sum: x, clip: [-3, 5]}}", 5.0),
        ("", "{n: {count: events}, m: {count: events, where: x > 1}}", math.sqrt(2)),
        (", unit: user, contributions: {keys: 4, events: 3}", "{n: {count: events}}", 6.0),
        (", unit: user, contributions: {keys: 4, events: 3}", "{n: {count: users}}", 2.0),
        (", unit: user, contributions: {keys: 4, events: 3, total: 2}", "{n: {count: users}}",
         math.sqrt(2)),
    ],
)  # fmt: skip
def test_its_error_is_that_of_the_exact_gaussian_mechanism(
    epsilon: float, delta: float, unit: str, outputs: str, sensitivity: float
) -> None:
    plan = Plan.from_yaml(
        f"name: n\nschema: {{{'unit: u' if unit else ''}}}\n"
        "key: {column: k, declared: [a, b, c, d]}\n"
        f"privacy: {{epsilon: {epsilon}, delta: {delta}{unit}}}\naggregates: {outputs}\n"
        "mechanism: {noise: gaussian}\n"
    )
    exact = gaussian(epsilon, delta, sensitivity)
    assert plan.outputs[0].stddev_worst == pytest.approx(exact, rel=1e-8)
    assert plan.outputs[0].stddev_worst >= exact * (1 - 1e-9)


@pytest.mark.parametrize(
    ("privacy", "outputs", "noise", "error"),
    [
        ("epsilon: 1, delta: 1e-6", "{n: {count: events}}", "k_norm", math.sqrt(2)),
        ("epsilon: 1, delta: 1e-6, unit: user, contributions: {keys: 4, events: 3}",
         "{n: {count: users}}", "k_norm", 4 * math.sqrt(2)),
        ("epsilon: 1, delta: 1e-6, unit: user, contributions: {keys: 400, events: 1}",
         "{n: {count: users}}", "gaussian", gaussian(1, 1e-6, 20)),
        ("epsilon: 1, delta: 1e-12", "{n: {count: events}}", "gaussian", gaussian(1, 1e-12, 1)),
    ],
)  # fmt: skip
def test_pure_noise_is_taken_where_it_has_less_error(
    privacy: str, outputs: str, noise: str, error: float
) -> None:
    keys = ", ".join(f"k{i}" for i in range(400))
    unit = "unit: u" if "user" in privacy else ""
    plan = Plan.from_yaml(
        f"name: n\nschema: {{{unit}}}\nkey: {{column: k, declared: [{keys}]}}\n"
        f"privacy: {{{privacy}}}\naggregates: {outputs}\n"
    )
    (chosen,) = (a for a in plan.alternatives if a.chosen)
    assert chosen.noise == noise
    assert plan.outputs[0].stddev_worst == pytest.approx(error, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_a_user_moves_no_more_than_the_plan_is_calibrated_for(
    relation: str, tmp_path: Path
) -> None:
    """All rows of a user, or those and any others, over next to no noise. Under one secret bounds
    keep the same rows of all others."""
    secret = tmp_path / "secret.key"
    secret.write_text("ab" * 32)
    secret.chmod(0o600)
    draw, config = random.Random(7), once_of_users(relation)

    def rows(user: str, count: int, among: str = "abcde") -> list[dict[str, Any]]:
        return [
            {"u": user, "k": draw.choice(among), "x": draw.choice([-90.0, 5.0, 90.0])}
            for _ in range(count)
        ]

    factor = 2.0 if relation == "replace_one" else 1.0
    worst = 0.0
    for turn in range(4):
        others = [row for n in range(6) for row in rows(f"o{n}", draw.choice([1, 9, 40]))]
        mine = rows("me", 60, "abc")
        instead = rows("me", 60, "de") if factor == 2 else []
        with_me, without = (
            released([*others, *part], config, tmp_path / f"{turn}{at}", secret)
            for at, part in enumerate((mine, instead))
        )
        squares = {"n": 0.0, "s": 0.0, "p": 0.0}
        for spot in with_me.keys() | without.keys():
            squares[spot[1]] += (with_me.get(spot, 0.0) - without.get(spot, 0.0)) ** 2
        # Two keys: 3 events each, of at most 10 each, and once each.
        for name, most in (("n", 2 * 9.0), ("s", 2 * 900.0), ("p", 2 * 1.0)):
            worst = max(worst, squares[name] / (factor * most))
            assert squares[name] <= factor * most * (1 + 1e-3), name
    assert worst > 0.9  # an event more in a key would be seen


def once_of_users(relation: str) -> dict[str, Any]:
    return {
        "name": "n",
        "schema": {"unit": "u"},
        "key": {"column": "k", "declared": list("abcde")},
        "privacy": {
            "epsilon": 1e9, "delta": 1e-6, "unit": "user", "relation": relation,
            "contributions": {"keys": 2, "events": 3},
        },
        "aggregates": {
            "n": {"count": "events"}, "p": {"count": "users"}, "s": {"sum": "x", "clip": [-10, 10]},
        },
    }  # fmt: skip


def released(
    rows: list[dict[str, Any]], config: dict[str, Any], folder: Path, secret: Path
) -> dict[tuple[str, str], float]:
    found = weir.release(rows, {**config, "sink": {"parquet": str(folder)}}, secret_file=secret)
    return {(row.key, row.name): row.value or 0.0 for row in found}
