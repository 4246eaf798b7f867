"""Users in several groupings: what one moves in all of them is what is paid for, by replay."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from weir.dpcore.accounting import contributions, groupings
from weir.dpcore.accounting.contributions import Pattern, over_keys
from weir.dpcore.accounting.groupings import CellPowers, KeyGroupings
from weir.dpcore.bounded_events import Events, bounded
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.keys import grouping_of, key_text
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate, sum_leaves
from weir.dpcore.users.hash_order import _Bounds

DAY, TICKS, SPAN = 86_400_000_000, 12, 6
PAIRS = [
    ("paris", "shoes"),
    ("paris", "hats"),
    ("paris", "ties"),
    ("rome", "hats"),
    ("rome", "ties"),
]
THREE = "[[city], [city, product], []]"
CROSSED = "[[city], [product], []]"
OUTPUTS = {
    "events": "n: {count: events}",
    "users": "n: {count: users}",
    "period": "n: {count: users, per: period}",
    "sum": "n: {sum: x, clip: [-1, 4]}",
    "own": "n: {mean: x, clip: [0, 4], of: users}",
    "bins": "n: {histogram: x, edges: [0, 1, 2, 4], of: users}",
    "clip_user": "n: {sum: x, clip_user: [-1, 4]}",
}
MIXED = "n: {count: events}\n  u: {count: users}\n  p: {count: users, per: period}"


def plan_of(
    outputs: str,
    groups: str = THREE,
    caps: str = "{ticks: 3, keys: 2, events: 2}",
    more: str = "",
    weights: str = "",
    relation: str = "add_remove",
    keys: str = "",
) -> Plan:
    declared = keys or f"declared: {[list(pair) for pair in PAIRS]}"
    return Plan.from_yaml(f"""
name: groups
schema: {{time: t, unit: who}}
key: {{columns: [city, product], groups: {groups}, {weights} {declared}}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1d, end: 2024-01-13T00:00:00Z}}
privacy: {{epsilon: 1, delta: 1e-6, protect_for: all, unit: user, per: 6d,
          contributions: {caps}, relation: {relation}}}
{more}
aggregates:
  {outputs}
