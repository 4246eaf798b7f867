"""Releases as rows of a table of PostgreSQL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from weir.dpcore.config.section import Section, refusal
from weir.pipelines.connectors.references import Reference, reference_of
from weir.pipelines.sinks.sink import Ticks
from weir.pipelines.sinks.table import TableSink

if TYPE_CHECKING:
    from weir.transforms.release.flat import Flat
    from weir.transforms.sinks.postgresql import PostgresqlWriter, ReleaseTable

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


class PostgresqlSink(TableSink):
    """A table of PostgreSQL; needs ``pip install weir-dp[postgresql]``."""

    kind: ClassVar[str] = "postgresql"
    product: ClassVar[str] = "PostgreSQL"

    postgresql: ReleaseTableConfig = Field(
        description="A table of PostgreSQL.",
        examples=["{url: 'postgresql://weir@db.acme.example/shop', table: releases}"],
    )
    every: Ticks = Field(
        default=1, description="Ticks of one transaction, at most; or a duration.", examples=[1]
    )

    @property
    def rows(self) -> ReleaseTable:
        from weir.transforms.sinks.postgresql import ReleaseTable

        section = self.postgresql
        login = section.password
        place = None if login is None else reference_of("password", login)
        return ReleaseTable(section.url, section.table, place)

    def writer(self, shape: Flat) -> PostgresqlWriter:
        from weir.transforms.sinks.postgresql import PostgresqlWriter

        return PostgresqlWriter(self.rows, shape)


__all__ = ["PostgresqlSink", "ReleaseTableConfig"]
