"""Arrow IPC: files and streams, also as messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from weir.transforms.formats.format import (
    BatchWriter,
    DecodeOptions,
    FileContent,
    Flags,
    Format,
    blanked,
)
from weir.transforms.formats.stored import Split, is_local
from weir.transforms.runtime.files import open_raw

if TYPE_CHECKING:
    from weir.transforms.decode.canonical import Decoded, DecodedTogether
    from weir.transforms.decode.schema import EventSchema

_STREAM = b"\xff\xff\xff\xff"


class Arrow(Format):
    """Arrow IPC files or streams. A file is one split: where its batches lie is not known."""

    name: ClassVar[str] = "arrow"
    description: ClassVar[str] = "Arrow IPC files or streams."
    example: ClassVar[str] = "events.arrow"
    suffixes: ClassVar[tuple[str, ...]] = ("arrow", "arrows", "ipc", "feather")
    magics: ClassVar[tuple[bytes, ...]] = (b"ARROW1",)
    in_messages: ClassVar[bool] = True

    def sniff(self, start: bytes) -> bool:
        """Returns whether it is a file, or may be a stream: few texts begin so."""
        return super().sniff(start) or start.startswith(_STREAM)

    def open(self, path: str) -> Any:
        return pa.memory_map(path) if is_local(path) else open_raw(path)

    def read(self, file: Any, rows: int) -> FileContent | None:
        from weir.transforms.decode.arrow import read_content

        result = read_content(file, closed=True)
        return None if result is None else FileContent(*result)

    def decode_open(
        self, file: Any, schema: EventSchema, how: DecodeOptions, split: Split
    ) -> Iterator[Decoded]:
        from weir.transforms.decode.arrow import decode_arrow

        yield from decode_arrow(file, schema, split.path, how.lost, closed=how.stored)

    def decode_together(
        self, payloads: Sequence[bytes], schema: EventSchema, source: str
    ) -> tuple[list[DecodedTogether], list[int]]:
        from weir.transforms.decode.arrow import read_together

        return read_together(payloads, schema, source)

    def begin(self, file: Any, schema: pa.Schema) -> BatchWriter:
        writer: BatchWriter = pa.ipc.new_file(file, schema)
        return writer

    def encode(self, batch: pa.RecordBatch, broken: Flags = ()) -> bytes:
        """Encodes rows as a stream."""
        from weir.transforms.runtime.codec import batch_to_bytes

        return batch_to_bytes(blanked(batch, broken))
