"""Events from Arrow IPC."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from weir.pipelines.connectors.paths import FilesText
from weir.pipelines.sources.files import Files


class ArrowSource(Files):
    """Arrow IPC files or streams."""

    kind: ClassVar[str] = "arrow"
    paths: ClassVar[tuple[str, ...]] = ("arrow",)
    endings: ClassVar[tuple[str, ...]] = ("arrow", "arrows", "ipc", "feather")

    arrow: FilesText = Field(description="Arrow IPC files or streams.", examples=["events.arrow"])
