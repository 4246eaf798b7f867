"""Releases as lines of JSON."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from weir.pipelines.connectors.paths import FolderText
from weir.pipelines.sinks.folder import Folder


class NdjsonSink(Folder):
    """Folder of JSON-lines files."""

    kind: ClassVar[str] = "ndjson"
    paths: ClassVar[tuple[str, ...]] = ("ndjson",)

    ndjson: FolderText = Field(description="Folder of JSON-lines files.", examples=["out/"])
