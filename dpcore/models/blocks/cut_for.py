"""The cut into blocks that a config asks for, and what it needs."""

from __future__ import annotations

from weir.dpcore.config import durations
from weir.dpcore.config.ticks import show_ticks
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.cut import Blocks, ByCount, ByTicks
from weir.dpcore.models.blocks.cut_users import ByUsers
from weir.dpcore.models.fields import MOST_ROWS
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.users.unit import UserUnit

SPARE = 16
"""Rows of a block of ticks beyond twice those that are expected, where no cap is given."""


def cut_for(block: int | str, cap: int | None, users: float | None, terms: Terms) -> Blocks:
    """The cut into blocks.

    Args:
      block: a number of records, or a duration. cap: rows (where they are the unit, users) of a
        block of ticks; None: a default. users: that are expected in a block; None: nobody said.

    Raises:
      ConfigError: blocks of records where a record could vanish, or has no place of its own; blocks
        of ticks that are no whole number, or of which nobody says how many events they have.
    """
    if terms.person is None and users is not None:
        raise ConfigError("model.users", users, "belongs to privacy.unit: user; remove it.")
    if isinstance(block, int):
        check_places(
            terms, "blocks of a number of records; or write a duration, like model.block: 7d."
        )
        return ByCount(block)
    length = durations.duration(block)
    ticks, rest = terms.clock.ticks_in(length)
    if rest or not ticks:
        shown = show_ticks(terms.clock, 1)
        raise ConfigError(
            "model.block", block, f"must be a whole number of ticks, which are {shown}."
        )
    if terms.person is not None:
        return _of_users(ticks, cap, users, terms.person, terms.users)
    if terms.events is None:
        raise ConfigError(
            "expect.events",
            None,
            "is needed where blocks are of ticks: sums over a block are divided by the public "
            "number of events that are expected in it, as how many came is private.",
        )
    divisor = max(1.0, terms.events * ticks)
    return ByTicks(ticks, divisor, cap or min(MOST_ROWS, int(2 * divisor) + SPARE))


def _of_users(
    ticks: int, cap: int | None, users: float | None, person: UserUnit, in_a_tick: float | None
) -> ByUsers:
    if users is None and in_a_tick is None:
        raise ConfigError(
            "model.users",
            None,
            "is needed where blocks are of users: how many a block has, about. Sums over a block "
            "are divided by it, as how many came is private. (Or expect.users, of a tick; that "
            "takes users to come once a block.)",
        )
    divisor = max(1.0, float(users) if users is not None else (in_a_tick or 0.0) * ticks)
    caps, shortest = person.caps, person.periods.shortest
    met = 1 if shortest is None else (ticks - 1) // shortest + 2
    each = caps.events * min(ticks, caps.key_ticks * met)
    most = cap or max(1, min(MOST_ROWS // each, int(2 * divisor) + SPARE))
    return ByUsers(ticks, divisor, most, each)


def check_places(terms: Terms, what: str) -> None:
    """Where each record has a place of its own, no other may vanish or be added.

    Args:
      what: that is for, and what else there is.

    Raises:
      ConfigError: a record could, or has no place.
    """
    if terms.person is not None:
        raise ConfigError(
            "privacy.unit",
            terms.unit,
            "must be event: a user who was not there would move every later record into another "
            f"block. That is for {what}",
        )
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
                f"{why}. That is for {what}",
            )
