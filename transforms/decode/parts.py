"""Columns whose values are of several types: each is read as a column of its own type would be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.canonical import ARRIVAL, TIME, Rows
from weir.transforms.decode.cast import Bad, to_boolean, to_number, to_presence, to_text
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.decode.time import UTC_MICROSECONDS, to_time

Read = Callable[[Any], tuple[Any, Bad]]

_READERS: dict[str, tuple[Read, pa.DataType]] = {
    "number": (to_number, pa.float64()),
    "text": (to_text, pa.string()),
    "boolean": (to_boolean, pa.bool_()),
    "any": (to_presence, pa.bool_()),
}


class Part(NamedTuple):
    """Values of one type.

    Attributes:
      rows: (m,) int64, where in the column they are; None: they are all of it.
      values: (m,) of any Arrow type; null where there is none, or none that can be read.
      lost: (m,) bool, where one cannot be read, or None.
    """

    rows: NDArray[np.int64] | None
    values: Any
    lost: Bad = None


def read_parts(
    parts: Sequence[Part],
    count: int,
    schema: EventSchema,
    name: str,
    raw: dict[str, Any],
    spoilt: dict[str, Rows],
) -> None:
    """A column of parts -> what ``assemble`` takes, one column for each role that it plays.

    Args:
      parts: no row is in two of them; where none is, the column is null.
      count: n, rows of the column.
      schema: the roles of columns.
      name: of the column.
      raw: what is read is added to it.
      spoilt: and here, where a value is of a type that cannot play its role.
    """
    read_times(parts, count, schema, name, raw, spoilt)
    kind: str | None = schema.columns.get(name)
    if name in (*schema.keys, schema.id, schema.unit):
        kind = "text"
    if kind is not None:
        raw[name], bad = _merged(parts, count, *_READERS[kind])
        if bad.any():
            spoilt[name] = bad


def read_times(
    parts: Sequence[Part],
    count: int,
    schema: EventSchema,
    name: str,
    raw: dict[str, Any],
    spoilt: dict[str, Rows],
) -> None:
    """As ``read_parts``, for a column of times and its other roles left out."""
    for role, stamp in ((TIME, schema.time), (ARRIVAL, schema.arrival)):
        if stamp is not None and stamp.column == name:
            raw[role], bad = _merged(parts, count, _times(stamp), UTC_MICROSECONDS)
            if bad.any():
                spoilt[role] = bad


def _times(stamp: Stamp) -> Read:
    """What type a value has is up to its record: it is never an error of the config."""
    lenient = replace(stamp, strict=False)

    def read(values: Any) -> tuple[Any, Bad]:
        times = to_time(values, lenient, "")
        return times, _valid(to_presence(values)[0]) & ~_valid(times)

    return read


def _merged(parts: Sequence[Part], count: int, read: Read, kind: pa.DataType) -> tuple[Any, Rows]:
    places = np.full(count, -1, dtype=np.int64)
    bad: Rows = np.zeros(count, dtype=bool)
    pieces: list[Any] = [pa.nulls(0, kind)]
    base = 0
    for rows, values, known in parts:
        at = np.arange(count) if rows is None else rows
        try:
            piece, lost = read(values)
        except ConfigError:
            piece, lost = pa.nulls(len(values), kind), _valid(to_presence(values)[0])
        for more in (lost, known):
            if more is not None:
                bad[at[more]] = True
        if rows is None:
            return piece, bad
        places[rows] = np.arange(base, base + len(rows))
        base += len(rows)
        pieces.append(piece)
    return pa.concat_arrays(pieces).take(pa.array(places, mask=places < 0)), bad


def _valid(values: Any) -> Rows:
    valid: Rows = values.is_valid().to_numpy(zero_copy_only=False)
    return valid
