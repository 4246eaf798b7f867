"""Events from lines of JSON."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from weir.pipelines.connectors.paths import FilesText
from weir.pipelines.sources.files import Files


class NdjsonSource(Files):
    """One JSON object a line."""

    kind: ClassVar[str] = "ndjson"
    paths: ClassVar[tuple[str, ...]] = ("ndjson",)
    endings: ClassVar[tuple[str, ...]] = ("ndjson", "jsonl", "json")
    named_columns: ClassVar[bool] = False

    ndjson: FilesText = Field(description="One JSON object a line.", examples=["events-*.ndjson"])
