"""What the beginning of a file of events tells about its columns: names, types, likely roles.

Only names, types and the spelling of times leave this module. Values, counts and bounds do not: a
bound that is read off the data would be a release.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from dpcore.errors import ConfigError
from pipelines import files
from pipelines.header_samples import READERS, first_lines
from transforms.decode_time import to_time
from transforms.event_schema import Stamp

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
    types, samples = READERS[form](path, delimiter or ",")
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
    line = next(first_lines(path), b"")
    return max(",;\t|", key=lambda one: line.count(one.encode()))


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
