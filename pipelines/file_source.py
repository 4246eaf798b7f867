"""A source made of files: check, split, decode. Works wherever Beam has a file system.

Splits are row groups (Parquet) or runs of whole lines (big text files); of other formats a file is
one split. Only splits are ever redistributed; batches stay where they are decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa

from dpcore.errors import ConfigError
from pipelines import files
from transforms import tally
from transforms.avro import decode_avro
from transforms.columnar import decode_arrow, decode_parquet, parquet_groups, whole_file
from transforms.decode import FORMATS
from transforms.decode_batch import Decoded, assemble
from transforms.decode_csv import check_delimiter, decode_csv
from transforms.decode_ndjson import decode_ndjson
from transforms.event_schema import EventSchema
from transforms.text import BYTE_ORDER_MARK, LINE_BYTES, Chunk, chunks

SPLIT_BYTES = 64 * 2**20
SPLIT_ROWS = 2**21
ALL = -1
"""End of a split that goes to the end of its file."""

_TEXT = ("csv", "ndjson")
_CHECKED_FILES = 8
_BLOCK = 4 * 2**20


class Split(NamedTuple):
    """A part of a file that one worker decodes.

    Attributes:
      path: of the file.
      start: first byte (text) or row group (Parquet).
      end: behind the last one; ALL goes to the end of the file.
      first: number of the first line, for text.
      size: bytes that this split stands for in the progress.
    """

    path: str
    start: int
    end: int
    first: int
    size: int


@dataclass(frozen=True)
class FileSource:
    """Which files, and how to read them.

    Attributes:
      form: csv, ndjson, parquet, arrow or avro. Text may be compressed (.gz, .bz2, .xz).
      path: a path, a folder (with a slash at its end) or a glob.
      delimiter: of CSV.
      line_bytes: longest line of a text.
    """

    form: str
    path: str
    delimiter: str = ","
    line_bytes: int = LINE_BYTES

    def __post_init__(self) -> None:
        if self.form not in FORMATS:
            raise ConfigError("source", self.form, f"is no format; use {', '.join(FORMATS)}.")
        check_delimiter(self.delimiter)

    @property
    def field(self) -> str:
        """The setting that holds the path."""
        return f"source.{self.form}"

    def match(self) -> tuple[files.File, ...]:
        """The files, in order of their paths. Raises ConfigError if there is none."""
        return files.match(self.path, self.field)

    def check(self, matched: tuple[files.File, ...], schema: EventSchema) -> None:
        """Holds names and types of columns of a file against the schema. Reads no event.

        Looks at the first file that can be read; the others are checked as they are decoded.

        Raises:
          ConfigError: a column is missing or of a wrong type, or the files are of another format.
        """
        full = [file for file in matched if file.size][:_CHECKED_FILES]
        for file in full:
            if self._check_one(file.path, schema):
                return
        if full:
            raise ConfigError(
                self.field, full[0].path, f"cannot be read as {self.form}; is it another format?"
            )

    def _check_one(self, path: str, schema: EventSchema) -> bool:
        start = files.first_bytes(path)
        for magic, form in files.MAGICS.items():
            if start.startswith(magic) and form != self.form:
                raise ConfigError(self.field, path, f"holds {form}; write source: {{{form}: ...}}.")
        if self.form == "ndjson":
            return True
        if self.form == "csv":
            try:
                names = files.csv_header(path, self.delimiter, self.line_bytes)
            except files.Unreadable:
                return False
            if names is not None:
                schema.require(names, path)
            return True
        if self.form == "avro":
            header = files.avro_header(path)
            if header is not None:
                schema.require(header.fields, path)
            return header is not None
        found = files.arrow_schema(self.form, path)
        if found is None:
            return False
        schema.require(found.names, path)
        empty = {name: pa.nulls(0, found.field(name).type) for name in schema.needed}
        assemble(empty, np.zeros(0, dtype=np.int64), schema, path)
        return True

    def splits(self, file: files.File) -> Iterator[Split]:
        """Cuts a file into parts that can be decoded apart."""
        if not file.size:
            return
        if self.form == "parquet":
            yield from _row_groups(file)
        elif self.form in _TEXT and file.size > SPLIT_BYTES and not files.is_compressed(file.path):
            yield from _line_runs(file)
        else:
            yield Split(file.path, 0, ALL, 1, file.size)

    def decode(self, split: Split, schema: EventSchema) -> Iterator[Decoded]:
        """A split -> canonical batches; counts the bytes it reads."""
        path = split.path
        if self.form in _TEXT:
            yield from self._decode_text(split, schema)
            return
        if self.form == "parquet":
            groups = None if split.end == ALL else range(split.start, split.end)
            with _open_arrow(path) as file:
                yield from decode_parquet(file, schema, path, groups)
        elif self.form == "arrow":
            with _open_arrow(path) as file:
                yield from decode_arrow(file, schema, path)
        else:
            with files.open_raw(path) as raw:
                yield from decode_avro(raw, schema, path)
        tally.add("bytes", split.size)

    def _decode_text(self, split: Split, schema: EventSchema) -> Iterator[Decoded]:
        header: tuple[str, ...] = ()
        if self.form == "csv":
            try:
                found = files.csv_header(split.path, self.delimiter, self.line_bytes)
            except files.Unreadable:
                found = None
                yield whole_file(split.path)
            if found is None:
                tally.add("bytes", split.size)
                return
            header = found
        with files.open_raw(split.path) as raw:
            text = _Text(raw, split, self.form == "csv", self.line_bytes)
            pieces = text.chunks()
            if self.form == "csv":
                yield from decode_csv(pieces, header, schema, split.path, self.delimiter)
            else:
                yield from decode_ndjson(pieces, schema, split.path)
            if text.broken:
                yield whole_file(split.path)


class _Text:
    """The lines of a split, behind header and byte order mark; counts stored bytes as they go."""

    def __init__(self, raw: BinaryIO, split: Split, has_header: bool, line_bytes: int) -> None:
        self.broken = False
        self._raw = raw
        self._file = files.unpacked(raw, split.path)
        self._split = split
        self._has_header = has_header
        self._line_bytes = line_bytes
        self._left = None if split.end == ALL else split.end - split.start
        self._counted = split.start
        self._begin = b""

    def chunks(self) -> Iterator[Chunk]:
        first = self._split.first
        if self._split.start:
            self._raw.seek(self._split.start)
        elif self._has_header:
            line = self._take(lambda: self._file.readline(self._line_bytes + 1))
            while line and files.is_blank(line):
                first += 1
                line = self._take(lambda: self._file.readline(self._line_bytes + 1))
            first += 1
        else:
            begin = self._take(lambda: self._file.read(len(BYTE_ORDER_MARK)))
            self._begin = begin.removeprefix(BYTE_ORDER_MARK)
        return chunks(self._read, first, line_bytes=self._line_bytes)

    def _take(self, read: Any) -> bytes:
        try:
            data: bytes = read()
        except Exception as error:
            if not files.is_broken_archive(error):
                raise
            self.broken, data = True, b""
        if self._left is not None:
            self._left -= len(data)
        return data

    def _read(self, n: int) -> bytes:
        if self._begin:
            begin, self._begin = self._begin, b""
            return begin
        left = self._left
        data = self._take(lambda: self._file.read(n if left is None else min(n, left)))
        at = self._raw.tell() if data else self._split.start + self._split.size
        tally.add("bytes", max(0, at - self._counted))
        self._counted = max(at, self._counted)
        return data


def _open_arrow(path: str) -> Any:
    return pa.memory_map(path) if files.is_local(path) else files.open_raw(path)


def _row_groups(file: files.File) -> Iterator[Split]:
    with _open_arrow(file.path) as opened:
        groups = parquet_groups(opened)
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


def _line_runs(file: files.File) -> Iterator[Split]:
    """Cuts behind a newline after every SPLIT_BYTES, counting lines on the way."""
    start, first, at, line = 0, 1, 0, 1
    with files.open_raw(file.path) as raw:
        while block := raw.read(_BLOCK):
            due = start + SPLIT_BYTES - at
            cut = block.find(b"\n", max(0, due)) + 1 if due < len(block) else 0
            if cut:
                line_here = line + block.count(b"\n", 0, cut)
                yield Split(file.path, start, at + cut, first, at + cut - start)
                start, first = at + cut, line_here
            line += block.count(b"\n")
            at += len(block)
    if at > start:
        yield Split(file.path, start, at, first, at - start)
