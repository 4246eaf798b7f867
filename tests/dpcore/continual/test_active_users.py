"""Distinct users of the last N ticks: sensitivity by brute force, mutants, and releases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from tests.constant_noise import ConstantNoise
from weir.dpcore.accounting.contributions import Pattern
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.continual.active_users import (
    ActiveUsers,
    changes_of,
    key_units,
    run_units,
    user_units,
)
from weir.dpcore.continual.rational import Rational
from weir.dpcore.continual.tables import SLIDING, WINDOWS
from weir.dpcore.noise.prf import KeyedNoise, RootKey

FORMS = (Rational((), ()), *WINDOWS[:12], *SLIDING[:12])
FAR = 400
"""Ticks behind the last active one that are looked at: all that follows is next to nothing."""


@cache
def moved_by(form: Rational, ticks: int) -> Floats:
    """(ticks, ticks): products of what changes of x at two ticks move, B^-1 x, over all rows."""
    n = ticks + FAR
    c = form.record_coefficients(n) if form.poles else np.ones(n)
    h = np.concatenate([[1.0], np.diff(c)])
    lags = np.correlate(h, h, "full")[n - 1 :][:ticks]
    return np.asarray(lags[np.abs(np.subtract.outer(np.arange(ticks), np.arange(ticks)))])


def covered(ticks: tuple[int, ...], over: int, n: int) -> Floats:
    x = np.zeros(n)
    for tick in ticks:
        x[tick : tick + over] = 1
    return x


def tick_sets(span: int, most: int, spacing: int) -> Iterator[tuple[int, ...]]:
    for count in range(1, most + 1):
        for ticks in combinations(range(span), count):
            if all(b - a >= spacing for a, b in zip(ticks, ticks[1:], strict=False)):
                yield ticks


def worst_of_key(form: Rational, span: int, over: int, most: int, spacing: int) -> float:
    """The largest squared change: every set of ticks, before and behind every other activity."""
    n, worst = span + over, 0.0
    products = moved_by(form, n)
    for ticks in tick_sets(span, most, spacing):
        whole = covered(ticks, over, n)
        for before in range(over):
            for behind in range(span, n + 1):
                x = whole.copy()
                x[:before] = 0
                x[behind:] = 0
                worst = max(worst, float(x @ products @ x))
    return worst


def test_no_ticks_of_a_user_move_more_than_is_paid_for() -> None:
    rng, exact = np.random.default_rng(0), 0
    for _ in range(60):
        span, over, most = (int(rng.integers(1, top)) for top in (8, 6, 6))
        spacing, form = int(rng.integers(1, 4)), FORMS[int(rng.integers(0, len(FORMS)))]
        worst = worst_of_key(form, span, over, most, spacing)
        paid = key_units(form, over, most, span, spacing)
        assert worst <= paid * (1 + 1e-9)
        assert paid <= 1.31 * worst
        exact += paid <= worst * (1 + 1e-6)
    assert exact >= 20


def mutants() -> dict[str, Callable[..., float]]:
    """Bounds that look right and are not."""

    def one_run(form: Rational, over: int, most: int, span: int) -> float:
        return float(run_units(form, np.array([min(most * over, span + over - 1)]))[0])

    def within_period(form: Rational, over: int, most: int, span: int) -> float:
        return key_units(form, over, most, max(1, span - over), 1)

    def as_sliding_sum(form: Rational, over: int, most: int, span: int) -> float:
        return float(run_units(form, np.array([over]))[0])

    return {"one run": one_run, "the last N ticks": within_period, "one tick": as_sliding_sum}


@pytest.mark.parametrize("name", mutants())
def test_mutants_of_the_bound_are_found(name: str) -> None:
    mutant, found = mutants()[name], 0
    for form, over, most, span in product(FORMS[1::5], (1, 2, 4), (2, 4), (4, 7)):
        found += worst_of_key(form, span, over, most, 1) > mutant(form, over, most, span) * 1.000001
    assert found


def spread(
    most_keys: int, keys: int, ticks: int, span: int
) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Ticks of each key, for every way to have ``most_keys`` keys at ``ticks`` ticks at most."""
    choices = [c for size in range(most_keys + 1) for c in combinations(range(keys), size)]
    for chosen in product(choices, repeat=span):
        if sum(map(bool, chosen)) <= ticks:
            yield tuple(
                tuple(t for t, own in enumerate(chosen) if key in own) for key in range(keys)
            )


