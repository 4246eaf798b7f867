"""Tables of DuckDB. A file that is open to be read cannot be written: it stays as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, ClassVar

from weir.dpcore.errors import ConfigError
from weir.transforms.sources.sql.database import (
    ROWS,
    Database,
    Type,
    no_driver,
    no_table,
    refuse_view,
)
from weir.transforms.sources.sql.sqlite import path_of
from weir.transforms.sources.sql.table import SqlTable

_NUMBERS = ("INT", "DEC", "FLOAT", "DOUBLE", "UINT", "TINY", "SMALL", "BIG", "HUGE", "UTINY")
_TIMES = ("TIMESTAMP", "DATE")


class DuckDb(Database):
    """A file of DuckDB."""

    kind: ClassVar[str] = "duckdb"

    def __init__(self, table: SqlTable, password: str | None = None) -> None:
        super().__init__(table, password)
        try:
            import duckdb
        except ImportError:
            raise no_driver(table.shown, "duckdb", "duckdb") from None
        self._error = duckdb.Error
        try:
            self._connection = duckdb.connect(path_of(table.url), read_only=True)
            # Files and addresses that a statement names may change between two reads of it.
            self._connection.execute("SET enable_external_access = false")
            with suppress(duckdb.Error):  # without its extension there are no zones
                self._connection.execute("SET TimeZone = 'UTC'")
        except duckdb.Error as error:
            raise ConfigError(
                "source.sql.url",
                table.shown,
                f"cannot be opened ({type(error).__name__}). Check that the file is there, is of "
                "DuckDB, and that no other process has it open to write.",
            ) from None

    def look_up(self) -> Mapping[str, Type]:
        table = self.table.table
        if table is not None:
            *schemas, name = table
            schema = schemas[-1] if schemas else "main"
            self._refuse_view(schema, name)
        try:
            described = self._all(f"DESCRIBE SELECT * FROM {self.rows_from()}")
        except self._error as error:
            raise self.refuse_failure(error) from None
        return {str(row[0]): _type_of(str(row[1])) for row in described}

    def _refuse_view(self, schema: str, name: str) -> None:
        values = [schema, name]
        where = "WHERE schema_name = ? AND {}_name = ?"
        if self._all(f"SELECT 1 FROM duckdb_views() {where.format('view')}", values):
            raise refuse_view(self.table, "a view")
        if not self._all(f"SELECT 1 FROM duckdb_tables() {where.format('table')}", values):
            raise no_table(self.table)

    def _all(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with closing(self._connection.cursor()) as cursor:
            return list(cursor.execute(sql, list(values)).fetchall())

    def fetch(self, sql: str, values: Sequence[Any]) -> Iterator[Sequence[tuple[Any, ...]]]:
        try:
            with closing(self._connection.cursor()) as cursor:
                result = cursor.execute(sql, list(values))
                while rows := result.fetchmany(ROWS):
                    yield rows
        except self._error as error:
            raise self.refuse_failure(error) from None

    def compare(self, column: str, sign: str, value: Any) -> str:
        own = self.column(column)
        if isinstance(value, bool):
            return f"COALESCE({own} {sign} CAST(? AS BOOLEAN), FALSE)"
        if isinstance(value, float):
            return f"COALESCE(CAST({own} AS DOUBLE) {sign} CAST(? AS DOUBLE), FALSE)"
        if self.types[column] == "time":
            return f"COALESCE({own} {sign} CAST(? AS TIMESTAMP), FALSE)"
        return f"COALESCE(CAST({own} AS VARCHAR) {sign} CAST(? AS VARCHAR), FALSE)"

    def close(self) -> None:
        self._connection.close()


def _type_of(kind: str) -> Type:
    if kind.endswith("]") or kind.startswith(("STRUCT", "MAP", "UNION", "INTERVAL")):
        return "other"
    if kind.startswith(_TIMES):
        return "time"
    if kind.startswith(_NUMBERS):
        return "number"
    if kind == "BOOLEAN":
        return "boolean"
    return "text" if kind.startswith(("VARCHAR", "ENUM", "UUID")) else "other"
