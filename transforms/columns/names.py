"""Columns that an id and a user become, and what is said of the cells of users."""

from __future__ import annotations

HIGH, LOW = "@hash_high", "@hash_low"
"""Columns that an event's id becomes."""

UNIT_HIGH, UNIT_LOW = "@unit_high", "@unit_low"
"""Columns that a user becomes: a keyed hash."""

CELL, NEW, GAP = "@cell", "@new", "@gap"
"""Behind the caps of users: the number of an event's cell (user, key, tick) in its batch, int64;
whether it is the first of this user and key in its period; and, where a program asks, ticks since
the last one that counts, int64, 0 where that is long ago."""

STEP = "@step"
"""Where cells meet in coarser groupings of keys: the number of an event's user and tick in its
batch, int64."""


def new_in(grouping: int) -> str:
    """The column that is ``NEW`` of a coarser grouping, by its place."""
    return f"{NEW}{grouping}"
