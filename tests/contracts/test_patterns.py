"""Every continual sum says what a user's contributions of a period move, or that it cannot.

By replay, as in tests/contracts/test_loss.py: all sets of cells that the caps allow, in every
period, against everything that is released until the window ends.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from tests.contracts.cases import BUDGET, OVERS, SCALES, SENSITIVITY, WHOLE, Case, response
from tests.contracts.patterns import columns, pattern, replayed, spaced
from tests.dpcore.users.test_user_config import VISITS, changed
from weir.dpcore.accounting.contributions import Pattern
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.continual import tree
from weir.dpcore.errors import ConfigError
from weir.dpcore.noise.noise import KINDS, kind_of
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.pricing.calibration import FixedLeaf, calibrated
from weir.dpcore.registry import CONTINUAL_SUMS

TICKS = 32
PATTERNS = (
    pattern(1, 1, 2),
    pattern(4, 2, 1),
    pattern(4, 4, 2),
    pattern(5, 2, 2, spacing=3),
    pattern(3, 3, 2, per_key=1),
    pattern(4, 3, 2, per_key=2, period_keys=2),
    pattern(4, 3, 2, total=4),
    pattern(3, 2, 3, period_keys=2),
)
WINDOWS = (1, 3, 8, None)
EXACT = ("blt", "toeplitz")


def names(kind: str) -> list[str]:
    return [
        n
        for n in CONTINUAL_SUMS.own
        if CONTINUAL_SUMS[n].patterned and kind in CONTINUAL_SUMS[n].kinds
    ]


def made(
    name: str, kind: str, window: int | None, one: Pattern, end: int | None = TICKS
) -> tuple[Case, Any]:
    overs = next(overs for overs in OVERS if CONTINUAL_SUMS[name].serves(overs))
    mechanism = CONTINUAL_SUMS[name].calibrated(
        dimension=len(SCALES),
        scales=SCALES,
        sensitivity=SENSITIVITY,
        overs=overs,
        window=window,
        horizon=end,
        budget=PrivacyLoss(kind_of(kind), BUDGET[kind_of(kind)]),
        norm=1 if kind == "laplace" else 2,
        pattern=one,
    )
    return Case(name, kind, window, overs), mechanism


def units(mechanism: Any, window: int | None) -> float:
    """Units that it says a user moves: the loss, over that of one unit."""
    value = mechanism.loss(window).value
    ratio = mechanism.sensitivity / mechanism.noise_scale
    return float((value / ratio) ** 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "window"),
    [(name, window) for name in names("gaussian") for window in WINDOWS if name not in WHOLE]
    + [(name, None) for name in WHOLE if name in names("gaussian")],
)
def test_a_user_moves_no_more_than_is_charged(name: str, window: int | None) -> None:
    for one in PATTERNS:
        case, mechanism = made(name, "gaussian", window, one)
        whole = None if name == "sliding" else window  # its guarantee is permanent
        assert mechanism.loss(whole).value <= BUDGET["gdp"]
        assert mechanism.loss(whole).value == pytest.approx(BUDGET["gdp"], rel=1e-6)
        for ticks in {1, window or TICKS, 5}:
            found = replayed(case, mechanism, one, ticks, TICKS)
            assert found <= units(mechanism, ticks) * (1 + 1e-9), one
        if name in EXACT and one.cells == one.ticks * one.keys and one.key_ticks == one.ticks:
            found = replayed(case, mechanism, one, window, TICKS)
            assert found == pytest.approx(units(mechanism, window), rel=3e-8), one


@pytest.mark.parametrize("kind", list(KINDS))
def test_all_noises_of_a_mechanism_charge_the_same_sets(kind: str) -> None:
    for name in names(kind):
        for one in PATTERNS:
            _, mechanism = made(name, kind, None if name in WHOLE else 8, one)
            budget, within = BUDGET[kind_of(kind)], None if name in ("sliding", *WHOLE) else 8
            assert mechanism.loss(within).value <= budget
            assert mechanism.loss(within).value == pytest.approx(budget, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "window"),
    [(name, window) for name in names("k_norm") for window in (1, 4) if name not in WHOLE]
    + [(name, None) for name in names("k_norm") if name in WHOLE],
)
def test_pure_losses_of_a_user_add_up(name: str, window: int | None) -> None:
    """The least expensive units in l1, for sets of one key, times as many keys as fit."""
    for one in PATTERNS[:4]:
        case, mechanism = made(name, "k_norm", window, one)
        span = one.span or 1
        worst = 0.0
        for first in (0, span, 3 * span):
            end = TICKS if window is None else first + span + window - 1
            moves = columns(case, mechanism, first, span, end - first, TICKS)
            assert np.isfinite(moves).all()
            dense, clean = mechanism.materialize(TICKS), response(mechanism, TICKS)
            for some in spaced(tuple(range(span)), one.key_ticks, one.spacing):
                wanted = clean[:end, [first + tick for tick in some]].sum(axis=1)
                both = np.hstack([dense[:end], -dense[:end]])
                solved = linprog(np.ones(both.shape[1]), A_eq=both, b_eq=wanted, method="highs")
                worst = max(worst, one.keys * float(solved.fun))
        ratio = mechanism.sensitivity / mechanism.noise_scale
        assert worst * ratio <= mechanism.loss(window).value * (1 + 1e-9)


@pytest.mark.parametrize("name", CONTINUAL_SUMS.own)
def test_what_knows_no_users_is_refused(name: str) -> None:
    whole = {"privacy": {"protect_for": "all"}} if name in WHOLE else {}
    terms = PlanConfig.from_dict(changed(clock={"end": "2025-06-01T00:00:00Z"}, **whole)).terms()
    overs = next(overs for overs in OVERS if CONTINUAL_SUMS[name].serves(overs))
    leaf = FixedLeaf((1.0,), overs, 1.0, 1.0)
    budget = PrivacyLoss(kind_of(CONTINUAL_SUMS[name].kinds[0]), 1.0)
    if CONTINUAL_SUMS[name].patterned:
        person = terms.person
        assert person is not None
        assert calibrated(name, leaf, terms, budget).pattern == person.pattern
    else:
        with pytest.raises(ConfigError, match="several contributions of a user"):
            calibrated(name, leaf, terms, budget)


def test_replacing_a_period_costs_twice() -> None:
    leaf = FixedLeaf((1.0,), (None,), 1.0, 1.0)
    budget = PrivacyLoss("gdp", 1.0)
    scales = [
        calibrated(
            "blt", leaf, PlanConfig.from_dict(changed(privacy={"relation": one})).terms(), budget
        ).noise_scale
        for one in ("add_remove", "replace_one")
    ]
    assert scales[1] == pytest.approx(2 * scales[0], rel=1e-8)
    assert VISITS["privacy"]["unit"] == "user"


# ---- what is wrong is found


def test_a_mechanism_for_the_window_instead_of_period_and_window_is_found() -> None:
    true = pattern(8, 3, 1)
    for name in ("blt", "toeplitz", "merging_tree"):
        case, right = made(name, "gaussian", 3, true)
        assert replayed(case, right, true, 3, TICKS) <= units(right, 3) * (1 + 1e-9)
        case, wrong = made(name, "gaussian", 3, replace(true, span=1))
        assert replayed(case, wrong, true, 3, TICKS) > units(wrong, 3) * 1.05


def test_a_window_tree_that_forgets_a_part_of_the_period_is_found() -> None:
    true = pattern(8, 3, 1)
    case, wrong = made("window_tree", "gaussian", 3, replace(true, span=1))
    assert replayed(case, wrong, true, 3, TICKS) > units(wrong, 3) * 1.5


def test_a_level_too_few_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Right for one event: floor(log2 H) + 1 levels."""

    def floored(rows: int | None, levels: int, kind: str, one: Pattern | None) -> float:
        assert one is not None and rows is not None
        met = min(rows.bit_length(), levels)
        squares = tree.tree_squares(met, one.ticks, one.spacing)
        return float(one.keys * sum(squares))

    def worst() -> float:
        found = 0.0
        for span in (3, 5, 6, 7):
            for ticks in (2, 3):
                true = pattern(span, ticks, 1)
                case, mechanism = made("tree", "gaussian", 1, true)
                stated = units(mechanism, 1)
                found = max(found, replayed(case, mechanism, true, 1, TICKS) / stated)
        return found

    assert worst() <= 1 + 1e-9
    monkeypatch.setattr(tree, "units_of", floored)
    assert worst() > 1.05


@pytest.mark.slow
@pytest.mark.parametrize("name", ["blt", "toeplitz", "tree", "sliding", "independent"])
def test_a_pattern_that_is_not_that_of_the_events_is_found(name: str) -> None:
    """Spacing that nothing keeps, keys of a tick for those of a period, and one tick for many."""
    true = pattern(6, 3, 2)
    assumed = [replace(true, spacing=5), replace(true, ticks=1, key_ticks=1, cells=2)]
    once = pattern(6, 3, 2, per_key=1)
    case, right = made(name, "gaussian", 8, once)
    assert replayed(case, right, once, 8, TICKS) <= units(right, 8) * (1 + 1e-9)
    case, wrong = made(name, "gaussian", 8, replace(once, cells=once.keys))
    assert replayed(case, wrong, once, 8, TICKS) > units(wrong, 8) * 1.5
    for other in assumed:
        if name == "independent" and other.cells == true.cells:
            continue  # nothing there is shared by ticks
        case, wrong = made(name, "gaussian", 8, other)
        assert replayed(case, wrong, true, 8, TICKS) > units(wrong, 8) * 1.02, other
