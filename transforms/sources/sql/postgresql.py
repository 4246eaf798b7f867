"""Tables of PostgreSQL, in one transaction that sees one state of the data (repeatable read)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from weir.dpcore.errors import ConfigError
from weir.transforms.sources.sql.database import (
    ROWS,
    Database,
    Type,
    no_driver,
    no_table,
    quoted,
    refuse_view,
)
from weir.transforms.sources.sql.table import SqlTable

_SESSION = (
    # How values are spelled: times of zones in UTC, all digits of a number.
    "SET TimeZone = 'UTC'",
    "SET DateStyle = 'ISO, MDY'",
    "SET extra_float_digits = 1",
    "SET bytea_output = 'hex'",
    # Policies would hide rows: a read that they concern is refused.
    "SET row_security = off",
)
_ARGUMENT = "\x00"
"""Where an argument stands: no name of PostgreSQL holds it."""
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_KINDS = {
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table",
    "S": "a sequence",
    "i": "an index",
    "c": "a type",
}
_TYPES: dict[str, Type] = {
    "N": "number",
    "S": "text",
    "E": "text",
    "B": "boolean",
    "D": "time",
}
"""Category of a type -> what it is to a predicate."""
_COLUMNS = (
    "SELECT a.attname, t.typcategory, a.attgenerated FROM pg_attribute a JOIN pg_type t ON "
    "t.oid = a.atttypid WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped "
    "ORDER BY a.attnum"
)
_FOREIGN_PARTS = (
    "WITH RECURSIVE parts AS (SELECT %s::oid AS oid UNION SELECT i.inhrelid FROM pg_inherits i "
    "JOIN parts p ON i.inhparent = p.oid) SELECT 1 FROM parts JOIN pg_class c USING (oid) WHERE "
    "c.relkind = 'f' LIMIT 1"
)


class Postgresql(Database):
    """A database of PostgreSQL."""

    kind: ClassVar[str] = "postgresql"

    def __init__(self, table: SqlTable, password: str | None = None) -> None:
        super().__init__(table, password)
        try:
            import psycopg
            from psycopg.adapt import Loader
        except ImportError:
            raise no_driver(table.shown, "psycopg", "postgresql") from None

        class StoredText(Loader):
            """Texts as the bytes that they are."""

            def load(self, data: Any) -> bytes:
                return bytes(data)

        self._error = psycopg.Error
        more: dict[str, Any] = {} if password is None else {"password": password}
        try:
            self._connection = psycopg.connect(table.url, autocommit=True, **more)
            self._connection.adapters.register_loader("text", StoredText)
            for statement in (*_SESSION, _BEGIN):
                self._connection.execute(statement)
            # The state is that of the first read.
            self._connection.execute("SELECT 1").fetchone()
        except psycopg.Error as error:
            raise ConfigError(
                "source.sql.url",
                table.shown,
                f"cannot be opened ({type(error).__name__}). Check host, port, database, user and "
                "source.sql.password.",
            ) from None

    def look_up(self) -> Mapping[str, Type]:
        if self.table.table is None:
            return self._of_query()
        name = ".".join(map(quoted, self.table.table))
        row = self._one("SELECT oid, relkind::text FROM pg_class WHERE oid = to_regclass(%s)", name)
        if row is None:
            raise no_table(self.table)
        kind = row[1].decode()
        if kind not in ("r", "p"):
            raise refuse_view(self.table, _KINDS.get(kind, "no table of rows"))
        if self._one(_FOREIGN_PARTS, row[0]) is not None:
            raise refuse_view(self.table, "a table with a foreign part")
        listed = self._connection.execute(_COLUMNS, (row[0],)).fetchall()
        return {
            str(column): _TYPES.get(_letter(category), "other")
            for column, category, generated in listed
            if _letter(generated) != "v"  # computed when it is read
        }

    def _of_query(self) -> Mapping[str, Type]:
        try:
            result = self._connection.execute(f"SELECT * FROM {self.rows_from()} LIMIT 0")
        except self._error as error:
            raise self.refuse_failure(error) from None
        return {column.name: "other" for column in result.description or ()}

    def _one(self, sql: str, *values: Any) -> Any:
        try:
            return self._connection.execute(sql, values).fetchone()
        except self._error as error:
            raise self.refuse_failure(error) from None

    def fetch(self, sql: str, values: Sequence[Any]) -> Iterator[Sequence[tuple[Any, ...]]]:
        try:
            with self._connection.cursor("weir") as cursor:
                if values:  # else a % stands for itself
                    sql = sql.replace("%", "%%").replace(_ARGUMENT, "%s")
                cursor.execute(sql, values or None)
                while rows := cursor.fetchmany(ROWS):
                    yield rows
        except self._error as error:
            raise self.refuse_failure(error) from None

    def compare(self, column: str, sign: str, value: Any) -> str:
        own = self.column(column)
        if isinstance(value, bool):
            return f"COALESCE({own} {sign} CAST({_ARGUMENT} AS boolean), FALSE)"
        if isinstance(value, float):
            # As numeric: a cast of a row's value to a double may overflow.
            return f"COALESCE({own} {sign} CAST({_ARGUMENT} AS numeric), FALSE)"
        if self.types[column] == "time":
            return f"COALESCE({own} {sign} CAST({_ARGUMENT} AS timestamptz), FALSE)"
        return f"COALESCE(CAST({own} AS text) {sign} CAST({_ARGUMENT} AS text), FALSE)"

    def close(self) -> None:
        self._connection.close()


def _letter(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
