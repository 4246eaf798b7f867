"""Reads the public table of a ``lookup``."""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import pyarrow as pa

from weir.dpcore.config.lookup import PublicLookup
from weir.dpcore.errors import ConfigError
from weir.transforms.decode.cast import plain, to_text
from weir.transforms.decode.lookup import LookupTable
from weir.transforms.formats.format import kind_word
from weir.transforms.formats.registry import format_of, suffixes
from weir.transforms.runtime import files

MOST_ROWS = 1 << 20
FIELD = "lookup.public"


def with_table(section: PublicLookup) -> PublicLookup:
    """The section with what its file says.

    Raises:
      ConfigError: it cannot be read, lacks a column, or holds a row twice.
    """
    place = section.public
    version = _version_in_bucket(place) if files.is_remote(place) else _version(place)
    return section.with_table(_read(place, version, section.on, section.add))


def _version(path: str) -> str:
    try:
        at = os.stat(path)
    except OSError as error:
        raise ConfigError(
            FIELD, path, f"cannot be read ({error.strerror}). Write the path of the table."
        ) from None
    return f"{at.st_size} {at.st_mtime_ns} {at.st_ino}"


def _version_in_bucket(path: str) -> str:
    with files.refusals(FIELD):
        entry = files.entry(path)
    if entry is None:
        raise ConfigError(FIELD, path, "is no file. Write the path of the table.")
    return repr(entry)


@lru_cache(maxsize=8)
def _read(path: str, version: str, on: tuple[str, ...], add: tuple[str, ...]) -> LookupTable:
    table = _table(path)
    for field, names in (("lookup.on", on), ("lookup.add", add)):
        for name in names:
            if table.schema.names.count(name) != 1:
                listed = ", ".join(table.schema.names)
                raise ConfigError(field, name, f"is not one column of {path}: it has {listed}.")
    if table.num_rows > MOST_ROWS:
        raise ConfigError(
            FIELD,
            path,
            f"has {table.num_rows:,} rows, and every worker holds all of them: at most "
            f"{MOST_ROWS:,}. Leave out rows that no record needs, or join before.",
        )
    texts = [_texts(table, name, path) for name in on]
    columns = {name: _added(table, name, path) for name in add}
    result = LookupTable.of(on, texts, columns, _digest(texts, columns))
    if result is None:
        raise ConfigError(
            FIELD,
            path,
            f"holds the same {', '.join(on)} in two rows, so a record would become two. Keep one "
            "row of each.",
        )
    return result


def _table(path: str) -> pa.Table:
    form = format_of(path)
    if form is None:
        raise ConfigError(
            FIELD, path, f"has no ending that says its format. Write one of {suffixes()}."
        )
    try:
        with files.refusals(FIELD), _on_disk(path) as place:
            return pa.concat_tables(list(form.tables(place, numeric=())), promote_options="default")
    except (pa.ArrowException, ValueError, OSError) as error:
        raise ConfigError(
            FIELD, path, f"cannot be read as {form.name} ({type(error).__name__}). Write it again."
        ) from None


@contextmanager
def _on_disk(path: str) -> Iterator[str]:
    """Path of the table on a disk: a copy of one in a bucket, of the same ending."""
    if not files.is_remote(path):
        yield path
        return
    content = files.read(path)
    if content is None:
        raise ConfigError(FIELD, path, "is no file. Write the path of the table.")
    with tempfile.NamedTemporaryFile(suffix=f"-{posixpath.basename(path)[-64:]}") as file:
        file.write(content)
        file.flush()
        yield file.name


def _texts(table: pa.Table, name: str, path: str) -> pa.Array:
    """The texts of a column by which rows are found.

    Raises:
      ConfigError: a row has none, or none that can be compared.
    """
    values, bad = to_text(plain(table[name]), "lookup.on", name, path)
    if values.null_count or (bad is not None and bad.any()):
        raise ConfigError(
            "lookup.on", name, f"is missing or no text in a row of {path}. Leave that row out."
        )
    return values


def _added(table: pa.Table, name: str, path: str) -> pa.Array:
    values: Any = plain(table[name])
    word = kind_word(values.type)
    if word not in ("text", "integer", "number", "boolean", "time"):
        raise ConfigError(
            "lookup.add",
            name,
            f"is of type {values.type} in {path}. Name a column of texts, numbers, times, or true "
            "and false.",
        )
    return values


def _digest(texts: list[pa.Array], columns: dict[str, pa.Array]) -> str:
    cells = [values.to_pylist() for values in (*texts, *columns.values())]
    rows = sorted(json.dumps(row, default=str) for row in zip(*cells, strict=True))
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()
