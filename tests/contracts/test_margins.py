"""Margins of error cover what they are about, and are no wider than the plan says: of every
registered output, whatever publishes ``stddev``, or ``low`` and ``high``.

Statistical: hundreds of keys with noise of their own, under a fixed secret. A release of 15 times
the noise that its margin is made of fails, and so does one whose plan guarantees a fifteenth of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.contracts import versions
from tests.contracts.margins import SECRET, TRUTHS, Margin, events_of, margins, publishes
from weir.dpcore.aggregates.program import Aggregates
from weir.dpcore.bounded_events import bounded
from weir.dpcore.config.schema import PLAN_VERSION
from weir.dpcore.noise.prf import KeyedNoise
from weir.dpcore.plan import Plan
from weir.dpcore.pricing.calibration import LAPLACE_BAND
from weir.dpcore.registry import AGGREGATES, MODELS
from weir.dpcore.simulate import simulate, sum_leaves

KEYS, WRONG = 400, 15.0
EACH, MANY = 120, 900
"""Events of a key; many where margins are of ranks, so that 15 times the noise is still fewer."""
SURE = 4.5
"""Standard errors that count as chance."""
LEAST = 0.95 - SURE * math.sqrt(0.95 * 0.05 / KEYS)
"""Share of margins that must hold: 0.90. Single K-norm numbers lie within theirs in 94 of 100."""
HEAD = """
name: margins
schema: {{time: t{who}}}
key: {{column: k, declared: [{keys}]}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-01T06:00:00Z}}
privacy: {{epsilon: {epsilon}, delta: {delta}, protect_for: all{unit}}}
"""
OF_USERS = """, unit: user, per: 3h, contributions: {ticks: 2, keys: 1, events: 2}"""
FORMS: dict[str, tuple[str, ...]] = {
    "count": ("{count: events}", "{count: events, over: 2}", "{count: events, where: y > 8}"),
    "sum": ("{sum: y, clip: [0, 16]}", "{sum: v, clip: [2, 3], over: [all, 1]}"),
    "mean": ("{mean: y, clip: [0, 16]}", "{mean: y, clip: [4, 8], over: [all, 3]}"),
    "variance": ("{variance: y, clip: [0, 16]}",),
    "histogram": ("{histogram: y, edges: [0, 4, 8, 16]}",),
    "quantile": (
        "{quantile: y, at: [0.25, 0.5, 0.9], edges: {linear: [0, 16, 400]}}",
        "{quantile: y, at: 0.85, edges: {linear: [0, 16, 400]}, over: 3}",
    ),
}
"""Aggregates of events: kind -> bodies."""
USER_FORMS: dict[str, tuple[str, ...]] = {
    "count": (
        "{count: users}",
        "{count: users, per: period}",
        "{count: events}",
        "{count: users, at: events}",
        "{count: users, over: [2, 4]}",
    ),
    "sum": ("{sum: y, clip_user: [0, 20]}", "{sum: y, clip: [0, 16]}"),
    "mean": ("{mean: y, clip: [0, 16], of: users}", "{mean: y, clip: [0, 16]}"),
    "variance": ("{variance: y, clip: [0, 16], of: users}",),
    "histogram": ("{histogram: y, edges: [0, 8, 16], of: users}",),
    "quantile": ("{quantile: y, at: 0.85, edges: {linear: [0, 16, 32]}}",),
}
"""The same of users."""


def plan_of(rest: str, epsilon: float = 20.0, delta: float = 1e-5, users: bool = False) -> Plan:
    keys = ", ".join(f"k{i:03d}" for i in range(KEYS))
    who, unit = (", unit: w", OF_USERS) if users else ("", "")
    head = HEAD.format(keys=keys, epsilon=epsilon, delta=delta, who=who, unit=unit)
    return Plan.from_yaml(head + rest)


def cases() -> Iterator[tuple[str, str, bool]]:
    """Name, sections of a config, and whether the unit is a user, of all that has a margin."""
    for forms, users in ((FORMS, False), (USER_FORMS, True)):
        for kind, bodies in forms.items():
            for i, body in enumerate(bodies):
                yield f"{kind}-{i}{'-users' * users}", f"aggregates:\n  out: {body}\n", users
    model = versions.MODEL.replace("{SET: 2}", "{l2_ball: 2}")
    for name, more in (
        ("regression.incremental", "  error: true\n  statistics: true\n"),
        ("regression.two_trees", ""),
        ("regression.projected", "  projection: {dimension: 1}\n  statistics: true\n"),
        ("regression.projected/2", "  projection: {dimension: 2}\n"),
        ("online.follow_the_leader", ""),
        ("online.conditional_gradient", ""),
        ("online.pftal", ""),
    ):
        text = model.replace("NAME", name.partition("/")[0]) + more
        if name == "online.conditional_gradient":
            text = text.replace("l2_ball", "l1_ball")
        yield name, text, False
        if not MODELS[name.partition("/")[0]].event_only:
            yield f"{name}-users", text, True


CASES = {name: (text, users) for name, text, users in cases()}


def each_of(plan: Plan) -> int:
    """Events of a key."""
    return MANY if any(not one.additive for one in plan.outputs) else EACH


def strength(name: str) -> float:
    """Epsilon: regressions show their errors only where noise is small compared with their sums,
    and the
    noise of ranks must be larger than a bin."""
    if name.startswith("regression"):
        return 4000.0 if name.endswith("users") else 400.0
    return 3.0 if name.startswith("quantile") else 20.0


@cache
def planned(name: str) -> Plan:
    text, users = CASES[name]
    return plan_of(text, strength(name), users=users)


@cache
def found_in(name: str) -> tuple[Plan, list[Margin]]:
    """The plan of a case, and its margins under the noise that is planned."""
    plan = planned(name)
    return plan, margins(plan, each_of(plan))


def as_planned(plan: Plan, one: Margin) -> bool:
    """Whether a margin is no wider than the plan says: by its worst standard deviation, which is of
    count x estimate where the output averages, and of ranks where it is a quantile."""
    worst = one.info.stddev_worst
    if math.isnan(worst):
        return True  # the plan says that it depends on the data
    if isinstance(plan.program, Aggregates):
        assert plan.config.aggregates is not None
        aggregate: Any = plan.config.aggregates[one.info.name]
        if not one.info.additive:
            return in_ranks(plan, one) <= 2 * (LAPLACE_BAND + SURE) * worst
        if aggregate.averages:
            worst = worst / counted(plan, one)
    return bool((one.stddev[:, 0] <= 1.1 * worst).all())


def counted(plan: Plan, one: Margin) -> Any:
    """(K,) events, or users, that the average of each key is of."""
    program: Any = plan.program
    (output,) = (each for each in program.infos if each.name == one.info.name)
    ticks = plan.clock.ticks or 1
    sums = sum_leaves(plan, bounded(plan, events_of(plan, each_of(plan)), ticks, SECRET), ticks)
    channel = program.channels[output.count]
    own = sums[-(one.info.over or ticks) :, :, program.starts[output.count]].sum(axis=0)
    return own * channel.resolution


def in_ranks(plan: Plan, one: Margin) -> float:
    """Events of the span between the ends of an interval, less its outermost bins: on average."""
    each = each_of(plan)
    events = events_of(plan, each)
    first = (plan.clock.ticks or 1) - (one.info.over or (plan.clock.ticks or 1))
    start = plan.clock.start + first * plan.clock.period
    mine = np.asarray(events.times[:each]) >= start
    y = np.asarray(events.columns["y"])[:each][mine]
    edges = np.array(plan.config.aggregates[one.info.name].edges)  # type: ignore[index]
    inner = []
    for low, high in zip(one.low[:, 0], one.high[:, 0], strict=True):
        at = np.searchsorted(edges, low), np.searchsorted(edges, high)
        inner.append(((y >= edges[at[0] + 1]) & (y < edges[max(at[1] - 1, 0)])).sum())
    return float(np.mean(inner))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_margins_cover_and_are_those_of_the_plan(name: str) -> None:
    plan, found = found_in(name)
    assert found, "a case without a margin would hold nothing"
    for one in found:
        where = (one.info.name, one.info.over)
        assert (one.covered >= LEAST).all(), (where, one.covered)
        assert (one.low <= one.value).all() and (one.value <= one.high).all(), where
        assert as_planned(plan, one), where


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["k_norm", "laplace"])
@pytest.mark.parametrize("kind", FORMS)
def test_margins_of_pure_noise_cover(kind: str, noise: str) -> None:
    mechanism = f"mechanism: {{noise: {noise}}}\n"
    plan = plan_of(f"aggregates:\n  out: {FORMS[kind][0]}\n{mechanism}", 60.0, 0.0)
    assert plan.program.sums[0].real_noise[0] == noise
    for one in margins(plan, each_of(plan)):
        assert (one.covered >= LEAST).all(), one.covered


SIZES = {"small": (3, 2.0), "middle": (30, 3.0), "large": (400, 3.0)}
"""Events of a key, a fifth of them without a number, and epsilon: at the small size noise is larger
than any count."""


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("users", [False, True])
def test_margins_of_all_aggregates_cover_at_every_number_of_events(users: bool, size: str) -> None:
    bodies = [body for kind in (USER_FORMS if users else FORMS).values() for body in kind]
    lines = "".join(f"  out{i}: {body}\n" for i, body in enumerate(bodies))
    each, epsilon = SIZES[size]
    plan = plan_of(f"aggregates:\n{lines}", epsilon, users=users)
    found = margins(plan, each, 0.2)
    assert {one.info.name for one in found} == {f"out{i}" for i in range(len(bodies))}
    for one in found:
        about = np.isfinite(one.true).all(axis=0)
        assert (one.covered >= LEAST)[about].all(), (one.info, one.covered)
        assert (one.low <= one.value).all() and (one.value <= one.high).all(), one.info
        if plan.biases[one.info.name].below is not None:  # one-sided: at least LOW
            sure = 0.975 - SURE * math.sqrt(0.975 * 0.025 / KEYS)
            assert ((one.low <= one.true).mean(axis=0) >= sure).all(), one.info
        if one.info.between is not None:
            least, most = one.info.between
            assert (one.low >= least).all() and (one.high <= most).all(), one.info


@pytest.fixture
def loud(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise is 15 times what margins are made of."""
    for name in ("gaussian", "discrete_gaussian", "k_norm", "laplace"):
        real = getattr(KeyedNoise, name)

        def louder(self: KeyedNoise, *args: Any, real: Any = real) -> Any:
            return real(self, *args) * int(WRONG)

        monkeypatch.setattr(KeyedNoise, name, louder)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_release_of_15_times_its_planned_margin_is_rejected(name: str, loud: None) -> None:
    plan = planned(name)
    for one in margins(plan, each_of(plan)):
        assert (one.covered < LEAST).any(), (one.info.name, one.covered)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, (_, users) in CASES.items() if "." not in name])
