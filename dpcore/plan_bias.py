"""What public bounds keep out of each figure, in a sentence: no margin of error covers it."""

from __future__ import annotations

from collections.abc import Iterator

from weir.dpcore.algorithm import Bias, Takes
from weir.dpcore.config.durations import show_duration
from weir.dpcore.config.event import Schema
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.people.caps import Caps
from weir.dpcore.people.periods import Months, Periods
from weir.dpcore.people.person import Person
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.words import listing, plural

LENGTHS = {604_800_000_000: "week", 86_400_000_000: "day", 3_600_000_000: "hour",
           60_000_000: "minute", 1_000_000: "second"}  # fmt: skip
"""Lengths in microseconds that have a name of their own."""
MONTHS = {1: "month", 3: "quarter", 6: "half-year", 12: "year"}
"""Numbers of months that do."""
AN = {"hour": "an"}
"""Names whose article is not ``a``."""


def left_out(config: PlanConfig, person: Person | None, bias: Bias) -> str:
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
            parts.insert(0, f"{'undercount' if bias.lowers else 'bias'}: {caps}")
    return "; ".join(parts)


def bounds(person: Person, schema: Schema, keyed: bool, takes: Takes) -> str:
    """What counts of a user: ``at most 4 days a quarter and 1 purchase a day per customer``; ""
    where bounds keep nothing out.

    Args:
      keyed: whether there are keys, of which bounds have their own.
      takes: what a release counts: of a user the events of a cell, one cell, or one key.
    """
    if takes == "newcomers" and not keyed:
        return ""  # the first tick that counts is never beyond a bound
    clock = person.periods.clock
    clauses = list(_clauses(person.caps, clock, person.periods, keyed))
    if takes in ("events", "totals"):
        where = f"key and {tick_word(clock)}" if keyed else tick_word(clock)
        clauses.append(f"{plural(person.caps.events, schema.noun or 'event')} {_a(where)}")
    return f"at most {listing(clauses)} per {user_word(schema)}"


def _clauses(caps: Caps, clock: Clock, periods: Periods, keyed: bool) -> Iterator[str]:
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


__all__ = ["bounds", "left_out"]
