"""Parquet files. A split is a run of row groups."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from weir.transforms.formats.format import BatchWriter, DecodeOptions, FileContent, Format
from weir.transforms.formats.stored import ALL, File, Split, is_local
from weir.transforms.runtime.files import open_raw

if TYPE_CHECKING:
    from weir.transforms.decode.canonical import Decoded
    from weir.transforms.decode.parquet import RowGroups
    from weir.transforms.decode.schema import EventSchema

SPLIT_ROWS = 2**20
"""Rows of a split, at least. Of larger ones there would be so few that cores wait for the last."""
ROW_BYTES = 32
"""Bytes that a row counts as, where it is said how much to decode at a time."""


class Parquet(Format):
    """Parquet files."""

    name: ClassVar[str] = "parquet"
    description: ClassVar[str] = "Parquet files."
    example: ClassVar[str] = "events/*.parquet"
    suffixes: ClassVar[tuple[str, ...]] = ("parquet", "pq")
    magics: ClassVar[tuple[bytes, ...]] = (b"PAR1",)
    reads_ahead: ClassVar[bool] = True

    def open(self, path: str) -> Any:
        """Reads, and does not map: a page that is decoded once is copied faster than mapped."""
        return pa.OSFile(path) if is_local(path) else open_raw(path)

    def read(self, file: Any, rows: int) -> FileContent | None:
        from weir.transforms.decode.parquet import parquet_groups, whole_batches

        groups = parquet_groups(file)
        if groups is None:
            return None
        return FileContent(groups.schema, ((b, 0.0) for b in whole_batches(file, groups, rows)))

    def split(self, file: File) -> Iterator[Split]:
        groups = self._groups(file.path)
        if groups is None or not groups.rows:
            yield Split(file.path, 0, ALL, 0, file.size)
            return
        count, start, rows = len(groups.rows), 0, 0
        for i, more in enumerate(groups.rows):
            rows += more
            if rows >= SPLIT_ROWS or i == count - 1:
                size = file.size * (i + 1) // count - file.size * start // count
                yield Split(file.path, start, i + 1, 0, size)
                start, rows = i + 1, 0

    def places(self, file: File, count: int) -> Iterator[Split]:
        groups = self._groups(file.path)
        n = len(groups.rows) if groups is not None else 0
        for group in sorted({n * i // count for i in range(1, count)} - {0}, reverse=True):
            yield Split(file.path, group, group + 1, 0, 0)

    def decode_open(
        self, file: Any, schema: EventSchema, how: DecodeOptions, split: Split
    ) -> Iterator[Decoded]:
        from weir.transforms.decode.parquet import decode_parquet

        groups = None if split.end == ALL else range(split.start, split.end)
        yield from decode_parquet(
            file,
            schema,
            split.path,
            groups,
            max(1, how.chunk_bytes // ROW_BYTES),
            lost=how.lost,
            numbers=how.stored,
            ahead=how.ahead,
            known=_footer(split.path, file) if how.stored else None,
        )

    def begin(self, file: Any, schema: pa.Schema) -> BatchWriter:
        import pyarrow.parquet as pq

        writer: BatchWriter = pq.ParquetWriter(file, schema)
        return writer

    def _groups(self, path: str) -> RowGroups | None:
        with self.open(path) as file:
            return _footer(path, file)


def _footer(path: str, file: Any) -> RowGroups | None:
    """Reads the footer of a file that is open. All parts of a local one ask for it, in turn; a file
    that was put in its place has its own."""
    from weir.transforms.decode.parquet import parquet_groups

    if not is_local(path):
        return parquet_groups(file)
    at = os.fstat(file.fileno())
    version = (path, at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns)
    if version not in _footers:
        groups = parquet_groups(file)
        _footers.clear()
        _footers[version] = groups
        return groups
    return _footers.get(version) or parquet_groups(file)


_footers: dict[tuple[str, int, int, int, int], RowGroups | None] = {}
"""The last one."""
