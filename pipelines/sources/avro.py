"""Events from Avro."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from weir.pipelines.connectors.paths import FilesText
from weir.pipelines.sources.files import Files


class AvroSource(Files):
    """Avro container files."""

    kind: ClassVar[str] = "avro"
    paths: ClassVar[tuple[str, ...]] = ("avro",)
    endings: ClassVar[tuple[str, ...]] = ("avro",)

    avro: FilesText = Field(description="Avro container files.", examples=["events.avro"])
