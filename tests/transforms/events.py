"""Helpers of the tests of decoding: a schema, and batches as plain rows."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

from weir.transforms.decode.canonical import Decoded
from weir.transforms.decode.csv import decode_csv
from weir.transforms.decode.lines import LINE_BYTES, chunks
from weir.transforms.decode.ndjson import decode_ndjson
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.formats.csv import parse_header
from weir.transforms.runtime.dead_letters import rows
from weir.transforms.runtime.reasons import VALUES

MARKER = "XYZZY"
"""A word that occurs in events only: it must never be seen in a log or an error."""

SCHEMA = EventSchema.build(
    Stamp("date", "%Y%m%d"), key="store", id="order", where="items > 0", numbers=["dollars"]
)
HEADER = ("date", "store", "order", "items", "dollars")

Rows = tuple[list[dict[str, Any]], list[tuple[int, str]]]


def collect(decoded: Iterable[Decoded]) -> Rows:
    """Events in order of position, and (position, "field: reason") of dead letters."""
    events: list[dict[str, Any]] = []
    dead: list[tuple[int, str]] = []
    for batch, letters, _ in decoded:
        if batch is not None:
            assert batch.num_rows
            batch.validate(full=True)
            events += batch.to_pylist()
        if letters is not None:
            assert letters.num_rows
            dead += [
                (at, f"{field}: {why}" if field else why) for _, at, field, why in rows(letters)
            ]
    return sorted(events, key=lambda row: row["@position"]), sorted(dead)


def aside(dead: list[tuple[int, str]]) -> list[int]:
    """Positions of the records that were rejected; other letters are of values."""
    return [at for at, why in dead if why.rpartition(" ")[2] not in VALUES]


def csv(
    data: bytes,
    schema: EventSchema = SCHEMA,
    chunk_bytes: int = 1 << 24,
    line_bytes: int = LINE_BYTES,
    delimiter: str = ",",
) -> Rows:
    """A CSV file with its header."""
    file = io.BytesIO(data)
    header = parse_header(file.readline(), delimiter, "events.csv")
    pieces = chunks(file.read, 2, chunk_bytes, line_bytes)
    return collect(decode_csv(pieces, header, schema, "events.csv", delimiter))


def ndjson(
    data: bytes,
    schema: EventSchema = SCHEMA,
    chunk_bytes: int = 1 << 24,
    line_bytes: int = LINE_BYTES,
) -> Rows:
    """An NDJSON file."""
    pieces = chunks(io.BytesIO(data).read, 1, chunk_bytes, line_bytes)
    return collect(decode_ndjson(pieces, schema, "events.ndjson"))
