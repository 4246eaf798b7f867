"""Releases as rows of a table of PostgreSQL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, model_validator

from weir.dpcore.config.section import Lengths, Section, refusal, same
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.connectors.references import Reference, reference_of
from weir.pipelines.sinks.sink import Secrets, Sink

if TYPE_CHECKING:
    from weir.transforms.sinks.postgresql import ReleaseTable
    from weir.transforms.sinks.targets import ReleaseFiles

_TABLE = re.compile(r"[^.\"\0]{1,63}(\.[^.\"\0]{1,63})?")


class ReleaseTableConfig(Section):
    """A table of PostgreSQL. It is made where there is none."""

    url: str = Field(
        description="Address of the database, without a password.",
        examples=["postgresql://weir@db.acme.example:5432/shop"],
    )
    table: str = Field(description="TABLE or SCHEMA.TABLE.", examples=["releases"])
    password: Reference | None = Field(
        default=None,
        description="Where the password is: {file: PATH} or {env: NAME}, read on the workers. "
        "Without it libpq looks where it always does (PGPASSWORD, ~/.pgpass).",
        examples=["{env: SHOP_DB_PASSWORD}"],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            parts = urlsplit(self.url)
            fine = parts.scheme in ("postgresql", "postgres") and len(parts.path) > 1
            hidden = parts.password is not None or "password" in parts.query
        except ValueError:
            fine = hidden = False
        if hidden:
            raise refusal("url", "...", "holds a password. Write password: {env: NAME} for it.")
        if not fine:
            raise refusal("url", "...", "must look like postgresql://USER@HOST:PORT/DATABASE.")
        if not _TABLE.fullmatch(self.table):
            raise refusal("table", self.table, "cannot be a table. Write TABLE or SCHEMA.TABLE.")
        return self


class PostgresqlSink(Sink):
    """A table of PostgreSQL; needs ``pip install weir-dp[postgresql]``."""

    kind: ClassVar[str] = "postgresql"

    postgresql: ReleaseTableConfig = Field(
        description="A table of PostgreSQL.",
        examples=["{url: 'postgresql://weir@db.acme.example/shop', table: releases}"],
    )
    layout: Literal["flat"] = Field(
        default="flat", description="A row for each number.", examples=["flat"]
    )
    every: Annotated[int, BeforeValidator(same, json_schema_input_type=int | Lengths)] = Field(
        default=1, description="Ticks of one transaction, at most; or a duration.", examples=[1]
    )

    @property
    def named(self) -> str:
        return f"table {self.postgresql.table} of PostgreSQL"

    @property
    def _table(self) -> ReleaseTable:
        from weir.transforms.sinks.postgresql import ReleaseTable

        section = self.postgresql
        login = section.password
        place = None if login is None else reference_of("password", login)
        return ReleaseTable(section.url, section.table, place)

    def prepare(self, plan: Plan, secrets: Secrets, hold: bool) -> bool:
        """Makes the table where there is none.

        Raises:
          ConfigError: the database cannot be reached, or refuses, or the table is another one.
        """
        from weir.transforms.sinks.postgresql import TableRefused

        table = self._table
        try:
            with table.connect() as connection:
                table.create(connection)
        except (ConfigError, TableRefused):
            raise
        except Exception as error:  # psycopg's are many, and quote what was sent
            code = getattr(error, "sqlstate", None) or type(error).__name__
            raise ConfigError(
                "sink.postgresql",
                table.table,
                f"cannot be made ready ({code}). Correct the address, the password or the rights.",
            ) from None
        return False

    def open(self, plan: Plan, hold: bool = False, here: bool = False) -> Any:
        from weir.transforms.beam.write_files import WriteRanges

        return WriteRanges(self.target(plan))

    def target(self, plan: Plan, hold: bool = False, here: bool = False) -> ReleaseFiles:
        from weir.transforms.release.few import shape_for
        from weir.transforms.release.flat import Flat
        from weir.transforms.sinks.postgresql import PostgresqlWriter
        from weir.transforms.sinks.targets import ReleaseFiles, ranges_of

        shape = shape_for(plan, "flat")
        assert isinstance(shape, Flat)
        return ReleaseFiles(ranges_of(plan, self.every), PostgresqlWriter(self._table, shape))


__all__ = ["PostgresqlSink", "ReleaseTableConfig"]