def pattern_of(span: int, ticks: int, keys: int, **more: Any) -> Pattern:
    fields = {"key_ticks": ticks, "period_keys": None, "cells": ticks * keys, **more}
    return Pattern(span, span, ticks, 1, keys, **fields)


def worst_of_keys(form: Rational, over: int, pattern: Pattern, keys: int) -> float:
    assert pattern.span is not None
    n = pattern.span + over
    products, worst = moved_by(form, n), 0.0
    for ticks in spread(pattern.keys, keys, pattern.ticks, pattern.span):
        rows = [covered(own, over, n) for own in ticks]
        worst = max(worst, sum(float(x @ products @ x) for x in rows))
    return worst


def test_a_user_of_several_keys_is_paid_for_and_the_short_cut_is_wrong() -> None:
    """k F(m) holds where no product is negative (``over_keys``). Here a user who leaves one key for
    the next moves more than one who stays."""
    short_cut_fails = 0
    for form in FORMS[::6]:
        for over, ticks, span, keys, known in ((2, 3, 4, 1, 3), (3, 3, 3, 1, 2), (2, 2, 3, 2, 3)):
            pattern = pattern_of(span, ticks, keys)
            worst = worst_of_keys(form, over, pattern, known)
            paid = user_units(form, over, pattern, known)
            assert worst <= paid * (1 + 1e-9) <= user_units(form, over, pattern, None) * (1 + 1e-8)
            short_cut_fails += worst > 1.05 * keys * key_units(form, over, ticks, span, 1)
    assert short_cut_fails >= 3


def test_bounds_on_keys_lower_what_is_paid() -> None:
    form, free = FORMS[8], pattern_of(30, 30, 1)
    single = key_units(form, 28, 30, 30, 1)
    assert user_units(form, 28, free, 1) == pytest.approx(single)
    assert user_units(form, 28, pattern_of(30, 30, 1, period_keys=1), None) == pytest.approx(single)
    two, many = user_units(form, 28, free, 2), user_units(form, 28, free, None)
    assert single < two <= 2 * single * (1 + 1e-9) and many > 5 * two


def test_several_periods_add_up_in_squares() -> None:
    """Whatever other periods are there, near or far."""
    rng, worst = np.random.default_rng(3), 0.0
    for _ in range(400):
        span, over, periods = (int(rng.integers(a, b)) for a, b in ((1, 7), (1, 7), (2, 5)))
        most, form = int(rng.integers(1, span + 1)), FORMS[int(rng.integers(1, len(FORMS)))]
        active = [
            tuple(p * span + rng.choice(span, int(rng.integers(0, most + 1)), replace=False))
            for p in range(periods)
        ]
        gone = rng.random(periods) < 0.5
        n = periods * span + over
        stay = [ticks for ticks, goes in zip(active, gone, strict=True) if not goes]
        x = covered(sum(active, ()), over, n) - covered(sum(stay, ()), over, n)
        paid = gone.sum() * key_units(form, over, most, span, 1)
        moved = float(x @ moved_by(form, n) @ x)
        assert moved <= paid * (1 + 1e-9)
        worst = max(worst, moved / paid if paid else 0.0)
    assert worst > 0.95


def calibrated(over: int, pattern: Pattern, **more: Any) -> ActiveUsers:
    return ActiveUsers.calibrated(
        dimension=1, scales=(float(1 << 20),), sensitivity=1.0, overs=(over,), window=None,
        horizon=None, budget=PrivacyLoss("gdp", 0.5), pattern=pattern, **more,
    )  # fmt: skip


def test_the_loss_is_the_budget_and_no_look_is_too_late() -> None:
    sum_ = calibrated(7, pattern_of(30, 30, 1), known_keys=1)
    assert sum_.loss(None).value == pytest.approx(0.5) and sum_.loss(1) == sum_.loss(None)
    assert sum_.loss_of_periods(4, None, 365).value == pytest.approx(1.0)
    assert sum_.adaptive and sum_.loss(None).value <= 0.5


