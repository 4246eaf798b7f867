"""An event that counts in several groupings: what it moves in all of them is what is paid for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.accounting.joint import of_one, over_groupings
from weir.dpcore.bounded_events import Events, bounded
from weir.dpcore.leaves.keys import key_text
from weir.dpcore.plan import Plan
from weir.dpcore.pricing import calibration
from weir.dpcore.simulate import sum_leaves

TICKS, DAY = 6, 86_400_000_000
CELLS = [("paris", "shoes"), ("paris", "hats"), ("rome", "hats")]
VALUES = (0.0, 8.0, 3.0, math.nan, 1e300, -1e300)
THREE, TWO = "[[city], [city, product], []]", "[[product], [city]]"
RELATIONS = ("add_remove", "replace_one", "replace_anywhere")


def plan_of(groups: str, relation: str, mechanism: str, over: str = "all", delta: str = "1e-6"):
    return Plan.from_yaml(f"""
name: groups
schema: {{time: t}}
key: {{columns: [city, product], groups: {groups},
      declared: [[paris, shoes], [paris, hats], [rome, hats]]}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1d, end: 2024-01-07T00:00:00Z}}
privacy: {{epsilon: 1, delta: {delta}, protect_for: all, relation: {relation}}}
mechanism: {{continual_sum: {mechanism}}}
aggregates:
  n: {{count: events, over: {over}}}
  s: {{sum: x, clip: [-2, 8], over: {over}}}
""")


def leaves_of(plan: Plan, events: list[Any]) -> Any:
    """(T, K, D) of events (tick, place in CELLS, value)."""
    ticks, cells, values = zip(*events, strict=True)
    made = Events(
        plan.clock.start + np.array(ticks, dtype=np.int64) * DAY,
        [key_text(CELLS[cell]) for cell in cells],
        {"x": np.array(values)},
    )
    return sum_leaves(plan, bounded(plan, made, TICKS), TICKS)


def neighbours(plan: Plan, relation: str) -> Iterator[Any]:
    """(T, K, D): what changes of the leaves, next to a stream that has the rest."""
    rest = [(0, 0, 1.0), (1, 1, 2.0), (1, 2, 5.0)]
    without = leaves_of(plan, rest)
    cells = [(tick, cell) for tick in (0, 1, TICKS - 1) for cell in range(len(CELLS))]
    held = {
        (tick, cell, i): leaves_of(plan, [*rest, (tick, cell, value)])
        for tick, cell in cells
        for i, value in enumerate(VALUES)
    }
    if relation == "add_remove":
        yield from (leaf - without for leaf in held.values())
        return
    for (one, a), (two, b) in itertools.combinations(held.items(), 2):
        if relation == "replace_anywhere" or one[:2] == two[:2]:
            yield a - b


def worst(plan: Plan, relation: str) -> float:
    """Largest mu of the joint transcript: all running totals of all keys of all groupings."""
    changes = np.unique(np.array(list(neighbours(plan, relation))), axis=0)
    total: Any = 0.0
    for part in plan.program.parts:
        sums = part.mechanism
        spread = sums.materialize(TICKS)
        precision = np.linalg.pinv(spread @ spread.T)
        mine, scales = changes[..., list(part.coordinates)], np.asarray(sums.scales)
        assert not mine[..., scales == 0].any(), "what has no noise does not change"
        totals = np.cumsum(mine[..., scales > 0], axis=1) / scales[scales > 0]
        whitened = np.einsum("tu,nukd->ntkd", precision, totals)
        total = total + (whitened * totals).sum(axis=(1, 2, 3)) / sums.noise_scale**2
    return math.sqrt(total.max())


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("mechanism", ["tree", "blt"])
@pytest.mark.parametrize("groups", [TWO, THREE])
def test_no_neighbour_moves_all_groupings_by_more_than_is_paid(
    groups: str, mechanism: str, relation: str
) -> None:
    plan = plan_of(groups, relation, f"{mechanism}, noise: gaussian")
    paid = plan.program.loss(None)
    assert paid.kind == "gdp" and paid.epsilon(1e-6) <= 1 + 1e-9
    found = worst(plan, relation)
    assert found <= paid.value * (1 + 1e-9)
    least = 0.7 if mechanism == "tree" else 0.88 if relation == "replace_anywhere" else 0.999
    assert found >= least * paid.value, "the price is not idle"


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_replay_catches_a_price_for_one_grouping(
    relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "over_groupings", lambda sensitivity, count, kind: sensitivity)
    plan = plan_of(THREE, relation, "blt, noise: gaussian")
    assert worst(plan, relation) > 1.5 * plan.program.loss(None).value


@pytest.mark.parametrize("groups", [TWO, THREE])
def test_pure_losses_of_groupings_add_up(groups: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def spent(plan: Plan) -> float:
        (part,) = plan.program.parts
        sums = part.mechanism
        norms = [
            np.linalg.norm(change / np.asarray(sums.scales), axis=2).sum()
            for change in neighbours(plan, "add_remove")
        ]
        return float(max(norms)) / sums.noise_scale

    words = (groups, "add_remove", "independent, noise: k_norm", "1", "0")
    plan = plan_of(*words)
    paid = plan.program.loss(None).value
    assert 0.99 * paid <= spent(plan) <= paid <= 1 + 1e-9
    monkeypatch.setattr(
        calibration, "over_groupings", lambda value, count, kind: value * math.sqrt(count)
    )
    assert spent(plan_of(*words)) > 1.3


def test_factors_are_rounded_up_and_undone() -> None:
    assert over_groupings(3.0, 1, "gdp") == 3.0
    assert over_groupings(3.0, 4, "gdp") == 6.0 and over_groupings(3.0, 4, "pure") == 12.0
    assert (over_groupings(1.0, 3, "zcdp") ** 2) >= 3
    for kind, one in (("gdp", 0.5), ("zcdp", 0.25), ("pure", 0.25)):
        assert of_one(PrivacyLoss(kind, 1.0), 4).value == pytest.approx(one)  # type: ignore[arg-type]
    assert of_one(PrivacyLoss("gdp", 1.0), 1).value == 1.0
