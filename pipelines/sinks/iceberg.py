"""Releases as rows of a table of Apache Iceberg."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from weir.dpcore.config.section import Lengths, Section, refusal, same
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.connectors.references import properties_of
from weir.pipelines.sinks.sink import Secrets, Sink

if TYPE_CHECKING:
    from weir.transforms.sinks.iceberg import IcebergTable
    from weir.transforms.sinks.targets import ReleaseFiles

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


class IcebergSink(Sink):
    """A table of Apache Iceberg; needs ``pip install weir-dp[iceberg]``."""

    kind: ClassVar[str] = "iceberg"

    iceberg: IcebergConfig = Field(
        description="A table of Apache Iceberg.",
        examples=["{table: shop.releases, catalog: {uri: 'https://catalog.acme.example'}}"],
    )
    layout: Literal["flat"] = Field(
        default="flat", description="A row for each number.", examples=["flat"]
    )
    every: Annotated[int, BeforeValidator(same, json_schema_input_type=int | Lengths)] = Field(
        default=128, description="Ticks of one commit, at most; or a duration.", examples=[128]
    )

    @property
    def named(self) -> str:
        return f"table {self.iceberg.table} of Iceberg"

    @property
    def _table(self) -> IcebergTable:
        from weir.transforms.sinks.iceberg import IcebergTable

        plain, secrets = self.iceberg.properties
        return IcebergTable(self.iceberg.table, tuple(plain.items()), tuple(secrets.items()))

    def prepare(self, plan: Plan, secrets: Secrets, hold: bool) -> bool:
        """Makes the table where there is none.

        Raises:
          ConfigError: the catalog cannot be reached, or refuses, or the table is another one.
        """
        from weir.transforms.sinks.iceberg import CatalogRefused

        table = self._table
        try:
            table.create()
        except (ConfigError, CatalogRefused):
            raise
        except Exception as error:  # the client's are many, and quote what was sent
            raise ConfigError(
                "sink.iceberg",
                table.name,
                f"cannot be made ready ({type(error).__name__}). Correct the properties of the "
                "catalog, or the rights.",
            ) from None
        return False

    def open(self, plan: Plan, hold: bool = False, here: bool = False) -> Any:
        from weir.transforms.beam.write_files import WriteRanges

        return WriteRanges(self.target(plan))

    def target(self, plan: Plan, hold: bool = False, here: bool = False) -> ReleaseFiles:
        from weir.transforms.release.few import shape_for
        from weir.transforms.release.flat import Flat
        from weir.transforms.sinks.iceberg import IcebergWriter
        from weir.transforms.sinks.targets import ReleaseFiles, ranges_of

        shape = shape_for(plan, "flat")
        assert isinstance(shape, Flat)
        return ReleaseFiles(ranges_of(plan, self.every), IcebergWriter(self._table, shape))


__all__ = ["IcebergConfig", "IcebergSink"]
