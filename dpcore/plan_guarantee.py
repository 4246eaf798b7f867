"""The guarantee of a plan in numbers and words, and its bias."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from weir.dpcore.accounting.guarantee import (
    NO_ASSUMPTIONS,
    Copies,
    Expiration,
    Guarantee,
    RuntimeAssumptions,
)
from weir.dpcore.accounting.joint import of_one
from weir.dpcore.accounting.statement import of_noise, statement, user_statement
from weir.dpcore.algorithm import Bias, Takes
from weir.dpcore.config.durations import show_duration
from weir.dpcore.config.schema import Schema
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.leaves.keys import Keys, grouping_of
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.pricing.calibration import Alternative
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.pricing.user_periods import every_period, together
from weir.dpcore.program import OutputInfo, Program
from weir.dpcore.spaced import program_of
from weir.dpcore.users.unit import ContributionBounds, Months, Periods, UserUnit
from weir.dpcore.words import listing, plural

COPIES = (2, 10)
"""Copies of one id whose common loss is reported where ids are forgotten."""


def guarantee_of(
    config: PlanConfig,
    terms: Terms,
    program: Program,
    circumstances: RuntimeAssumptions = NO_ASSUMPTIONS,
) -> Guarantee:
    """The guarantee that the program keeps; never weaker than what the config asks.

    Where the unit is a user, windows begin with the last tick of their period, and what finding
    keys spends of delta comes on top of the noise's.

    Raises:
      ConfigError: the program's loss exceeds the budget (a defect, caught before anything runs).
    """
    window, delta = terms.lasting, terms.delta
    promised = delta + terms.delta_sel  # finding keys adds its own, at every epsilon
    loss = program.loss(window)
    spent = loss.epsilon(delta)
    if spent > terms.epsilon * (1 + 1e-9):
        raise ConfigError(
            "privacy.epsilon", terms.epsilon, f"would be overspent by this plan ({spent:.6g})."
        )
    ends = [None] if window is None else [times * window for times in (1, 2, 10, 100)]
    rows = [Expiration(end, program.loss(end).epsilon(delta), promised) for end in ends]
    keys_public = config.key is not None and config.key.observed_keys_are_public
    reported = Guarantee(
        terms.epsilon, promised, terms.unit, terms.relation, window, tuple(rows), "", (),
        delta_sel=terms.delta_sel,
    )  # fmt: skip
    if terms.person is not None:
        event = program.loss_of_event(window).epsilon(delta)
        reported = replace(
            reported,
            together=together(program, terms),
            every_period=None if terms.clock.once else every_period(program, terms),
            event=event,
        )
        text = user_statement(
            reported,
            terms.person.pattern,
            terms.person.caps.events,
            terms.person.periods.words,
            terms.horizon,
            adaptive=bool(program.sums) and all(part.adaptive for part in program.sums),
            keys_public=keys_public,
            min_users=None if terms.discover is None else terms.discover.min_users,
            circumstances=circumstances,
            groupings=terms.groupings,
            once=terms.clock.once,
            by_hash=terms.person.caps.by_hash,
        )
        return replace(reported, statement=of_noise(text, program))
    has_id = config.schema_.id is not None
    if has_id and circumstances.id_horizon is not None:
        copies = (Copies(count, loss.of_group(count).epsilon(delta), delta) for count in COPIES)
        reported = replace(reported, copies=tuple(copies))
    text = statement(
        reported,
        terms.horizon,
        has_id=has_id,
        has_key=config.key is not None,
        has_unit=config.schema_.unit is not None,
        keys_public=keys_public,
        circumstances=circumstances,
        groupings=terms.groupings,
        once=terms.clock.once,
    )
    return replace(reported, statement=of_noise(text, program))


class ForEver(NamedTuple):
    """A plan without a protection horizon that costs what this one costs within ten horizons, or by
    the end of a shorter clock.

    Attributes:
      ticks: ten horizons; None: the clock ends before.
      epsilon: of it, and of this plan within that time.
      output: name of the output whose noise it changes most. over: its span in ticks.
      noise: its worst standard deviation there. now: that of this plan.
    """

    ticks: int | None
    epsilon: float
    output: str
    over: int | None
    noise: float
    now: float


def for_ever(
    config: PlanConfig,
    program: Program,
    outputs: Iterable[OutputInfo],
    alternatives: Iterable[Alternative],
) -> ForEver | None:
    """That plan, under the noise that was chosen; None where the horizon is as long as the clock,
    the clock has no end, the loss stops at the horizon, or errors are not known beforehand."""
    terms = config.terms()
    chosen = next((alternative for alternative in alternatives if alternative.chosen), None)
    if terms.lasting is None or terms.horizon is None or chosen is None or not config.aggregates:
        return None
    ticks = 10 * terms.lasting if 10 * terms.lasting < terms.horizon else None
    epsilon = program.loss(ticks).epsilon(terms.delta)
    if not math.isfinite(epsilon) or epsilon <= terms.epsilon * (1 + 1e-6):
        return None
    lasting = replace(terms, window=None, epsilon=epsilon, noise=chosen.noise)
    try:
        other = program_of(config.algorithm, lasting, config.release_every)
    except ConfigError:
        return None
    pairs = zip(outputs, other.describe(np.asarray(terms.ticks())), strict=True)
    known = [(a, b) for a, b in pairs if a.stddev_worst > 0 and b.stddev_worst > 0]
    if not known:
        return None
    a, b = max(known, key=lambda pair: abs(math.log(pair[1].stddev_worst / pair[0].stddev_worst)))
    return ForEver(ticks, epsilon, a.name, a.over, b.stddev_worst, a.stddev_worst)


class Grouping(NamedTuple):
    """What one of several groupings has of the budget.

    Attributes:
      columns: that it groups by; (): the total of all keys. keys: how many are known; None: they
        are observed.
      share: of mu^2 (rho, epsilon). epsilon: against its releases alone, within the window.
      noise: of its releases, over what they would have with the budget to themselves.
    """

    columns: tuple[str, ...]
    keys: int | None
    share: float
    epsilon: float
    noise: float


def groupings_of(
    config: PlanConfig,
    keys: Keys,
    program: Program,
    outputs: Iterable[OutputInfo],
    alternatives: Iterable[Alternative],
) -> tuple[Grouping, ...]:
    """Shares of several groupings, by the mechanism that was chosen; empty where there is one."""
    if not keys.groups:
        return ()
    terms, count = config.terms(), len(keys.groups)
    result = Counter(map(grouping_of, keys.declared))
    sizes = [result[tuple(i in own for i in range(len(keys.columns)))] for own in keys.groups]
    noise = next((item.noise for item in alternatives if item.chosen), None)
    ticks, known, groups = np.asarray(terms.ticks()), tuple(outputs), terms.groups
    loss, prices = program.loss(terms.lasting), list[tuple[float, float]]()
    times = (1,) if groups is None else groups.times(loss.kind)
    for at in range(count if groups is not None else 1):
        only = None if groups is None else groups.only(at)
        alone = replace(terms, groupings=1, groups=only, noise=noise)
        single = program_of(config.algorithm, alone, config.release_every)
        pairs = zip(known, single.describe(ticks), strict=True)
        more = min(times) / times[at]
        ratios = [more * a.stddev_worst / b.stddev_worst for a, b in pairs if b.stddev_worst]
        share = 1 / count
        if groups is not None:
            least = min(ratios, default=1.0)
            share = min(1.0, 1 / (least if loss.kind == "pure" else least**2))
        prices.append((share, max(ratios, default=1.0)))
    if groups is None:
        prices *= count
    return tuple(
        Grouping(
            columns,
            None if keys.observed else size,
            share,
            of_one(loss, count if groups is None else 1 / share).epsilon(terms.delta),
            ratio,
        )
        for columns, size, (share, ratio) in zip(keys.groupings, sizes, prices, strict=True)
    )


LENGTHS = {604_800_000_000: "week", 86_400_000_000: "day", 3_600_000_000: "hour",
           60_000_000: "minute", 1_000_000: "second"}  # fmt: skip
"""Lengths in microseconds that have a name of their own."""
MONTHS = {1: "month", 3: "quarter", 6: "half-year", 12: "year"}
"""Numbers of months that do."""
AN = {"hour": "an"}
"""Names whose article is not ``a``."""


def left_out(config: PlanConfig, person: UserUnit | None, bias: Bias) -> str:
    """What contribution bounds, clips and edges keep out of a release: one sentence without its
    capital and full stop, of public numbers alone; "" where they keep nothing out.

    Args:
      config: of the plan. person: its user; None: the unit is an event.
      bias: what they do to it.
    """
    parts = list(bias.clauses)
    if person is not None and bias.takes is not None:
        caps = bounds(person, config.schema_, config.key is not None, bias.takes)
        if caps:
            refreshed = ", and no tick beyond that keeps them active"
            caps += refreshed if bias.takes == "active" else ""
            parts.insert(0, f"{'undercount' if bias.lowers else 'bias'}: {caps}")
    return "; ".join(parts)


def caveat(output: str, config: PlanConfig, person: UserUnit | None, bias: Bias) -> str:
    """What is known of the part that ``left_out`` keeps out, in sentences without the last full
    stop; "" for nothing.

    Upwards nothing is known without budget: what was lost has no bound. A share that a dry run
    showed is a fact about the events of that run.

    Formal guarantees:
      Where bounds only take away, the value without noise is at most the true figure, so the low
      end of a 95 % margin is at most that figure but for half of the 5 %.
    """
    if not left_out(config, person, bias):
        return ""
    capped = person is not None and bias.takes is not None
    if bias.averages:
        within = " within the contribution bounds" if capped else ""
        return f"The margin is for the {bias.averages}{within}"
    if bias.below is None:
        return ""
    dry_run = config.dry_run
    share = None if dry_run is None else dry_run.lost.get(output)
    amount = "How much that is, is not known"
    if dry_run is not None and share is not None:
        amount = (
            f"It was {100 * share:.3g} % in a dry run on {dry_run.file} ({dry_run.date}); "
            "here it may be more or less"
        )
    condition = f", {bias.below}" if bias.below else ""
    return (
        f"{amount}. With 97.5 % certainty the true figure is at least the low end of the "
        f"margin{condition}"
    )


def bounds(person: UserUnit, schema: Schema, keyed: bool, takes: Takes) -> str:
    """What counts of a user: ``at most 4 days a quarter and 1 purchase a day per customer``; ""
    where bounds keep nothing out.

    Args:
      keyed: whether there are keys, of which bounds have their own.
      takes: what a release counts: of a user the events of a cell, one cell, or one key; or
        whether a cell is there in some ticks.
    """
    if takes == "newcomers" and not keyed:
        return ""  # the first tick that counts is never beyond a bound
    clock = person.periods.clock
    if clock.once:
        return _bounds_once(person, schema, keyed, takes)
    caps, longest = person.caps, person.periods.longest
    clauses = list(_clauses(caps, clock, person.periods, keyed))
    if takes == "active" and caps.spacing == 1 and caps.ticks == longest:
        del clauses[0]  # every tick counts
    if not clauses:
        return ""
    if takes in ("events", "totals"):
        where = f"key and {tick_word(clock)}" if keyed else tick_word(clock)
        clauses.append(f"{plural(person.caps.events, schema.noun or 'event')} {_a(where)}")
    return f"at most {listing(clauses)} per {user_word(schema)}"


def _bounds_once(person: UserUnit, schema: Schema, keyed: bool, takes: Takes) -> str:
    """What counts of a user in a single release."""
    clauses = [plural(person.caps.cells, "key")] if keyed else []
    if takes in ("events", "totals"):
        clauses.append(plural(person.caps.events, schema.noun or "event") + " a key" * keyed)
    return f"at most {listing(clauses)} per {user_word(schema)}" if clauses else ""


def _clauses(
    caps: ContributionBounds, clock: Clock, periods: Periods, keyed: bool
) -> Iterator[str]:
    """Bounds on where a user counts."""
    tick, period = tick_word(clock), _in(period_word(periods))
    apart = f", {plural(caps.spacing, tick)} or more apart" if caps.spacing > 1 else ""
    yield f"{plural(caps.ticks, tick)} {period}{apart}"
    if not keyed:
        return
    yield f"{plural(caps.keys, 'key')} {_a(tick)}"
    if caps.ticks_per_key is not None:
        yield f"{plural(caps.ticks_per_key, tick)} of a key {period}"
    if caps.period_keys is not None:
        yield f"{plural(caps.period_keys, 'key')} {period}"
    if caps.total is not None:
        yield f"{plural(caps.total, 'pair')} of a key and {_a(tick)} {period}"


def user_word(schema: Schema) -> str:
    """What a user is: the column of users without its ``_id``; ``user`` where it has none."""
    name = (schema.unit or "").rpartition(".")[2]
    for end in ("_id", "-id", "Id", "ID"):
        word = name.removesuffix(end).replace("_", " ").replace("-", " ").lower()
        if name.endswith(end) and len(word) > 2 and word.replace(" ", "").isalpha():
            return word
    return "user"


def tick_word(clock: Clock) -> str:
    """What a tick is: ``day``, or ``tick`` where its length has no name."""
    if clock.calendar is None:
        return LENGTHS.get(clock.period, "tick")
    if clock.calendar.months:
        return MONTHS.get(clock.calendar.months, "tick")
    return {1: "day", 7: "week"}.get(clock.calendar.days, "tick")


def period_word(periods: Periods) -> str:
    """What a period is: ``quarter``, ``30d``; "" for one that lasts as long as the clock."""
    per = periods.per
    if per is None:
        return ""
    if isinstance(per, Months):
        return MONTHS.get(per.count, str(per))
    return LENGTHS.get(per, show_duration(per))


def _in(period: str) -> str:
    """``a quarter``, ``in 30d``, ``in all``."""
    named = period in LENGTHS.values() or period in MONTHS.values()
    return _a(period) if named else f"in {period or 'all'}"


def _a(name: str) -> str:
    """With its article."""
    return f"{AN.get(name, 'a')} {name}"
