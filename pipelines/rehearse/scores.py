"""Errors of released values: of noise, and of what clips and contribution bounds take."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from weir.dpcore.aggregates.bounding import BoundedAggregate
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.plan import Plan
from weir.dpcore.users.unit import ContributionBounds
from weir.pipelines.rehearse.event_stats import EventStats
from weir.pipelines.results.learned import learned_bounds
from weir.pipelines.results.run import ReleasedOutput, ResultFolder
from weir.pipelines.results.series import ends


@dataclass(frozen=True)
class ClippingLoss:
    """What the bounds of one output do.

    Attributes:
      name: the output. field: of its bounds. bounds: them. column: whose values.
      values: that there are. moved: of them by the bounds, or left out by them.
      amount: share of all amounts, in size, that is lost by that; NaN: none is.
    """

    name: str
    field: str
    bounds: tuple[float, ...]
    column: str
    values: int
    moved: int
    amount: float

    @property
    def share(self) -> float:
        """Of the values that are moved."""
        return self.moved / max(1, self.values)

    def to_json(self) -> dict[str, Any]:
        """For ``--json``."""
        fields = dict(vars(self)) | {"bounds": [_plain(bound) for bound in self.bounds]}
        return fields | {"amount": _plain(self.amount), "share": self.share}


@dataclass(frozen=True)
class BoundLoss:
    """What one cap on users costs.

    Attributes:
      cap, value: which, and what it is. other: what it might be; the same: as it is.
      noise: times the noise that it has now. lost: share of the events beyond all caps then.
      of_events: of these, beyond the bound on the events of a cell.
      early, late: share of the events in the first and in the last third of a period that stay;
        None: there are none there.
    """

    cap: str
    value: int
    other: int
    noise: float
    lost: float
    early: float | None = None
    late: float | None = None
    of_events: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return dict(vars(self))


def clipped_of(plan: Plan, seen: EventStats, folder: Path) -> tuple[ClippingLoss, ...]:
    """For each output with bounds; of those that are learned by the lowest and the highest of all
    keys. folder: of the releases."""
    learned = learned_bounds(plan, folder)
    return tuple(_clipped(plan, seen, learned))


def _clipped(
    plan: Plan, seen: EventStats, learned: Mapping[str, Mapping[str, float]]
) -> Iterator[ClippingLoss]:
    for name, aggregate in plan.config.aggregates.items():
        bounds, column = aggregate.bounds, aggregate.column
        some = seen.where(aggregate.where)
        values = None if column is None else some.values(column)
        if values is None or not bounds or column is None:
            continue
        values = values[np.isfinite(values)]
        if name in learned:
            of_keys = sorted(float(f"{bound:.6g}") for bound in learned[name].values())
            for bound in dict.fromkeys(of_keys[:1] + of_keys[-1:]):
                yield _moved(name, "clip, learned", (-bound, bound), column, values)
            continue
        low, high = min(bounds), max(bounds)
        if isinstance(aggregate, BoundedAggregate):
            field = aggregate.clips[0]
            if field == "clip_user":
                values = some.user_totals(column)
            yield _moved(name, field, tuple(bounds), column, values)
        else:
            moved = int(((values < low) | (values > high)).sum())
            yield ClippingLoss(name, "edges", tuple(bounds), column, len(values), moved, math.nan)


def _moved(
    name: str, field: str, bounds: tuple[float, ...], column: str, values: Floats
) -> ClippingLoss:
    """What a clip does to values."""
    low, high = bounds[0], bounds[-1]
    moved = int(((values < low) | (values > high)).sum())
    size = float(np.abs(values).sum())
    taken = float(np.abs(values - np.clip(values, low, high)).sum())
    amount = taken / size if size > 0 else 0.0
    return ClippingLoss(name, field, bounds, column, len(values), moved, amount)


def caps_of(plan: Plan, seen: EventStats) -> tuple[BoundLoss, ...]:
    """What the contribution bounds take, as they are and as they might be; () where events are the
    unit.

    The rows without another value stand first: what all caps together take now.
    """
    person = plan.person
    events = seen.events.num_rows
    if person is None or not events:
        return ()

    def loss(cap: str, value: int, other: int, noise: float, caps: ContributionBounds) -> BoundLoss:
        stats = seen.bounded_by(caps)
        shares = _plain(stats.early), _plain(stats.late), stats.lost.get("events", 0) / events
        return BoundLoss(cap, value, other, noise, stats.events / events, *shares)

    results = [loss("", 0, 0, 1.0, person.caps)]
    for price in plan.cap_prices:
        caps: dict[str, Any] = {price.cap: price.other}
        other = replace(person.caps, **caps)
        results.append(loss(price.cap, price.value, price.other, price.noise, other))
    return tuple(results)


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None


Grade = Literal["useful", "rough", "useless", "no truth"]
OFTEN = 0.95
"""Share of the values that an error is told of."""
NEVER = math.nan
TWINS = 6.0
"""Standard deviations of their own within which two twins are the same."""


@dataclass(frozen=True)
class Score:
    """How far one output lies off the truth, in its own unit; each error holds for 19 of 20 values.

    Attributes:
      name, over, dimension: of the output. what: it is, in words. cells: values that were compared.
      true: the mean size of its true values. margin: half the 95 % margin that the release tells,
      on
        average; NaN: it tells none.
      noise: off what clips and caps leave. clip: of that off the truth. error: of the release off
        the truth.
      inside: share of the margins that hold what clips and caps leave.
      missing: keys of the truth that are not released at all.
      grade: by the error next to ``true``.
      lost: share of the true values that clips and caps took in all; NaN: they were none.
    """

    name: str
    over: int | None
    dimension: int
    what: str
    cells: int
    true: float
    band: float
    noise: float
    clip: float
    error: float
    inside: float
    missing: int
    grade: Grade
    lost: float = NEVER

    @property
    def share(self) -> float:
        """The error, of the true values' mean size; infinite where that is 0."""
        return self.error / self.true if self.true > 0 else math.inf

    def to_json(self) -> dict[str, Any]:
        """For ``weir rehearse --json``."""
        fields: dict[str, Any] = dict(vars(self)) | {"share": self.share}
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in fields.items()
        }


