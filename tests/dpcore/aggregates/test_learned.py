"""Clips that are learned in private: what they cost, what they choose, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from tests.contracts.test_loss import cost
from weir.dpcore.aggregates.learned import LearnedOutput
from weir.dpcore.bounded_events import Events, bounded
from weir.dpcore.continual import learned
from weir.dpcore.continual.learned import FULL, LearnedSum, clipped, narrowed
from weir.dpcore.errors import ConfigError
from weir.dpcore.noise.key_ring import KeyRing
from weir.dpcore.noise.prf import KeyedNoise
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate, sum_leaves

DAY, TICKS, FIRST = 86_400_000_000, 12, 4
USERS = "unit: user, per: 4d, contributions: {ticks: 3, keys: 2, events: 2},"
BY_HASH = USERS.replace("events: 2}", "events: 2, order: hash}")
GENEROUS = "epsilon: 20, delta: 1e-4, protect_for: all"
LEARN = "{learn: {ticks: 4d, top: 1000, start: 10}}"


def plan_of(
    clip: str = LEARN,
    over: str = "all",
    privacy: str = "",
    more: str = "",
    keys: str = "declared: [a, b]",
    budget: str = "epsilon: 1, delta: 1e-6, protect_for: all",
    rest: str = "",
) -> Plan:
    unit = "unit: who," if "unit: user" in privacy else ""
    return Plan.from_yaml(f"""