""")


def events_of(plan: Plan, rows: list[tuple[int, int, float, str]]) -> Events:
    """Events (tick, place in PAIRS, value, user)."""
    ticks, cells, values, users = zip(*rows, strict=True)
    return Events(
        plan.clock.start + np.array(ticks, dtype=np.int64) * DAY,
        [key_text(PAIRS[cell]) for cell in cells],
        {"x": np.array(values, dtype=np.float64)},
        users=list(users),
    )


def leaves_of(plan: Plan, rows: list[tuple[int, int, float, str]]) -> Any:
    return sum_leaves(plan, bounded(plan, events_of(plan, rows), TICKS), TICKS)


def squares(plan: Plan, change: Any) -> float:
    """Squared mu of everything that is released, for a change of the exact sums (T, K, D)."""
    total = 0.0
    for part in plan.program.parts:
        mechanism = part.mechanism
        scales = np.asarray(mechanism.scales)
        mine = change[:, :, list(part.coordinates)] / scales
        dense, moved = mechanism.materialize(TICKS), np.cumsum(mine, axis=0)
        over = None if None in mechanism.overs else mechanism.overs[0]
        if over is not None:
            full, sums = dense.copy(), moved.copy()
            dense[over:] -= full[:-over]
            moved[over:] -= sums[:-over]
        units = np.linalg.lstsq(dense, moved.reshape(TICKS, -1), rcond=None)[0]
        total += float((units**2).sum()) / mechanism.unit_variance
    return total


BASE = [(0, 0, 1.0, "other"), (1, 1, 2.0, "other"), (7, 3, 3.0, "other")]


def fullest(cells: tuple[int, ...], ticks: tuple[int, ...], value: float, events: int) -> Any:
    """All that a user may add."""
    return [(t, c, value, "one") for t in ticks for c in cells for _ in range(events)]


def worst(plan: Plan, caps: Any, values: tuple[float, ...] = (4.0,)) -> float:
    """Largest mu of a user of one period against a stream without, over who has what where."""
    without, results = leaves_of(plan, BASE), []
    for ticks in ((0, 1, 2), (0, 2, 5), (3, 4, 5)):
        for cells in itertools.combinations(range(len(PAIRS)), caps.keys):
            for value in values:
                rows = fullest(cells, ticks[: caps.ticks], value, caps.events)
                results.append(squares(plan, leaves_of(plan, [*BASE, *rows]) - without))
    return math.sqrt(max(results))


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["blt", "tree", "ended", "independent", "toeplitz"])
@pytest.mark.parametrize("groups", [THREE, CROSSED])
def test_a_user_moves_all_groupings_by_what_is_paid_for(groups: str, mechanism: str) -> None:
    more = f"mechanism: {{continual_sum: {mechanism}, noise: gaussian}}"
    plan = plan_of(OUTPUTS["events"], groups, more=more, weights="weights: [1, 3, 1],")
    result, paid = worst(plan, plan.person.caps), plan.program.loss(None).value  # type: ignore[union-attr]
    assert result <= paid * (1 + 1e-9)
    # Not every city and product can be full at once; trees are bounded level by level.
    loose = {"tree": 0.7, "toeplitz": 0.85}.get(mechanism, 0.999)
    least = min(loose, 0.85) if groups is CROSSED else loose
    assert result >= least * paid


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(OUTPUTS))
def test_what_counts_users_is_paid_for_and_attained(kind: str) -> None:
    more = "mechanism: {continual_sum: blt, noise: gaussian}"
    plan = plan_of(OUTPUTS[kind], more=more)
    result = worst(plan, plan.person.caps, (-1.0, 0.0, 3.0, 4.0))  # type: ignore[union-attr]
    paid = plan.program.loss(None).value
    # A user may meet other keys of a city at every tick, but not of all groupings the most at once.
    assert 0.6 * paid <= result <= paid * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["time", "hash"])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("seed", range(3))
def test_no_random_user_moves_more(seed: int, relation: str, order: str) -> None:
    rng = np.random.default_rng(seed)
    caps = f"ticks: {rng.integers(1, 4)}, keys: {rng.integers(1, 4)}, events: 2, total: 5"
    more = "" if seed else "mechanism: {continual_sum: blt, noise: gaussian}"
    plan = plan_of(MIXED, caps=f"{{{caps}, order: {order}}}", more=more, relation=relation)
    paid = plan.program.loss(None).value ** 2
    for _ in range(25):
        drawn = [
            (int(t), int(c), float(x), "one")
            for t, c, x in zip(
                rng.integers(0, SPAN, 12),
                rng.integers(0, 5, 12),
                rng.choice([0, 4], 12),
                strict=True,
            )
        ]
        half = drawn[:6] if relation == "replace_one" else []
        whole = leaves_of(plan, [*BASE, *drawn[6:]])
        change = whole - leaves_of(plan, [*BASE, *half])
        assert squares(plan, change) <= paid * (1 + 1e-9)


def test_users_count_once_in_every_grouping() -> None:
    plan = plan_of(MIXED)
    rows = [
        (0, 0, 1.0, "a"),
        (0, 1, 1.0, "a"),
        (0, 3, 1.0, "b"),
        (1, 2, 1.0, "a"),
        (1, 2, 1.0, "b"),
    ]
    bound = bounded(plan, events_of(plan, rows), TICKS)
    leaves = sum_leaves(plan, bound, TICKS)
    starts = dict(zip(("events", "users", "newcomers"), plan.program.starts, strict=False))
    takes = [channel.takes for channel in plan.program.channels]
    times = dict(zip(plan.program.groups, plan.program.times, strict=True))
    steps = [1 / channel.resolution for channel in plan.program.channels]
    place = {name.decode(): at for at, name in enumerate(bound.names)}

    def counts(key: str, named: tuple[bool, ...], kind: str) -> list[float]:
        at = takes.index(kind)
        return list(leaves[:3, place[key], starts_of[at]] / steps[at] / times[named])

    starts_of = list(plan.program.starts)
    assert len(starts) == 3
    total, paris, ties = "[null,null]", '["paris",null]', '["paris","ties"]'
    assert counts(total, (False, False), "events") == [3, 2, 0]
    assert counts(total, (False, False), "users") == [2, 2, 0]
    assert counts(total, (False, False), "newcomers") == [2, 0, 0]
    assert counts(paris, (True, False), "users") == [1, 2, 0]
    assert counts(paris, (True, False), "newcomers") == [1, 1, 0]
    assert counts(ties, (True, True), "newcomers") == [0, 2, 0]


@pytest.mark.parametrize("noise", ["k_norm", "laplace"])
def test_pure_losses_of_groupings_add_up(noise: str) -> None:
    more = f"mechanism: {{continual_sum: independent, noise: {noise}}}"
    plan = plan_of(
        "n: {count: events}\n  u: {count: users}", more=more, weights="weights: [1, 1, 8],"
    )
    without, results = leaves_of(plan, BASE), []
    for cells in itertools.combinations(range(len(PAIRS)), 2):
        change = leaves_of(plan, [*BASE, *fullest(cells, (0, 2, 5), 1.0, 2)]) - without
        spent = 0.0
        for part in plan.program.parts:
            scales, order = np.asarray(part.mechanism.scales), 1 if noise == "laplace" else 2
            norms = np.linalg.norm(change[:, :, list(part.coordinates)] / scales, order, axis=2)
            spent += float(norms.sum()) / part.mechanism.noise_scale
        results.append(spent)
    assert len(set(plan.program.times)) > 1
    paid = plan.program.loss(None).value
    assert 0.75 * paid <= max(results) <= paid * (1 + 1e-9) and paid <= 1 + 1e-9


def test_no_user_touches_more_keys_than_finding_them_is_priced_for() -> None:
    found = plan_of(OUTPUTS["events"], keys="discover: {min_users: 2}")
    assert found.discovery is not None
    # 6 keys of the finest grouping in 3 ticks, cities that nobody knows, and the total.
    assert found.discovery.touched == 6 + 6 + 1
    assert found.program.times == (1, 1, 1)
    period = [(t, c, 1.0, "one") for t in (0, 1, 2) for c in range(5)]
    bound = bounded(found, events_of(found, period), TICKS)
    leaves = sum_leaves(found, bound, TICKS)[:, :, found.discovery.leaf]
    assert leaves.sum(axis=0).max() == found.discovery.step, "once a key and period"
    assert (leaves > 0).any(axis=0).sum() <= found.discovery.touched


def test_noise_of_every_grouping_is_as_large_as_it_says_and_no_larger() -> None:
    more = "mechanism: {continual_sum: independent, noise: gaussian}"
    plan = plan_of("n: {count: events, over: 1}", more=more, weights="weights: [1, 1, 20],")
    assert len(set(plan.program.times)) > 1
    ratios: dict[tuple[bool, ...], list[float]] = {}
    events = events_of(plan, BASE)
    for seed in range(60):
        for one in simulate(plan, events, bytes([seed]) * 32):
            truth = np.zeros(TICKS)
            for tick, cell, _, _ in BASE:
                truth[tick] += one.key in plan.keys.grouped(key_text(PAIRS[cell]))
            (released,) = one.released
            assert released.stddev is not None
            shares = (released.value[:, 0, 0] - truth) / released.stddev[:, 0, 0]
            ratios.setdefault(grouping_of(one.key), []).extend(shares.tolist())
    for each in ratios.values():
        spread, error = float(np.std(each)), 1 / math.sqrt(2 * len(each))
        assert abs(spread - 1) < 4 * error < 0.12, "a scale that is off by an eighth would show"
    sd = {n: plan.outputs[0].stddev_worst * min(plan.program.times) / t
          for n, t in zip(plan.program.groups, plan.program.times, strict=True)}  # fmt: skip
    for one in simulate(plan, events, bytes(32)):
        assert one.released[0].stddev is not None
        assert one.released[0].stddev.max() == pytest.approx(sd[grouping_of(one.key)], rel=1e-6)


# ---- mutants: each under-charges, and the replay sees it


def test_a_mutant_that_lets_cells_in_by_their_hashes_alone_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caps, more = "{ticks: 3, keys: 2, events: 2, order: hash}", "mechanism: {continual_sum: blt}"
    plan = plan_of(OUTPUTS["events"], caps=caps, more=more)
    rows = fullest((0, 1, 2, 3), (0, 1, 2, 4, 5), 4.0, 2)

    def moved() -> float:
        change = leaves_of(plan, [*BASE, *rows]) - leaves_of(plan, BASE)
        return math.sqrt(squares(plan, change)) / plan.program.loss(None).value

    assert 0.5 < moved() <= 1 + 1e-9
    full = _Bounds.full
    monkeypatch.setattr(_Bounds, "full", lambda self, cells: full(self, cells) * 0)
    monkeypatch.setattr(
        _Bounds, "fits_with_all_before", lambda self, cells: np.ones(len(cells), dtype=bool)
    )
    assert moved() > 1.5


def test_a_mutant_that_forgets_that_keys_meet_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeyGroupings, "merged", lambda self, at: self.keys)
    plan = plan_of(OUTPUTS["events"], more="mechanism: {continual_sum: blt, noise: gaussian}")
    assert worst(plan, plan.person.caps) > 1.1 * plan.program.loss(None).value  # type: ignore[union-attr]


def test_a_mutant_that_merges_within_the_bound_on_ticks_of_a_key_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other keys at other ticks meet in a coarser one: its ticks are all of the user's."""

    def wrong(self: KeyGroupings, pattern: Pattern, *rest: Any) -> Any:
        made = right(self, pattern, *rest)
        return replace(made, coarse_ticks=pattern.key_ticks)

    right = KeyGroupings.pattern
    text = (OUTPUTS["events"], THREE, "{ticks: 3, keys: 1, events: 1, ticks_per_key: 1}")
    more = "mechanism: {continual_sum: blt, noise: gaussian}"
    rows = [(0, 0, 1.0, "one"), (1, 1, 1.0, "one"), (2, 2, 1.0, "one")]

    def ratio() -> float:
        plan = plan_of(*text, more=more)
        change = leaves_of(plan, [*BASE, *rows]) - leaves_of(plan, BASE)
        return math.sqrt(squares(plan, change)) / plan.program.loss(None).value

    assert 0.99 < ratio() <= 1 + 1e-9
    monkeypatch.setattr(KeyGroupings, "pattern", wrong)
    assert ratio() > 1.2


