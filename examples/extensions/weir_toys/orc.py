"""ORC files."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa

from weir.transforms.formats.format import BatchWriter, FileContent, Format


class Orc(Format):
    """ORC files. A stripe that cannot be read costs no other."""

    name: ClassVar[str] = "orc"
    description: ClassVar[str] = "ORC files."
    example: ClassVar[str] = "events.orc"
    suffixes: ClassVar[tuple[str, ...]] = ("orc",)
    magics: ClassVar[tuple[bytes, ...]] = (b"ORC",)

    def read(self, file: Any, rows: int) -> FileContent | None:
        """Stripes, each with its share of the file."""
        from pyarrow import orc

        try:
            stored = orc.ORCFile(file)
        except (pa.ArrowException, OSError):
            return None
        count = stored.nstripes
        return FileContent(
            stored.schema, ((stored.read_stripe(i), 1 / count) for i in range(count))
        )

    def begin(self, file: Any, schema: pa.Schema) -> BatchWriter:
        """A writer of stripes."""
        return Stripes(file)


class Stripes(BatchWriter):
    """Writes ORC."""

    def __init__(self, file: Any) -> None:
        from pyarrow import orc

        self._writer = orc.ORCWriter(file)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Writes rows."""
        self._writer.write(pa.Table.from_batches([batch]))

    def close(self) -> None:
        """Writes the footer."""
        self._writer.close()
