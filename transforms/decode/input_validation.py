"""A look at the first records: wrong input is told from the config before anything is released.

Records are counted under what fits them: an event time, the clock, a declared key, a value of each
column. What fits none of those looked at is a doubt, and a doubt that stays is an error of the
config: a column that is misspelt, a time in another unit. One record that fits ends it, so no event
can stop a run that others go through. Nothing of what a record says is kept or told but counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.transforms.columns.keys import (
    as_numbers,
    declared_keys,
    folded,
    is_key,
    key_roles,
    keys_of,
)
from weir.transforms.columns.predicate import Predicate
from weir.transforms.columns.predicate_compiler import Kind
from weir.transforms.decode.canonical import Decoded
from weir.transforms.decode.schema import EPOCH_MICROSECONDS, EventSchema
from weir.transforms.runtime.dead_letters import count_by_field
from weir.transforms.runtime.reasons import UNREAD

SEEN = "seen"
"""Tag of the output that carries evidence."""

Read = Callable[[EventSchema], Iterator[Decoded]]
"""Reads the first records again, under another schema."""

FORMATS = (None, *EPOCH_MICROSECONDS, "%Y%m%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y")
"""Forms of times that are tried where none of the first can be used; the first that fits is named.
None: ISO 8601."""

_AGAIN = 16
"""Batches that are read once more where there is a doubt."""


class Doubt(NamedTuple):
    """What none of the records looked at has.

    Attributes:
      about: record, time, clock, key (none is declared), absent or kind (of a column).
      column: the user's, or "".
      role: the canonical column that it is read as, like "@id"; "" where it is one of the user's.
    """

    about: str
    column: str = ""
    role: str = ""


@dataclass(frozen=True)
class Evidence:
    """How many records fit what. Adds up, in any order.

    Attributes:
      counts: "records", "events" and "inside" (the clock), "before", "after", "declared",
        "nearly" (declared but for spaces and capitals), "alike" (but for how numbers are spelt),
        "passed" (the predicate), "unseen" (batches
        that passed by); ("has", role or column);
        ("letter", column, reason); ("as", format) of ("of", format), and ("is", column, kind),
        which are found by reading again.
    """

    counts: Mapping[Any, int] = field(default_factory=dict)

    def __add__(self, other: Evidence) -> Evidence:
        return Evidence(Counter(self.counts) + Counter(other.counts))

    def __getitem__(self, name: Any) -> int:
        return self.counts.get(name, 0)


class FirstLook:
    """What a plan asks of records, and which of it some have.

    Args:
      plan: what is to be released.
      schema: the roles of columns.
      named: whether names of columns are known to be right (a header, a type), so that a column
        without a value is empty and not misspelt.
      off: what turns the look off, for messages.
    """

    def __init__(
        self,
        plan: Any,
        schema: EventSchema,
        named: bool = False,
        off: str = "limits.first_look: false",
    ) -> None:
        self.schema, self.named, self.off, self.clock = schema, named, off, plan.clock
        self._where = None if plan.where is None else Predicate.parse(plan.where)
        self._declared = declared_keys(plan)
        self._user = None if plan.person is None else "@unit"
        self._several = len(schema.keys) > 1

    def evidence(self, decoded: Decoded) -> Evidence:
        """What one batch shows."""
        counts: Counter[Any] = Counter()
        if decoded.dead is not None:
            for (column, reason), count in count_by_field(decoded.dead).items():
                counts["letter", column, reason] += count
                if reason in UNREAD:
                    counts["records"] += count
        if decoded.events is not None:
            self._of_events(decoded.events, counts)
        return Evidence(counts)

    def _of_events(self, events: pa.RecordBatch, counts: Counter[Any]) -> None:
        counts["records"] += events.num_rows
        counts["events"] += events.num_rows
        ticks = self._ticks(events)
        counts["before"] += int((ticks < 0).sum())
        last = self.clock.ticks
        counts["after"] += 0 if last is None else int((ticks >= last).sum())
        counts["inside"] = counts["events"] - counts["before"] - counts["after"]
        if self._where is not None:
            counts["passed"] += _true(self._where.mask(events))
        if self._declared is not None and self.schema.keys:
            self._of_keys(keys_of(events, self.schema.keys).keys, counts)
        for name in [*self._roles, *self.schema.columns]:
            column = events.column(name)
            counts["has", name] += _named(column) if name == self._user else _there(column)

    @cached_property
    def _roles(self) -> dict[str, str]:
        """Canonical column -> the user's that it is made of."""
        schema = self.schema
        arrival = None if schema.arrival is None else schema.arrival.column
        roles = {"@id": schema.id, "@unit": schema.unit, "@arrival": arrival}
        named = {role: column for role, column in roles.items() if column is not None}
        return {**key_roles(schema.keys), **named}

    def _ticks(self, events: pa.RecordBatch) -> Any:
        return self.clock.tick_of(events.column("@time").view(pa.int64()).to_numpy())

    def _of_keys(self, keys: Any, counts: Counter[Any]) -> None:
        names = keys.dictionary
        declared = pc.is_in(names, value_set=self._declared)
        counts["declared"] += _true(declared.take(keys.indices))
        if not counts["declared"]:
            listed = names.to_pylist()
            for what, spelt in (("nearly", folded), ("alike", as_numbers)):
                known = self._known[what]
                near = [item is not None and spelt(item, self._several) in known for item in listed]
                counts[what] += _true(pa.array(near, pa.bool_()).take(keys.indices))

    @cached_property
    def _known(self) -> dict[str, set[Any]]:
        """Declared keys as ``folded`` and ``as_numbers`` have them; few runs ask."""
        known = [] if self._declared is None else self._declared.to_pylist()
        return {
            "nearly": {folded(key, self._several) for key in known},
            "alike": {as_numbers(key, self._several) for key in known},
        }

    def doubts(self, seen: Evidence) -> tuple[Doubt, ...]:
        """What no record had so far, the gravest first."""
        schema = self.schema
        if not seen["records"] or seen["unseen"]:
            return ()
        if not seen["events"]:
            return (self._unread(seen),)
        result = [] if seen["inside"] else [Doubt("clock")]
        for role, column in self._roles.items():
            result += self._unfilled(column, role, seen)
        there = [seen["has", role] for role in key_roles(schema.keys)]
        if self._declared is not None and there and all(there) and not seen["declared"]:
            result.append(Doubt("key", ", ".join(schema.keys)))
        for name in schema.columns:
            # A column that only `where` reads may be rare, unless nothing is left without it.
            if schema.fields.get(name) != "where" or not seen["passed"]:
                result += self._unfilled(name, "", seen)
        return tuple(result)

    def unmet(self, seen: Evidence) -> tuple[str, ...]:
        """Columns that only the predicate reads and that no record had so far."""
        if self.named or not seen["events"]:
            return ()
        fields = self.schema.fields
        return tuple(
            name
            for name in self.schema.columns
            if fields.get(name) == "where" and not seen["has", name]
        )

    def _unread(self, seen: Evidence) -> Doubt:
        letters = {name[1:]: n for name, n in seen.counts.items() if name[0] == "letter"}
        letters = {pair: n for pair, n in letters.items() if pair[1] in UNREAD}
        column, reason = max(letters, key=lambda pair: letters[pair])
        if reason in ("missing_time", "unreadable_time"):
            reported = seen["letter", column, "unreadable_time"] or self.named
            return Doubt("time" if reported else "absent", column, "@time")
        role = reason.replace("unreadable_", "@")
        return Doubt("kind", column, role) if column else Doubt("record")

    def _unfilled(self, column: str, role: str, seen: Evidence) -> list[Doubt]:
        """A column without a value is absent or empty; one that was refused is of another kind."""
        if seen["has", role or column]:
            return []
        if any(name[:2] == ("letter", column) for name in seen.counts):
            return [Doubt("kind", column, role)]
        # Without a key, or a user where the unit is one, no event counts: told, named or not.
        named = self.named and not is_key(role) and role != self._user
        return [] if named else [Doubt("absent", column, role)]

    def tried(self, doubts: Iterable[Doubt], read: Read) -> Evidence:
        """What would fit instead: reads the first records again, in other ways."""
        total = Evidence()
        for doubt in doubts:
            if doubt.about in ("time", "clock"):
                total += self._other_times(read)
            elif doubt.about == "kind" and not doubt.role:
                total += self._other_kinds(doubt.column, read)
        return total

    def _other_times(self, read: Read) -> Evidence:
        time = self.schema.time
        assert time is not None
        counts: Counter[Any] = Counter()
        for form in FORMATS:
            if form == time.format:
                continue
            bare = EventSchema(replace(time, format=form)).lenient()
            for events, dead, _ in islice(read(bare), _AGAIN):
                counts["of", form] += 0 if dead is None else dead.num_rows
                if events is not None:
                    counts["of", form] += events.num_rows
                    ticks = self._ticks(events)
                    inside = ticks >= 0
                    if self.clock.ticks is not None:
                        inside &= ticks < self.clock.ticks
                    counts["as", form] += int(inside.sum())
        return Evidence(counts)

    def _other_kinds(self, column: str, read: Read) -> Evidence:
        counts: Counter[Any] = Counter()
        kinds: tuple[Kind, ...] = ("boolean", "text", "number")
        for kind in kinds:
            if kind == self.schema.columns[column]:
                continue
            bare = EventSchema(self.schema.time, columns={column: kind}).lenient()
            for events, _, _ in islice(read(bare), _AGAIN):
                if events is not None:
                    counts["is", column, kind] += _there(events.column(column))
        return Evidence(counts)


def _true(mask: Any) -> int:
    return int(pc.sum(mask).as_py() or 0)


def _named(column: Any) -> int:
    """Users: an empty text is nobody."""
    if pa.types.is_integer(column.type):
        return _there(column)
    length = pc.binary_length(column.cast(pa.large_binary()))
    return _true(pc.fill_null(pc.greater(length, 0), False))


def _there(column: Any) -> int:
    return len(column) - int(np.sum(pc.is_null(column, nan_is_null=True).to_numpy(False)))
