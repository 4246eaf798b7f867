"""Which rows of which database a source reads, and the kinds of databases by scheme: a further one
is a file next to this one and a line here."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

DATABASES = {
    "sqlite": "weir.transforms.sources.sql.sqlite:Sqlite",
    "duckdb": "weir.transforms.sources.sql.duckdb:DuckDb",
    "postgresql": "weir.transforms.sources.sql.postgresql:Postgresql",
}
"""Scheme of a URL -> the class that opens it, imported when it is used."""


@dataclass(frozen=True)
class SqlTable:
    """Which rows of which database.

    Attributes:
      url: of the database, without a password.
      table: parts of the table's name; None where there is a query.
      query: a SELECT. where: a predicate over columns of the table.
    """

    url: str
    table: tuple[str, ...] | None = None
    query: str | None = None
    where: str | None = None

    @property
    def shown(self) -> str:
        """What may be shown of the address: no user."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def name(self) -> str:
        """What the rows are called in messages and dead letters."""
        return "the query" if self.table is None else f"table {'.'.join(self.table)}"