def test_a_plan_that_promises_a_fifteenth_of_the_margin_is_rejected(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An aggregate that is planned at a margin of 0.03 and released at one of 15."""
    (output, *_) = planned(name).program.infos  # type: ignore[attr-defined]
    kind, real = type(output), type(output).importance
    few = {channel: weight / WRONG**2 for channel, weight in real(output).items()}
    monkeypatch.setattr(kind, "importance", lambda self: few)
    plan = plan_of(CASES[name][0], strength(name), users=CASES[name][1])
    assert not all(as_planned(plan, one) for one in margins(plan, each_of(plan)))


def test_every_aggregate_has_a_form_for_events_and_users() -> None:
    assert set(FORMS) == set(AGGREGATES.own) == set(USER_FORMS)


@pytest.mark.slow
def test_every_output_that_publishes_a_margin_is_held_to_it() -> None:
    """Any registered algorithm, in any form that it is kept in: its outputs with margins are those
    that the cases above cover."""
    held: dict[str, set[str]] = {}
    for name in CASES:
        plan, found = found_in(name)
        held.setdefault(plan.algorithm, set()).update(one.info.name for one in found)
    registered: set[str] = set()
    for case, text in versions.configs():
        plan = versions.planned(text, PLAN_VERSION)
        registered.add(plan.algorithm)
        if isinstance(plan.program, Aggregates):
            continue  # kinds are counted above
        events = events_of(plan, 12)
        if "x" in plan.program.columns:
            continue  # the same outputs as of its narrow form
        for run in simulate(plan, events, SECRET)[:1]:
            named = {one.name for one in run.released if publishes(one)}
            assert named <= held.get(plan.algorithm, set()), (case, named)
            assert named <= set(TRUTHS)
    assert set(MODELS.own) <= registered
