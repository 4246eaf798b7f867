"""Tables of SQLite. A read transaction sees one state of the file, whoever writes to it.

A column of SQLite holds values of any type, whatever it was declared as: each is read as what it
is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import quote

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.canonical import Decoded
from weir.transforms.decode.memory_events import assembled
from weir.transforms.decode.schema import EventSchema
from weir.transforms.sources.sql.database import (
    ROWS,
    Database,
    Type,
    no_table,
    quoted,
    refuse_view,
)
from weir.transforms.sources.sql.table import SqlTable

_COMPUTED = 2
"""How the catalogue marks a column that is computed when it is read."""
_TYPES = {
    str: "CASE typeof({0}) WHEN 'text' THEN {0} {1} ? ELSE 0 END",
    float: "CASE WHEN typeof({0}) IN ('integer', 'real') THEN {0} {1} ? ELSE 0 END",
    bool: "CASE typeof({0}) WHEN 'integer' THEN {0} {1} ? ELSE 0 END",
}
_LOGICAL = {1: True, 0: False}


class Sqlite(Database):
    """A file of SQLite."""

    kind: ClassVar[str] = "sqlite"

    def __init__(self, table: SqlTable, password: str | None = None) -> None:
        super().__init__(table, password)
        path = path_of(table.url)
        try:
            self._connection = sqlite3.connect(
                f"file:{quote(path)}?mode=ro",
                uri=True,
                isolation_level=None,
                check_same_thread=False,
            )
            # A text that is no UTF-8 would end the whole read.
            self._connection.text_factory = _text
            self._connection.execute("BEGIN")
            # The state is that of the first read.
            self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.Error as error:
            raise ConfigError(
                "source.sql.url",
                table.shown,
                f"cannot be opened ({type(error).__name__}). Check that the file is there, is of "
                "SQLite, and may be read by this user.",
            ) from None

    def look_up(self) -> Mapping[str, Type]:
        if self.table.table is None:
            return dict.fromkeys(self._names_of_query(), "other")
        *schemas, name = self.table.table
        inside = f"{quoted(schemas[0])}." if schemas else ""
        row = self._one(f"SELECT type, sql FROM {inside}sqlite_master WHERE name = ?", name)
        if row is None:
            raise no_table(self.table)
        if row[0] != "table":
            raise refuse_view(self.table, f"a {row[0]}")
        if str(row[1]).upper().split()[:2] == ["CREATE", "VIRTUAL"]:
            raise refuse_view(self.table, "a virtual table")
        schema = schemas[0] if schemas else "main"
        listed = self._connection.execute(
            "SELECT name, type, hidden FROM pragma_table_xinfo(?, ?)", (name, schema)
        ).fetchall()
        return {
            column: _declared(declared)
            for column, declared, hidden in listed
            if hidden != _COMPUTED
        }

    def _names_of_query(self) -> list[str]:
        try:
            cursor = self._connection.execute(f"SELECT * FROM {self.rows_from()} LIMIT 0")
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise self.refuse_failure(error) from None
        return [column[0] for column in cursor.description]

    def _one(self, sql: str, *values: Any) -> Any:
        try:
            return self._connection.execute(sql, values).fetchone()
        except sqlite3.Error:
            return None

    def fetch(self, sql: str, values: Sequence[Any]) -> Iterator[Sequence[tuple[Any, ...]]]:
        try:
            cursor = self._connection.execute(sql, values)
            while rows := cursor.fetchmany(ROWS):
                yield rows
        except sqlite3.Error as error:
            raise self.refuse_failure(error) from None

    def read(self, column: str) -> str:
        return self.column(column)

    def compare(self, column: str, sign: str, value: Any) -> str:
        return f"({_TYPES[type(value)].format(self.column(column), sign)})"

    def arrays(self, rows: Sequence[tuple[Any, ...]], schema: EventSchema, first: int) -> Decoded:
        columns = [list(column) for column in zip(*rows, strict=True)]
        plain = dict(zip(schema.needed, columns, strict=False))
        for name, values in plain.items():
            if schema.columns.get(name) == "boolean":  # which SQLite stores as 0 and 1
                plain[name] = [_LOGICAL.get(v, v) if type(v) is int else v for v in values]
        return assembled({}, plain, schema, first, len(rows), self.table.name)

    def close(self) -> None:
        self._connection.close()


def path_of(url: str) -> str:
    """The file of ``sqlite:///PATH`` or ``duckdb:///PATH``."""
    return url.partition(":///")[2]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _declared(kind: str) -> Type:
    """What a column is declared as, by SQLite's own rules; its values may be anything."""
    word = kind.upper()
    if "BOOL" in word:
        return "boolean"
    if any(part in word for part in ("CHAR", "CLOB", "TEXT", "DATE", "TIME")):
        return "text"
    if any(part in word for part in ("INT", "REAL", "FLOA", "DOUB", "NUM", "DEC")):
        return "number"
    return "other"