def test_a_mutant_that_ignores_how_often_contributions_count_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = plan_of(OUTPUTS["events"], weights="weights: [1, 9, 1],")
    assert plan.program.times != (1, 1, 1)
    monkeypatch.setattr(type(plan.program), "times_of", lambda self, at: max(self.times))
    assert worst(plan, plan.person.caps) > 1.1 * plan.program.loss(None).value  # type: ignore[union-attr]


# ---- numbers


def groupings_of(sizes: tuple[int, ...], keys: int, **more: Any) -> KeyGroupings:
    own = ((True, True), (True, False))
    return KeyGroupings(own, ((1,) * sum(sizes), sizes), (1.0, 1.0), keys, **more)


def test_merged_keys_fill_the_largest_first() -> None:
    for sizes, keys in itertools.product([(3, 2, 1), (1, 1), (5,), (2, 2)], range(1, 5)):
        every = itertools.product(*(range(size + 1) for size in sizes))
        brute = max(sum(x * x for x in xs) for xs in every if sum(xs) <= keys)
        assert groupings_of(sizes, keys).merged(1) == brute
        assert groupings_of(sizes, keys).merged(0) == keys
    assert replace(groupings_of((2,), 4), sizes=(None, None)).merged(1) == 16


def test_the_split_has_the_least_weighted_variance() -> None:
    """k = 4, finest and total, 3.46 and 4.90 where equal scales have 4.47."""
    made = groupings_of((9,), 4)
    made = replace(made, names=((True,), (False,)))
    times = made.times("gdp")
    moved = math.sqrt(4 * times[0] ** 2 + 16 * times[1] ** 2)
    assert [moved / times[0], moved / times[1]] == pytest.approx([3.46, 4.90], rel=0.01)
    once = replace(made, once=True).times("gdp")
    moved = math.sqrt(4 * once[0] ** 2 + once[1] ** 2)
    assert [moved / once[0], moved / once[1]] == pytest.approx([2.45, 1.73], rel=0.01)
    assert replace(made, even=True).times("gdp") == (1, 1) == made.times("pure")


