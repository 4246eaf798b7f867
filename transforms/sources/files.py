"""A source made of files: check, split, decode. Files lie on a disk or in a bucket.

Splits are row groups (Parquet) or runs of whole lines (big text files); of other formats a file is
one split. Only splits are ever redistributed; batches stay where they are decoded.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.avro import decode_avro
from weir.transforms.decode.canonical import Decoded
from weir.transforms.decode.columnar import Lost, decode_arrow, whole_file
from weir.transforms.decode.csv import check_delimiter, decode_csv
from weir.transforms.decode.encoding import UTF_8, check_encoding, width_of
from weir.transforms.decode.formats import FORMATS
from weir.transforms.decode.lines import CHUNK_BYTES, LINE_BYTES
from weir.transforms.decode.ndjson import decode_ndjson
from weir.transforms.decode.parquet import Ahead, Groups, decode_parquet, parquet_groups
from weir.transforms.decode.schema import EventSchema
from weir.transforms.decode.text_form import TextForm
from weir.transforms.runtime import counters
from weir.transforms.runtime.prefetch import in_turn
from weir.transforms.sources import matching
from weir.transforms.sources.csv_head import Head, csv_head
from weir.transforms.sources.regular import require_regular
from weir.transforms.sources.seal import refuse_changed
from weir.transforms.sources.stored_bytes import ALL, LostBytes, ReadBytes, Split
from weir.transforms.sources.text_file import TextFile, behind

SPLIT_BYTES = 64 * 2**20
SPLIT_ROWS = 2**21
TEXT = ("csv", "ndjson")
_BLOCK = 4 * 2**20
_SOMEWHERE = 1 << 40
"""A number of a line that is behind every header."""


@dataclass(frozen=True)
class FileSource:
    """Which files, and how to read them.

    Attributes:
      form: csv, ndjson, parquet, arrow or avro. Text may be compressed (.gz, .bz2, .xz).
      path: a path, a folder (with a slash at its end) or a glob.
      delimiter: of CSV.
      line_bytes: longest line of a text.
      columns: of CSV without a header, in order; None where there is one.
      encoding: of CSV.
      quoted_newlines: whether quoted fields of CSV may hold newlines.
      chunk_bytes: how much of a text to decode at a time; no result depends on it.
    """

    form: str
    path: str
    delimiter: str = ","
    line_bytes: int = LINE_BYTES
    columns: tuple[str, ...] | None = None
    encoding: str = UTF_8
    quoted_newlines: bool = False
    chunk_bytes: int = CHUNK_BYTES

    def __post_init__(self) -> None:
        if self.form not in FORMATS:
            raise ConfigError("source", self.form, f"is no format; use {', '.join(FORMATS)}.")
        check_delimiter(self.delimiter)

    @property
    def text(self) -> TextForm:
        """How a text is written."""
        if self.form != "csv":
            return TextForm(line_bytes=self.line_bytes)
        return TextForm(
            self.delimiter,
            self.line_bytes,
            self.columns,
            check_encoding(self.encoding),
            self.quoted_newlines,
        )

    @property
    def field(self) -> str:
        """The setting that holds the path."""
        return f"source.{self.form}"

    def match(self) -> tuple[matching.File, ...]:
        """The files, in order of their paths. Raises ConfigError if there is none."""
        return matching.match(self.path, self.field)

    def splits(self, file: matching.File) -> Iterator[Split]:
        """Cuts a file into parts that can be decoded apart.

        Raises:
          ConfigError: it is a pipe, a socket or a device by now.
        """
        if matching.is_local(file.path):
            require_regular(file.path, self.field)
        for split in self._splits(file):
            yield split._replace(version=file.version)

    def _splits(self, file: matching.File) -> Iterator[Split]:
        if not file.size:
            return
        if self.form == "parquet":
            yield from _row_groups(file)
        elif self._can_be_cut(file.path) and file.size > SPLIT_BYTES:
            yield from _line_runs(file)
        else:
            yield Split(file.path, 0, ALL, 1, file.size)

    def _can_be_cut(self, path: str) -> bool:
        """Whether every byte of a newline ends a record, wherever one begins to read."""
        if self.form not in TEXT or matching.is_compressed(path):
            return False
        return not self.text.quoted_newlines and width_of(self.text.encoding) == 1

    def parts(self, file: matching.File, count: int) -> Iterator[Split]:
        """Up to so many places inside a file to read from, the last first; few formats have some.

        Numbers of lines are not known there.
        """
        places = range(count - 1, 0, -1)
        if self.form == "parquet":
            with _open_parquet(file.path) as opened:
                groups = _footer(file.path, opened)
            n = len(groups.rows) if groups is not None else 0
            for group in sorted({n * place // count for place in places} - {0}, reverse=True):
                yield Split(file.path, group, group + 1, 0, 0)
        elif self._can_be_cut(file.path):
            for place in places:
                begin = _behind_newline(file, file.size * place // count)
                if begin is not None:
                    yield Split(file.path, begin, ALL, _SOMEWHERE, 0)

    def decode(self, split: Split, schema: EventSchema, ahead: Ahead = iter) -> Iterator[Decoded]:
        """A split -> canonical batches; counts its bytes, and those that could not be read.

        Args:
          split: of a file. schema: the roles of columns.
          ahead: of columns as they are in a Parquet file, which take as long to read as all that
            follows; of other formats it is of what is decoded.

        Raises:
          SourceChanged: the file is not the version that the split names.
        """
        refuse_changed(split.path, split.version, "since this run began")
        if self.form == "parquet":
            yield from self._counted(split, schema, ahead)
        else:
            yield from ahead(self._counted(split, schema, iter))
        refuse_changed(split.path, split.version, "while it was read")

    def _counted(self, split: Split, schema: EventSchema, ahead: Ahead) -> Iterator[Decoded]:
        lost = LostBytes(split)
        for decoded in self._decode(split, schema, lost.add, ahead):
            lost.fruitful |= decoded.events is not None
            yield decoded
        lost.end()

    def _decode(
        self, split: Split, schema: EventSchema, lost: Lost, ahead: Ahead
    ) -> Iterator[Decoded]:
        path = split.path
        if self.form in TEXT:
            yield from self._decode_text(split, schema, lost)
            return
        if self.form == "parquet":
            groups = None if split.end == ALL else range(split.start, split.end)
            with _open_parquet(path) as file:
                known = _footer(path, file)
                yield from decode_parquet(
                    file, schema, path, groups, lost=lost, numbers=True, ahead=ahead, known=known
                )
        elif self.form == "arrow":
            with _open_arrow(path) as file:
                yield from decode_arrow(file, schema, path, lost, closed=True)
        else:
            with matching.open_raw(path) as raw:
                yield from decode_avro(raw, schema, path, lost)
        counters.add("bytes", split.size)

    def _decode_text(self, split: Split, schema: EventSchema, lost: Lost) -> Iterator[Decoded]:
        head = Head((), 0, ())
        if self.form == "csv":
            damaged = self.columns is None  # if it has no header
            try:
                found = csv_head(split.path, self.text)
            except matching.Unreadable:
                found, damaged = None, True
            if found is None:
                if damaged:
                    lost(1.0)
                    yield whole_file(split.path)
                counters.add("bytes", split.size)
                return
            head = found
        with matching.open_raw(split.path) as raw:
            if split.start:
                raw.seek(split.start)
            size = None if split.end == ALL else split.end - split.start
            moved = ReadBytes(raw, split)
            text = TextFile(raw, split.path, self.text, size, moved.tell)
            whole = text.chunks(split.first, self.form == "csv", chunk_bytes=self.chunk_bytes)
            pieces = behind(whole, head.number)
            if self.form == "csv":
                yield from decode_csv(
                    pieces,
                    head.names,
                    schema,
                    split.path,
                    self.delimiter,
                    self.quoted_newlines,
                    in_turn,
                )
            else:
                yield from decode_ndjson(pieces, schema, split.path, in_turn)
            moved.end()
            if text.broken:
                lost(1 - text.readable / split.size)
                yield whole_file(split.path)


def _open_parquet(path: str) -> Any:
    """Read, not mapped: a page that is decoded once is copied faster than it is mapped."""
    return pa.OSFile(path) if matching.is_local(path) else matching.open_raw(path)


def _open_arrow(path: str) -> Any:
    return pa.memory_map(path) if matching.is_local(path) else matching.open_raw(path)


def _footer(path: str, file: Any) -> Groups | None:
    """What the footer of a Parquet file says that is open. All parts of a local one ask for it, in
    turn; one that was put in its place has its own."""
    if not matching.is_local(path):
        return parquet_groups(file)
    at = os.fstat(file.fileno())
    version = (path, at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns)
    if version not in _footers:
        groups = parquet_groups(file)
        _footers.clear()
        _footers[version] = groups
        return groups
    return _footers.get(version) or parquet_groups(file)


_footers: dict[tuple[str, int, int, int, int], Groups | None] = {}
"""The last one."""


def _row_groups(file: matching.File) -> Iterator[Split]:
    with _open_parquet(file.path) as opened:
        groups = _footer(file.path, opened)
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


def _behind_newline(file: matching.File, at: int) -> int | None:
    """Where the first line begins that begins behind an offset; None if it is far."""
    with matching.open_raw(file.path) as raw:
        raw.seek(at)
        found = raw.read(_BLOCK).find(b"\n")
    return None if found < 0 or at + found + 1 >= file.size else at + found + 1


def _line_runs(file: matching.File) -> Iterator[Split]:
    """Cuts behind a newline after every SPLIT_BYTES, counting lines on the way."""
    start, first, at, line = 0, 1, 0, 1
    with matching.open_raw(file.path) as raw:
        while block := raw.read(_BLOCK):
            due = start + SPLIT_BYTES - at
            cut = block.find(b"\n", max(0, due)) + 1 if due < len(block) else 0
            if cut:
                line_here = line + _newlines(block[:cut])
                yield Split(file.path, start, at + cut, first, at + cut - start)
                start, first = at + cut, line_here
            line += _newlines(block)
            at += len(block)
    if at > start:
        yield Split(file.path, start, at, first, at - start)


def _newlines(block: bytes) -> int:
    """How many there are: numpy looks at 64 bytes at a time, ``bytes.count`` stops at each."""
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord("\n")))
