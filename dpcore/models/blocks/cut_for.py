"""The cut into blocks that a config asks for, and what it needs."""

from __future__ import annotations

from dpcore.config import durations
from dpcore.config.spans import show_ticks
from dpcore.errors import ConfigError
from dpcore.models.blocks.cut import Blocks, ByCount, ByTicks
from dpcore.models.fields import MOST_ROWS
from dpcore.pricing.terms import Terms

SPARE = 16
"""Rows of a block of ticks beyond twice those that are expected, where no cap is given."""


def cut_for(block: int | str, cap: int | None, terms: Terms) -> Blocks:
    """The cut into blocks.

    Args:
      block: a number of records, or a duration. cap: rows of a block of ticks; None: a default.

    Raises:
      ConfigError: blocks of records where a record could vanish, or has no place of its own; blocks
        of ticks that are no whole number, or of which nobody says how many events they have.
    """
    if isinstance(block, int):
        _check_count(terms)
        return ByCount(block)
    length = durations.duration(block)
    ticks, rest = terms.clock.ticks_in(length)
    if rest or not ticks:
        shown = show_ticks(terms.clock, 1)
        raise ConfigError(
            "model.block", block, f"must be a whole number of ticks, which are {shown}."
        )
    if terms.events is None:
        raise ConfigError(
            "expect.events",
            None,
            "is needed where blocks are of ticks: sums over a block are divided by the public "
            "number of events that are expected in it, as how many came is private.",
        )
    divisor = max(1.0, terms.events * ticks)
    return ByTicks(ticks, divisor, cap or min(MOST_ROWS, int(2 * divisor) + SPARE))


def _check_count(terms: Terms) -> None:
    asked = {
        "privacy.relation": (
            terms.relation != "replace_one",
            terms.relation,
            "must be replace_one: an event more would move every later one into other blocks",
        ),
        "schema.id": (
            not terms.has_id,
            None,
            "is needed: the id says which place an event has among those of its tick",
        ),
        "where": (
            terms.may_vanish,
            "or schema.arrival",
            "must not be set: an event that vanishes would move every later one",
        ),
    }
    for name, (wrong, value, why) in asked.items():
        if wrong:
            raise ConfigError(
                name,
                value,
                f"{why}. That is for blocks of a number of records; or write a duration, like "
                "model.block: 7d.",
            )