def test_a_merged_pattern_adds_groupings_up() -> None:
    pattern = Pattern(6, 6, 3, 1, 2, 3, None, 6)
    made = groupings_of((2, 2), 2).pattern(pattern, CellPowers(1.0, 0.0, 0.0), "gdp", False)
    times = groupings_of((2, 2), 2).times("gdp")
    want = times[0] ** 2 * 2 * 10.0 + times[1] ** 2 * 4 * 10.0
    assert over_keys(lambda count: 10.0 * (count == 3), made) == pytest.approx(want)
    single = made.single()
    assert over_keys(lambda count: 1.0, single) == pytest.approx(sum(t * t for t in times))
    assert made.spread == (3, pytest.approx(want / 10))
    assert groupings.MOST_TIMES == 64 and contributions.MergedPattern is type(single)


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        ({"outputs": "n: {count: users, over: 3}"}, "key.groups", "several groupings at once"),
        ({"outputs": "n: {count: users, at: events}"}, "aggregates.n.at", "several bounds meet"),
        ({"weights": "weights: [1, 2],"}, "key.weights", "each of 3 groups"),
        (
            {"keys": "discover: {min_users: 2}", "weights": "weights: [1, 2, 1],"},
            "key.weights",
            "the same noise",
        ),
        ({"keys": "discover: {min_users: 2, sample: 0.5}"}, "key.discover.sample", "totals"),
        (
            {"outputs": "n: {sum: x, clip: {learn: {ticks: 6d, top: 9, start: 1}}}"},
            "key.groups",
            "cannot be combined with aggregates.n.clip.learn",
        ),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(
    change: dict[str, str], field: str, says: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        plan_of(**{"outputs": OUTPUTS["events"], **change})
    assert refused.value.field == field and says in str(refused.value)