KeyRows = tuple[Ints, Floats, Floats, Floats, Floats]


@dataclass(frozen=True)
class OutputRows:
    """Values of one output: key -> (ticks (n,), values, standard deviations, and ends of margins,
    (n, m) each)."""

    by_key: dict[str, KeyRows]


def grade(share: float, true: float, within: float) -> Grade:
    """useful: within that share of its size; useless: as far off as it is large."""
    if not true > 0:
        return "no truth"
    if not share < 1:
        return "useless"
    return "useful" if share <= within else "rough"


def score(
    plan: Plan,
    released: Path,
    clean: Path,
    whole: Path,
    within: float,
    seen: EventStats,
) -> tuple[Score, ...]:
    """A score for each output.

    Args:
      plan: of the release. released: its folder. clean, whole: folders of its twins, within bounds
        and without any. within: what share of its size an error may be, to be useful.
      seen: the events: the average of none has no true value.
    """
    folders = {folder: _rows(folder) for folder in {released, clean, whole}}
    results = []
    algorithm = plan.config.algorithm
    roles = {info.name: algorithm.shown(info.name).role for info in plan.outputs}
    for info in plan.outputs:
        if roles[info.name] == "model" and "scaled_model" in roles.values():
            continue  # the same coefficients, each in a unit of its own: they have no mean size
        place = (info.name, info.over)
        empty = OutputRows({})
        noisy, exact, true = (
            folders[item].get(place, empty).by_key for item in (released, clean, whole)
        )
        shown = algorithm.shown(info.name).what
        averages = plan.config.model is None and plan.config.aggregates[info.name].averages
        if averages:
            aggregate = plan.config.aggregates[info.name]
            average, some = aggregate.average, seen.where(aggregate.where)
            if average is not None and average.presence is not None:
                some = some.having(average.column)
            active = some.active()
            true = {key: _of_some(rows, active.get(key), info.over) for key, rows in true.items()}
        seven = _together(noisy, exact, true, info.dimension)
        missing = sum(key not in noisy for key in true)
        results.append(_score(info, shown, seven, missing, within))
    return tuple(results)


