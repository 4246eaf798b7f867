"""Malformed records: each alone in a file or a message, next to records that are fine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from weir.pipelines.audit.streams import EventMaker, StreamRows
from weir.pipelines.config.job import JobConfig
from weir.pipelines.feed.messages import PER_MESSAGE
from weir.transforms.decode.encoding import TextForm
from weir.transforms.formats.registry import FORMATS, message_formats

LONG = 1 << 21
"""Bytes of a line that is longer than any reader takes."""
NUMBERS = (
    "", "0.5", "-0", "1e400", "-1e400", "nan", "inf", "-Infinity", "9007199254740993",
    "170141183460469231731687303715884105728", "1e-400", "0x10", "1_000", " 1 ", "1;5", "true",
    "NULL", "abc", "\u0663", "1e308", "-1e308", "--1", "+",
)  # fmt: skip
"""What may stand where a number is wanted."""
TIMES = ("", "9999-99-99", "1e18", "-1", "not a time", "0000-00-00T00:00:00Z", "294247-01-10")
KEYS = ("", "0.5", "1e3", "-1", "nan", "true", "no such key")
"""What may stand where a key is wanted; keys of an audit are digits."""
RAW_KEYS = (b"0.5", b"1e3", b"-1", b"null", b"true", b"[1]")
OTHERS = ("e1", "e2", "e3", "e5", "e6", "e7")
"""Ids that good records of an audit have."""
BYTES: tuple[tuple[str, bytes], ...] = (
    ("an empty line", b""), ("delimiters alone", b",,,,,,,,,,,,,,,,"), ("a NUL byte", b"\x00"),
    ("bytes that are no UTF-8", b"\xff\xfe\xfa"), ("a byte-order mark", b"\xef\xbb\xbf"),
    ("a quote that is never closed", b'"'), ("quotes in the middle", b'a"b"c,"d'),
    ("a carriage return inside", b"a\rb\rc"), ("a lone surrogate", b"\xed\xa0\x80"),
    ("braces", b"{{{{"), ("a very long line", b"x" * LONG), ("tabs", b"\t\t\t"),
    ("an escape", b"\\"), ("a comment", b"# x"),
)  # fmt: skip
OBJECTS: tuple[tuple[str, bytes], ...] = (
    ("an array", b"[1, 2]"), ("a number", b"7"), ("null", b"null"), ("a string", b'"x"'),
    ("two objects", b"{}{}"), ("an empty object", b"{}"), ("deep nesting", b"[" * 5000),
    ("an object that ends early", b'{"a": 1'), ("a trailing comma", b'{"a": 1,}'),
)  # fmt: skip
RAW_NUMBERS = (
    b"1e999", b"-1e999", b"NaN", b"Infinity", b'"5"', b"true", b"null", b"[1]", b'{"a": 1}',
    b"9007199254740993", b"170141183460469231731687303715884105728", b"0.5", b"-0", b"1e-400",
    b'"\\ud800"', b'"\xff"', b"01", b"+1",
)  # fmt: skip


class MalformedForm(NamedTuple):
    """A way to damage a line. name: in words. spoil: a good line -> bytes without a line end."""

    name: str
    spoil: Callable[[bytes], bytes]


def text_forms(
    form: str,
    columns: Sequence[str],
    numbers: Sequence[str],
    times: Sequence[str],
    keys: Sequence[str],
    ids: Sequence[str],
    text: TextForm,
) -> Iterator[MalformedForm]:
    """Every way to damage a line of csv or ndjson.

    Args:
      columns: of a line, in order. numbers, times, keys: those that hold one. ids: those of an id
        that names nothing but an event of its own user.
    """
    for name, data in BYTES:
        if b"," in data:
            data = data.replace(b",", text.delimiter.encode())
        if not (text.quoted_newlines and name.startswith("a quote")):
            yield MalformedForm(name, partial(_instead, data))
    yield MalformedForm("cut short", lambda line: line[: max(1, len(line) // 2)])
    yield MalformedForm("doubled", lambda line: line + line)
    yield MalformedForm("with bytes that are no UTF-8 behind", lambda line: line + b"\xff")
    yield MalformedForm("with a NUL byte behind", lambda line: line + b"\x00")
    if form == "csv":
        yield from _fields(columns, numbers, times, keys, ids, text.delimiter.encode())
        return
    for name, data in OBJECTS:
        yield MalformedForm(name, partial(_instead, data))
    for column in numbers:
        for raw in RAW_NUMBERS:
            shown = raw.decode(errors="replace")
            yield MalformedForm(f"{column}: {shown}", partial(_put, column, raw))
        yield MalformedForm(f"without {column}", partial(_without, column))
        twice = json.dumps(column).encode()
        yield MalformedForm(f"{column} twice", partial(_behind, b", " + twice + b": 1e9}"))
    for column in keys:
        for raw in RAW_KEYS:
            yield MalformedForm(f"{column}: {raw.decode()}", partial(_put, column, raw))
    texts = [(column, (*TIMES, "\ud800")) for column in times]
    for column, values in (*texts, *((column, OTHERS) for column in ids)):
        for value in values:
            raw = json.dumps(value).encode()
            yield MalformedForm(f"{column}: {value!r}", partial(_put, column, raw))


def _fields(
    columns: Sequence[str],
    numbers: Sequence[str],
    times: Sequence[str],
    keys: Sequence[str],
    ids: Sequence[str],
    mark: bytes,
) -> Iterator[MalformedForm]:
    """Single fields of CSV."""

    for names, values in ((numbers, NUMBERS), (times, TIMES), (keys, KEYS), (ids, OTHERS)):
        for column in names:
            at = columns.index(column)
            for value in values:
                raw = value.encode()
                yield MalformedForm(f"{column}: {value!r}", partial(_field, mark, at, raw))
            yield MalformedForm(f"{column}: no UTF-8", partial(_field, mark, at, b"\xff\xfe"))
            yield MalformedForm(f"{column}: a quote", partial(_field, mark, at, b'"5'))
    yield MalformedForm("one field too few", lambda line: mark.join(line.split(mark)[:-1]))
    yield MalformedForm("one field too many", lambda line: line + mark + b"1")


def _instead(data: bytes, line: bytes) -> bytes:
    """Other bytes."""
    return data


def _behind(data: bytes, line: bytes) -> bytes:
    """In place of the brace that ends an object."""
    return line[:-1] + data


def _field(mark: bytes, at: int, value: bytes, line: bytes) -> bytes:
    """A line of CSV with another field."""
    fields = line.split(mark)
    if at < len(fields):
        fields[at] = value
    return mark.join(fields)


def _put(column: str, raw: bytes, line: bytes) -> bytes:
    """A JSON object with other bytes for a value."""
    result = json.loads(line)
    result[column] = "@@"
    text = json.dumps(result).encode()
    return text.replace(b'"@@"', raw)


def _without(column: str, line: bytes) -> bytes:
    result = json.loads(line)
    result.pop(column, None)
    return json.dumps(result).encode()


class MalformedValue(NamedTuple):
    """A way to damage a row of a typed format: another value in one column."""

    name: str
    column: str
    value: Any


def typed_forms(schema: pa.Schema, ids: Sequence[str] = ()) -> Iterator[MalformedValue]:
    """Every way to damage a row of Parquet, Arrow or Avro that its columns' types allow; ids: see
    ``text_forms``."""
    for column in ids:
        yield from (MalformedValue(f"{column}: {other!r}", column, other) for other in OTHERS)
    for field in schema:
        yield MalformedValue(f"{field.name}: null", field.name, None)
        if pa.types.is_floating(field.type):
            for value in (np.nan, np.inf, -np.inf, 1.7e308, -1.7e308, 5e-324, 2.0**53 + 2, 0.5):
                yield MalformedValue(f"{field.name}: {value:g}", field.name, value)
        elif pa.types.is_integer(field.type):
            for value in (2**62, -(2**62), -1):
                yield MalformedValue(f"{field.name}: {value}", field.name, value)
        elif pa.types.is_timestamp(field.type):
            for value in (-(2**55), 2**55, 0):
                yield MalformedValue(f"{field.name}: {value} us", field.name, value)
        elif pa.types.is_string(field.type):
            for text in ("", "\x00", "x" * 5000, "\u202e", "k9999999"):
                yield MalformedValue(f"{field.name}: {text[:12]!r}", field.name, text)


def malform(
    batch: pa.RecordBatch, rows: Sequence[int], forms: Sequence[MalformedValue]
) -> pa.RecordBatch:
    """A batch whose row ``rows[i]`` has the value of ``forms[i]``."""
    columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        mine = {
            row: form.value for row, form in zip(rows, forms, strict=True) if form.column == name
        }
        if mine:
            kind = column.type
            stamp = pa.types.is_timestamp(kind)
            values = (column.cast(pa.int64()) if stamp else column).to_pylist()
            for row, value in mine.items():
                values[row] = value
            built = pa.array(values, pa.int64() if stamp else kind, from_pandas=False)
            column = built.cast(kind) if stamp else built
        columns[name] = column
    return pa.RecordBatch.from_pydict(columns)


INSTEAD = {"csv": "ndjson", "parquet": "arrow"}
"""What messages hold in place of a format that only files have."""
CHUNK = 1 << 16
"""Rows that are made at a time."""


def payload_of(job: JobConfig) -> tuple[str, str | None]:
    """What messages hold, and what that stands for; None: it is the config's own format."""
    source = job.source
    form = "csv" if source is None else source.payload or source.form
    if form in message_formats():
        return form, None
    return INSTEAD.get(form, "ndjson"), form


