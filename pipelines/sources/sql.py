"""Events from a table of a database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self
from urllib.parse import parse_qsl, urlsplit

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from weir.dpcore.config.section import Section, as_tuple, refusal
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.connectors.references import Reference, reference_of
from weir.pipelines.sources.source import Limits, Source, schema_of
from weir.transforms.sources.sql.table import DATABASES, SqlTable

if TYPE_CHECKING:
    from weir.transforms.sources.sql.opened import OpenedTable, TableRows

_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')
_NAME = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern}))*")

QUERY = (
    "One event is one row of the query {}. Weir does not check how rows come about: if the query "
    "joins or aggregates, what one person does may change many rows, and the guarantee is for each "
    "row as the query returns it, not for the rows of its tables. Whether the query fails is not "
    "covered."
)


class TableConfig(Section):
    """Rows of one table of a database; each row is one event."""

    url: str = Field(
        description="The database: duckdb:///PATH, sqlite:///PATH or "
        "postgresql://USER@HOST:PORT/DATABASE. A password is given by password.",
        examples=["postgresql://weir@db.acme.example/shop"],
    )
    table: str | None = Field(
        default=None,
        description="The table, or SCHEMA.TABLE; parts with dots in double quotes. Views, foreign "
        "and virtual tables are refused.",
        examples=["sales.orders"],
    )
    columns: Annotated[tuple[str, ...] | None, BeforeValidator(as_tuple)] = Field(
        default=None,
        description="Columns that may be read; a plan that reads another one is refused. Without "
        "it those that the plan reads.",
        examples=["[user, store, amount]"],
    )
    where: str | None = Field(
        default=None,
        description="Rows to read: comparisons of columns with constants, in the language of "
        "where; the database leaves out the others.",
        examples=["store in ['north', 'south'] and amount > 0"],
    )
    query: str | None = Field(
        default=None,
        description="A SELECT in place of table and where; needs rows_are_events: true.",
        examples=["SELECT user, store FROM orders"],
    )
    rows_are_events: bool = Field(
        default=False,
        description="With query: that each of its rows is one event. If it joins or aggregates, "
        "one person may be in every row; the statement of the guarantee says so.",
        examples=[True],
    )
    password: Reference | None = Field(
        default=None,
        description="Where the password of the user is: {file: PATH} or {env: NAME}.",
        examples=["{env: SHOP_PASSWORD}"],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_url()
        if (self.table is None) == (self.query is None):
            raise refusal(
                "table",
                self.table,
                "is needed, or query in place of it: write one of the two.",
            )
        if self.table is not None and not _NAME.fullmatch(self.table):
            raise refusal(
                "table",
                self.table,
                'is no name of a table. Write TABLE or SCHEMA.TABLE, like sales.orders, or "my '
                'orders".',
            )
        if self.query is not None:
            self._check_query()
        elif self.rows_are_events:
            raise refusal(
                "rows_are_events", True, "is for query: rows of a table always are. Remove it."
            )
        if self.columns is not None and not self.columns:
            raise refusal("columns", [], "must name at least one column, or be left out.")
        return self

    def _check_url(self) -> None:
        scheme, _, rest = self.url.partition("://")
        if scheme not in DATABASES or not rest:
            raise refusal(
                "url",
                without_login(self.url),
                "must be duckdb:///PATH, sqlite:///PATH or postgresql://USER@HOST:PORT/DATABASE.",
            )
        if scheme != "postgresql":
            if not rest.startswith("/") or rest == "/" or ":memory:" in rest:
                raise refusal(
                    "url",
                    self.url,
                    f"names no file. Write {scheme}:///shop.db, or {scheme}:////data/shop.db for a "
                    "path from the root.",
                )
            if self.password is not None:
                raise refusal("password", "...", f"is not used by {scheme}. Remove it.")
            return
        parts = urlsplit(self.url)
        named = {name.lower() for name, _ in parse_qsl(parts.query)}
        if parts.password is not None or named & {"password", "sslpassword"}:
            raise refusal(
                "url",
                "...",
                "holds a password, and configs are kept and shown. Write it apart: password: {env: "
                "SHOP_PASSWORD}, or {file: /run/secrets/shop}.",
            )

    def _check_query(self) -> None:
        assert self.query is not None
        if not re.match(r"\s*(select|with|from|values)\b", self.query, re.IGNORECASE):
            raise refusal("query", self.query, "must be one SELECT.")
        if self.query.rstrip().endswith(";"):
            raise refusal("query", self.query, "must be one SELECT, without a semicolon.")
        if self.where is not None:
            raise refusal("where", self.where, "is for table. Write the condition into the query.")
        if not self.rows_are_events:
            raise refusal(
                "rows_are_events",
                False,
                "must be true next to query: a query can join or aggregate, after which one person "
                "may be in every row. Write it if each row is one event, or name a table.",
            )

    @property
    def rows(self) -> SqlTable:
        """Which rows of which database."""
        names = None
        if self.table is not None:
            names = tuple(
                (in_quotes or bare).replace('""', '"')
                for in_quotes, bare in _PART.findall(self.table)
            )
        return SqlTable(self.url, names, self.query, self.where)


def without_login(url: str) -> str:
    """A URL without its user and password."""
    before, at, behind = url.rpartition("@")
    return f"{before.partition('://')[0]}://...@{behind}" if at else url


class SqlSource(Source):
    """A table of DuckDB, SQLite or PostgreSQL."""

    kind: ClassVar[str] = "sql"
    bounded: ClassVar[bool] = True
    paths: ClassVar[tuple[str, ...]] = ("sql",)

    sql: TableConfig = Field(
        description="A table of DuckDB, SQLite or PostgreSQL; each row is one event.",
        examples=["{url: 'duckdb:///shop.db', table: orders}"],
    )
    _schema: Any = PrivateAttr(default=None)
    _rows: Any = PrivateAttr(default=None)
    _sealed: Any = PrivateAttr(default=None)

    @property
    def form(self) -> str:
        return "csv"

    def caveats(self, limits: Limits) -> Iterator[str]:
        yield from super().caveats(limits)
        if self.sql.query is not None:
            yield QUERY.format(repr(" ".join(self.sql.query.split())))

    def check_plan(self, plan: Plan) -> None:
        """Refuses lists, and columns that the config does not allow, too."""
        schema = schema_of(plan)
        if schema.listed is not None:
            raise ConfigError(
                "model.features",
                schema.listed.name,
                "is a column of lists, which is read of files alone. Write a column a feature, or "
                "export the table to Parquet.",
            )
        if self.sql.columns is not None:
            schema.require(self.sql.columns, "source.sql.columns")
        super().check_plan(plan)
        self._schema = schema

    def check_runner(self, runner: str) -> None:
        """Refuses workers that cannot see the state of the database that this process reads."""
        if runner not in ("local", "direct"):
            raise ConfigError(
                "--runner",
                runner,
                "reads a part of its input again where a worker is lost, and a second connection "
                "may see other rows. Leave --runner out: one process reads the table in one "
                "transaction. Or export it to Parquet.",
            )

    def _table(self) -> TableRows:
        """The table, opened once: what is sealed, looked at and read is of one state."""
        from weir.transforms.sources.sql.opened import TableRows, open_database

        if self._rows is None:
            password = None
            if self.sql.password is not None:
                reference = reference_of("password", self.sql.password)
                password = reference.read("source.sql.password")
            self._rows = TableRows(open_database(self.sql.rows, password))
        rows: TableRows = self._rows
        return rows

    def open(self, plan: Plan, limits: Limits) -> Any:
        from weir.transforms.beam.read_files import ReadHere

        return ReadHere(self.read(plan, limits))

    def read(self, plan: Plan, limits: Limits) -> OpenedTable:
        from weir.transforms.decode.input_validation import FirstLook
        from weir.transforms.sources.sql.opened import OpenedTable

        schema = schema_of(plan)
        look = FirstLook(plan, schema) if limits.first_look else None
        return OpenedTable(self._table(), schema, look, self._sealed)

    def seal(self, key: bytes) -> tuple[str | None, Source]:
        sealed = self.model_copy()
        sealed._rows = self._table()
        digest = sealed._rows.seal(self._schema, key)
        sealed._sealed = (key, digest)
        return digest, sealed

    def reading(self, limits: Limits) -> dict[str, Any]:
        fields = self.sql.model_dump(mode="json", exclude={"url", "password"}, exclude_none=True)
        return {"kind": self.kind, **fields}


__all__ = ["SqlSource", "TableConfig", "without_login"]
