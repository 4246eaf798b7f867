"""Releases as Parquet."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from weir.pipelines.connectors.paths import FolderText
from weir.pipelines.sinks.folder import Folder


class ParquetSink(Folder):
    """Folder of Parquet files."""

    kind: ClassVar[str] = "parquet"
    paths: ClassVar[tuple[str, ...]] = ("parquet",)

    parquet: FolderText = Field(description="Folder of Parquet files.", examples=["out/"])
