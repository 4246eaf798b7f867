"""What a table of a database tells about its columns. As of a file, only names and types are used,
and how the first rows spell times."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa

from weir.dpcore.config.validation import validate
from weir.dpcore.errors import ConfigError
from weir.pipelines.init.header import only, roles
from weir.pipelines.sources.sql import TableConfig, without_login
from weir.transforms.decode.schema import Stamp
from weir.transforms.decode.time import to_time
from weir.transforms.formats.format import SAMPLE_ROWS
from weir.transforms.sources.sql.database import Database
from weir.transforms.sources.sql.opened import open_database
from weir.transforms.sources.sql.table import DATABASES


def is_address(path: str) -> bool:
    """Whether it is a database and not a file."""
    return path.partition("://")[0] in DATABASES


def seen_from(path: str, folder: Path) -> str:
    """A path, or that in the address of a database, as a config in a folder names it."""
    scheme, mark, rest = path.rpartition(":///") if is_address(path) else ("", "", path)
    if path.startswith("postgresql:") or os.path.isabs(rest):
        return path
    return f"{scheme}{mark}{os.path.relpath(rest, folder)}"


def sniff_table(address: str, columns: Sequence[str] | None = None) -> dict[str, Any]:
    """Reads types of columns and the first rows.

    Args:
      address: URL#TABLE, as ``source.sql`` takes them. columns: to name; None: all.

    Returns:
      As ``pipelines.init.header.sniff``, and the name of the table.

    Raises:
      ConfigError: there is none, it cannot be read, or the address holds a password.
    """
    url, _, table = address.partition("#")
    if not table:
        raise ConfigError(
            "FILE",
            without_login(url),
            "names no table. Write URL#TABLE, like duckdb:///shop.db#orders.",
        )
    section = validate(TableConfig, {"url": url, "table": table}, "source.sql")
    parts = section.rows.table or ()
    with closing(open_database(section.rows, None)) as database:
        samples = _samples(database)
        types = {name: _type(kind, samples[name]) for name, kind in database.types.items()}
    if columns is not None:
        types = only(types, columns, f"table {table}")
    named = {"format": "sql", "text": None, "table": table, "title": parts[-1]}
    return {**named, **roles(types, samples)}


def _samples(database: Database) -> dict[str, list[Any]]:
    """Values of the first rows that have any, by column."""
    names = list(database.types)
    selected = ", ".join(map(database.read, names))
    sql = f"SELECT {selected} FROM {database.rows_from()} LIMIT {SAMPLE_ROWS}"
    rows = [row for some in database.fetch(sql, ()) for row in some]
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return {
        name: [_plain(value) for value in values if value is not None]
        for name, values in zip(names, columns, strict=True)
    }


def _plain(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _type(declared: str, values: Sequence[Any]) -> str:
    """A column's type in the words of ``sniff``, as far as its first values fit it."""
    if declared == "number":
        whole = values and all(str(value).lstrip("-").isdigit() for value in values)
        return "integer" if whole else "number"
    if declared == "time":  # or of a clock, which has no date
        texts = pa.array(map(str, values), pa.string())
        return "other" if to_time(texts, Stamp("", None), "").null_count else "time"
    return declared


__all__ = ["is_address", "seen_from", "sniff_table"]
