"""What a user's contributions move, by replay: every admissible set of cells, against what is
released."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import cache

import numpy as np

from tests.contracts.cases import Case, response
from weir.dpcore.accounting.contributions import Pattern

Ticks = tuple[int, ...]


def pattern(
    span: int | None,
    ticks: int,
    keys: int,
    spacing: int = 1,
    per_key: int | None = None,
    period_keys: int | None = None,
    total: int | None = None,
) -> Pattern:
    """A pattern from caps; as ``Person`` makes it, in plain numbers."""
    most = min(ticks, per_key or ticks)
    cells = min(
        ticks * keys,
        math.inf if total is None else total,
        math.inf if period_keys is None else period_keys * most,
    )
    return Pattern(span, span, ticks, spacing, keys, most, period_keys, int(cells))


def spaced(ticks: Ticks, most: int, spacing: int) -> Iterator[Ticks]:
    """Sets of at least one and at most so many of the ticks, so far apart."""
    for size in range(1, most + 1):
        for some in itertools.combinations(ticks, size):
            if all(b - a >= spacing for a, b in itertools.pairwise(some)):
                yield some


def most_moved(moved: dict[Ticks, float], one: Pattern, ticks: Ticks) -> float:
    """The largest sum over keys of what each key's ticks move, over all that the caps allow.

    moved: of each set of ticks of one key, of at most ``key_ticks``.
    """
    best = 0.0
    for active in spaced(ticks, one.ticks, one.spacing):
        sets = [some for some in moved if set(some) <= set(active)]
        best = max(best, _best(moved, one, sets, dict.fromkeys(active, one.keys), 0, 0))
    return best


def _best(
    moved: dict[Ticks, float],
    one: Pattern,
    sets: list[Ticks],
    room: dict[int, int],
    cells: int,
    keys: int,
) -> float:
    """The most that further keys move, each with one of the sets, in an order."""
    best = 0.0
    if one.period_keys is not None and keys == one.period_keys:
        return best
    for index, some in enumerate(sets):
        if cells + len(some) <= one.cells and all(room[tick] for tick in some):
            left = {tick: most - (tick in some) for tick, most in room.items()}
            more = _best(moved, one, sets[index:], left, cells + len(some), keys + 1)
            best = max(best, moved[some] + more)
    return best


@cache
def dense(case: Case, mechanism: object, ticks: int) -> tuple[np.ndarray, np.ndarray]:
    """B and M of what is released: noise = B units, clean = M leaves."""
    made, clean = mechanism.materialize(ticks), response(mechanism, ticks)  # type: ignore[attr-defined]
    if None not in case.overs and not hasattr(mechanism, "response"):
        before = np.eye(ticks) - np.eye(ticks, k=-int(case.overs[0] or 0))
        made, clean = before @ made, before @ clean
    return made, clean


def columns(
    case: Case, mechanism: object, first: int, span: int, rows: int, ticks: int
) -> np.ndarray:
    """(units, span): the least expensive units that move the outputs as a leaf of each tick does.

    Of the outputs up to row ``first + rows``; where there are none, inf.
    """
    made, clean = dense(case, mechanism, ticks)
    end = min(first + rows, ticks)
    wanted = clean[:end, first : first + span]
    found = np.linalg.pinv(made[:end], rcond=1e-12) @ wanted
    if abs(made[:end] @ found - wanted).max() > 1e-7:
        return np.full_like(found, np.inf)
    return np.asarray(found)


def replayed(case: Case, mechanism: object, true: Pattern, window: int | None, ticks: int) -> float:
    """Worst squared norm of the units that a user's cells of one period move, over all periods.

    Contributions are of norm 1, of either sign where columns may point against each other.
    """
    span = true.span or ticks
    rows = ticks if window is None else span + window - 1
    worst = 0.0
    for first in range(0, ticks, span):
        last = min(first + span, ticks)
        if window is not None and first + rows > ticks:
            break
        moves = columns(case, mechanism, first, last - first, rows, ticks)
        inside = tuple(range(last - first))
        moved = {
            some: max(
                float(((moves[:, list(some)] * np.asarray(signs)).sum(axis=1) ** 2).sum())
                for signs in _signs(len(some), getattr(mechanism, "signed", False))
            )
            for some in spaced(inside, true.key_ticks, true.spacing)
        }
        worst = max(worst, most_moved(moved, true, inside))
    return worst


def _signs(count: int, signed: bool) -> Iterator[tuple[int, ...]]:
    """All signs of so many contributions; the first may always be positive."""
    if not signed:
        yield (1,) * count
    else:
        yield from ((1, *rest) for rest in itertools.product((1, -1), repeat=count - 1))
