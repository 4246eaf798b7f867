"""Releases as rows of a table of Apache Iceberg."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field, model_validator

from weir.dpcore.config.section import Section, refusal
from weir.pipelines.connectors.references import properties_of
from weir.pipelines.sinks.sink import Ticks
from weir.pipelines.sinks.table import TableSink

if TYPE_CHECKING:
    from weir.transforms.release.flat import Flat
    from weir.transforms.sinks.iceberg import IcebergTable, IcebergWriter

_TABLE = re.compile(r"[^.\s]+(\.[^.\s]+)+")
SECRETS = (
    "adls.account-key",
    "adls.client-secret",
    "adls.sas-token",
    "credential",
    "gcs.oauth2.token",
    "s3.secret-access-key",
    "s3.session-token",
    "token",
)
"""Properties of catalogs whose values are secrets: given by reference only."""


class IcebergConfig(Section):
    """A table of Apache Iceberg. It is made where there is none, with its namespace."""

    table: str = Field(description="NAMESPACE.TABLE.", examples=["shop.releases"])
    catalog: dict[str, Any] = Field(
        description="Properties of the catalog, as pyiceberg has them: type (rest, sql, glue), "
        "uri, warehouse, those of the file system, and name (of an SQL catalog; default). A "
        "secret is given as {file: PATH} or {env: NAME}, and read on the workers.",
        examples=["{type: rest, uri: 'https://catalog.acme.example', token: {env: CATALOG_TOKEN}}"],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not _TABLE.fullmatch(self.table):
            raise refusal("table", self.table, "cannot be a table. Write NAMESPACE.TABLE.")
        plain, _ = self.properties
        if "type" not in plain and "uri" not in plain:
            raise refusal("catalog", "...", "names none. Write {type: rest, uri: ...}, or like it.")
        return self

    @property
    def properties(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Plain properties, and those by reference; raises what validators raise."""
        return properties_of("catalog", self.catalog, {}, SECRETS)


class IcebergSink(TableSink):
    """A table of Apache Iceberg; needs ``pip install weir-dp[iceberg]``."""

    kind: ClassVar[str] = "iceberg"
    product: ClassVar[str] = "Iceberg"

    iceberg: IcebergConfig = Field(
        description="A table of Apache Iceberg.",
        examples=["{table: shop.releases, catalog: {uri: 'https://catalog.acme.example'}}"],
    )
    every: Ticks = Field(
        default=128, description="Ticks of one commit, at most; or a duration.", examples=[128]
    )

    @property
    def rows(self) -> IcebergTable:
        from weir.transforms.sinks.iceberg import IcebergTable

        plain, secrets = self.iceberg.properties
        return IcebergTable(self.iceberg.table, tuple(plain.items()), tuple(secrets.items()))

    def writer(self, shape: Flat) -> IcebergWriter:
        from weir.transforms.sinks.iceberg import IcebergWriter

        return IcebergWriter(self.rows, shape)


__all__ = ["IcebergConfig", "IcebergSink"]
