"""Events as rows of whole numbers, each within its l2 bounds: what moments are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.kit.rows import Scaling
from weir.dpcore.models.moments import Moments
from weir.dpcore.models.regression.event_kernel import SHRINK, EventKernel, square_of, too_long
from weir.dpcore.program import Bounded, Program, Runs

_CHUNK = 1 << 15
"""Events that are bounded at once: a column of them stays in the cache."""
_TOGETHER = 1 << 16
"""Numbers whose norms are looked at together."""
_EXACT = 2.0**53


def room_for(width: int, n: int) -> Floats:
    """An empty (width, >= n) table whose columns lie apart in memory by no multiple of a page:
    matrix products over a part of the columns would pay for it."""
    stride = -(-n // 8) * 8
    return np.empty((width, stride + 8 * (stride % 512 == 0)))


def fit(table: Floats, moments: Moments, rounded: bool = False) -> int:
    """Rounds events in place to whole numbers within the bounds of ``moments``.

    An event with ||x||_2 > reach is scaled down as a whole, (x, y) by one factor: in a least
    squares it keeps what it says and has less weight. A target vector with ||y||_2 > height is
    shortened alone.

    Formal guarantees:
      Afterwards ||x||_2 <= reach 2^bits and ||y||_2 <= height 2^bits exactly: squares of whole
      numbers are added exactly in float64 (below 2^53), and are compared with a whole number. A row
      that rounding to the nearest leaves too long is truncated toward zero instead. Every row is
      measured as it leaves, whatever came in: no bound is taken to hold already. A row's result
      depends on that row alone.

    Args:
      table: (d + k, n) float64, one event a column, in units in which 1 is 2^bits; finite.
      rounded: whether the numbers are whole already.

    Returns:
      How many events were too long.

    Raises:
      WeirError: a row is too long at the end, so that something here is broken.
    """
    if not rounded:
        np.rint(table, out=table)
    d, bits, long = moments.features, moments.bits, 0
    step = max(256, _TOGETHER // moments.width)
    for first in range(0, table.shape[1], step):
        part = table[:, first : first + step]
        long += _shorten(part, slice(0, d), slice(None), moments.reach, bits)
        long += _shorten(part, slice(d, None), slice(d, None), moments.height, bits)
    return long


def _squared_norms(part: Floats) -> Floats:
    """Added up in the order of the numbers of a row, where that can be told: a sum below 2^53 is
    exact in any."""
    result = np.asarray(np.einsum("ij,ij->j", part, part))
    if result.size and not result.max() < _EXACT:
        result = np.zeros(part.shape[1])
        with np.errstate(over="ignore"):
            for row in part:
                result += row * row
    return result


def _shorten(table: Floats, measured: slice, scaled: slice, bound: float, bits: int) -> int:
    """Scales the rows ``scaled`` of too long columns, so that the rows ``measured`` fit: every
    column's norm is measured in its last form."""
    limit = square_of(bound, bits)
    square = _squared_norms(table[measured])
    long = np.flatnonzero(square > limit)
    if not long.size:
        return 0
    many = 4 * long.size > len(square)  # then a pass over all columns is faster than a selection
    where: Any = slice(None) if many else long
    factor = np.ldexp(bound, bits) * SHRINK / np.sqrt(np.maximum(square[where], limit))
    if many:
        factor[square <= limit] = 1.0
    exact = table[scaled, where] * factor
    rounded = np.rint(exact)
    first = measured.start - (scaled.start or 0)
    inside = slice(first, None if measured.stop is None else first + measured.stop)
    over = np.flatnonzero(_squared_norms(rounded[inside]) > limit)
    if over.size:
        rounded[:, over] = np.trunc(exact[:, over])
        if (_squared_norms(rounded[inside][:, over]) > limit).any():
            raise too_long()
    table[scaled, where] = rounded
    return len(long)


