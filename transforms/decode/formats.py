"""Decode: bytes in any of five formats -> canonical batches."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.avro import decode_avro
from weir.transforms.decode.canonical import Decoded
from weir.transforms.decode.columnar import decode_arrow
from weir.transforms.decode.csv import decode_csv, parse_header
from weir.transforms.decode.lines import LINE_BYTES, chunks
from weir.transforms.decode.ndjson import decode_ndjson
from weir.transforms.decode.parquet import decode_parquet
from weir.transforms.decode.schema import EventSchema
from weir.transforms.runtime import counters
from weir.transforms.runtime.dead_letters import Reject, count_by_field, count_dead
from weir.transforms.runtime.reasons import MISSING, VALUES, counter_of

Format = Literal["csv", "ndjson", "parquet", "arrow", "avro"]
FORMATS: tuple[str, ...] = get_args(Format)
Payload = Literal["json", "ndjson", "avro", "arrow"]
PAYLOADS: tuple[str, ...] = get_args(Payload)

_SPOILT = frozenset(VALUES) - {"not_a_time"}


def decode_bytes(
    data: bytes,
    form: str,
    schema: EventSchema,
    source: str,
    delimiter: str = ",",
    line_bytes: int = LINE_BYTES,
) -> Iterator[Decoded]:
    """A whole file in memory -> canonical batches.

    Args:
      data: the file.
      form: one of FORMATS.
      schema: the roles of columns.
      source: path or topic.
      delimiter: of CSV.
      line_bytes: longest line allowed.

    Raises:
      ConfigError: a needed column is not there, or its type cannot play its role.
    """
    if not data:
        return
    if form == "parquet":
        yield from decode_parquet(pa.BufferReader(data), schema, source)
    elif form == "arrow":
        yield from decode_arrow(pa.BufferReader(data), schema, source)
    elif form == "avro":
        yield from decode_avro(io.BytesIO(data), schema, source)
    elif form == "ndjson":
        file = io.BytesIO(data)
        yield from decode_ndjson(chunks(file.read, line_bytes=line_bytes), schema, source)
    elif form == "csv":
        file = io.BytesIO(data)
        header = parse_header(file.readline(line_bytes), delimiter, source)
        lines = chunks(file.read, first=2, line_bytes=line_bytes)
        yield from decode_csv(lines, header, schema, source, delimiter)
    else:
        raise ConfigError("source", form, f"is no format; use {', '.join(FORMATS)}.")


def decode_payload(
    data: bytes, form: str, schema: EventSchema, source: str, line_bytes: int = LINE_BYTES
) -> Iterator[Decoded]:
    """The payload of one message -> canonical batches; positions count within the message.

    Args:
      data: the payload. ``json``: one event, line breaks allowed; ``ndjson``: one a line; ``avro``:
        an object container; ``arrow``: an IPC stream or file.
      form: one of PAYLOADS.
      schema: the roles of columns.
      source: topic or subscription.
      line_bytes: longest line allowed in json and ndjson.

    Raises:
      ConfigError: a needed column is not there, or its type cannot play its role.
    """
    if form not in PAYLOADS:
        raise ConfigError("source.pubsub.payload", form, f"must be one of {', '.join(PAYLOADS)}.")
    if form == "json":
        # Outside of texts a line break is white space; inside of them JSON does not allow one.
        data = data.translate(ONE_LINE)
        form = "ndjson"
    yield from decode_bytes(data, form, schema, source, line_bytes=line_bytes)


ONE_LINE = bytes.maketrans(b"\r\n", b"  ")
"""Table that puts a JSON object into one line."""


def counted(decoded: Iterable[Decoded], reject: Reject) -> Iterator[pa.RecordBatch]:
    """Batches of events of what was decoded; counts events, missing values and dead letters.

    Args:
      reject: takes the dead letters.
    """
    missing: Counter[str] = Counter()
    for events, dead, absent in decoded:
        if events is not None:
            missing.update(_absent(events, absent))
        if dead is not None:
            for (field, reason), count in count_by_field(dead).items():
                missing[field] -= count if reason in _SPOILT else 0
            count_dead(dead)
            reject(dead)
        if events is not None:
            counters.add("events", events.num_rows)
            yield events
    for field, count in missing.items():
        counters.add(counter_of(field, MISSING), max(0, count))


def _absent(events: pa.RecordBatch, known: Mapping[str, int]) -> dict[str, int]:
    """How many values each column of the user's lacks, those that could not be read included."""
    return {
        name: known[name] if name in known else _count_of_missing(events.column(name))
        for name in events.schema.names
        if not name.startswith("@")
    }


def _count_of_missing(column: pa.Array) -> int:
    return int(pc.sum(pc.is_null(column, nan_is_null=True)).as_py())


def concatenate(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Small batches of one source -> one; their dictionaries of keys are made one first.

    Args:
      batches: one or more, of the same columns.
    """
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    found = table.to_batches()
    return found[0] if found else batches[0].slice(0, 0)
