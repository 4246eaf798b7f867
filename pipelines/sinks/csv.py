"""Releases as CSV."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from weir.pipelines.connectors.paths import FolderText
from weir.pipelines.sinks.folder import Folder


class CsvSink(Folder):
    """Folder of CSV files."""

    kind: ClassVar[str] = "csv"
    paths: ClassVar[tuple[str, ...]] = ("csv",)

    csv: FolderText = Field(description="Folder of CSV files.", examples=["out/"])
