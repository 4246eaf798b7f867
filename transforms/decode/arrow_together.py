"""Arrow payloads of many messages, read together: what frames each is checked alone, then their
columns are laid one after the other and every value is read at once. A message that is not plain
and sound in every way is left to be read by itself, so that it can hurt no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from weir.transforms.decode.canonical import Decoded, assemble
from weir.transforms.decode.columnar import BATCH_ROWS
from weir.transforms.decode.columnar_sound import sound
from weir.transforms.decode.schema import EventSchema

_FILE = b"ARROW1"
"""How a file begins; a stream cannot."""
_PLAIN = (
    *(pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_timestamp),
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary),
)
"""Types whose arrays can be laid one after the other without a look at what they hold."""


class Together(NamedTuple):
    """Messages of equal columns.

    Attributes:
      places: of the messages, in order. rows: (m,) how many records each holds.
      decoded: their records, positions counted through all of them, from 1.
    """

    places: list[int]
    rows: list[int]
    decoded: Decoded


class _Framed(NamedTuple):
    """The needed columns of a message, in order of the schema, each a list of arrays."""

    columns: list[list[Any]]
    rows: int


def read_together(
    payloads: Sequence[bytes], schema: EventSchema, source: str
) -> tuple[list[Together], list[int]]:
    """Reads what can be read together.

    Args:
      payloads: Arrow IPC streams, or anything else. schema: the roles of columns; lenient.
      source: topic or subscription.

    Returns:
      What was read, and the places of the payloads that are left.
    """
    left: list[int] = []
    alike: dict[tuple[Any, ...], list[tuple[int, _Framed]]] = {}
    for place, payload in enumerate(payloads):
        framed = _framed(payload, schema)
        if framed is None:
            left.append(place)
        elif framed.rows:
            types = tuple(arrays[0].type for arrays in framed.columns)
            alike.setdefault(types, []).append((place, framed))
    found = []
    for group in alike.values():
        places, rows = [place for place, _ in group], [framed.rows for _, framed in group]
        try:
            raw = {
                name: pa.concat_arrays([a for _, framed in group for a in framed.columns[i]])
                for i, name in enumerate(schema.needed)
            }
            positions = np.arange(1, sum(rows) + 1, dtype=np.int64)
            found.append(Together(places, rows, assemble(raw, positions, schema, source)))
        except Exception:
            # Whatever one message led the casts to: alone, it can hurt no other.
            left += places
    return found, sorted(left)


def _framed(payload: bytes, schema: EventSchema) -> _Framed | None:
    """The columns of a stream, or None if anything about it is out of the ordinary."""
    if payload.startswith(_FILE):
        return None
    try:
        with pa.ipc.open_stream(payload) as reader:
            names = reader.schema.names
            at = [names.index(name) for name in schema.needed]  # ValueError: one is not there
            if len(set(names)) < len(names):
                return None
            types = [reader.schema.field(i).type for i in at]
            if not all(any(plain(kind) for plain in _PLAIN) for kind in types):
                return None
            columns: list[list[Any]] = [[] for _ in at]
            rows = 0
            for batch in reader:
                rows += batch.num_rows
                for i, arrays in zip(at, columns, strict=True):
                    column = sound(batch.column(i))
                    if column is None or column.lost is not None:
                        return None
                    arrays.append(column.values)
    except Exception:
        # What a reader says of a broken stream may quote it: it is read, and counted, by itself.
        return None
    return _Framed(columns, rows) if rows <= BATCH_ROWS else None


__all__ = ["Together", "read_together"]
