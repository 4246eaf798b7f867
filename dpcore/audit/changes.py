"""What two streams of an audit differ in, and where that moves most by a mechanism's family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.models.predictor import Predictor
from weir.dpcore.neighbours import Family, family_of, merged
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig

MOST_CANDIDATES = 64
"""Contents of an event that are tried: every combination of corners, if those are no more."""
ODD = (float("nan"), float("inf"), float("-inf"), 1e300, -1e300)
"""What a number may be that is none, or far beyond every clip."""


class Placed(NamedTuple):
    """An event of a trial: its key among the trial's, its tick, a candidate's row, whose it is."""

    slot: int
    tick: int
    candidate: int


@dataclass(frozen=True)
class UnitChange:
    """Two sets of events next to the same background; ``slots`` keys make one trial.

    Attributes:
      name: in words. here, there: events with the change and without.
      whole: whether the events are those of one user. twice: whether they are copies of one event,
        of one id.
    """

    name: str
    here: tuple[Placed, ...]
    there: tuple[Placed, ...]
    slots: int = 1
    whole: bool = False
    twice: bool = False

    @property
    def arrival(self) -> int:
        """The tick from which what is released counts."""
        return min(placed.tick for placed in (*self.here, *self.there))

    @property
    def since(self) -> int:
        """The tick from which a window is counted: for users the last one of their events."""
        ticks = [placed.tick for placed in (*self.here, *self.there)]
        return max(ticks) if self.whole else min(ticks)


@dataclass(frozen=True)
class CandidateEvents:
    """Contents that an event may have.

    Attributes:
      columns: column -> (m,) float64, or (m, size) for a list column. names: of each, in words.
      sound: how many, from the first on, hold finite numbers that stand between public bounds.
    """

    columns: Mapping[str, NDArray[Any]]
    names: tuple[str, ...]
    sound: int

    def __len__(self) -> int:
        return len(self.names)


def family(plan: Plan) -> Family:
    """Of all that a plan rests on: its sums, and its algorithm."""
    results = [family_of(type(item)) for item in plan.program.sums]
    if plan.config.model is not None:
        results.append(family_of(type(plan.config.model)))
    results += [family_of(type(aggregate)) for aggregate in plan.config.aggregates.values()]
    return merged(results)


def corners(config: PlanConfig) -> dict[str, tuple[float, ...]]:
    """Numeric column -> values at which an event may weigh most: ends of clips, middles, bins."""
    results: dict[str, set[float]] = {}
    for aggregate in config.aggregates.values():
        if aggregate.column is None or aggregate.kind == "count":
            continue
        mine = results.setdefault(aggregate.column, set())
        edges = getattr(aggregate, "edges", None)
        if edges is not None:
            finite = [float(edge) for edge in edges if np.isfinite(edge)]
            inside = [(a + b) / 2 for a, b in zip(finite, finite[1:], strict=False)]
            mine |= {*inside[:2], *inside[-1:]} or {0.0}
        else:
            low, high = (float(bound) for bound in aggregate.bounds)
            mine |= {low, high, (low + high) / 2}
    return {column: tuple(sorted(values)) for column, values in results.items()}


def candidates(config: PlanConfig) -> CandidateEvents:
    """What the changed event may hold, the worst by reputation first, the odd ones last."""
    if isinstance(config.model, Predictor):
        return _of_model(config.model)
    return _of_columns(corners(config))


def _of_columns(values: Mapping[str, tuple[float, ...]]) -> CandidateEvents:
    """Every combination, or where those are too many the extreme ones together."""
    columns = sorted(values)
    size = int(np.prod([len(values[name]) for name in columns])) if columns else 1
    if size <= MOST_CANDIDATES:
        grid = [list(row) for row in product(*(values[name] for name in columns))]
    else:
        grid = [[pick(values[name]) for name in columns] for pick in (max, min)]
        for at, name in enumerate(columns):
            for value in values[name]:
                row = [max(values[other]) for other in columns]
                row[at] = value
                grid.append(row)
    names = [", ".join(f"{n} = {v:g}" for n, v in zip(columns, row, strict=True)) for row in grid]
    sound = len(grid)
    for odd in ODD if columns else ():
        grid.append([odd] * len(columns))
        names.append(f"every number {odd:g}")
    table = np.asarray(grid, dtype=np.float64).reshape(len(grid), len(columns))
    by_name = {name: table[:, at] for at, name in enumerate(columns)}
    return CandidateEvents(by_name, tuple(item or "an event" for item in names), sound)


def _of_model(model: Predictor) -> CandidateEvents:
    """Canaries: rows as long as the clip allows, with the target at either end."""
    ranges, listed = model.public_ranges, model.listed
    targets = tuple(name for name in model.targets)
    declared = model.declared
    features = tuple(name for name in model.features) if listed is None else ()
    grid: list[tuple[dict[str, Any], str]] = []

    def put(words: str, sign: Any, end: int) -> None:
        row: dict[str, Any] = {}
        for at, name in enumerate(features):
            low, high = ranges[name]
            row[name] = high if sign(at) > 0 else low if sign(at) < 0 else (low + high) / 2
        if listed is not None:
            low, high = model.public_ranges[model.features[0]]
            signs = np.array([sign(at) for at in range(listed.size)])
            row[listed.name] = np.where(signs > 0, high, np.where(signs < 0, low, 0.0))
        for name in targets:
            some = declared.get(name)
            row[name] = some[0 if end else -1] if some else ranges[name][1 if end else 0]
        grid.append((row, f"{words}, {'high' if end else 'low'} target"))

    for words, sign in (
        ("all features high", lambda at: 1),
        ("all features low", lambda at: -1),
        ("features high and low in turn", lambda at: 1 - 2 * (at % 2)),
        ("the first feature alone", lambda at: 1 if at == 0 else 0),
    ):
        put(words, sign, 1)
        put(words, sign, 0)
    sound = len(grid)
    for odd in ODD:
        row: dict[str, Any] = dict.fromkeys(features, odd)
        row |= {name: grid[0][0][name] if name in declared else odd for name in targets}
        if listed is not None:
            row[listed.name] = np.full(listed.size, odd)
        grid.append((row, f"every number {odd:g}"))
    names = tuple(words for _, words in grid)
    columns = {name: np.asarray([row[name] for row, _ in grid]) for name in grid[0][0]}
    return CandidateEvents(columns, names, sound)


def user_events(plan: Plan, first: int, candidate: int) -> tuple[Placed, ...]:
    """All that a user may add in the period of tick ``first``, from there on, within the caps."""
    assert plan.person is not None
    caps, periods = plan.person.caps, plan.person.periods
    last = periods.last(int(periods.of(np.array([first]))[0]))
    end = (plan.clock.ticks or first + 1) - 1 if last is None else last
    slots = min(caps.keys, caps.touched)
    cells: list[Placed] = []
    used: dict[int, int] = {}
    for tick in range(first, min(end, first + (caps.ticks - 1) * caps.spacing) + 1, caps.spacing):
        for slot in range(slots):
            if used.get(slot, 0) < caps.key_ticks and len(cells) < caps.cells * caps.events:
                used[slot] = used.get(slot, 0) + 1
                cells += [Placed(slot, tick, candidate)] * caps.events
    return tuple(cells)


def _of_user(plan: Plan, offered: CandidateEvents, tick: int, item: int) -> UnitChange:
    """All that a user may add from a tick on, there or not."""
    assert plan.person is not None
    slots = min(plan.person.caps.keys, plan.person.caps.touched)
    name = f"a user from tick {tick} on: {offered.names[item]}"
    return UnitChange(name, user_events(plan, tick, item), (), slots, whole=True)


def changes(plan: Plan, offered: CandidateEvents, ticks: tuple[int, ...]) -> list[UnitChange]:
    """Every change of the family: each candidate at each tick, under the plan's relation.

    Args:
      offered: contents. ticks: of the family.
    """
    relation, result = plan.guarantee.relation, list[UnitChange]()
    sound = range(offered.sound)
    if plan.person is not None:
        return [_of_user(plan, offered, tick, item) for tick in ticks for item in sound]
    for tick in ticks:
        if relation == "add_remove":
            result += [_alone(offered, tick, item) for item in sound]
            continue
        for entry in sound:
            for other in sound:
                if entry != other and offered.names[entry] != offered.names[other]:
                    name = f"at tick {tick}: {offered.names[entry]} for {offered.names[other]}"
                    here, there = Placed(0, tick, entry), Placed(0, tick, other)
                    result.append(UnitChange(name, (here,), (there,)))
            if relation == "replace_anywhere":
                name = f"at tick {tick}, in another key: {offered.names[entry]}"
                pair = (Placed(0, tick, entry),), (Placed(1, tick, entry),)
                result.append(UnitChange(name, *pair, slots=2))
    return result


def _alone(offered: CandidateEvents, tick: int, item: int) -> UnitChange:
    return UnitChange(f"added at tick {tick}: {offered.names[item]}", (Placed(0, tick, item),), ())


def odd_changes(plan: Plan, offered: CandidateEvents, tick: int) -> list[UnitChange]:
    """Contents that are not finite, or far beyond every clip, under the plan's relation."""
    results = []
    for item in range(offered.sound, len(offered)):
        if plan.person is not None:
            results.append(_of_user(plan, offered, tick, item))
        elif plan.guarantee.relation == "add_remove":
            results.append(_alone(offered, tick, item))
        else:
            name = f"at tick {tick}: {offered.names[item]} for {offered.names[0]}"
            results.append(UnitChange(name, (Placed(0, tick, item),), (Placed(0, tick, 0),)))
    return results
