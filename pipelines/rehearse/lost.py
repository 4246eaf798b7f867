"""What clips and caps take of public or made-up events."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weir.dpcore.aggregates.bounding import BoundedAggregate
from weir.dpcore.plan import Plan
from weir.pipelines.rehearse.seen import Seen


@dataclass(frozen=True)
class Clipped:
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
        fields = dict(vars(self)) | {"bounds": [_plain(one) for one in self.bounds]}
        return fields | {"amount": _plain(self.amount), "share": self.share}


@dataclass(frozen=True)
class CapLoss:
    """What one cap on users costs.

    Attributes:
      cap, value: which, and what it is. other: what it might be; the same: as it is.
      noise: times the noise that it has now. lost: share of the events beyond all caps then.
    """

    cap: str
    value: int
    other: int
    noise: float
    lost: float

    def to_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return dict(vars(self))


def clipped_of(plan: Plan, seen: Seen) -> tuple[Clipped, ...]:
    """For each output with bounds."""
    return tuple(_clipped(plan, seen))


def _clipped(plan: Plan, seen: Seen) -> Iterator[Clipped]:
    for name, one in plan.config.aggregates.items():
        bounds, column = one.bounds, one.column
        some = seen.where(one.where)
        values = None if column is None else some.values(column)
        if values is None or not bounds or column is None:
            continue
        values = values[np.isfinite(values)]
        low, high = min(bounds), max(bounds)
        if isinstance(one, BoundedAggregate):
            field = one.clips[0]
            if field == "clip_user":
                values = some.user_totals(column)
            moved = (values < low) | (values > high)
            size = float(np.abs(values).sum())
            taken = float(np.abs(values - np.clip(values, low, high)).sum())
            amount = taken / size if size > 0 else 0.0
        else:
            field, amount = "edges", math.nan
            moved = (values < low) | (values > high)
        yield Clipped(name, field, tuple(bounds), column, len(values), int(moved.sum()), amount)


def caps_of(plan: Plan, seen: Seen) -> tuple[CapLoss, ...]:
    """What the caps on users take, as they are and as they might be; () where events are the unit.

    The rows without another value stand first: what all caps together take now.
    """
    person = plan.person
    events = seen.events.num_rows
    if person is None or not events:
        return ()
    now = seen.lost_under(person.caps) / events
    found = [CapLoss("", 0, 0, 1.0, now)]
    for one in plan.cap_prices:
        other = replace(person.caps, **{one.cap: one.other})
        lost = seen.lost_under(other) / events
        found.append(CapLoss(one.cap, one.value, one.other, one.noise, lost))
    return tuple(found)


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None


__all__ = ["CapLoss", "Clipped", "caps_of", "clipped_of"]