@dataclass(frozen=True)
class EventRows:
    """Features and targets, each mapped from its public range onto [-1, 1], as lattice rows.

    An event with a missing or non-finite number counts as none: its row is 0. What lies outside a
    range is moved to the nearer bound and counted.

    Attributes:
      features, targets: names of columns. low, high: ranges of the features, then of the targets.
      intercept: whether x ends with the constant 1.
      moments: the bounds and the lattice.
      outer: (low, high) of each feature that values are moved into where that is wider than what is
        mapped onto [-1, 1]; (): the same. Such an event is shortened as a whole, and not moved.
    """

    features: tuple[str, ...]
    targets: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    intercept: bool
    moments: Moments
    outer: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        expected = len(self.features) + self.intercept, len(self.targets)
        if (self.moments.features, self.moments.targets) != expected:
            raise ConfigError(
                "model.features", list(self.features), f"do not fit moments of {expected}."
            )
        Scaling(self.columns, self.low, self.high)  # refuses empty ranges

    def __getstate__(self) -> dict[str, Any]:
        """Without what follows from the fields: a worker elsewhere may have no kernels."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def of(cls, model: Any, moments: Moments) -> EventRows:
        """From the config's ``model`` section.

        Raises:
          ConfigError: a column without a range, or an empty one.
        """
        features, targets = tuple(model.features), tuple(model.targets)
        ranges, usual = model.public_ranges, getattr(model, "usual", {})
        low, high = [], []
        for target in targets:
            scaling = Scaling.of(features, target, {**ranges, **usual})
            low.append(scaling.low)
            high.append(scaling.high)
        return cls(
            features,
            targets,
            (*low[0][:-1], *(item[-1] for item in low)),
            (*high[0][:-1], *(item[-1] for item in high)),
            bool(model.intercept),
            moments,
            tuple(ranges[name] for name in features) if usual else (),
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Numeric columns that are read: features, then targets."""
        return (*self.features, *self.targets)

    @cached_property
    def scalings(self) -> tuple[Scaling, ...]:
        """The features with each target."""
        p = len(self.features)
        return tuple(
            Scaling(
                (*self.features, target),
                (*self.low[:p], self.low[p + j]),
                (*self.high[:p], self.high[p + j]),
            )
            for j, target in enumerate(self.targets)
        )

    @cached_property
    def _middle(self) -> Floats:
        return Scaling(self.columns, self.low, self.high).middle

    @cached_property
    def _per_unit(self) -> Floats:
        """Lattice steps in one unit of each column."""
        half = Scaling(self.columns, self.low, self.high).half
        return np.asarray(np.ldexp(1.0, self.moments.bits) / half)

    @cached_property
    def _overshoots(self) -> NDArray[np.bool_]:
        """Columns whose bounds, so computed, round beyond 2^bits: narrow ranges far from 0."""
        ends = np.array([self.low, self.high]) - self._middle
        steps = np.abs(np.rint(ends * self._per_unit)).max(axis=0)
        return np.asarray(steps > np.ldexp(1.0, self.moments.bits))

    def bound(self, columns: Mapping[str, NDArray[Any]], n_events: int) -> Bounded:
        """Events -> rows (n_events, d + k) float64, whole numbers within the bounds; and counts."""
        room = room_for(self.moments.width, n_events)
        if self._kernel is not None:
            return self._kernel.rows(columns, n_events, room)
        moments, p = self.moments, len(self.features)
        table = room[:, :n_events]
        places = [*range(p), *range(p + self.intercept, moments.width)]
        item = np.ldexp(1.0, moments.bits)
        clipped = non_finite = 0
        for first in range(0, n_events, _CHUNK):
            part = table[:, first : first + _CHUNK]
            bad: NDArray[np.bool_] | None = None
            if self.intercept:
                part[p] = item
            for j, (name, place) in enumerate(zip(self.columns, places, strict=True)):
                raw = np.asarray(columns[name][first : first + _CHUNK], dtype=np.float64)
                low, high, row = *self._ends(j), part[place]
                if raw.min() >= low and raw.max() <= high:  # no NaN either
                    np.subtract(raw, self._middle[j], out=row)
                else:
                    wrong = ~np.isfinite(raw)
                    moved = np.clip(raw, low, high)
                    clipped += int(np.count_nonzero((moved != raw) & ~wrong))
                    if wrong.any():
                        non_finite += int(np.count_nonzero(wrong))
                        moved[wrong] = low
                        bad = wrong if bad is None else bad | wrong
                    np.subtract(moved, self._middle[j], out=row)
                row *= self._per_unit[j]
                np.rint(row, out=row)
                if self._overshoots[j] and j >= len(self.outer):
                    np.clip(row, -item, item, out=row)
            if bad is not None:
                part[:, bad] = 0.0
            clipped += fit(part, moments, rounded=True)
        return Bounded(table.T, clipped, non_finite)

    def sum_runs(
        self, columns: Mapping[str, NDArray[Any]], n_events: int, runs: Runs, n_cells: int
    ) -> tuple[Ints, Bounded]:
        """What ``bound`` and the moments' ``accumulate`` give of the events that are in runs, in
        one pass over the columns: (n_cells, D) int64, and counts."""
        if self._kernel is not None:
            out = np.zeros((n_cells, self.moments.dimension), dtype=np.int64)
            return out, self._kernel.sums(columns, n_events, runs, out)
        cells = np.repeat(runs.cells, runs.stops - runs.starts)
        if len(cells) < n_events:
            pieces = [np.arange(*ends) for ends in zip(runs.starts, runs.stops, strict=True)]
            some = np.concatenate([*pieces, np.zeros(0, dtype=np.int64)])
            columns = {name: columns[name][some] for name in self.columns}
        bounded = self.bound(columns, len(cells))
        return self.moments.accumulate(bounded.rows, cells, n_cells), bounded._replace(rows=None)

    @cached_property
    def _kernel(self) -> EventKernel | None:
        ends = np.array([self._ends(j) for j in range(len(self.columns))]).reshape(-1, 2)
        held = self._overshoots & (np.arange(len(ends)) >= len(self.outer))
        most = np.where(held, np.ldexp(1.0, self.moments.bits), np.inf)
        table = np.column_stack([ends, self._middle, self._per_unit, most])
        return EventKernel.of(self.columns, table, self.intercept, self.moments)

    def _ends(self, column: int) -> tuple[float, float]:
        """Where values are moved into."""
        if column < len(self.outer):
            return self.outer[column]
        return self.low[column], self.high[column]

    def coefficients(self, theta: Floats) -> Floats:
        """The same models in the user's units: (..., k, d) -> (..., k, p + 1)."""
        return np.stack(
            [
                scaling.coefficients(theta[..., j, :], self.intercept, False)
                for j, scaling in enumerate(self.scalings)
            ],
            axis=-2,
        )

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a row."""
        return {
            "features": list(self.features),
            "targets": list(self.targets),
            "low": [value.hex() for value in self.low],
            "high": [value.hex() for value in self.high],
            "intercept": self.intercept,
            "moments": self.moments.canonical(),
            **self._outer_canonical(),
        }

    def _outer_canonical(self) -> Mapping[str, Any]:
        return {"outer": [[e.hex() for e in ends] for ends in self.outer]} if self.outer else {}


class MomentsProgram(Program):
    """A program whose leaves are exact moments of lattice rows.

    Attributes:
      rows: from columns to rows, and their moments.
    """

    rows: Any

    @property
    def dimension(self) -> int:
        """D, coordinates of a leaf."""
        return int(self.rows.moments.dimension)

    @property
    def columns(self) -> tuple[str, ...]:
        """Numeric columns that are read."""
        return tuple(self.rows.columns)

    @property
    def capacity(self) -> int:
        """Events of a key and tick that exact sums have room for."""
        return int(self.rows.moments.capacity)

    @property
    def row_width(self) -> int:
        """Numbers in a row: few rows are smaller than their moments, and summed late."""
        return int(self.rows.moments.width)

    def bound(self, columns: Mapping[str, NDArray[Any]], n_events: int) -> Bounded:
        """Lattice rows of scaled features and targets, within their norms."""
        bounded: Bounded = self.rows.bound(columns, n_events)
        return bounded

    def accumulate(self, rows: Any, cells: Ints, n_cells: int) -> Ints:
        """Exact moments per cell."""
        return np.asarray(self.rows.moments.accumulate(rows, cells, n_cells))

    def labels(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Names of coefficients, of each target in turn where there are several."""
        targets = self.rows.targets
        if len(targets) == 1:
            return names
        return tuple(f"{target}.{name}" for target in targets for name in names)
