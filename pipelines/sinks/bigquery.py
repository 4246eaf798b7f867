"""Releases in BigQuery."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from weir.dpcore.plan import Plan
from weir.pipelines.sinks.sink import Sink


class BigQuerySink(Sink):
    """A BigQuery table."""

    kind: ClassVar[str] = "bigquery"

    bigquery: str = Field(description="A BigQuery table.", examples=["acme:shop.releases"])

    def open(self, plan: Plan, hold: bool = False, here: bool = False) -> Any:
        from weir.transforms.sinks.transforms import WriteBigQuery

        return WriteBigQuery(self.bigquery, plan, self.layout)
