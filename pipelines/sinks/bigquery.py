"""Releases in BigQuery."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from weir.dpcore.config.section import refusal
from weir.dpcore.plan import Plan
from weir.pipelines.connectors.connector import PROJECT, PROJECT_RULE
from weir.pipelines.sinks.sink import Sink

_TABLE = re.compile(rf"({PROJECT.pattern}[:.])?\w{{1,1024}}\.[\w $-]{{1,1024}}")


class BigQuerySink(Sink):
    """A BigQuery table."""

    kind: ClassVar[str] = "bigquery"

    bigquery: str = Field(description="A BigQuery table.", examples=["acme-data:shop.releases"])

    @model_validator(mode="after")
    def _check_table(self) -> Self:
        if not _TABLE.fullmatch(self.bigquery):
            raise refusal(
                "bigquery",
                self.bigquery,
                "cannot be a table. Write PROJECT:DATASET.TABLE, where PROJECT has "
                f"{PROJECT_RULE}.",
            )
        return self

    def open(self, plan: Plan, hold: bool = False, here: bool = False) -> Any:
        from weir.transforms.beam.sinks import WriteBigQuery

        return WriteBigQuery(self.bigquery, plan, self.layout)
