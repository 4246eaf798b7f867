"""The first records of a file of events: types of columns, and values to guess roles from.

The values stay inside ``pipelines.init.header``; nothing of them is written or shown.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import fastavro
import orjson
import pyarrow as pa

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.cast import MISSING, is_text, plain_type
from weir.transforms.decode.columnar import is_broken
from weir.transforms.decode.lists import holds_numbers
from weir.transforms.decode.parquet import parquet_groups, whole_batches
from weir.transforms.decode.text_form import TextForm
from weir.transforms.sources import matching
from weir.transforms.sources.csv_head import csv_head
from weir.transforms.sources.text_file import first_lines
from weir.transforms.sources.wrong_format import OVER_LINES, begins_over_lines

ROWS = 200
"""Records that are looked at."""

_TRUE_FALSE = frozenset({"true", "false"})


_Found = tuple[dict[str, str], dict[str, list[Any]]]


def read_csv(path: str, form: TextForm) -> _Found:
    """As ``READERS``, of CSV.

    Args:
      form: without ``columns`` the first line is the header; with none in them, they are c1, c2 ...

    Raises:
      ConfigError: no header, or not in this encoding.
    """
    first = first_lines(path, form, ROWS + 1, quoted=True)
    for line, number in zip(first.lines, first.numbers, strict=True):
        try:
            line.decode()
        except UnicodeDecodeError:
            raise ConfigError(
                "--encoding",
                form.encoding,
                f"is not how line {number} of {path} is written; if it is text, say "
                "in which encoding, like --encoding latin-1 or --encoding cp1252.",
            ) from None
    try:
        head = csv_head(path, form, ROWS)
    except matching.Unreadable:
        raise ConfigError("FILE", path, "is compressed, and damaged.") from None
    names, rows = (head.names, head.rows) if head is not None else ((), ())
    if form.columns is not None:
        width = len(rows[0]) if rows else 0
        names = names or tuple(f"c{i + 1}" for i in range(width))
        if len(names) != width:
            raise ConfigError(
                "--columns", ",".join(names), f"must name all {width} fields of {path}, in order."
            )
    samples: dict[str, list[Any]] = {}
    for i, name in enumerate(names):
        cells = [row[i].strip() for row in rows if len(row) == len(names)]
        samples[name] = [cell for cell in cells if cell not in MISSING]
    return {name: _kind_of_texts(values) for name, values in samples.items()}, samples


def _kind_of_texts(values: Sequence[str]) -> str:
    if not values:
        return "text"
    if all(re.fullmatch(r"[+-]?\d{1,18}", value) for value in values):
        # Digits with leading zeros are a code, not a number.
        coded = any(re.fullmatch(r"[+-]?0\d+", value) for value in values)
        return "text" if coded else "integer"
    if all(re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", value) for value in values):
        return "number"
    return "boolean" if all(value.lower() in _TRUE_FALSE for value in values) else "text"


def _read_ndjson(path: str) -> _Found:
    samples: dict[str, list[Any]] = {}
    lines = first_lines(path, TextForm(), ROWS).lines
    if begins_over_lines(lines):
        raise ConfigError("FILE", path, f"holds {OVER_LINES}.")
    for line in lines:
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        for name, value in record.items() if isinstance(record, dict) else ():
            samples.setdefault(name, []).extend([] if value is None else [value])
    return {name: _kind_of_values(values) for name, values in samples.items()}, samples


def _kind_of_values(values: Sequence[Any]) -> str:
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return "boolean"
    if kinds and kinds <= {int, float}:
        return "integer" if kinds == {int} else "number"
    return "text" if kinds <= {str, int} else "other"


def _read_arrow(form: str, path: str) -> _Found:
    schema = matching.arrow_schema(form, path)
    if schema is None:
        raise ConfigError("FILE", path, f"cannot be read as {form}.")
    types = {field.name: _kind_of_type(field.type) for field in schema}
    samples: dict[str, list[Any]] = {name: [] for name in types}
    with matching.open_raw(path) as raw:
        try:
            batch = _first_batch(form, raw)
            wanted = [n for n in types if types[n] in ("text", "integer", "number")]
            for name in wanted if batch is not None else ():
                values = batch.column(name).to_pylist()
                samples[name] = [value for value in values if value is not None]
        except Exception as error:
            # Names and types are enough where rows cannot be read.
            if not is_broken(error):
                raise
    return types, samples


def list_word(size: int) -> str:
    """The type of lists that the header says hold so many numbers each."""
    return f"list of {size} numbers"


def list_size(kind: str) -> int:
    """Numbers in such a list; 0: it is none."""
    words = kind.split()
    return int(words[2]) if words[:2] == ["list", "of"] else 0


def _first_batch(form: str, raw: Any) -> Any:
    if form == "parquet":
        groups = parquet_groups(raw)
        return None if groups is None else next(whole_batches(raw, groups, ROWS), None)
    try:
        reader = pa.ipc.open_file(raw)
        return reader.get_batch(0).slice(0, ROWS) if reader.num_record_batches else None
    except pa.ArrowInvalid:
        raw.seek(0)
        return next(iter(pa.ipc.open_stream(raw)), pa.table({}))[:ROWS]


def _kind_of_type(kind: pa.DataType) -> str:
    kind = plain_type(kind)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "time"
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_fixed_size_list(kind) and holds_numbers(kind):
        return list_word(kind.list_size)
    # Of a column without a single value, as of one of CSV.
    return "text" if is_text(kind) or pa.types.is_null(kind) else "other"


def _read_avro(path: str) -> _Found:
    if matching.avro_header(path) is None:
        raise ConfigError("FILE", path, "cannot be read as avro.")
    with matching.open_raw(path) as raw:
        reader = fastavro.reader(raw)
        schema: Any = reader.writer_schema
        fields = schema["fields"]
        types = {field["name"]: _kind_of_avro(field["type"]) for field in fields}
        samples: dict[str, list[Any]] = {name: [] for name in types}
        try:
            for record in itertools.islice(reader, ROWS):
                for name, value in record.items():  # type: ignore[union-attr]
                    samples[name] += [] if value is None else [value]
        except Exception:
            # As in decoding: whatever it says may quote content; names and types are enough.
            return types, samples
    return types, samples


def _kind_of_avro(kind: Any) -> str:
    if isinstance(kind, list):
        kinds = {_kind_of_avro(one) for one in kind if one != "null"}
        return kinds.pop() if len(kinds) == 1 else "other"
    if isinstance(kind, dict):
        logical = str(kind.get("logicalType", ""))
        if "timestamp" in logical or logical == "date":
            return "time"
        return "number" if logical == "decimal" else _kind_of_avro(kind["type"])
    named = {"int": "integer", "long": "integer", "float": "number", "double": "number"}
    named |= {"string": "text", "enum": "text", "boolean": "boolean"}
    return named.get(str(kind), "other")


READERS: Mapping[str, Callable[[str], _Found]] = {
    "ndjson": _read_ndjson,
    "parquet": lambda path: _read_arrow("parquet", path),
    "arrow": lambda path: _read_arrow("arrow", path),
    "avro": _read_avro,
}
"""Path -> (column -> type, column -> values that are not missing)."""