@pytest.mark.parametrize(
    ("span", "over", "most", "error"),
    [(30, 7, 4, 3.75), (30, 7, 30, 3.90), (30, 28, 30, 3.54), (90, 7, 12, 6.50), (90, 7, 90, 6.52),
     (90, 28, 90, 5.0), (7, 7, 7, 2.16), (7, 28, 7, 2.59)],
)  # fmt: skip
def test_errors_per_unit_of_mu(span: int, over: int, most: int, error: float) -> None:
    sum_ = calibrated(over, pattern_of(span, most, 1), known_keys=1)
    stddev = sum_.noise_scale * np.sqrt(float(sum_.form.noise_squares(None)))
    assert 0.5 * stddev == pytest.approx(error, rel=0.01)
    assert len(sum_.form.poles) <= 2


def leaves_of(ticks: dict[str, list[int]], n: int, over: int) -> Ints:
    """(n, 1, over) of one key."""
    out = np.zeros((n, 1, over), dtype=np.int64)
    for own in ticks.values():
        for before, tick in zip([-1 - over, *own], own, strict=False):
            out[tick, 0, min(tick - before, over) - 1] += 1
    return out


@pytest.mark.parametrize("over", [1, 2, 5, 30])
def test_exact_numbers_in_any_strides_and_from_wider_leaves(over: int) -> None:
    rng, n = np.random.default_rng(over), 40
    ticks = {f"u{i}": np.flatnonzero(rng.random(n) < rng.random() / 3).tolist() for i in range(30)}
    true = sum(covered(tuple(own), over, n) for own in ticks.values())
    for width in (over, over + 3):
        leaves = leaves_of(ticks, n, width)
        for stride in (1, 7, n):
            ahead, parts = np.zeros((1, over), dtype=np.int64), []
            for at in range(0, n, stride):
                changes, ahead = changes_of(ahead, leaves[at : at + stride])
                parts.append(changes[:, 0, 0])
            assert (np.cumsum(np.concatenate(parts)) == true).all()


def test_releases_are_the_exact_numbers_and_correlated_noise() -> None:
    over, n = 4, 30
    sum_ = calibrated(over, pattern_of(8, 8, 1), known_keys=1)
    leaves = leaves_of({"a": [3, 4, 20], "b": [4, 9]}, n, over)
    _, (clean,) = sum_.step(sum_.init(1), leaves, ConstantNoise(0.0))  # type: ignore[arg-type]
    assert clean[3:8, 0, 0].tolist() == [1, 2, 2, 2, 2] and not clean[26:].any()
    _, (shifted,) = sum_.step(sum_.init(1), leaves, ConstantNoise(1.0))  # type: ignore[arg-type]
    b = np.cumsum(sum_.form.noise_coefficients(n)) * sum_.noise_scale * sum_.scales[0]
    assert np.abs((shifted - clean)[:, 0, 0] - b).max() <= 0.5


@pytest.mark.slow
def test_noise_is_as_large_as_is_said_and_no_other() -> None:
    """Of 4,000 keys at the last of 40 ticks; a scale that is 7 % off fails."""
    over, n, keys = 7, 40, 4000
    sum_ = calibrated(over, pattern_of(10, 10, 1), known_keys=1)
    names = [b"k%d" % i for i in range(keys)]
    noise = KeyedNoise(RootKey.derive(bytes(32), "active", bytes(32)), 0, names, 0)
    leaves = np.zeros((n, keys, over), dtype=np.int64)
    leaves[5, :, over - 1] = 3
    state, (released,) = sum_.step(sum_.init(keys), leaves, noise)
    error = released[:, :, 0].copy()
    error[5 : 5 + over] -= 3
    said = sum_.stddev(np.arange(n), over)[:, 0]
    found = error[-1].std() / said[-1]
    assert abs(found - 1) < 4 / np.sqrt(2 * keys)
    assert abs(found / 1.07 - 1) > 4 / np.sqrt(2 * keys)
    late = np.corrcoef(error[-1], error[-2])[0, 1]
    b = sum_.form.noise_coefficients(n)
    assert late == pytest.approx(b[1:] @ b[:-1] / (b @ b), abs=0.08)
