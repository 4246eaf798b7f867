"""Rules of what is shown, counts next to sums, and what the estimates are worth."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from weir.dpcore.arrays import Floats
from weir.dpcore.continual.tables import WINDOWS
from weir.dpcore.errors import ConfigError
from weir.dpcore.estimates.laws import BufferLaw, IndependentLaw, NoiseLaw
from weir.dpcore.estimates.rules import BAND, GUARD, Estimates, narrower, shown
from weir.dpcore.estimates.series import Tracker, windows
from weir.dpcore.estimates.sources import EstimateSource, facts_of
from weir.dpcore.plan import Plan

LAW = BufferLaw(next(form for form in WINDOWS if len(form.poles) == 3))
ONE = np.ones(1)


def source(
    law: NoiseLaw = LAW,
    unit: float = 1.0,
    overs: tuple[int | None, ...] = (7,),
    count: bool = False,
) -> EstimateSource:
    shares = ((50.0, 1.0, 4.0), (1.0, 0.0, 2000.0)) if count else ()
    unit = float(np.hypot(200, 2000)) if count else unit
    event, clip = (50.0, (0.0, 100.0)) if count else (1.0, (0.0, 0.0))
    return EstimateSource("own", overs, law, unit, event, 0.0, "counts", shares, clip)


def test_no_claim_is_the_release_and_a_claim_is_guarded() -> None:
    release, sd = np.array([-5.0, 100.0, 100.0, 100.0]), np.full(4, 10.0)
    value, variance = np.array([3.0, 40.0, 99.0, 75.0]), np.array([98.0, 1.0, 25.0, 1.0])
    result = shown(release, sd, value, variance, 0.0, 0.0)
    assert result.claims.tolist() == [False, True, True, True]
    assert result.value.tolist() == [-5.0, 100 - GUARD * 10, 99.0, 75.0]
    assert result.surprise.tolist() == [False, True, False, True]
    assert result.stddev.tolist() == [10.0, 1.0, 5.0, 1.0]
    assert result.high[2] == pytest.approx(99 + BAND * 5) and result.low[0] == -5 - BAND * 10
    below = shown(np.array([-5.0]), 10 * ONE, np.array([-6.0]), ONE, 1.0, 0.0)
    assert below.value[0] == below.low[0] == 0.0 < below.high[0]


def test_the_floor_adds_what_noise_hides_up_to_the_release() -> None:
    few = shown(100 * ONE, 20 * ONE, 100 * ONE, ONE, 1.0, 0.0)
    assert few.stddev[0] == pytest.approx(np.sqrt(101.0))
    many = shown(1e6 * ONE, 20 * ONE, 1e6 * ONE, ONE, 1.0, 0.0)
    assert not many.claims[0] and many.stddev[0] == 20.0


def test_the_narrower_of_two() -> None:
    a = shown(ONE, 10 * ONE, ONE, 4 * ONE, 0.0, None)
    b = shown(ONE, 10 * ONE, 2 * ONE, ONE, 0.0, None)
    assert narrower(a, b)[0].value[0] == 2.0 and narrower(b, a)[0].value[0] == 2.0
    assert narrower(a, b)[1][0] and not narrower(b, a)[1][0]


class Draw(NamedTuple):
    """(ticks, 1) each."""

    truth: Floats
    release: Floats
    live: Estimates
    hindsight: Estimates
    stddev: Floats


def draw(values: Floats, own: EstimateSource, seed: int, counts: Floats | None = None) -> Draw:
    """One key under the noise of a source."""
    n, over, rng = len(values), 7, np.random.default_rng(seed)
    noise, fresh = (own.law.walk(rng.normal(size=(1, n))).T for _ in range(2))
    totals, counted = np.cumsum(values)[:, None], None
    if counts is None:
        released = totals + own.unit * noise
    else:
        counted = np.cumsum(counts)[:, None] + 4 * noise
        released = totals + 50 * 4 * noise + 2000 * fresh
    matrix = own.law.walk(np.eye(n)).T
    apart = matrix - np.concatenate([np.zeros((over, n)), matrix[:-over]])
    stddev = own.unit * np.sqrt((apart**2).sum(axis=1))
    tracker = Tracker(own, 7, 1, counts=counts is not None)
    live = [
        tracker.add(released[t], {over: stddev[t]}, None if counted is None else counted[t])[over]
        for t in range(n)
    ]
    joined = Estimates(*(np.stack(item) for item in zip(*live, strict=True)))
    after = tracker.hindsight({over: stddev[:, None]})[over]
    return Draw(windows(totals, over), windows(released, over), joined, after, stddev[:, None])


def ratio(item: Draw, of: Estimates, begin: int = 20) -> float:
    own, theirs = (item.release - item.truth)[begin:], (of.value - item.truth)[begin:]
    return float(np.sqrt((own**2).mean() / (theirs**2).mean()))


@pytest.mark.slow
@pytest.mark.parametrize("law", [LAW, IndependentLaw()], ids=lambda law: law.name)
def test_noise_that_dominates_goes_and_a_signal_that_does_stays(law: NoiseLaw) -> None:
    """Synthetic counts: of a level of 40 under noise of 40; and of one under noise of 0.1."""
    values = np.random.default_rng(0).poisson(40, 90).astype(float)
    quiet = [draw(values, source(law, 40.0), seed) for seed in range(2)]
    assert np.mean([ratio(item, item.live) for item in quiet]) > 2
    assert np.mean([ratio(item, item.hindsight) for item in quiet]) > 2.5
    loud = draw(values, source(law, 0.1), 0)
    assert not loud.live.claims.any() and ratio(loud, loud.live) == 1.0


@pytest.mark.slow
def test_no_series_is_worse_than_its_release_and_three_deviations() -> None:
    """Steps, spikes and nothing at all; a mutant without the guard fails on the spike."""
    spike = np.full(80, 10.0)
    spike[50] += 4000
    step = np.where(np.arange(80) < 40, 10.0, 200.0)
    for values in (spike, step, np.zeros(80)):
        item = draw(values, source(unit=40.0), 1)
        for of in (item.live, item.hindsight):
            own, theirs = np.abs(item.release - item.truth), np.abs(of.value - item.truth)
            assert np.all(theirs <= own + GUARD * item.stddev + 1e-9)


@pytest.mark.slow
def test_a_count_next_to_a_sum_helps() -> None:
    rng = np.random.default_rng(3)
    level = np.concatenate([np.full(50, 90.0), np.full(40, 20.0)])
    counts = rng.poisson(level).astype(float)
    paid = np.array([rng.gamma(2, 15, int(n)).clip(0, 100).sum() for n in counts])
    item = draw(paid, source(count=True), 0, counts)
    assert np.mean((item.live.low <= item.truth) & (item.truth <= item.live.high)) > 0.85
    alone = draw(paid, source(unit=source(count=True).unit), 0)
    assert ratio(item, item.live) > 1.2 * ratio(alone, alone.live)


def test_spans_that_are_too_long_are_refused() -> None:
    with pytest.raises(ConfigError, match="at most 400 ticks"):
        Tracker(source(overs=(401,)), 7, 1)


def test_facts_are_of_the_plan_alone_and_say_which_noise_a_sum_shares_with_its_count() -> None:
    plan = Plan.from_yaml("""
name: shop
schema: {time: at}
clock: {start: 2025-01-01T00:00:00Z, period: 1h, end: 2025-02-01T00:00:00Z}
privacy: {epsilon: 1, delta: 1e-6, protect_for: all}
aggregates:
  visits: {count: events}
  spent: {sum: paid, clip: [0, 10]}
  others: {sum: paid, clip: [0, 10], where: "paid > 5"}
""")
    facts = facts_of(plan)
    assert facts["season"] == 24
    visits, spent, others = (EstimateSource.of(entry) for entry in facts["outputs"])
    assert (spent.count, others.count, visits.count) == ("visits", None, None)
    assert spent.unit_with_count(0.0) == pytest.approx(spent.unit)
    assert min(spent.unit_with_count(np.linspace(0, 10, 11))) < spent.unit
    stddev = {(o.name, o.over): s for o in plan.outputs for s in [o.stddev_worst]}
    matrix = spent.law.walk(np.eye(744)).T
    assert spent.unit * np.sqrt((matrix[-1] ** 2).sum()) == pytest.approx(
        stddev["spent", None], rel=0.02
    )
