"""What the beginning of a file of events tells about its columns: names, types, likely roles.

Only names, types and the spelling of times leave this module. Values, counts and bounds do not: a
bound that is read off the data would be a release. Names do only if they are sure to be names: no
first line that looks like an event, and never the keys of JSON objects, which are data.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from weir.dpcore.errors import ConfigError
from weir.pipelines.sources.registry import kind_of
from weir.transforms.decode import header_sniffing
from weir.transforms.decode.encoding import UTF_8, TextForm, check_encoding
from weir.transforms.decode.lines import holds_newlines
from weir.transforms.decode.schema import Stamp
from weir.transforms.decode.time import to_time
from weir.transforms.formats.csv import csv_head
from weir.transforms.formats.format import SAMPLE_ROWS, list_size
from weir.transforms.formats.registry import FORMATS, file_formats, other_kind, sniffed
from weir.transforms.formats.stored import COMPRESSED, first_bytes
from weir.transforms.formats.text import first_lines, kind_of_text
from weir.transforms.sources.matching import match, match_dataset, require_regular
from weir.transforms.sources.partitions import (
    Partition,
    is_partitioned,
    partition_of,
    refuse_uneven,
)

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
    r"(?i)^(id|uuid|guid)$|(event|purchase|order|transaction|message|trip|row|visit|ride|"
    r"booking|payment|record).?id$"
)
_UNIT_NAME = re.compile(r"(?i)(user|customer|client|person|member|patient|account|device).?(id)?$")
_NO_AMOUNT = re.compile(
    r"(?i:(^|[_. -])(id|ids|uuid|guid|code|zip|zipcode|postcode|plz|phone|sku|isbn|ean|ip|no|nr)$)"
    r"|[a-z]I[dD]$"
)
"""Numbers that name something: adding them up means nothing."""
_KEY_NAME = re.compile(
    r"(?i)store|shop|city|region|state|country|zone|carrier|origin|station|category|type|"
    r"department|group|site|model|source|channel"
)


def sniff(
    path: str,
    columns: Sequence[str] | None = None,
    header: bool = True,
    encoding: str = UTF_8,
) -> dict[str, Any]:
    """Reads the beginning of a file.

    Args:
      path: a file in any format that ``source`` takes.
      columns: names that may be written down: of all fields of CSV without a header, else of some
        columns of the file. None: those of the file, if they are sure to be names.
      header: whether CSV has one.
      encoding: of CSV.

    Returns:
      format: its name. text: of CSV, how it is written, else None.
      columns: [{name, type}], type one of integer, number, text, boolean, time, other; none where
        names stand in events, as in NDJSON, and nobody has said which may be written down.
      time: {column, format} or None; format None is ISO 8601 or a column of timestamps.
      time_formats: every format that fits the column of the time (several: ask a person).
      id, unit: a column or None. keys: columns to group by, likeliest first.
      numbers: columns that can be added up.

    Raises:
      ConfigError: not a file, in no format that is known, or without names that may be shown.
    """
    require_regular(path, "FILE")
    form = _format_of(path, encoding)
    text = None
    if form == "csv":
        text = _text_form(path, None if header else tuple(columns or ()), encoding)
    elif not header or check_encoding(encoding) != UTF_8:
        option = "--no-header" if not header else "--encoding"
        raise ConfigError(option, path, f"is for CSV; this file holds {form}.")
    elif form not in FORMATS:
        raise ConfigError(
            "FILE", path, f"holds {form}, which only its source reads: write the config by hand."
        )
    types, samples = FORMATS.of(form, text or TextForm()).samples(path)
    if not types:
        raise ConfigError("FILE", path, "has no columns; it is empty.")
    if header:
        types = _shown(path, form, types, text, columns)
    if text is not None and text.columns is not None:
        text = text._replace(columns=tuple(types))
    return {"format": form, "text": text, **roles(types, samples)}


def roles(types: Mapping[str, str], samples: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """What columns may be, by their names and types; see ``sniff``.

    Args:
      types: by column. samples: the first values of columns, which times are recognised by.
    """
    times = _times(types, samples)
    time = next(iter(times), None)
    names = list(types)
    id_ = next((n for n in names if n != time and _ID_NAME.search(n)), None)
    unit = next((n for n in names if n not in (time, id_) and _UNIT_NAME.search(n)), None)
    free = [name for name in names if name not in (id_, unit) and name not in times]
    numbers = [
        name
        for name in free
        if types[name] == "number" or (types[name] == "integer" and not _NO_AMOUNT.search(name))
    ]
    texts = [
        n
        for n in free
        if types[n] == "text" or (types[n] == "integer" and (_hints(n) or n not in numbers))
    ]
    return {
        "columns": [{"name": name, "type": kind} for name, kind in types.items()],
        "time": None if time is None else {"column": time, "format": times[time][0]},
        "time_formats": [] if time is None else times[time],
        "id": id_,
        "unit": unit,
        "keys": sorted(texts, key=lambda name: not _hints(name)),
        "numbers": [name for name in numbers if not _hints(name)] or numbers,
        "lists": {name: size for name in free if (size := list_size(types[name]))},
    }


def _shown(
    path: str,
    form: str,
    types: dict[str, str],
    text: TextForm | None,
    columns: Sequence[str] | None,
) -> dict[str, str]:
    """The columns whose names may be written down."""
    if columns is not None:
        return only(types, columns, path)
    if not FORMATS[form].named_columns:
        return {}
    head = None if text is None else csv_head(path, text, SAMPLE_ROWS)
    doubt = header_sniffing.doubt(*((list(types),) if head is None else (head.names, head.rows)))
    if doubt is None:
        return types
    if head is not None:
        raise ConfigError(
            "FILE",
            path,
            f"does not begin with a header, it seems: line {head.number} has {doubt}. If it has "
            f"none: weir init {path} --no-header. If these are names, say which ones to use: "
            "--columns a,b,c.",
        )
    raise ConfigError(
        "FILE",
        path,
        f"has columns whose names may be none ({doubt}); say which ones to use: --columns a,b,c.",
    )


def only(types: Mapping[str, str], columns: Sequence[str], path: str) -> dict[str, str]:
    """Some columns of a file.

    Raises:
      ConfigError: it does not have one.
    """
    for name in columns:
        if name not in types:
            raise ConfigError("--columns", name, f"is not a column of {path}.")
    return {name: types[name] for name in columns}


def _hints(name: str) -> bool:
    return _KEY_NAME.search(name) is not None


def _format_of(path: str, encoding: str) -> str:
    try:
        start = first_bytes(path, 64)
    except (OSError, ValueError):
        raise ConfigError("FILE", path, "cannot be opened; check the path.") from None
    if (certain := sniffed(start)) is not None:
        return certain.name
    name = path
    for ending in COMPRESSED:
        name = name.removesuffix(ending)
    known = kind_of(name.rpartition(".")[2].lower())
    packed = name != path
    usual = check_encoding(encoding)
    other = None if packed else other_kind(start, known or "csv", usual)
    text = first_lines(path, TextForm(encoding=usual)).lines if other is None else ()
    is_text = known is None or (known in FORMATS and FORMATS[known].is_text)
    if other is None and text and is_text:
        other = kind_of_text(
            text[0][:256], "ndjson" if text[0].startswith(b"{") else known or "csv"
        )
    if other is not None:
        raise ConfigError("FILE", path, f"holds {other.partition('; write source: ')[0]}.")
    if known is not None and (known not in FORMATS or not FORMATS[known].magics or not start):
        return known
    if text and text[0].lstrip().startswith(b"{"):
        return "ndjson"
    if known is None and text:
        return "csv"
    kinds = ", ".join(file_formats())
    raise ConfigError("FILE", path, f"is in no known format; use one of {kinds}.")


def _text_form(path: str, columns: tuple[str, ...] | None, encoding: str) -> TextForm:
    """How a CSV file is written, as far as its beginning tells."""
    form = TextForm(columns=columns, encoding=check_encoding(encoding))
    first = first_lines(path, form, SAMPLE_ROWS)
    line = first.lines[0] if first.lines else b""
    delimiter = max(",;\t|", key=lambda item: line.count(item.encode()))
    quoted = holds_newlines(b"\n".join(first.lines) + b"\n", delimiter)
    return form._replace(delimiter=delimiter, quoted_newlines=quoted)


def _times(
    types: Mapping[str, str], samples: Mapping[str, Sequence[Any]]
) -> dict[str, list[str | None]]:
    """Columns that can be times, likeliest first, each with the formats that fit."""
    results: dict[str, list[str | None]] = {}
    for name, kind in types.items():
        if kind == "time":
            results[name] = [None]
        elif formats := _formats(name, kind, samples.get(name, [])):
            results[name] = formats
    return dict(sorted(results.items(), key=lambda item: not _TIME_NAME.search(item[0])))


def _formats(name: str, kind: str, values: Sequence[Any]) -> list[str | None]:
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


MOST_FILES = 50
"""Files whose headers are compared."""


def sniff_all(
    path: str,
    columns: Sequence[str] | None = None,
    header: bool = True,
    encoding: str = UTF_8,
) -> dict[str, Any]:
    """As ``sniff``, of a file, or of all files of a folder or glob: what all of them allow.

    A column is of the type that holds its values in every file; what is a time, an id or a user is
    told by the first.

    Raises:
      ConfigError: there is none, or one is in another format or has other columns than the first.
    """
    if not any(sign in path for sign in "*?[") and not os.path.isdir(path):
        return sniff(path, columns, header, encoding)
    dataset = os.path.isdir(path) and is_partitioned(path)
    matched = match_dataset(path, "FILE") if dataset else match(path, "FILE")
    files = [item.path for item in matched][:MOST_FILES]
    result = sniff(files[0], columns, header, encoding)
    for other in files[1:]:
        _join(result, sniff(other, columns, header, encoding), files[0], other)
    if dataset:
        refuse_uneven(matched, path, "FILE")
        _add_partitions(result, [partition_of(file.path, path, "FILE") for file in matched])
    return result


def _add_partitions(found: dict[str, Any], partitions: Sequence[Partition]) -> None:
    """Adds the columns of the names of folders, in place; their values stay here."""
    names = [name for name in partitions[0] if name not in columns_of(found)]
    values = {name: [item[name] for item in partitions if item[name]] for name in names}
    times = _times(dict.fromkeys(names, "text"), values)
    found["dataset"] = True
    found["columns"] += [{"name": name, "type": "text"} for name in names]
    time = next(iter(times), None)
    if found["time"] is None and time is not None:
        found["time"] = {"column": time, "format": times[time][0]}
        found["time_formats"] = times[time]
    users = [name for name in names if _UNIT_NAME.search(name)]
    if found["unit"] is None and users:
        found["unit"] = users[0]
    keys = [name for name in names if name not in times and name != found["unit"]]
    found["keys"] = sorted([*keys, *found["keys"]], key=lambda name: not _hints(name))


def columns_of(found: Mapping[str, Any]) -> list[str]:
    """Names of the columns that ``sniff`` found."""
    return [item["name"] for item in found["columns"]]


def _join(found: dict[str, Any], more: Mapping[str, Any], first: str, other: str) -> None:
    """Widens types, in place."""
    if more["format"] != found["format"]:
        raise ConfigError(
            "FILE",
            other,
            f"holds {more['format']}, and {first} {found['format']}: a source has one format; name "
            "files of one, like 'events-*.csv'.",
        )
    names = [{item["name"] for item in some["columns"]} for some in (found, more)]
    if names[0] != names[1]:
        apart = ", ".join(sorted(names[0] ^ names[1]))
        raise ConfigError(
            "FILE", other, f"has other columns than {first} ({apart}); name files of one kind."
        )
    types = {item["name"]: item["type"] for item in more["columns"]}
    for column in found["columns"]:
        kinds = {column["type"], types[column["name"]]}
        if len(kinds) > 1 and "other" in kinds:
            raise ConfigError(
                "FILE",
                other,
                f"holds values of another type in {column['name']} than {first}, of which one is "
                "nested or a duration; name files of one kind.",
            )
        if len(kinds) > 1:
            column["type"] = "number" if kinds == {"integer", "number"} else "text"
    retained = {item["name"] for item in found["columns"] if item["type"] in ("integer", "number")}
    found["numbers"] = [name for name in found["numbers"] if name in retained]
