"""Releases as rows of a table of PostgreSQL, each written once.

A row's place is unique (release, key, tick, name, over, index). What a retry, a restart or a resume
brings again meets the rows that are there: they stay, and one that says something else counts as
divergent. A range of ticks is one transaction, so that readers see all of it or nothing.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from weir.dpcore.errors import ConfigError
from weir.transforms.release.table import RELEASE_SCHEMA
from weir.transforms.runtime.references import PropertyReference
from weir.transforms.sinks.rows import RowsWriter, require_columns

CONNECT = 20
"""Seconds that a server has to answer."""
PASSING = ("08", "40", "53", "55", "57")
"""Classes of SQLSTATE that pass: no connection, an order that was not found, no room, a lock that
is taken, and a server that stops or starts."""
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
        if self.password is None:
            return psycopg.connect(self.url, connect_timeout=CONNECT)
        password = self.password.read("sink.postgresql.password")
        return psycopg.connect(self.url, password=password, connect_timeout=CONNECT)

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
        from psycopg import sql

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
            connection.execute(
                sql.SQL("CREATE UNIQUE INDEX IF NOT EXISTS {} ON {} ({})").format(
                    sql.Identifier(f"{self.name.rpartition('.')[2]}_place"),
                    self.quoted(),
                    sql.SQL(", ").join(_place(name) for name in _PLACE),
                )
            )

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


def sql_type(kind: pa.DataType) -> str:
    """A column's type, as PostgreSQL spells it."""
    if pa.types.is_timestamp(kind):
        return "timestamp with time zone"
    if pa.types.is_floating(kind):
        return "double precision"
    if pa.types.is_integer(kind):
        return "integer" if kind.bit_width == 32 else "bigint"
    return "text"


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
        return out.getvalue()

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
            connection.execute(
                sql.SQL("CREATE TEMP TABLE weir_new (LIKE {}) ON COMMIT DROP").format(name)
            )
            columns = sql.SQL(", ").join(map(sql.Identifier, RELEASE_SCHEMA.names))
            with connection.cursor() as cursor:
                into = sql.SQL("COPY weir_new ({}) FROM STDIN (FORMAT csv)").format(columns)
                with cursor.copy(into) as copy:
                    copy.write(content)
            connection.execute(
                sql.SQL(
                    "INSERT INTO {} ({}) SELECT {} FROM weir_new ON CONFLICT DO NOTHING"
                ).format(name, columns, columns)
            )
            counted = connection.execute(
                sql.SQL(
                    "SELECT count(*) FROM weir_new n JOIN {} t ON {} WHERE "
                    "(t.value, t.stddev) IS DISTINCT FROM (n.value, n.stddev)"
                ).format(name, same)
            ).fetchone()
            return int(counted[0])


__all__ = ["PostgresqlWriter", "ReleaseTable", "sql_type"]
