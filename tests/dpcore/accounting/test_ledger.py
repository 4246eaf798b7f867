"""What is spent of a scope: against brute force, by every kind, unit and relation."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from weir.dpcore.accounting import calibrate
from weir.dpcore.accounting.guarantee import LossKind, PrivacyLoss, Relation
from weir.dpcore.accounting.price import DAY, PeriodGrid, Point, Price, known_bound
from weir.dpcore.accounting.scope import (
    Charge,
    Scope,
    charge,
    fits,
    fitting,
    gdp_of_pure,
    room,
    sweep,
    worst,
)
from weir.dpcore.errors import ConfigError

SCOPE = Scope("event", "add_remove", 4.0, 1e-6, "gdp")
ENDS = st.one_of(st.none(), st.integers(0, 12))
CHARGES = st.lists(
    st.tuples(st.integers(0, 10), ENDS, st.floats(0, 1), st.floats(0, 1e-7)).map(
        lambda four: Charge(
            four[0], None if four[1] is None else four[0] + four[1], four[2], four[3]
        )
    ),
    max_size=12,
)


def one(
    value: float,
    kind: LossKind = "gdp",
    first: int = 0,
    last: int | None = None,
    relation: Relation = "add_remove",
    slack: float = 0.0,
    grid: PeriodGrid | None = None,
    points: tuple[Point, ...] = (),
) -> Price:
    unit = "event" if grid is None else "user"
    bare = points or (Point(1, None, PrivacyLoss(kind, value)),)
    return Price("event" if unit == "event" else "user", relation, first, last, bare, slack, grid)


# ---- the sweep ---------------------------------------------------------------------------------


@pytest.mark.slow
@given(CHARGES)
def test_the_sweep_is_the_sum_at_every_period(charges: list[Charge]) -> None:
    spans = sweep(charges)
    for period in range(40):
        met = [c for c in charges if c.first <= period and (c.last is None or period <= c.last)]
        found = [s for s in spans if s.first <= period and (s.last is None or period <= s.last)]
        assert len(found) == bool(met)
        if met:
            for name in ("loss", "slack"):
                exact = sum((Fraction(getattr(c, name)) for c in met), Fraction(0))
                told = Fraction(getattr(found[0], name))
                assert exact <= told <= exact * (1 + Fraction(1, 2**51))


@given(CHARGES, st.randoms(use_true_random=False))
def test_the_order_of_entries_does_not_matter(charges: list[Charge], random: object) -> None:
    mixed = list(charges)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert sweep(mixed) == sweep(charges)


@given(CHARGES, st.integers(0, 10), ENDS, st.floats(0, 1))
def test_room_is_the_least_of_every_period(
    charges: list[Charge], first: int, last: int | None, loss: float
) -> None:
    asked = Charge(first, None if last is None else first + last, loss, 1e-8)
    end = 40 if asked.last is None else asked.last + 1
    enough = True
    for period in range(first, end):
        met = [c for c in charges if c.first <= period and (c.last is None or period <= c.last)]
        slack = math.fsum([c.slack for c in met] + [asked.slack])
        enough &= math.fsum([c.loss for c in met] + [asked.loss]) <= SCOPE.limit(slack)
    got = room(SCOPE, sweep(charges), asked)
    assert fits(SCOPE, charges, asked) == (asked.loss <= got)
    if abs(got - asked.loss) > 1e-9:
        assert fits(SCOPE, charges, asked) == enough


def test_one_plan_of_the_whole_budget_fits_and_a_second_does_not() -> None:
    for kind, value in (
        ("gdp", calibrate.gdp_mu(4.0, 1e-6)),
        ("zcdp", calibrate.zcdp_rho(4.0, 1e-6)),
        ("pure", 4.0),
    ):
        scope = Scope("event", "add_remove", 4.0, 1e-6, kind)  # type: ignore[arg-type]
        whole = charge(one(value, kind), scope)  # type: ignore[arg-type]
        assert fits(scope, [], whole)
        assert not fits(scope, [whole], charge(one(1e-4, kind), scope))  # type: ignore[arg-type]
        more = charge(one(value * (1 + 1e-6), kind), scope)  # type: ignore[arg-type]
        assert not fits(scope, [], more)


def test_plans_of_other_times_do_not_add_up() -> None:
    value = calibrate.gdp_mu(4.0, 1e-6)
    first = charge(one(value, first=0, last=100), SCOPE)
    assert fits(SCOPE, [first], charge(one(value, first=100, last=200), SCOPE))
    assert not fits(SCOPE, [first], charge(one(value, first=99, last=200), SCOPE))
    assert not fits(SCOPE, [first], charge(one(value, first=50), SCOPE))


def test_spent_is_what_gaussian_noise_costs_together() -> None:
    """Exact: mu adds in squares, and slacks next to it."""
    charges = [charge(one(0.3, slack=1e-7), SCOPE), charge(one(0.4, slack=2e-7), SCOPE)]
    (span,) = sweep(charges)
    assert span.slack == pytest.approx(3e-7)
    told = SCOPE.epsilon_of(span.loss, span.slack)
    a, b = told / 0.5 - 0.25, told / 0.5 + 0.25
    delta = norm.sf(a) - math.exp(told) * norm.sf(b)
    assert delta == pytest.approx(1e-6 - 3e-7, rel=1e-5)


def test_slack_alone_can_be_too_much() -> None:
    half = charge(one(0.1, slack=6e-7), SCOPE)
    assert fits(SCOPE, [], half) and not fits(SCOPE, [half], half)
    assert SCOPE.epsilon_of(0.01, 1e-6) == math.inf
    pure = Scope("event", "add_remove", 1.0, 1e-6, "pure")
    assert fits(pure, [], charge(one(1.0, "pure", slack=1e-6), pure))
    assert not fits(pure, [], charge(one(0.1, "pure", slack=1.1e-6), pure))


@pytest.mark.parametrize(("delta", "periods"), [(1e-3, 12), (1e-3, 365), (0.05, 6)])
def test_slacks_of_opaque_mechanisms_over_separate_times_add_up(delta: float, periods: int) -> None:
    """Each mechanism announces at its start, with probability delta, that it will publish all. An
    adversary puts a person into an announced period: that happens with 1 - (1 - delta)^k, more than
    any one delta. The rule that keeps slack within its own times is the mutant."""
    published = 1 - (1 - delta) ** periods
    separate = [Charge(first, first, 0.0, delta) for first in range(periods)]
    opaque = [Charge(first, first, 0.0, delta, opaque=True) for first in range(periods)]
    scope = Scope("event", "add_remove", 1.0, 0.9, "gdp")
    counted, mutant = (worst(scope, sweep(charges)) for charges in (opaque, separate))
    assert counted is not None and mutant is not None
    assert mutant.slack < published <= counted.slack == pytest.approx(periods * delta)


def test_losses_of_opaque_mechanisms_stay_in_their_times() -> None:
    charges = [Charge(3, 4, 0.25, 1e-7, opaque=True), Charge(6, 6, 0.5, 2e-7, opaque=True)]
    spans = sweep(charges)
    losses = [(span.first, span.last, span.loss) for span in spans if span.loss]
    assert losses == [(3, 4, 0.25), (6, 6, 0.5)]
    assert all(span.slack == pytest.approx(3e-7) for span in spans)
    assert not fits(SCOPE, charges, Charge(10**6, 10**6, 0.0, 8e-7))
    assert fits(SCOPE, charges, Charge(10**6, 10**6, 0.0, 7e-7))


def test_what_fits_is_the_largest_that_does() -> None:
    price = one(0.9)
    there = [charge(one(0.5), SCOPE)]
    factor = fitting(SCOPE, there, price)
    assert factor < 1
    assert fits(SCOPE, there, charge(price.scaled(factor), SCOPE))
    assert not fits(SCOPE, there, charge(price.scaled(factor * (1 + 1e-9)), SCOPE))
    assert fitting(SCOPE, [charge(one(0.1, slack=1e-6), SCOPE)], one(0.1, slack=1e-9)) == 0.0
    hard = worst(SCOPE, sweep(there))
    assert hard is not None and hard.loss == there[0].loss


# ---- kinds --------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.3, 1.0, 4.0, 20.0, 300.0])
def test_pure_dp_is_never_less_private_than_its_gaussian_bound(epsilon: float) -> None:
    """By the hockey stick at every epsilon, and tight: they touch at 0."""
    mu = gdp_of_pure(epsilon)
    for other in np.linspace(0, epsilon, 50):
        exact = -math.expm1(other - epsilon) / (1 + math.exp(-epsilon))
        assert calibrate.gdp_delta(mu, float(other)) >= exact * (1 - 1e-12)
    at_zero = -math.expm1(-epsilon) / (1 + math.exp(-epsilon))
    assert calibrate.gdp_delta(mu, 0.0) == pytest.approx(at_zero, rel=1e-8)


def test_every_kind_becomes_zcdp() -> None:
    scope = Scope("event", "add_remove", 4.0, 1e-6, "zcdp")
    assert charge(one(0.6), scope).loss == pytest.approx(0.18)
    assert charge(one(0.6), scope).loss >= 0.18
    assert charge(one(0.2, "zcdp"), scope).loss == 0.2
    assert charge(one(0.6, "pure"), scope).loss == pytest.approx(0.18)


@pytest.mark.parametrize(("kind", "adds"), [("zcdp", "gdp"), ("gdp", "pure"), ("zcdp", "pure")])
def test_kinds_without_a_bound_are_refused(kind: LossKind, adds: LossKind) -> None:
    with pytest.raises(ConfigError, match=r"ledger\.accounting"):
        charge(one(0.1, kind), Scope("event", "add_remove", 4.0, 1e-6, adds))


def test_a_budget_without_delta_takes_pure_plans_alone() -> None:
    with pytest.raises(ConfigError, match=r"ledger\.budget\.delta"):
        Scope("event", "add_remove", 4.0, 0.0, "gdp")
    scope = Scope("event", "add_remove", 4.0, 0.0, "pure")
    assert fits(scope, [charge(one(3.0, "pure"), scope)], charge(one(1.0, "pure"), scope))


@given(st.floats(0.01, 8), st.floats(1e-9, 1e-2))
def test_what_others_promised_is_never_taken_for_less(epsilon: float, delta: float) -> None:
    loss, slack = known_bound(epsilon, delta, "gdp")
    assert slack == 0 and calibrate.gdp_delta(loss.value, epsilon) >= delta
    rho, _ = known_bound(epsilon, delta, "zcdp")
    assert calibrate.zcdp_delta(rho.value, epsilon) >= delta
    assert known_bound(epsilon, delta, "pure") == (PrivacyLoss("pure", epsilon), delta)


# ---- units and relations ------------------------------------------------------------------------

MONTH = PeriodGrid(per=30 * DAY)
BERLIN = PeriodGrid(months=1, origin=-DAY // 24, zone="Europe/Berlin")
"""From the first midnight of 1970 there."""


def users(grid: PeriodGrid = MONTH, relation: Relation = "add_remove") -> Scope:
    return Scope("user", relation, 4.0, 1e-6, "gdp", None, grid)


def test_an_event_says_nothing_of_a_user() -> None:
    with pytest.raises(ConfigError, match=r"privacy\.unit = 'event'"):
        charge(one(0.1), users())


def test_days_become_a_month_by_their_number() -> None:
    points = tuple(Point(n, None, PrivacyLoss("gdp", 0.1 * n)) for n in (1, 7, 30))
    price = one(0.0, grid=PeriodGrid(per=DAY), points=points, slack=1e-9)
    found = charge(price, users())
    assert found.loss == pytest.approx(9.0) and found.slack == pytest.approx(30e-9)
    week = users(PeriodGrid(per=7 * DAY))
    assert charge(price, week).loss == pytest.approx(0.49)
    with pytest.raises(ConfigError, match="holds 60 periods"):
        charge(price, users(PeriodGrid(per=60 * DAY)))


def test_a_coarser_period_under_a_finer_scope_is_a_replacement() -> None:
    price = one(0.3, grid=MONTH, slack=1e-8)
    found = charge(price, users(PeriodGrid(per=DAY)))
    assert found.loss == pytest.approx(0.36) and found.slack == 2e-8
    assert charge(price, SCOPE).loss == pytest.approx(0.36)  # one event of the user
    assert charge(price, users()).loss == pytest.approx(0.09)


def test_periods_that_do_not_fit_meet_more_of_each_other() -> None:
    points = tuple(Point(n, None, PrivacyLoss("gdp", 0.1 * n)) for n in range(1, 40))
    price = one(0.0, grid=PeriodGrid(per=DAY, origin=DAY // 2), points=points)
    assert charge(price, users()).loss == pytest.approx((2 * 3.1) ** 2)
    months = one(0.0, grid=PeriodGrid(months=1), points=points)
    assert charge(months, users()).loss == pytest.approx((2 * 0.3) ** 2)
    assert charge(months, users(PeriodGrid(months=12))).loss == pytest.approx(1.2**2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "plan",
    [
        PeriodGrid(per=DAY),
        PeriodGrid(per=7 * DAY, origin=3 * DAY),
        PeriodGrid(months=1),
        PeriodGrid(months=3),
        PeriodGrid(per=DAY // 2),
        BERLIN,
        PeriodGrid(days=1, zone="Europe/Berlin"),
    ],
)
@pytest.mark.parametrize(
    "mine",
    [
        PeriodGrid(per=30 * DAY),
        PeriodGrid(per=DAY),
        PeriodGrid(months=1),
        PeriodGrid(months=12, origin=59 * DAY),
        PeriodGrid(per=5 * DAY),
        BERLIN,
        PeriodGrid(days=1, zone="Europe/Berlin"),
        PeriodGrid(days=7, origin=4 * DAY, zone="Asia/Tokyo"),
        PeriodGrid(months=12, zone="Europe/Berlin"),
    ],
)
def test_periods_that_meet_are_counted_to_the_day(plan: PeriodGrid, mine: PeriodGrid) -> None:
    """Against every period of twelve years, half day by half day."""
    most, whole = 0, True
    half = DAY // 2
    for period in range(2, 140):
        first, end = mine.first(period), mine.first(period + 1)
        if end > 12 * 366 * DAY:
            break
        met = {plan.of(moment) for moment in range(first, end, half)}
        most = max(most, len(met))
        for one_met in met:
            whole &= plan.first(one_met) >= first and plan.first(one_met + 1) <= end
    told, partial = plan.met_by(mine)
    assert told >= most and (partial or whole)
    assert not partial or not whole or told > most  # nothing is taken for a part that is none
    assert told <= most + 2 + (plan.zone != mine.zone) * max(1, most // 20)


def test_a_month_of_a_zone_begins_at_its_midnight() -> None:
    """June of Berlin begins two hours before that of UTC: plans of May and June do not add up."""
    may, june, july = (BERLIN.first(52 * 12 + month) for month in (4, 5, 6))
    assert (june - may, june % DAY) == (31 * DAY, 22 * DAY // 24)
    scope = users(BERLIN)
    points = (Point(1, None, PrivacyLoss("gdp", 0.5)),)
    for first, last in ((may, june), (june, july)):
        price = one(0.0, first=first, last=last, grid=BERLIN, points=points)
        found = charge(price, scope)
        assert found.first == found.last == BERLIN.of(first)
        assert found.loss == pytest.approx(0.25)
    with pytest.raises(ConfigError, match="holds 3 periods"):  # of UTC: parts of three
        charge(one(0.0, grid=PeriodGrid(months=1), points=points), scope)
    days = PeriodGrid(days=1, zone="Europe/Berlin")
    assert (days.met_by(BERLIN), BERLIN.met_by(days)) == ((31, False), (1, True))
    assert (days.longest, days.shortest) == (25 * DAY // 24, 23 * DAY // 24)


def test_all_of_time_in_one_period() -> None:
    points = tuple(Point(n, None, PrivacyLoss("gdp", 0.1 * n)) for n in range(1, 40))
    whole = users(PeriodGrid())
    price = one(0.0, grid=PeriodGrid(per=DAY), points=points, first=0, last=10 * DAY)
    assert charge(price, whole).loss == pytest.approx(1.0)
    assert (charge(price, whole).first, charge(price, whole).last) == (0, 0)
    with pytest.raises(ConfigError, match="without end"):
        charge(one(0.0, grid=PeriodGrid(per=DAY), points=points), whole)
    assert charge(one(0.2, grid=PeriodGrid()), whole).loss == pytest.approx(0.04)
    assert charge(one(0.2, grid=PeriodGrid()), users()).loss == pytest.approx(0.16)


@pytest.mark.parametrize(
    ("theirs", "ours", "times"),
    [
        ("add_remove", "add_remove", 1),
        ("add_remove", "replace_one", 2),
        ("add_remove", "replace_anywhere", 2),
        ("replace_one", "replace_one", 1),
        ("replace_one", "add_remove", None),
        ("replace_one", "replace_anywhere", None),
        ("replace_anywhere", "replace_one", 1),
        ("replace_anywhere", "replace_anywhere", 1),
        ("replace_anywhere", "add_remove", None),
    ],
)
def test_relations_are_converted_or_refused(
    theirs: Relation, ours: Relation, times: int | None
) -> None:
    scope = Scope("event", ours, 4.0, 1e-6, "gdp")
    if times is None:
        with pytest.raises(ConfigError, match=r"privacy\.relation"):
            charge(one(0.2, relation=theirs), scope)
    else:
        found = charge(one(0.2, relation=theirs, slack=1e-8), scope)
        assert found.loss == pytest.approx((0.2 * times) ** 2)
        assert found.slack == times * 1e-8


def test_a_record_that_moves_lies_in_two_periods() -> None:
    scope = Scope("event", "replace_anywhere", 4.0, 1e-6, "gdp")
    first = charge(one(0.1, first=0, last=10, relation="replace_anywhere"), scope)
    second = charge(one(0.1, first=10, last=20, relation="replace_anywhere"), scope)
    (span,) = sweep([first, second])
    assert span.loss == pytest.approx(0.02)


def test_a_horizon_takes_the_price_that_covers_it() -> None:
    points = tuple(
        Point(1, horizon, PrivacyLoss("gdp", value))
        for horizon, value in ((10, 0.1), (20, 0.2), (None, math.inf))
    )
    price = one(0.0, points=points)
    for horizon, value in ((5, 0.1), (10, 0.1), (11, 0.2), (20, 0.2)):
        scope = Scope("event", "add_remove", 4.0, 1e-6, "gdp", horizon)
        assert charge(price, scope).loss == pytest.approx(value**2)
    for beyond in (21, None):
        with pytest.raises(ConfigError, match=r"ledger\.protect_for"):
            charge(price, Scope("event", "add_remove", 4.0, 1e-6, "gdp", beyond))


@given(st.floats(0, 9), st.floats(0, 1e-3), st.sampled_from(["gdp", "zcdp", "pure"]))
def test_prices_and_scopes_are_read_as_they_were_written(
    value: float, slack: float, kind: LossKind
) -> None:
    price = one(value, kind, -5, 9, slack=slack, grid=PeriodGrid(months=2, origin=7))
    assert Price.from_json(price.to_json()) == price
    scope = Scope("user", "replace_one", 2.5, 1e-7, "zcdp", 77, PeriodGrid(per=DAY))
    zoned = Scope("user", "replace_one", 2.5, 1e-7, "zcdp", 77, BERLIN)
    assert Scope.from_json(json.loads(json.dumps(zoned.to_json()))) == zoned
    assert "zone" not in scope.to_json()["grid"], "as earlier versions wrote it"
    assert Scope.from_json(scope.to_json()) == scope


# ---- a filter -----------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.lists(st.tuples(st.floats(0.01, 1.2), st.integers(0, 6), ENDS), max_size=40))
def test_whoever_chooses_the_next_plan_never_exceeds_the_budget(
    asked: list[tuple[float, int, int | None]],
) -> None:
    """Plans come one after the other, each as it likes; what is let in is priced again, exactly."""
    scope = Scope("event", "add_remove", 2.0, 1e-6, "gdp")
    there: list[Charge] = []
    for mu, first, more in asked:
        mine = charge(one(mu, first=first, last=None if more is None else first + more + 1), scope)
        if fits(scope, there, mine):
            there.append(mine)
        else:
            small = fitting(scope, there, one(mu, first=first))
            if small > 0:
                there.append(charge(one(mu, first=first).scaled(small), scope))
    for period in range(25):
        met = [c for c in there if c.first <= period and (c.last is None or period <= c.last)]
        mu = math.sqrt(math.fsum(c.loss for c in met))
        if mu:
            delta = norm.sf(2.0 / mu - mu / 2) - math.exp(2.0) * norm.sf(2.0 / mu + mu / 2)
            assert delta <= 1e-6 * (1 + 1e-7)


def test_an_adversary_who_follows_the_releases_gains_nothing() -> None:
    """Gaussian releases whose noise is chosen by what came out before, until the filter stops: the
    privacy loss that was realised has no more mass beyond epsilon than the budget's delta; without
    the filter the same adversary has far more."""
    scope = Scope("event", "add_remove", 1.0, 0.05, "gdp")
    limit = scope.limit(0.0)
    generator = np.random.default_rng(20240711)

    def realised(filtered: bool) -> tuple[float, float]:
        """delta at epsilon = 1 of 40,000 runs, and its standard error."""
        runs, steps = 40_000, 30
        loss, used = np.zeros(runs), np.zeros(runs)
        for _ in range(steps):
            mu = np.where(loss > 0.3, 0.35, np.where(loss < -0.3, 0.02, 0.12))
            if filtered:
                rest = np.maximum(limit - used, 0.0)
                mu = np.minimum(mu, np.sqrt(rest))
            used += mu * mu
            loss += mu * generator.standard_normal(runs) + mu * mu / 2
        tail = np.maximum(0.0, -np.expm1(np.minimum(scope.epsilon - loss, 0.0)))
        return float(tail.mean()), float(tail.std() / math.sqrt(runs))

    delta, error = realised(filtered=True)
    assert delta <= scope.delta + 4 * error
    assert delta > 0.2 * scope.delta  # the adversary does try
    loose, error = realised(filtered=False)
    assert loose > scope.delta + 4 * error