name: learned
schema: {{time: t, {unit} id: i}}
key: {{column: k, {keys}}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1d, end: 2024-01-13T00:00:00Z}}
privacy: {{{privacy} {budget}}}
aggregates:
  s: {{sum: x, clip: {clip}, over: {over}}}
  {more}
{rest}
""")


def mechanism_of(plan: Plan) -> LearnedSum:
    (result,) = [p.mechanism for p in plan.program.parts if isinstance(p.mechanism, LearnedSum)]  # type: ignore[attr-defined]
    return result


Row = tuple[int, str, float, str]


def events_of(plan: Plan, rows: list[Row]) -> Events:
    ticks, keys, values, users = zip(*rows, strict=True)
    times = plan.clock.start + np.array(ticks, dtype=np.int64) * DAY
    ids = [f"e{i}" for i in range(len(rows))]
    return Events(times, list(keys), {"x": np.array(values, dtype=np.float64)}, ids, list(users))


def leaves_of(plan: Plan, rows: list[Row]) -> Any:
    return sum_leaves(plan, bounded(plan, events_of(plan, rows), TICKS), TICKS)


def columns_of(plan: Plan, *leaves: Any) -> Iterator[Any]:
    """What the learned part reads."""
    mechanism = mechanism_of(plan)
    (part,) = [p for p in plan.program.parts if p.mechanism is mechanism]  # type: ignore[attr-defined]
    return (leaf[:, :, list(part.coordinates)] for leaf in leaves)


def epsilon_of(plan: Plan, one: Any, other: Any) -> float:
    """Largest epsilon of the histogram and the sums, over some clips that it may choose."""
    mechanism = mechanism_of(plan)
    bins, inner, worst = len(mechanism.edges), mechanism.inner, 0.0
    a, b = columns_of(plan, one, other)
    sizes = np.abs((a - b)[: mechanism.ticks, :, :bins].sum(axis=0)).sum()
    dense = inner.materialize(TICKS)
    for clip in (0, 14, 30, bins - 1):
        places = np.full(a.shape[1], clip)
        change = (clipped(a[:, :, bins:], places) - clipped(b[:, :, bins:], places)).astype(float)
        change[: mechanism.ticks] = 0
        totals = np.cumsum(change, axis=0) / inner.scales[0]
        worst = max(worst, sum(cost(dense, moved, 1) for moved in totals.T if moved.any()))
    return float(sizes / mechanism.sizes_scale + worst / inner.noise_scale)


def squares(plan: Plan, one: Any, other: Any) -> float:
    """Largest squared mu of the histogram and the sums, over the clips that it may choose."""
    mechanism = mechanism_of(plan)
    bins = len(mechanism.edges)
    a, b = columns_of(plan, one, other)
    sizes = (a - b)[: mechanism.ticks, :, :bins].sum(axis=0)
    inner, worst = mechanism.inner, 0.0
    dense = inner.materialize(TICKS)
    for clip in range(bins):
        places = np.full(a.shape[1], clip)
        change = (clipped(a[:, :, bins:], places) - clipped(b[:, :, bins:], places)).astype(float)
        change[: mechanism.ticks] = 0
        totals = np.cumsum(change, axis=0) / inner.scales[0]
        units = np.linalg.lstsq(dense, totals, rcond=None)[0]
        worst = max(worst, float((units**2).sum()) / inner.unit_variance)
    return float((sizes**2).sum()) / mechanism.sizes_scale**2 + worst


BASE: list[Row] = [(1, "a", 7.0, "o"), (6, "a", -40.0, "o"), (7, "b", 3.0, "o")]
VALUES = (1000.0, -1e300, 999.9, 0.5, -31.0, math.nan, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_an_event_is_in_the_histogram_or_in_sums_and_paid_for_once(relation: str) -> None:
    plan = plan_of(privacy=f"relation: {relation},")
    paid = plan.program.loss(None).value ** 2
    results = []
    for tick in (0, 3, 4, 5, 11):
        for i, value in enumerate(VALUES):
            others = VALUES[:i] if relation == "replace_one" else (0.0,)
            one = leaves_of(plan, [*BASE, (tick, "a", value, "n")])
            for other in others:
                results.append(
                    squares(plan, one, leaves_of(plan, [*BASE, (tick, "a", other, "n")]))
                )
    assert 0.99 * paid <= max(results) <= paid * (1 + 1e-9)


PURE = "epsilon: 1, delta: 0, protect_for: all"


@pytest.mark.parametrize("unit", ["", USERS], ids=["event", "user"])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_under_pure_noise_losses_add_up_to_what_is_paid_for(relation: str, unit: str) -> None:
    plan = plan_of(privacy=f"{unit} relation: {relation},", budget=PURE)
    paid, results, replaced = plan.program.loss(None), list[float](), relation == "replace_one"
    assert paid.kind == "pure" and paid.value == pytest.approx(1)
    for tick in (0, 4, 8):
        for value, other in ((1000.0, -1000.0), (0.5, 31.0)):
            new: list[Row] = [(tick, "a", value, "n")]
            old: list[Row] = [(tick, "a", other, "n")] if replaced else []
            if unit:  # all that a user may have in a period, in keys that nobody has otherwise
                cells = [(tick + t, key) for t in range(3) for key in "ab" for _ in (0, 1)]
                new = [(t, key, value, "n") for t, key in cells]
                old = [(t, key, other, "n") for t, key in cells] if replaced else []
            one, without = leaves_of(plan, [*BASE, *new]), leaves_of(plan, [*BASE, *old])
            results.append(epsilon_of(plan, one, without))
    assert max(results) <= paid.value * (1 + 1e-9)
    assert max(results) >= 0.99 * paid.value


def test_an_event_is_paid_for_in_the_keys_of_all_groupings() -> None:
    keys = "declared: [a, b], groups: [[k], []]"
    plan, alone = plan_of(keys=keys), plan_of()
    paid, results = plan.program.loss(None).value ** 2, []
    for tick in (0, 3, 4, 11):
        for value in VALUES[:5]:
            one = leaves_of(plan, [*BASE, (tick, "a", value, "n")])
            assert one.shape[1] == 3
            results.append(squares(plan, one, leaves_of(plan, BASE)))
    assert 0.99 * paid <= max(results) <= paid * (1 + 1e-9)
    ratio = mechanism_of(plan).sizes_scale / mechanism_of(alone).sizes_scale
    assert ratio == pytest.approx(math.sqrt(2)), "one grouping alone would be charged for one"


def test_keys_that_are_discovered_learn_and_pay_for_all_that_a_user_may_touch() -> None:
    plan = plan_of(privacy=USERS, keys="discover: {min_users: 2}", budget=GENEROUS)
    public = plan_of(privacy=USERS, keys="observed_keys_are_public: true", budget=GENEROUS)
    mechanism = mechanism_of(plan)
    assert mechanism.known_keys is None and plan.person is not None
    assert mechanism._learned() == pytest.approx(math.sqrt(6) / mechanism.sizes_scale)
    # A user with other keys at each tick: 6 histograms move by one.
    most: list[Row] = [(t, f"{t}{k}", 900.0, "one") for t in range(3) for k in "ab"]
    sizes = leaves_of(public, most)[:, :, :40].sum(axis=(0, 2))
    assert sorted(sizes.tolist()) == [1] * 6

    rng = np.random.default_rng(5)
    rows: list[Row] = [
        (int(t), "a", 30.0, f"u{i}") for i, t in enumerate(rng.integers(0, TICKS, 900))
    ]
    rows += [(int(t), "late", 900.0, f"v{i}") for i, t in enumerate(rng.integers(8, 12, 300))]
    rows += [(1, "rare", 5.0, "w")]
    events = events_of(plan, rows)
    whole = simulate(plan, events, bytes(32))
    assert [item.key for item in whole] == ["a", "late"]
    for stride in (1, 3, 5):
        pieces = simulate(plan, events, bytes(32), stride=stride)
        for item, other in zip(whole, pieces, strict=True):
            for left, right in zip(item.released, other.released, strict=True):
                np.testing.assert_array_equal(left.value, right.value)
    units = mechanism.stddev(np.arange(TICKS), None)[:, 0]
    clips = []
    for item in whole:
        (paid,) = [released for released in item.released if released.name == "s"]
        assert paid.stddev is not None
        spread = paid.stddev[:, 0, 0] / units[item.first_tick :]
        assert np.isnan(spread[: max(FIRST - item.first_tick, 0)]).all()
        clips.append(spread[-1])
    # 30 lies in the bin that ends at 31.25; of a key that is found later nothing is learned.
    assert clips == [pytest.approx(62.5), pytest.approx(11.05, rel=0.01)]


@pytest.mark.slow
@pytest.mark.parametrize("users", [USERS, BY_HASH], ids=["time", "hash"])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_a_user_of_a_period_moves_no_more_than_is_paid_for(relation: str, users: str) -> None:
    plan = plan_of(privacy=f"{users} relation: {relation},")
    paid, rng, results = plan.program.loss(None).value ** 2, np.random.default_rng(0), []
    for period in (0, 1, 2):
        for _ in range(6):
            drawn = [
                (4 * period + int(t), "ab"[k], float(v), "one")
                for t, k, v in zip(
                    rng.integers(0, 4, 14), rng.integers(0, 2, 14), rng.choice(VALUES[:5], 14),
                    strict=True,
                )
            ]  # fmt: skip
            half = drawn[:7] if relation == "replace_one" else []
            one = leaves_of(plan, [*BASE, *drawn[7:]])
            results.append(squares(plan, one, leaves_of(plan, [*BASE, *half])))
        full = [(4 * period + t, k, 1000.0, "one") for t in range(3) for k in "ab" for _ in (0, 1)]
        results.append(squares(plan, leaves_of(plan, [*BASE, *full]), leaves_of(plan, BASE)))
    assert max(results) <= paid * (1 + 1e-9)
    if relation == "add_remove":
        # Sums are charged as if they began with the clock.
        assert max(results[7:]) >= 0.85 * paid
        assert results[6] == pytest.approx(paid, rel=1e-6), "of the first period: one a key"


def test_rounding_moves_a_narrowed_sum_by_no_more_than_a_full_step() -> None:
    rng = np.random.default_rng(1)
    sums = rng.integers(-(1 << 60), 1 << 60, 4000)
    for halves in range(40):
        for event in (FULL, -FULL, FULL - 1, 1):
            moved = narrowed(sums + event, halves) - narrowed(sums, halves)
            assert np.abs(moved).max() <= FULL
        near = np.abs(narrowed(sums, halves) - sums * 2.0 ** (-halves / 2))
        assert (near <= 2 + np.abs(sums) * 2.0**-32).all()


def test_sums_are_those_of_clipped_values() -> None:
    plan = plan_of()
    mechanism = mechanism_of(plan)
    rng = np.random.default_rng(2)
    values = rng.normal(size=300) * rng.choice([0.1, 5, 200, 4000], 300)
    rows = [
        (FIRST + int(t), "a", float(v), "o")
        for t, v in zip(rng.integers(0, 8, 300), values, strict=True)
    ]
    leaves = leaves_of(plan, rows)
    ticks = np.array([row[0] for row in rows])
    for place, edge in enumerate(mechanism.edges):
        got = clipped(leaves[:, :, 40:], np.full(2, place))[:, 0] * edge / FULL
        for tick in range(FIRST, TICKS):
            want = np.clip(values[ticks == tick], -edge, edge).sum()
            assert abs(got[tick] - want) <= 100 * edge / FULL


def noise_of(keys: int, seed: int, first: int = 0) -> KeyedNoise:
    ring = KeyRing.derive(bytes([seed]) * 32, "n", bytes(32), ())
    return KeyedNoise(ring.at(0), 0, [f"k{i}".encode() for i in range(keys)], first)


def test_the_histogram_has_noise_of_the_scale_that_is_paid_for_and_of_no_other() -> None:
    """A bin that lies one scale above the threshold is found in 84.1 % of keys."""
    mechanism, keys = replace(mechanism_of(plan_of()), sizes_scale=50.0, threshold=200.0), 4000
    sizes = np.zeros((keys, 40), dtype=np.int64)
    sizes[:, 39] = 250
    clip = mechanism.decided(sizes, noise_of(keys, 1), np.zeros((keys, 2), dtype=np.uint64))
    share, error = float((clip == 39).mean()), 4 * math.sqrt(0.13 / keys)
    assert abs(share - norm.cdf(1)) < error
    assert abs(norm.cdf(1 / 1.2) - norm.cdf(1)) > error, "a scale that is off would show"


def test_the_clip_is_twice_the_highest_bin_whose_noisy_count_is_above_the_threshold() -> None:
    mechanism, keys = mechanism_of(plan_of()), 20_000
    sizes = np.zeros(40, dtype=np.int64)
    sizes[[12, 20, 21, 25, 30]] = (900, 25, 18, 15, 9)
    threshold = -norm.ppf(0.001 / 40) * mechanism.sizes_scale
    assert mechanism.threshold == pytest.approx(threshold, rel=1e-4)
    assert mechanism.sizes_scale == pytest.approx(1 / mechanism.loss(None).value, rel=1e-6)
    found = norm.sf((threshold - sizes) / mechanism.sizes_scale)
    highest = found * np.append(np.cumprod(1 - found[:0:-1])[::-1], 1.0)
    expected = np.zeros(40)
    np.add.at(expected, np.minimum(np.arange(40) + 2, 39), highest)
    clip = mechanism.decided(
        np.tile(sizes, (keys, 1)), noise_of(keys, 3), np.zeros((keys, 2), dtype=np.uint64)
    )
    shares = np.bincount(clip, minlength=40) / keys
    error = 4 * np.sqrt(np.maximum(expected, 1 / keys) / keys)
    assert (np.abs(shares - expected) < error).all()
    assert (expected[[14, 22, 27, 32]] > 0.005).all(), "each of these bins is the highest at times"


@pytest.mark.parametrize(("scale", "right"), [(1.0, True), (1.25, False)])
def test_under_pure_noise_the_histogram_has_laplace_noise(scale: float, right: bool) -> None:
    """A bin that lies two scales above the threshold is missed in e^-2 / 2 of keys."""
    mechanism, keys = replace(mechanism_of(plan_of(budget=PURE)), threshold=200.0), 8000
    sizes = np.zeros((keys, 40), dtype=np.int64)
    sizes[:, 39] = 300
    noisy = replace(mechanism, sizes_scale=50.0 * scale)
    clip = noisy.decided(sizes, noise_of(keys, 1), np.zeros((keys, 2), dtype=np.uint64))
    share = float((clip != 39).mean())
    assert (abs(share - math.exp(-2) / 2) < 4 * math.sqrt(0.07 / keys)) == right
    nobody = mechanism_of(plan_of(budget=PURE))
    clip = nobody.decided(0 * sizes, noise_of(keys, 2), np.zeros((keys, 2), dtype=np.uint64))
    assert (clip != nobody.start).mean() < 0.003


def test_an_empty_histogram_gives_the_start_value_almost_always() -> None:
    mechanism = mechanism_of(plan_of())
    keys = 10_000
    sizes = np.zeros((keys, 40), dtype=np.int64)
    clip = mechanism.decided(sizes, noise_of(keys, 2), np.zeros((keys, 2), dtype=np.uint64))
    assert abs((clip != mechanism.start).mean() - 0.001) < 4 * math.sqrt(0.001 / keys)
    assert mechanism.edges[mechanism.start] == pytest.approx(11.05, rel=0.01)
    assert mechanism.edges[mechanism.start - 1] < 10


def test_sums_have_noise_in_proportion_to_the_clip() -> None:
    rng, shares = np.random.default_rng(3), []
    plan = plan_of()
    rows: list[Row] = [(int(t), "a", 200.0, "o") for t in rng.integers(0, TICKS, 3000)]
    truth = np.cumsum(np.bincount([t for t, *_ in rows if t >= FIRST], minlength=TICKS)) * 200.0
    for seed in range(25):
        a, b = simulate(plan, events_of(plan, rows), bytes([seed]) * 32)
        value, spread = (item[:, 0, 0] for item in (a.released[0].value, a.released[0].stddev))  # type: ignore[index]
        assert np.isnan(value[:FIRST]).all() and np.isnan(spread[:FIRST]).all()
        unit = spread / mechanism_of(plan).stddev(np.arange(TICKS), None)[:, 0]
        # 200 lies in the bin that ends at 250: twice that, frozen.
        assert unit[FIRST:] == pytest.approx(500.0)
        shares.extend(((value - truth) / spread)[[FIRST, -1]])
        other = b.released[0].stddev
        assert other is not None
        assert (other[FIRST:, 0, 0] < spread[FIRST:]).all(), "nobody is there: the start value"
    assert abs(np.std(shares) - 1) < 4 / math.sqrt(2 * len(shares))


def test_strides_and_late_keys_change_nothing() -> None:
    rng = np.random.default_rng(4)
    plan = plan_of(keys="observed_keys_are_public: true")
    rows: list[Row] = [(int(t), "a", 30.0, "o") for t in rng.integers(0, TICKS, 500)]
    rows += [(9, "late", 900.0, "o")] * 50
    events = events_of(plan, rows)
    whole = simulate(plan, events, bytes(32))
    for stride in (1, 3, 5):
        pieces = simulate(plan, events, bytes(32), stride=stride)
        for one, other in zip(whole, pieces, strict=True):
            np.testing.assert_array_equal(one.released[0].value, other.released[0].value)
    late = next(one for one in whole if one.key == "late").released[0]
    assert late.stddev is not None
    units = mechanism_of(plan).stddev(np.arange(TICKS), None)[:, 0]
    start = plan.outputs[0].stddev_worst / units[-1]
    assert late.stddev[:, 0, 0] / units[9:] == pytest.approx(start), "nothing was learned of it"


def test_plans_say_what_a_bound_needs_and_keep_parts_apart() -> None:
    plan = plan_of(more="n: {count: events}", over="[all, 3]")
    assert any("first 4 ticks choose its bound" in note for note in plan.notes)
    assert plan.program.loss(None).epsilon(1e-6) <= 1 + 1e-9
    (output,) = [out for out in plan.program.infos if isinstance(out, LearnedOutput)]  # type: ignore[attr-defined]
    assert output.unit == pytest.approx(11.05, rel=0.01)
    assert "nothing of the first 4 ticks" in plan.left_out("s")
    users = plan_of(privacy=USERS, budget="epsilon: 1, delta: 1e-6, protect_for: 4d")
    mechanism = mechanism_of(users)
    two, three = (mechanism.loss_of_periods(n, 4, n).value for n in (2, 3))
    assert mechanism.loss(4).value < two < three


# ---- mutants


def test_a_mutant_whose_sums_begin_too_early_is_seen() -> None:
    """Users: an event of the first ticks in both would be charged for one."""
    plan = plan_of()
    paid = plan.program.loss(None).value ** 2
    one, other = leaves_of(plan, [*BASE, (0, "a", 1000.0, "n")]), leaves_of(plan, BASE)
    assert squares(plan, one, other) <= paid * (1 + 1e-9)
    part = plan.program.parts[0]  # type: ignore[attr-defined]
    early = replace(part.mechanism, ticks=0)
    wrong = replace(plan, program=replace(plan.program, parts=(replace(part, mechanism=early),)))  # type: ignore[type-var]
    sizes = (one - other)[:FIRST, :, :40].sum() / part.mechanism.sizes_scale
    assert squares(wrong, one, other) + sizes**2 > 1.9 * paid


def test_a_mutant_that_counts_a_user_more_than_once_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from weir.dpcore.aggregates.channel import UserCells

    monkeypatch.setattr(UserCells, "first_of_new", lambda self, coordinate: coordinate)
    plan = plan_of(privacy=USERS)
    full: list[Row] = [(t, k, 1000.0, "one") for t in range(3) for k in "ab" for _ in (0, 1)]
    found = squares(plan, leaves_of(plan, [*BASE, *full]), leaves_of(plan, BASE))
    assert found > 10 * plan.program.loss(None).value ** 2


def test_a_mutant_that_clips_by_the_top_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned, "narrowed", lambda values, halves: values)
    one, other = np.zeros((1, 1, 80), dtype=np.int64), np.zeros((1, 1, 80), dtype=np.int64)
    one[0, 0, 5] = FULL  # a value of a low bin, as if it were one of the clip's
    assert clipped(one, np.array([9]))[0, 0] == FULL != 0 == clipped(other, np.array([9]))[0, 0]
    monkeypatch.undo()
    assert clipped(one, np.array([9]))[0, 0] == FULL // 4


def test_mutants_that_charge_for_one_grouping_or_in_squares_are_seen() -> None:
    plan = plan_of(keys="declared: [a, b], groups: [[k], []]")
    one, other = leaves_of(plan, [*BASE, (0, "a", 900.0, "n")]), leaves_of(plan, BASE)
    mechanism = mechanism_of(plan)
    alone = replace(mechanism, sizes_moved=1)
    assert squares(plan, one, other) == pytest.approx(mechanism._learned() ** 2)
    assert squares(plan, one, other) > 1.9 * alone._learned() ** 2
    pure = plan_of(privacy=USERS, budget=PURE)
    full: list[Row] = [(t, k, 1000.0, "one") for t in range(3) for k in "ab"]
    moved = epsilon_of(pure, leaves_of(pure, [*BASE, *full]), leaves_of(pure, BASE))
    assert moved == pytest.approx(pure.program.loss(None).value)
    assert moved * mechanism_of(pure).sizes_scale > 1.4 * math.sqrt(2), (
        "as if keys added in squares"
    )


# ---- refusals


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        ({"clip": "{learn: {ticks: 4, top: 5, start: 10}}"}, "clip.learn.start", "at most top"),
        ({"clip": "{learn: {ticks: 12, top: 50, start: 10}}"}, "clip.learn.ticks", "fewer than"),
        ({"privacy": "relation: replace_anywhere,"}, "privacy.relation", "moves events"),
        ({"budget": "epsilon: 1, delta: 1e-14, protect_for: all"}, "privacy.delta", "Gaussian"),
        ({"rest": "mechanism: {noise: discrete_gaussian}"}, "mechanism.noise", "or pure noise"),
        (
            {"privacy": USERS, "clip": "{learn: {ticks: 3, top: 50, start: 10}}"},
            "clip.learn.ticks",
            "end with a period",
        ),
        ({"privacy": USERS.replace("4d", "all")}, "privacy.per", "one period"),
        (
            {"privacy": USERS, "keys": "declared: [a], groups: [[k], []]"},
            "key.groups",
            "meet in coarser keys; give each grouping a plan of its own, or write a public",
        ),
        (
            {"keys": "declared: [a], groups: [[k], []], weights: [1, 2]"},
            "key.groups",
            "weights need public clips; give each grouping a plan of its own",
        ),
        ({"clip": "{learn: {ticks: 4, top: 50}}"}, "clip.learn.start", "is missing"),
        ({"clip": "{learn: {ticks: 4, top: 50, start: 1, times: 0.5}}"}, "learn.times", "from 1"),
        ({"clip": "[5, 1]"}, "clip", "low below high"),
        ({"clip": "7"}, "clip", "[low, high]"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(
    change: dict[str, str], field: str, says: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        plan_of(**change)
    assert refused.value.field.endswith(field) and says in str(refused.value), refused.value


def test_a_mean_is_told_what_to_do_instead() -> None:
    with pytest.raises(ConfigError, match=r"clip = .*learned for sums only.*divide them"):
        plan_of(more=f"m: {{mean: x, clip: {LEARN}}}")


def test_an_audit_and_a_run_say_what_to_do(tmp_path: Path) -> None:
    from weir.pipelines.audit.audit import Audited
    from weir.pipelines.config.job import loads
    from weir.pipelines.graph.parts import parts_of
    from weir.pipelines.results.learned import learned_bounds
    from weir.pipelines.run.run import run

    lines = ["t,i,k,x"]
    lines += [f"2024-01-{1 + i % 12:02d}T00:00:00Z,e{i},a,{100 + i % 7}" for i in range(2400)]
    (tmp_path / "e.csv").write_text("\n".join([*lines, "2024-01-09T00:00:00Z,z,b,3"]) + "\n")
    text = f"""
name: learned
source: {{csv: {tmp_path}/e.csv}}
schema: {{time: t, id: i}}
key: {{column: k, declared: [a, b]}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1d, end: 2024-01-13T00:00:00Z}}
privacy: {{epsilon: 1, delta: 1e-6, protect_for: all}}
aggregates: {{s: {{sum: x, clip: {LEARN}}}}}
sink: {{parquet: {tmp_path}/out}}
"""
    job = loads(text)
    with pytest.raises(ConfigError, match="two public numbers as clip"):
        Audited.of(job)
    result = run(parts_of(job, "local"), "local")
    (note,) = [note for note in result.notes if note.startswith("s: ")]
    assert "1 key of 2 have the start value, 11.05" in note and "Learn from more ticks" in note
    bounds = learned_bounds(result.plan, tmp_path / "out")["s"]
    assert bounds == {"a": pytest.approx(250.0), "b": pytest.approx(11.05, rel=0.01)}