def messages(maker: EventMaker, rows: StreamRows, payload: str) -> Iterator[bytes]:
    """Events, as the config names its columns: tick after tick, several events a message."""
    order = np.argsort(rows.tick, kind="stable")
    for start in range(0, len(order), CHUNK):
        batch = maker.batch(rows.taken(order[start : start + CHUNK]))
        yield from _cut(batch, payload)


def malformed_messages(
    batch: pa.RecordBatch,
    payload: str,
    places: Sequence[int],
    forms: Sequence[MalformedForm | MalformedValue],
) -> list[bytes]:
    """Events of which row ``places[i]`` is malformed by ``forms[i]``, and messages that hold none.

    A line, or a value of a typed row, is malformed among its neighbours in a message; where bytes
    of a container are, it holds that row alone, as who sends other bytes sends them in a message.
    """
    if FORMATS[payload].is_text:
        lines = FORMATS[payload].encode(batch).split(b"\n")
        for place, form in zip(places, forms, strict=True):
            assert isinstance(form, MalformedForm)
            lines[place] = form.spoil(lines[place])
        step = _most(payload)
        parts = [lines[start : start + step] for start in range(0, len(lines), step)]
        return [*(b"\n".join(part) for part in parts), *strays()]
    pairs = list(zip(places, forms, strict=True))
    typed = [(place, form) for place, form in pairs if isinstance(form, MalformedValue)]
    raw = [(place, form) for place, form in pairs if isinstance(form, MalformedForm)]
    batch = malform(batch, [place for place, _ in typed], [form for _, form in typed])
    others = np.setdiff1d(np.arange(batch.num_rows), [place for place, _ in raw])
    result = list(_cut(batch.take(pa.array(others)), payload))
    result += [form.spoil(FORMATS[payload].encode(batch.slice(place, 1))) for place, form in raw]
    return [*result, *strays()]


def container_forms() -> Iterator[MalformedForm]:
    """Ways to damage the bytes of a container."""
    yield MalformedForm("a container cut short", lambda data: data[: len(data) // 2])
    yield MalformedForm("a container without its last byte", lambda data: data[:-1])
    yield MalformedForm("a container twice", lambda data: data + data)
    yield MalformedForm("a container with bytes behind", lambda data: data + b"\xff\x00\xff")
    yield MalformedForm("a container with bytes before", lambda data: b"\xff\x00\xff" + data)
    yield MalformedForm("a container with another beginning", lambda data: b"\x00" * 8 + data[8:])


def strays() -> Iterator[bytes]:
    """Messages that are no event of anybody; each is to be a dead letter."""
    yield from (data for _, data in BYTES if data)
    yield from (data for _, data in OBJECTS)
    yield b"\n"


def _cut(batch: pa.RecordBatch, payload: str) -> Iterator[bytes]:
    step = _most(payload)
    for start in range(0, batch.num_rows, step):
        yield FORMATS[payload].encode(batch.slice(start, step))


def _most(payload: str) -> int:
    """Events of a message."""
    return FORMATS[payload].most_per_message or PER_MESSAGE
