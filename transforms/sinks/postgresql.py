"""Releases as rows of a table of PostgreSQL, each written once.

A row's place is unique (release, key, tick, name, over, index). What a retry, a restart or a resume
brings again meets the rows that are there: they stay, and one that says something else counts as
divergent. A range of ticks is one transaction, so that readers see all of it or nothing.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from weir.dpcore.errors import ConfigError
from weir.transforms.release.table import NUMBER, RELEASE_SCHEMA
from weir.transforms.runtime.references import PropertyReference
from weir.transforms.sinks.rows import RowsWriter, TableRefused, require_columns

_CONNECTION: Mapping[str, Any] = {
    "connect_timeout": 20,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
    "client_encoding": "UTF8",
}
"""A server that is gone without a word is given up after a minute. Rows are sent as UTF-8, whatever
the database stores them as."""
PASSING = ("08", "25006", "40", "53", "55", "57")
"""What an SQLSTATE that passes begins with: no connection, a standby that is about to take over, an
order that was not found, no room, a lock that is taken, a server that stops or starts."""
_PLACE = {"release": "", "key": "''", "tick": "-1", "name": "", "over": "-1", "index": "-1"}
"""Columns of a row's place -> what stands for null; "" where none is."""


@dataclass(frozen=True)
class ReleaseTable:
    """A table of a database.

    Attributes:
      url: postgresql://USER@HOST:PORT/DATABASE, without a password. name: TABLE or SCHEMA.TABLE.
      password: where it is, or None.
    """

    url: str
    name: str
    password: PropertyReference | None = None

    def connect(self) -> Any:
        """A connection.

        Raises:
          ConfigError: psycopg is not installed, or the password cannot be read.
          psycopg.Error: the server refuses, or does not answer.
        """
        try:
            import psycopg
        except ImportError:
            raise ConfigError(
                "sink.postgresql", self.name, "needs psycopg: pip install weir-dp[postgresql]."
            ) from None
        options = dict(_CONNECTION)
        if self.password is not None:
            options["password"] = self.password.read("sink.postgresql.password")
        return psycopg.connect(self.url, **options)

    def quoted(self) -> Any:
        """Its name, quoted."""
        from psycopg import sql

        return sql.Identifier(*self.name.split("."))

    def create(self) -> None:
        """Makes the table where there is none.

        Raises:
          ConfigError: the one that is there lacks a column, or has one of another type.
          psycopg.Error: the server refuses, or does not answer.
        """
        from psycopg import errors, sql

        with self.connect() as connection:
            if not self._columns(connection):
                fields = [
                    sql.SQL("{} {}").format(
                        sql.Identifier(field.name), sql.SQL(sql_type(field.type))
                    )
                    for field in RELEASE_SCHEMA
                ]
                connection.execute(
                    sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(
                        self.quoted(), sql.SQL(", ").join(fields)
                    )
                )
            there = self._columns(connection)
            require_columns("sink.postgresql.table", self.name, there, sql_type)
            insert = sql.SQL("EXPLAIN INSERT INTO {} DEFAULT VALUES {}")
            try:
                with connection.transaction():
                    connection.execute(insert.format(self.quoted(), _once()))
            except errors.InvalidColumnReference:  # nothing makes places unique
                index = sql.SQL("CREATE UNIQUE INDEX ON {} ({})")
                connection.execute(index.format(self.quoted(), _places()))

    def _columns(self, connection: Any) -> dict[str, str]:
        """Column -> type of what is there; none where there is no table."""
        rows = connection.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
            (self.quoted().as_string(connection),),
        )
        return {str(name): str(kind) for name, kind in rows}


def _place(name: str, of: str = "") -> Any:
    """A column of the place, with what stands for null; the index and joins agree on it."""
    from psycopg import sql

    column = sql.SQL("{}{}").format(sql.SQL(of), sql.Identifier(name))
    null = _PLACE[name]
    return sql.SQL("COALESCE({}, {})").format(column, sql.SQL(null)) if null else column


def _places() -> Any:
    from psycopg import sql

    return sql.SQL(", ").join(_place(name) for name in _PLACE)


def _once() -> Any:
    from psycopg import sql

    return sql.SQL("ON CONFLICT ({}) DO NOTHING").format(_places())


def sql_type(kind: pa.DataType) -> str:
    """A column's type, as PostgreSQL spells it."""
    if pa.types.is_timestamp(kind):
        return "timestamp with time zone"
    if pa.types.is_floating(kind):
        return "double precision"
    if pa.types.is_integer(kind):
        return "integer" if kind.bit_width == 32 else "bigint"
    return "text"


def _numbers(of: str) -> Any:
    from psycopg import sql

    return sql.SQL(", ").join(sql.Identifier(of, name) for name in NUMBER)


@dataclass(frozen=True)
class PostgresqlWriter(RowsWriter):
    """Rows of a table of PostgreSQL."""

    table: ReleaseTable

    def encode(self, table: pa.Table) -> bytes:
        """As text for COPY: null is nothing, and text stands in quotes."""
        import pyarrow.csv

        if not table.num_rows:
            return b""
        out = io.BytesIO()
        options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
        # Combined: of a first chunk without rows the writer makes a line where there is no header.
        pyarrow.csv.write_csv(self.rows(table), out, options)
        content = out.getvalue()
        if b"\0" in content:
            raise TableRefused(
                f"table {self.table.name} cannot take a key with a zero byte, which text of "
                "PostgreSQL cannot hold. Write to another kind of sink."
            )
        return content

    def fault(self, error: Exception) -> tuple[str, bool]:
        """See RowsWriter."""
        import psycopg

        if not isinstance(error, psycopg.Error):
            return type(error).__name__, False
        code = error.sqlstate or "08000"
        return f"SQLSTATE {code}", code.startswith(PASSING)

    def add(self, first: int, last: int, content: bytes) -> int:
        """See RowsWriter: one transaction."""
        from psycopg import sql

        name = self.table.quoted()
        same = sql.SQL(" AND ").join(
            sql.SQL("{} = {}").format(_place(column, "t."), _place(column, "n."))
            for column in _PLACE
        )
        with self.table.connect() as connection:
            columns = sql.SQL(", ").join(map(sql.Identifier, RELEASE_SCHEMA.names))
            empty = "CREATE TEMP TABLE weir_new ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA"
            connection.execute(sql.SQL(empty).format(columns, name))
            with connection.cursor() as cursor:
                into = sql.SQL("COPY weir_new ({}) FROM STDIN (FORMAT csv)").format(columns)
                with cursor.copy(into) as copy:
                    copy.write(content)
            connection.execute(
                sql.SQL("INSERT INTO {} ({}) SELECT {} FROM weir_new {}").format(
                    name, columns, columns, _once()
                )
            )
            counted = connection.execute(
                sql.SQL(
                    "SELECT count(*) FROM weir_new n JOIN {} t ON {} "
                    "WHERE ({}) IS DISTINCT FROM ({})"
                ).format(name, same, *(_numbers(rows) for rows in "tn"))
            ).fetchone()
            return int(counted[0])


__all__ = ["PostgresqlWriter", "ReleaseTable", "sql_type"]
