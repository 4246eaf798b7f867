"""What a database is to a source: a connection that sees one state of the data from its beginning
to its end, the columns of a table, and its rows, a batch at a time.

Values leave the database as what each of them is: as text that it spells, or as Python values. No
cast runs over a batch, so no row can decide how another is read, or make it fail. Errors of a
driver may quote rows: they are never shown.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.canonical import Decoded, assemble
from weir.transforms.decode.schema import EventSchema
from weir.transforms.sources.sql.table import SqlTable

ROWS = 1 << 15
"""Rows of a batch."""

Type = Literal["number", "text", "boolean", "time", "other"]


class Database(ABC):
    """An open database. Everything that is read through it is of one state of the data.

    Args:
      table: which rows. password: of the user; None where none is needed.

    Raises:
      ConfigError: it cannot be opened.
    """

    def __init__(self, table: SqlTable, password: str | None = None) -> None:
        self.table = table
        self.types: dict[str, Type] = {}

    @abstractmethod
    def look_up(self) -> Mapping[str, Type]:
        """Columns of the table or the query.

        Raises:
          ConfigError: there is no such table, or its rows are not stored as they are read.
        """

    @abstractmethod
    def fetch(self, sql: str, values: Sequence[Any]) -> Iterator[Sequence[tuple[Any, ...]]]:
        """Rows of a statement, some at a time."""

    @abstractmethod
    def compare(self, column: str, sign: str, value: Any) -> str:
        """A comparison of a column with an argument: true, or false where the row has no value.

        Args:
          column: its name. sign: of SQL. value: text, number or bool.
        """

    @abstractmethod
    def close(self) -> None:
        """Ends what is open."""

    def read(self, column: str) -> str:
        """How a column is selected: as text that the database spells."""
        return f"CAST({self.column(column)} AS TEXT)"

    def column(self, name: str) -> str:
        """A column in SQL: of the table, or SQLite takes a name that it does not know as text."""
        return f"t.{quoted(name)}"

    def rows_from(self) -> str:
        """What follows FROM."""
        if self.table.table is None:
            return f"({self.table.query}\n) AS t"
        return f"{'.'.join(map(quoted, self.table.table))} AS t"

    def arrays(self, rows: Sequence[tuple[Any, ...]], schema: EventSchema, first: int) -> Decoded:
        """Rows as canonical events."""
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema.needed)
        raw = {name: texts(values) for name, values in zip(schema.needed, columns, strict=False)}
        positions = np.arange(first, first + len(rows), dtype=np.int64)
        return assemble(raw, positions, schema, self.table.name)

    def refuse_failure(self, error: Exception) -> ConfigError:
        """What is said of an error of the driver: nothing that it quotes."""
        code = getattr(error, "sqlstate", None) or ""
        named = f"{type(error).__name__} {code}".strip()
        return ConfigError(
            "source.sql",
            self.table.shown,
            f"failed while {self.table.name} was read ({named}). Run the statement in the "
            "database itself to see why: its message may quote rows, so it is not shown.",
        )


def texts(values: Sequence[Any]) -> pa.Array:
    """Texts as they are stored: what is no UTF-8 is left to what reads the column."""
    if any(type(value) is bytes for value in values):
        return pa.array(values, pa.binary()).view(pa.string())
    return pa.array(values, pa.string())


def quoted(name: str) -> str:
    """A name as SQL quotes it."""
    return '"' + name.replace('"', '""') + '"'


def refuse_view(table: SqlTable, kind: str) -> ConfigError:
    """What is said of a table whose rows come from elsewhere."""
    return ConfigError(
        "source.sql.table",
        ".".join(table.table or ()),
        f"is {kind}: its rows may come from joins or sums, or change while they are read. Name a "
        "table that stores them, or write query: and rows_are_events: true.",
    )


def no_table(table: SqlTable) -> ConfigError:
    """What is said where there is no such table."""
    return ConfigError(
        "source.sql.table",
        ".".join(table.table or ()),
        f"is no table of {table.shown}. Check its name, its schema (schema.table) and the rights "
        "of the user.",
    )


def no_driver(url: str, module: str, extra: str) -> ConfigError:
    """What is said where a driver is not installed."""
    return ConfigError(
        "source.sql.url",
        url,
        f"needs a library that is not installed ({module}). Install the extra: pip install "
        f"'weir-dp[{extra}]'.",
    )