def _score(info: Any, what: str, seven: tuple[Floats, ...], missing: int, within: float) -> Score:
    a, sd, low, high, b, c, least = seven
    # What twins differ by within their own noise is none of the clip's doing.
    taken = np.where(np.abs(b - c) > TWINS * np.nan_to_num(least), np.abs(b - c), 0.0)
    known = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    size = float(np.abs(c[known]).mean()) if known.any() else 0.0
    banded = known & np.isfinite(sd)
    half = (high - low)[banded] / 2
    held = ((low <= b) & (b <= high))[banded]
    error = _often(np.abs(a - c)[known])
    share = error / size if size > 0 else math.inf
    return Score(
        info.name,
        info.over,
        info.dimension,
        what,
        int(known.sum()),
        size,
        float(half.mean()) if half.size else NEVER,
        _often(np.abs(a - b)[known]),
        _often(taken[known]),
        error,
        float(held.mean()) if half.size else NEVER,
        missing,
        grade(share, size, within),
        float((c - b)[known].sum() / c[known].sum()) if known.any() and size > 0 else NEVER,
    )


def _of_some(rows: KeyRows, active: Ints | None, over: int | None) -> KeyRows:
    """Without values of spans in which there is no event."""
    ticks, values, stddevs, low, high = rows
    active = np.zeros(0, dtype=np.int64) if active is None else active
    until = np.searchsorted(active, ticks, side="right")
    before = 0 if over is None else np.searchsorted(active, ticks - over, side="right")
    return ticks, np.where((until > before)[:, None], values, NEVER), stddevs, low, high


def _often(errors: Floats) -> float:
    return float(np.quantile(errors, OFTEN)) if errors.size else NEVER


def _rows(folder: Path) -> dict[tuple[str, int | None], OutputRows]:
    """All rows of a folder by output and key."""
    run = ResultFolder.open(folder)
    outputs = {(item.name, item.over): item for item in run.outputs}
    names = ["key", "tick", "name", "over", "value", "stddev", *run.interval_columns]
    held: dict[tuple[str, int | None], dict[str, list[tuple[int, list[Any]]]]] = {}
    for batch in run.batches(names):
        columns = (batch.column(name).to_pylist() for name in names)
        for key, tick, name, over, value, *errors in zip(*columns, strict=True):
            if value is not None:
                output = held.setdefault((name, over), {})
                output.setdefault(key or "", []).append((tick, [value, *errors]))
    return {
        place: OutputRows(
            {key: _arrays(rows, outputs[place], run.band) for key, rows in output.items()}
        )
        for place, output in held.items()
    }


def _arrays(rows: list[tuple[int, list[Any]]], output: ReleasedOutput, band: float) -> KeyRows:
    rows.sort(key=lambda row: row[0])
    width = max(len(lists[0]) for _, lists in rows)
    numbers = np.full((len(rows[0][1]), len(rows), width), np.nan)
    for at, (_, lists) in enumerate(rows):
        for own, item in zip(numbers, lists, strict=True):
            if item is not None:
                own[at, : len(item)] = [NEVER if v is None else v for v in item]
    values, stddevs, *result = numbers
    low, high = ends(output, values, band * stddevs, *result)
    if output.interval:  # as if the longer side were a margin
        longer = np.fmax(values - low, high - values) / band
        stddevs = np.where(np.isnan(stddevs), longer, stddevs)
    return np.array([tick for tick, _ in rows]), values, stddevs, low, high


def _together(noisy: Any, exact: Any, true: Any, dimension: int) -> tuple[Floats, ...]:
    """Of the keys and ticks that all three have, each flat: what was released, its standard
    deviation and the ends of its margin, both twins, and the standard deviation of their
    difference."""
    parts: tuple[list[Floats], ...] = ([], [], [], [], [], [], [])
    for key in noisy:
        if key not in exact or key not in true:
            continue
        (t, *of_noisy), (u, b, low, *_), (v, c, high, *_) = noisy[key], exact[key], true[key]
        ticks = np.intersect1d(np.intersect1d(t, u), v)
        at = [np.searchsorted(item, ticks) for item in (t, u, v)]
        low, high, c = low[at[1]], high[at[2]], c[at[2]]
        # What a twin releases of nothing is its own noise.
        c = np.where(np.abs(c) > TWINS * np.nan_to_num(high), c, 0.0 * c)
        result = (*(item[at[0]] for item in of_noisy), b[at[1]], c, np.hypot(low, high))
        if all(item.shape[1] == dimension for item in result):
            for held, entry in zip(parts, result, strict=True):
                held.append(entry.ravel())
    return tuple(np.concatenate(held) if held else np.zeros(0) for held in parts)
