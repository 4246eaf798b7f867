"""A plan as one event of dp_accounting: its accountants arrive at what the plan guarantees."""

from __future__ import annotations

import math

import dp_accounting
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from weir.dpcore.accounting.calibrate import zcdp_rho
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.plan import Plan

PLAN = """
name: priced
schema: {{time: at, id: id}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-11T00:00:00Z}}
privacy: {{epsilon: {epsilon}, delta: {delta}, protect_for: {window}}}
mechanism: {{{mechanism}}}
aggregates:
  n: {{count: events, over: [all, 24]}}
  s: {{sum: x, clip: [0, 10]}}
"""
DELTA = 1e-6


def plan(mechanism: str = "", epsilon: float = 1.0, delta: float = DELTA, window: str = "24h"):
    return Plan.from_yaml(PLAN.format(**locals()))


@pytest.mark.parametrize("mechanism", ["continual_sum: blt", "continual_sum: separate"])
@pytest.mark.parametrize("window", ["24h", "all"])
def test_gaussian_plans_are_priced_alike(mechanism: str, window: str) -> None:
    made = plan(mechanism, window=window)
    event = made.dp_event()
    found = PLDAccountant().compose(event).get_epsilon(DELTA)
    spent = made.guarantee.expiration[0].epsilon  # of what may be: parts may not use all
    assert found == pytest.approx(spent, rel=1e-3) and found <= 1.0 * (1 + 1e-3)
    assert RdpAccountant().compose(event).get_epsilon(DELTA) >= 0.9, "a looser accountant"


def test_concentrated_losses_are_priced_no_higher() -> None:
    event = PrivacyLoss("zcdp", zcdp_rho(1.0, DELTA)).dp_event()
    assert isinstance(event, dp_accounting.ZCDpEvent)
    found = RdpAccountant().compose(event).get_epsilon(DELTA)
    assert 0.9 <= found <= 1.0 * (1 + 1e-3)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_pure_plans_are_priced_alike_at_no_delta(epsilon: float) -> None:
    event = plan(epsilon=epsilon, delta=0.0).dp_event()
    for delta, most in ((0.0, epsilon), (DELTA, epsilon)):
        found = PLDAccountant(NeighboringRelation.REPLACE_ONE).compose(event).get_epsilon(delta)
        assert found == pytest.approx(most, abs=2e-4), "rounded up to a grid of 1e-4"


def test_two_releases_compose_with_those_of_others() -> None:
    both = dp_accounting.ComposedDpEvent([plan().dp_event(), plan().dp_event()])
    found = PLDAccountant().compose(both).get_epsilon(DELTA)
    assert 1.0 < found < 2.0


def test_the_ends_of_the_scale() -> None:
    assert isinstance(PrivacyLoss("gdp", 0.0).dp_event(), dp_accounting.NoOpDpEvent)
    assert isinstance(PrivacyLoss("pure", math.inf).dp_event(), dp_accounting.NonPrivateDpEvent)
