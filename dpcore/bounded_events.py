"""Events in memory, and what of them counts: bounded as any pipeline bounds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Digests, Ints
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.hashes import hashes_of_users
from weir.dpcore.leaves.sparse_rows import Expanded, SparseRows
from weir.dpcore.plan import Plan
from weir.dpcore.program import places_of, takes_rows
from weir.dpcore.users.cap import cap_events
from weir.dpcore.users.cells import (
    CapKeys,
    Hashed,
    cell_hashes,
    contents_of,
    lasting_hashes,
    pair_hashes,
    row_hashes,
    user_hashes,
)
from weir.dpcore.users.closing import UsedBounds
from weir.dpcore.users.coarse import coarse_pairs, meeting
from weir.dpcore.users.unit import UserUnit


@dataclass(frozen=True)
class Events:
    """Events that passed the filter, in any order.

    Attributes:
      times: (n,) int64 microseconds since 1970-01-01T00:00:00Z.
      keys: (n,) text, of several columns by ``dpcore.leaves.keys.key_text``: the values of all key
        columns, whatever the groupings; None where the plan has no key column.
      columns: numeric column -> (n,) float64; a column of declared texts -> (n,) texts or None; a
        list column -> (n, size) float64, or ``SparseRows``: a row with a NaN lacks its list. An
        aggregate's own predicate -> (n,) 1 where an event satisfies it, else 0, under its text
        behind ``dpcore.aggregates.bounding.GATE``.
      ids: (n,) text or None, where the plan has a column of ids: they decide what a cap keeps.
      users: (n,) text or None, where the unit is a user; events of nobody do not count.

        >>> import numpy as np
        >>> from weir import Events
        >>> day = np.array(["2025-01-01", "2025-01-02"], dtype="datetime64[us]").astype(np.int64)
        >>> events = Events(day, keys=["north", "south"], columns={"dollars": np.array([3.0, 5.0])})
        >>> len(events.times)
        2
    """

    times: Ints
    keys: Sequence[str] | None
    columns: Mapping[str, NDArray[Any]]
    ids: Sequence[str | None] | None = None
    users: Sequence[str | None] | None = None


@dataclass(frozen=True)
class Bound:
    """Events that count, bounded.

    Attributes:
      names: live keys, sorted. births: tick of each key's birth. keys: (n,) each event's key.
      others: (n,) each event's key of every further grouping.
      merged: place of a coarser grouping, in which cells of a user meet -> order of the events, and
        their rows there.
      ticks: (n,) each event's tick. rows: what the program's ``bound`` made of them.
      times: (n,) microseconds. ids: (n,) each event's id, or None.
      hashes: (n, 2) of each, where contribution bounds have chosen by them; else None.
    """

    names: list[bytes]
    births: list[int]
    keys: Ints
    ticks: Ints
    rows: Any
    times: Ints
    ids: list[str | None] | None
    hashes: NDArray[np.uint64] | None = None
    others: tuple[Ints, ...] = ()
    merged: Mapping[int, tuple[Ints, Any]] = field(default_factory=dict)

    def born(self) -> dict[int, list[int]]:
        """Tick -> keys born then."""
        results: dict[int, list[int]] = {}
        for key, birth in enumerate(self.births):
            results.setdefault(birth, []).append(key)
        return dict(sorted(results.items()))


def bounded(plan: Plan, events: Events, ticks: int, secret: bytes = bytes(32)) -> Bound:
    """Assigns and bounds events; by the secret caps of users choose.

    Events outside the clock, of unknown keys or of nobody are left out, as the pipeline
    dead-letters them; so is what the caps of users leave no room for.
    """
    n = len(events.times)
    names = np.full(n, b"", dtype=object)
    if events.keys is not None:
        names[:] = [key.encode() for key in events.keys]
    times = np.asarray(events.times, dtype=np.int64)
    tick = plan.clock.tick_of(times)
    live = (tick >= 0) & (tick < ticks)
    longest = plan.keys.longest
    if longest is not None:
        live &= np.array([len(name) <= longest for name in names], dtype=bool)
    known = {text.encode() for text in plan.keys.combinations}
    if not plan.keys.observed:
        live &= np.array([name in known for name in names], dtype=bool)
    if plan.program.by_id:
        value = [None] * n if events.ids is None else events.ids
        live &= np.array([item is not None for item in value], dtype=bool)
    texts = plan.program.texts
    by_name = Expanded(events.columns, plan.program.columns)
    numbers = {name: _numbers(by_name[name], texts.get(name)) for name in plan.program.columns}
    retained, columns, hashes = np.flatnonzero(live), dict[str, NDArray[Any]](), None
    if plan.person is not None:
        read = replace(events, columns=numbers)
        retained, columns, hashes = within_caps(
            plan, plan.person, read, retained, tick, names, secret
        )
    columns |= {name: column[retained] for name, column in numbers.items()}
    names, tick = names[retained], tick[retained]
    named = _grouped(plan, names)
    observed = plan.keys.observed
    result = sorted(set().union(*named)) if observed else list(plan.keys.ordered)
    place = {name: i for i, name in enumerate(result)}
    keys, *others = [np.array([place[name] for name in own], dtype=np.int64) for own in named]
    births = np.full(len(result), ticks if observed else 0, dtype=np.int64)
    for place_of in (keys, *others):
        np.minimum.at(births, place_of, tick)
    rows = plan.program.bound(columns, len(tick)).rows
    ids = None if events.ids is None else [events.ids[i] for i in retained.tolist()]
    live_from: list[int] = births.tolist()
    merged = _merged(plan, columns, (keys, *others))
    plain = (result, live_from, keys, tick, rows, times[retained], ids, hashes)
    return Bound(*plain, tuple(others), merged)


def _merged(
    plan: Plan, columns: Mapping[str, NDArray[Any]], keys: Sequence[Ints]
) -> dict[int, tuple[Ints, Any]]:
    """Of each coarser grouping in which cells of a user meet: order of the events, and rows."""
    results = {}
    for at in plan.program.coarser if plan.program.merges_cells else ():
        order, cells = meeting(columns["@step"], keys[at])
        own = {name: column[order] for name, column in columns.items()} | {"@cell": cells}
        own["@new"] = own.get(f"@new{at}", own["@new"])
        results[at] = order, plan.program.bound(own, len(order)).rows
    return results


def _grouped(plan: Plan, names: Any) -> list[Any]:
    """Keys of each grouping: bytes (n,) of whole combinations -> (n,) of each."""
    if not plan.keys.groups:
        return [names]
    known = {name: plan.keys.grouped(name.decode()) for name in set(names)}
    return [[known[name][at].encode() for name in names] for at in range(len(plan.keys.groups))]


def within_caps(
    plan: Plan, person: UserUnit, events: Events, live: Ints, tick: Ints, names: Any, secret: bytes
) -> tuple[Ints, dict[str, NDArray[Any]], NDArray[np.uint64]]:
    """Events that the caps of their users leave room for: cell by cell.

    Args:
      live: (l,) which events may count. tick, names: (n,) tick and key of each event.

    Returns:
      Which stay, in their order; ``@cell``, ``@new`` and ``@gap`` of each, and with ``@unit_high``
      and ``@unit_low`` who it is; hashes.

    Raises:
      ConfigError: nothing says whose events they are.
    """
    if events.users is None:
        raise ConfigError("users", None, "is missing: say whom each event belongs to.")
    keys, who = CapKeys.derive(secret, plan.digest), [events.users[i] for i in live.tolist()]
    known = user_hashes(who, keys)
    live, users = live[~known.null], known.hashes[~known.null]
    times = np.asarray(events.times, dtype=np.int64)[live]
    columns = [events.columns[name][live] for name in plan.program.columns]
    contents = contents_of(times, columns)
    ids = None if events.ids is None else [events.ids[i] for i in live.tolist()]
    key = None if events.keys is None else list(names[live])
    ticks = tick[live]
    pairs = pair_hashes(users, person.periods.of(ticks), key, keys)
    rows, has_id = row_hashes(users, ticks, times, contents, ids, keys)
    span = plan.program.reads_gaps
    lasting = lasting_hashes(users, key, keys) if span else None
    cells = cell_hashes(users, ticks, pairs, keys) if person.caps.by_hash else None
    coarse = _coarse(plan, users, person.periods.of(ticks), key or (), keys)
    hashed = Hashed(users, pairs, rows, ticks, has_id, contents, lasting, cells, coarse)
    stop = int(ticks.max()) + 1 if len(ticks) else 0
    retained = cap_events(UsedBounds.nothing(0), hashed, stop, person, span=span)
    who_high, who_low = np.ascontiguousarray(users[retained.rows].T)
    columns_of_cells: dict[str, NDArray[Any]] = {"@cell": retained.cell, "@new": retained.new}
    if retained.gap is not None:
        columns_of_cells["@gap"] = retained.gap
    if retained.coarse is not None:
        columns_of_cells["@step"] = retained.coarse.step
        for at, new in zip(plan.program.coarser, retained.coarse.new, strict=False):
            columns_of_cells[f"@new{at}"] = new
    hashes, program = rows[retained.rows], plan.program
    if takes_rows(program):
        columns_of_cells |= {"@unit_high": who_high, "@unit_low": who_low}
        if program.by_users:
            hashes = hashes_of_users(who_high, who_low, program.hash_ticks(ticks[retained.rows]))
    return live[retained.rows], columns_of_cells, hashes


def _coarse(
    plan: Plan, users: Digests, periods: Ints, names: Sequence[bytes], keys: CapKeys
) -> tuple[Digests, ...] | None:
    """Hashes by which cells are new to keys of coarser groupings; None: no cells meet."""
    program = plan.program
    if not program.merges_cells:
        return None
    if not program.reads_new:
        return ()
    named, codes = np.unique(np.asarray(names, dtype=object), return_inverse=True)
    texts = [name.decode() for name in named]
    shape = (texts, codes, plan.keys.grouped, program.coarser, keys)
    return coarse_pairs(users, periods, *shape)


def _numbers(values: Any, declared: Sequence[str] | None) -> Any:
    """A column as numbers; of text, the places of its values among the declared ones."""
    if isinstance(values, SparseRows):
        return values
    if declared is None:
        return np.asarray(values, dtype=np.float64)
    return places_of(list(values), declared)
