"""What the beginning of a file of events tells about its columns: names, types, likely roles.

Only names, types and the spelling of times leave this module. Values, counts and bounds do not: a
bound that is read off the data would be a release.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import fastavro
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from dpcore.errors import ConfigError
from pipelines import files
from transforms.columnar import is_broken
from transforms.decode_cast import MISSING, is_text
from transforms.decode_time import to_time
from transforms.event_schema import Stamp
from transforms.text import LINE_BYTES

ROWS = 200
"""Records that are looked at."""

_ENDINGS = {
    "csv": "csv",
    "tsv": "csv",
    "txt": "csv",
    "ndjson": "ndjson",
    "jsonl": "ndjson",
    "json": "ndjson",
    "parquet": "parquet",
    "pq": "parquet",
    "arrow": "arrow",
    "arrows": "arrow",
    "ipc": "arrow",
    "feather": "arrow",
    "avro": "avro",
}
_FORMATS = (
    None,
    "%Y%m%d",
    "%Y%m%d%H%M%S",
    "%Y/%m/%d",
    "%Y/%m/%d %H:%M:%S",
    "%m/%d/%Y",
    "%m/%d/%Y %H:%M",
    "%m/%d/%Y %H:%M:%S",
    "%d/%m/%Y",
    "%d/%m/%Y %H:%M",
    "%d/%m/%Y %H:%M:%S",
    "%d.%m.%Y",
    "%d.%m.%Y %H:%M",
    "%d.%m.%Y %H:%M:%S",
    "%d-%m-%Y",
    "%d %b %Y",
    "%b %d %Y",
)
_EPOCHS = {
    "epoch_s": (5e8, 5e9),
    "epoch_ms": (5e11, 5e12),
    "epoch_us": (5e14, 5e15),
    "epoch_ns": (5e17, 5e18),
}
_TIME_NAME = re.compile(r"(?i)time|date|day|stamp|(^|_)(ts|at|when)$|dt")
_ID_NAME = re.compile(
    r"(?i)^(id|uuid|guid)$|(event|purchase|order|transaction|message|trip|row).?id$"
)
_UNIT_NAME = re.compile(r"(?i)(user|customer|client|person|member|patient|account|device).?(id)?$")
_KEY_NAME = re.compile(
    r"(?i)store|shop|city|region|state|country|zone|carrier|origin|station|category|type|"
    r"department|group|site|model|source|channel"
)
_TRUE_FALSE = frozenset({"true", "false"})


def sniff(path: str) -> dict[str, Any]:
    """Reads the beginning of a file.

    Args:
      path: a file in any format that ``source`` takes.

    Returns:
      format: csv, ndjson, parquet, arrow or avro. delimiter: of CSV, else None.
      columns: [{name, type}], type one of integer, number, text, boolean, time, other.
      time: {column, format} or None; format None is ISO 8601 or a column of timestamps.
      time_formats: every format that fits the column of the time (several: ask a person).
      id, unit: a column or None. keys: columns to group by, likeliest first.
      numbers: columns that can be added up.

    Raises:
      ConfigError: not a file, or in no format that is known.
    """
    form = _format_of(path)
    delimiter = _delimiter_of(path) if form == "csv" else None
    types, samples = _READERS[form](path, delimiter or ",")
    if not types:
        raise ConfigError("FILE", path, "has no columns; it is empty.")
    times = _times(types, samples)
    time = next(iter(times), None)
    names = list(types)
    id_ = next((n for n in names if n != time and _ID_NAME.search(n)), None)
    unit = next((n for n in names if n not in (time, id_) and _UNIT_NAME.search(n)), None)
    free = [name for name in names if name not in (id_, unit) and name not in times]
    numbers = [name for name in free if types[name] in ("integer", "number")]
    texts = [n for n in free if types[n] == "text" or (types[n] == "integer" and _hints(n))]
    return {
        "format": form,
        "delimiter": delimiter,
        "columns": [{"name": name, "type": kind} for name, kind in types.items()],
        "time": None if time is None else {"column": time, "format": times[time][0]},
        "time_formats": [] if time is None else times[time],
        "id": id_,
        "unit": unit,
        "keys": sorted(texts, key=lambda name: not _hints(name)),
        "numbers": [name for name in numbers if not _hints(name)] or numbers,
    }


def _hints(name: str) -> bool:
    return _KEY_NAME.search(name) is not None


def _format_of(path: str) -> str:
    try:
        start = files.first_bytes(path, 64)
    except (OSError, ValueError):
        raise ConfigError("FILE", path, "cannot be opened; check the path.") from None
    for magic, form in files.MAGICS.items():
        if start.startswith(magic):
            return form
    if start.startswith(b"\xff\xff\xff\xff"):
        return "arrow"
    name = path
    for ending in files.COMPRESSED:
        name = name.removesuffix(ending)
    known = _ENDINGS.get(name.rpartition(".")[2].lower())
    if known is not None and (known in ("csv", "ndjson") or not start):
        return known
    if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return "ndjson"
    if known is None and start and b"\x00" not in start:
        return "csv"
    raise ConfigError(
        "FILE", path, "is in no known format; use CSV, NDJSON, Parquet, Arrow IPC or Avro."
    )


def _delimiter_of(path: str) -> str:
    line = next(_lines(path), b"")
    return max(",;\t|", key=lambda one: line.count(one.encode()))


def _lines(path: str) -> Iterator[bytes]:
    with files.open_raw(path) as raw:
        text = files.unpacked(raw, path)
        for _ in range(ROWS + 1):
            try:
                line = text.readline(LINE_BYTES)
            except Exception as error:
                if not files.is_broken_archive(error):
                    raise
                return
            if not line:
                return
            if line.strip():
                yield line.removeprefix(b"\xef\xbb\xbf")


_Found = tuple[dict[str, str], dict[str, list[Any]]]


def _read_csv(path: str, delimiter: str) -> _Found:
    try:
        header = files.csv_header(path, delimiter) or ()
    except files.Unreadable:
        raise ConfigError("FILE", path, "is compressed, and damaged.") from None
    texts = [line.decode(errors="replace") for line in _lines(path)][1:]
    rows = [row for row in csv.reader(texts, delimiter=delimiter) if len(row) == len(header)]
    samples: dict[str, list[Any]] = {}
    for i, name in enumerate(header):
        samples[name] = [row[i].strip() for row in rows if row[i].strip() not in MISSING]
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


def _read_ndjson(path: str, _: str) -> _Found:
    samples: dict[str, list[Any]] = {}
    for line in _lines(path):
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
    schema = files.arrow_schema(form, path)
    if schema is None:
        raise ConfigError("FILE", path, f"cannot be read as {form}.")
    types = {field.name: _kind_of_type(field.type) for field in schema}
    samples: dict[str, list[Any]] = {name: [] for name in types}
    with files.open_raw(path) as raw:
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


def _first_batch(form: str, raw: Any) -> Any:
    if form == "parquet":
        return next(pq.ParquetFile(raw).iter_batches(ROWS), None)
    try:
        reader = pa.ipc.open_file(raw)
        return reader.get_batch(0).slice(0, ROWS) if reader.num_record_batches else None
    except pa.ArrowInvalid:
        raw.seek(0)
        return next(iter(pa.ipc.open_stream(raw)), pa.table({}))[:ROWS]


def _kind_of_type(kind: pa.DataType) -> str:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "time"
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_boolean(kind):
        return "boolean"
    return "text" if is_text(kind) else "other"


def _read_avro(path: str, _: str) -> _Found:
    if files.avro_header(path) is None:
        raise ConfigError("FILE", path, "cannot be read as avro.")
    with files.open_raw(path) as raw:
        reader = fastavro.reader(raw)
        fields = reader.writer_schema["fields"]  # type: ignore[call-overload,index]
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


_READERS: Mapping[str, Any] = {
    "csv": _read_csv,
    "ndjson": _read_ndjson,
    "parquet": lambda path, _: _read_arrow("parquet", path),
    "arrow": lambda path, _: _read_arrow("arrow", path),
    "avro": _read_avro,
}


def _times(types: dict[str, str], samples: dict[str, list[Any]]) -> dict[str, list[str | None]]:
    """Columns that can be times, likeliest first, each with the formats that fit."""
    found: dict[str, list[str | None]] = {}
    for name, kind in types.items():
        if kind == "time":
            found[name] = [None]
        elif formats := _formats(name, kind, samples.get(name, [])):
            found[name] = formats
    return dict(sorted(found.items(), key=lambda item: not _TIME_NAME.search(item[0])))


def _formats(name: str, kind: str, values: list[Any]) -> list[str | None]:
    if not values or kind not in ("text", "integer", "number"):
        return []
    if kind == "number" or (kind == "integer" and not all(len(str(v)) == 8 for v in values)):
        numbers = [float(value) for value in values]
        return [
            form
            for form, (low, high) in _EPOCHS.items()
            if _TIME_NAME.search(name) and all(low <= number <= high for number in numbers)
        ]
    texts = pa.array([str(value) for value in values], pa.string())
    formats: list[str | None] = []
    for form in _FORMATS if kind == "text" else ("%Y%m%d",):
        times = to_time(texts, Stamp(name, form), "")
        if times.null_count == 0 and all(1900 <= time.year <= 2200 for time in times.to_pylist()):
            formats.append(form)
    return formats
