"""Events from Parquet."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from weir.pipelines.connectors.paths import FilesText
from weir.pipelines.sources.files import Files


class ParquetSource(Files):
    """Parquet files."""

    kind: ClassVar[str] = "parquet"
    paths: ClassVar[tuple[str, ...]] = ("parquet",)
    endings: ClassVar[tuple[str, ...]] = ("parquet", "pq")

    parquet: FilesText = Field(description="Parquet files.", examples=["events/*.parquet"])

    def amount(self) -> tuple[int | None, int | None]:
        import pyarrow.parquet as pq

        _, size = super().amount()
        return sum(pq.read_metadata(path).num_rows for path in self.local()), size
