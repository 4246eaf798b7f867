"""Runs of doubling length: each record of a key is in exactly one of them."""

from __future__ import annotations

from typing import NamedTuple

MOST_RUNS = 32
"""Runs of a key: the last has 2^31 times as many records as the first; what follows is not learned
from, and the last model stays."""


class At(NamedTuple):
    """Where the next record of a key is.

    Attributes:
      run: which run. offset: records of it before this one. left: records of it from this one on.
    """

    run: int
    offset: int
    left: int


def start_of_run(first: int, run: int) -> int:
    """Place of the first record of a run: runs of first, 2 first, 4 first, ... records."""
    return first * ((1 << run) - 1)


def at_place(first: int, place: int) -> At:
    """Which run the record at a place (from 0) is in. Public: places follow from tick and id."""
    run = (place // first + 1).bit_length() - 1
    offset = place - start_of_run(first, run)
    return At(run, offset, (first << run) - offset)
