"""Bounds on what an event adds: clips and predicates of aggregates.

Events that an aggregate's own predicate lets in, and what they add: of the others nothing.

What an event adds to a channel behind a gate is what it adds without, or nothing at all. So nothing
that bounds it grows: see ``dpcore.accounting.joint`` for what a neighbour changes.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from weir.dpcore.aggregates.aggregate import OF, Aggregate, Of, takes
from weir.dpcore.aggregates.channel import (
    CELL,
    Channel,
    ChannelGate,
    Contribution,
    Presence,
    UserCells,
)
from weir.dpcore.aggregates.layout import Average
from weir.dpcore.algorithm import Bias
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.config.section import FARTHEST, NEAREST, Pair, refusal
from weir.dpcore.leaves.lattice import clip_values


@dataclass
class Clips:
    """Clipped values of a batch.

    Attributes:
      columns: of the batch. cells: of its users; None where the unit is an event.
      clipped: values that were moved, so far.
      missing: column -> (m,) events in which it is no number, each once however many channels read
        it. Infinity is one to bins, which hold it.
    """

    columns: Mapping[str, NDArray[Any]]
    cells: UserCells | None
    clipped: int = 0
    missing: dict[str, Ints] = field(default_factory=dict)
    _kept: dict[tuple[str, float, float, bool], Floats] = field(default_factory=dict)
    _looked: set[tuple[str, Any]] = field(default_factory=set)

    def of(self, channel: Channel) -> Floats | None:
        """(n,) a value an event, or (m,) one a cell of a user; raw for bins, None for a count."""
        if channel.column is None or channel.kind == "count":
            return None
        raw = np.asarray(self.columns[channel.column], dtype=np.float64)
        if channel.edges:
            bins = channel.kind == "bins"
            self._note(channel.column, raw, np.isnan if bins else _not_finite)
            return raw
        if channel.takes == "events":
            return self._clipped(channel, raw)
        assert self.cells is not None
        low, high, most = channel.low, channel.high, channel.events
        if channel.takes == "totals":
            return self._clipped(channel, raw, most)
        return self.cells.averages(self._clipped(channel, raw), low, high, most)

    def _clipped(self, channel: Channel, raw: Floats, total_of: int = 0) -> Floats:
        """Clipped values, or totals of cells of so many rows."""
        assert channel.column is not None
        low, high = channel.low, channel.high
        spot = (channel.column, low, high, bool(total_of))
        if spot not in self._kept:
            whole = raw
            if total_of:
                assert self.cells is not None
                raw = self.cells.totals(raw, max(abs(low), abs(high)), total_of)
            self._kept[spot], over, bad = clip_values(raw, low, high)
            self.clipped += over
            if bad or total_of:
                self._note(channel.column, whole, _not_finite)
        return self._kept[spot]

    def _note(self, column: str, raw: Floats, void: Callable[[Floats], Any]) -> None:
        """Remembers which values of a column are no numbers, by what tells them."""
        if (column, void) not in self._looked:
            self._looked.add((column, void))
            bad = np.flatnonzero(void(raw))
            self.missing[column] = np.union1d(bad, self.missing.get(column, bad[:0]))


def _not_finite(values: Floats) -> Any:
    return ~np.isfinite(values)


GATE = "@where "
"""With the text of a predicate, the name of a column: 1 where an event satisfies it, else 0."""


def _rows(columns: Mapping[str, NDArray[Any]], rows: Ints) -> dict[str, NDArray[Any]]:
    return {name: column[rows] for name, column in columns.items()}


class Predicated(NamedTuple):
    """Events of a batch that count in the channels of a gate.

    Attributes:
      rows: (m,) which of them; None: all. n_events: of the batch. clips: of those that count.
      without: column -> events of the batch that the predicate lets in and that do not count for
        want of a number.
    """

    rows: Ints | None
    n_events: int
    clips: Clips
    without: Mapping[str, Ints]

    @classmethod
    def of(
        cls, columns: Mapping[str, NDArray[Any]], n_events: int, gate: ChannelGate, most: int
    ) -> Predicated:
        """Those that a gate lets in. most: events of a user in a cell.

        Cells of users are those of the events that count: what a user adds is bounded alike.
        """
        rows, without = None, dict[str, Ints]()
        if gate.where is not None:
            rows = np.flatnonzero(np.asarray(columns[GATE + gate.where]) == 1)
        if gate.presence is not None:
            assert gate.column is not None
            let_in = np.arange(n_events) if rows is None else rows
            numbers = np.asarray(columns[gate.column], dtype=np.float64)[let_in]
            present = np.isfinite(numbers)
            if gate.cells:
                present = UserCells.of(_rows(columns, let_in), len(let_in), most).any(present)
            without = {gate.column: let_in[~np.isfinite(numbers)]}
            rows = let_in[present if gate.presence == "present" else ~present]
        n = n_events if rows is None else len(rows)
        own = columns if rows is None else _rows(columns, rows)
        cells = UserCells.of(own, n, most) if CELL in columns else None
        return cls(rows, n_events, Clips(own, cells), without)

    def contribution(self, channel: Channel) -> tuple[Contribution, int]:
        """What the events of the batch add, nothing where they do not count; and how many of those
        that do have a number that lies in no bin."""
        values = self.clips.of(channel)
        result = channel.contribution(values)
        outside = 0
        if result.coordinate is not None and values is not None:
            bins = channel.kind == "bins"
            outside = int(np.count_nonzero(result.coordinate < 0)) if bins else 0
            outside -= int(np.count_nonzero(np.isnan(values))) if outside else 0
        if channel.takes != "events":
            assert self.clips.cells is not None
            n = self.n_events if self.rows is None else len(self.rows)
            result = channel.of_users(self.clips.cells, result, n)
        return (result if self.rows is None else self._spread(result, self.rows)), outside

    @property
    def missing(self) -> Mapping[str, Ints]:
        """Column -> events of the batch that count and in which it is no number."""
        own = self.clips.missing
        if self.rows is None:
            return own
        return {**{name: self.rows[at] for name, at in own.items()}, **self.without}

    def _spread(self, found: Contribution, rows: Ints) -> Contribution:
        """Of the events that count -> of all."""
        coordinate, amount = found
        if found.coordinate is not None:
            coordinate = np.full(self.n_events, -1, dtype=np.int64)
            coordinate[rows] = found.coordinate
        if coordinate is None or not isinstance(amount, int):
            amount = np.zeros(self.n_events)
            amount[rows] = found.amount
        return Contribution(coordinate, amount)


CLIP = (
    "[low, high]: values outside are moved to the nearer bound. Public: choose it from what you "
    "know, never from the data."
)


class BoundedAggregate(Aggregate):
    """An aggregate of values that are moved into public bounds, by a field that ``clips`` names."""

    @property
    @abstractmethod
    def clips(self) -> tuple[str, tuple[float, ...]]:
        """Name and value of the field that bounds values."""

    @property
    def bounds(self) -> tuple[float, float]:
        """The clip."""
        _, (low, high) = self.clips
        return float(low), float(high)

    @model_validator(mode="after")
    def _check(self) -> Self:
        name, (low, high) = self.clips
        if not (math.isfinite(low) and math.isfinite(high)):
            raise refusal(name, [low, high], "must be two finite numbers: [low, high].")
        if low >= high:
            raise refusal(name, [low, high], "must be [low, high] with low below high.")
        if max(abs(low), abs(high)) > FARTHEST or high - low < NEAREST:
            raise refusal(
                name,
                [low, high],
                f"must lie in [-{FARTHEST:g}, {FARTHEST:g}], its bounds {NEAREST:g} or more "
                "apart; rescale the column.",
            )
        return self

    @property
    def left_out(self) -> Bias:
        return Bias((self.moved,))

    @property
    def outside(self) -> str:
        """What the clip does to values outside of it, in words."""
        low, high = self.bounds
        return f"values outside [{low:g}, {high:g}] count as the nearer bound"

    @property
    def moved(self) -> str:
        """What the clip does to values, in words."""
        low, high = self.bounds
        return f"{self.outside}, missing ones as {min(max(0.0, low), high):g}"

    @property
    def unread(self) -> str:
        """What missing and non-finite values do, in words."""
        return "count as 0"

    def refused(self, name: str) -> Iterator[str]:
        low, high = self.bounds
        yield (
            f"{name}: values of {self.column} are moved into [{low:g}, {high:g}]; "
            f"missing and non-finite ones {self.unread}"
        )


def only_for_sums(value: Any) -> None:
    """Raises where a clip of another aggregate is to be learned."""
    if isinstance(value, Mapping) and "learn" in value:
        raise refusal(
            "clip",
            dict(value),
            "is learned for sums only; release the sum and {count: events} over one span and "
            "divide them, which costs nothing more, or write two public numbers.",
        )


class ClippedAggregate(BoundedAggregate):
    """An aggregate with a clip of every event's value, of events or of users."""

    clip: Pair = Field(description=CLIP, examples=[[0, 200]])
    of: Of = Field(default="events", description=OF, examples=["users"])
    missing: Literal[0] | None = Field(
        default=None,
        description="0: a value that is missing or not finite counts as 0, moved into the clip. "
        "Without it such an event does not count here, nor does a user (of: users) without any "
        "value.",
        examples=[0],
    )

    @property
    def left_out(self) -> Bias:
        return Bias((self.moved,), averages=f"{self.kind} of clipped values")

    @property
    def presence(self) -> Presence | None:
        """Which events count by its column."""
        return "present" if self.missing is None else None

    @property
    def moved(self) -> str:
        return (
            super().moved if self.presence is None else f"{self.outside}, missing ones do not count"
        )

    @property
    def unread(self) -> str:
        return super().unread if self.presence is None else "do not count"

    @property
    def average(self) -> Average:
        column, (low, high) = str(self.column), self.bounds
        of = (self.where, takes(self.of), column, low, high)
        return Average(*of, self.presence, frozenset(self.overs))

    @property
    def clips(self) -> tuple[str, tuple[float, ...]]:
        return "clip", self.clip

    @property
    def what(self) -> str:
        if self.of == "users":
            return self.words.format(column=f"users' own means of {self.column}")
        return super().what

    @property
    def of_users(self) -> tuple[str, Any, str] | None:
        return None if self.of == "events" else ("of", "users", "remove it")

    @model_validator(mode="before")
    @classmethod
    def _given(cls, data: Any) -> Any:
        if isinstance(data, dict):
            only_for_sums(data.get("clip"))
        if isinstance(data, dict) and "clip" not in data:
            raise refusal(
                "clip",
                None,
                f"is missing; a {cls.kind} needs public bounds for its values, like "
                "`clip: [0, 200]`.",
            )
        return data
