"""Formats of lines: how a text is cut, decoded and written, whatever a line holds."""

from __future__ import annotations

import codecs
import io
import sys
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.encoding import UTF_8, TextForm, width_of
from weir.transforms.decode.lines import CHUNK_BYTES, Chunk, chunks, quoted_chunks
from weir.transforms.formats.format import DecodeOptions, FileContent, Flags, Format, FormatWriter
from weir.transforms.formats.stored import (
    ALL,
    File,
    ReadBytes,
    Split,
    UnreadableFile,
    is_compressed,
)
from weir.transforms.formats.text import TextFile, behind
from weir.transforms.runtime.files import open_raw

if TYPE_CHECKING:
    from weir.transforms.decode.canonical import Decoded, DecodedTogether, Over
    from weir.transforms.decode.schema import EventSchema

SPLIT_BYTES = 2 * CHUNK_BYTES - 2**16
"""Bytes of a split, at least, so that it and the rest of its last line are two chunks. Of larger
ones there would be so few that cores wait for the last."""
BLOCK = 2**18
"""Bytes that are read at a time where lines are only counted: they stay in the cache of a core."""
_SOMEWHERE = 1 << 40
"""A number of a line that is behind every header."""
BROKEN = b'{"broken'
"""What a line looks like that is written to be unreadable."""


class TextHead(NamedTuple):
    """The beginning of a text.

    Attributes:
      names: of columns, from the header or from the config; none where the records have them.
      number: of the header's last line, from 1; 0 where there is no header.
      rows: fields of records below it.
    """

    names: tuple[str, ...] = ()
    number: int = 0
    rows: tuple[tuple[str, ...], ...] = ()


class LineFormat(Format):
    """A format of lines. Big files are cut behind newlines where these end records."""

    is_text: ClassVar[bool] = True

    @abstractmethod
    def head(self, path: str) -> TextHead | None:
        """Reads what stands in front of the records; None where not even that is there.

        Raises:
          Unreadable: the file is compressed, and damaged.
        """

    @abstractmethod
    def decode_lines(
        self,
        pieces: Iterable[Chunk],
        head: TextHead,
        schema: EventSchema,
        source: str,
        over: Over = map,
    ) -> Iterator[Decoded]:
        """Decodes lines behind the header; each is read alone.

        Args:
          pieces: chunks of lines. source: path or topic.
          over: applies a function to every chunk, in order, on several cores perhaps.
        """

    @abstractmethod
    def lines(self, batch: pa.RecordBatch) -> bytes:
        """Encodes rows in UTF-8, one a line (with quoted newlines: a record), all of them ended."""

    def header(self, batch: pa.RecordBatch) -> bytes:
        """Encodes the line in front of all rows; nothing where there is none."""
        return b""

    def framed(self, data: bytes) -> bytes:
        """A message as lines."""
        return data

    def says_columns(self) -> bool:
        return False

    def read(self, file: Any, rows: int) -> FileContent | None:
        """Texts have no columns of a type: ``tables``, ``batches`` and ``samples`` read them."""
        raise AssertionError("texts are read as lines, not as columns.")

    def split(self, file: File) -> Iterator[Split]:
        if self._can_be_cut(file.path) and file.size > SPLIT_BYTES:
            return _line_runs(file)
        return super().split(file)

    def places(self, file: File, count: int) -> Iterator[Split]:
        if self._can_be_cut(file.path):
            for place in range(count - 1, 0, -1):
                begin = _behind_newline(file, file.size * place // count)
                if begin is not None:
                    yield Split(file.path, begin, ALL, _SOMEWHERE, 0)

    def _can_be_cut(self, path: str) -> bool:
        """Whether every byte of a newline ends a record, wherever one begins to read."""
        packed = is_compressed(path) or self.text.quoted_newlines
        return not packed and width_of(self.text.encoding) == 1

    def decode(self, split: Split, schema: EventSchema, how: DecodeOptions) -> Iterator[Decoded]:
        from weir.transforms.decode.columnar import whole_file
        from weir.transforms.runtime import counters

        damaged = self.says_columns()
        try:
            head = self.head(split.path)
        except UnreadableFile:
            head, damaged = None, True
        if head is None:
            if damaged:
                how.lost(1.0)
                yield whole_file(split.path)
            counters.add("bytes", split.size)
            return
        with open_raw(split.path) as raw:
            if split.start:
                raw.seek(split.start)
            size = None if split.end == ALL else split.end - split.start
            moved = ReadBytes(raw, split)
            file = TextFile(raw, split.path, self.text, size, moved.tell)
            whole = file.chunks(split.first, chunk_bytes=how.chunk_bytes)
            pieces = behind(whole, head.number)
            yield from self.decode_lines(pieces, head, schema, split.path, how.over)
            moved.end()
            if file.broken:
                how.lost(1 - file.readable / split.size)
                yield whole_file(split.path)

    def decode_bytes(self, data: bytes, schema: EventSchema, source: str) -> Iterator[Decoded]:
        if data:
            yield from self._decode_all(self.framed(data), schema, source)

    def _decode_all(self, data: bytes, schema: EventSchema, source: str) -> Iterator[Decoded]:
        pieces = chunks(io.BytesIO(data).read, line_bytes=self.text.line_bytes)
        return self.decode_lines(pieces, TextHead(), schema, source)

    def decode_together(
        self, payloads: Sequence[bytes], schema: EventSchema, source: str
    ) -> tuple[list[DecodedTogether], list[int]]:
        """All lines of all messages."""
        from weir.transforms.decode.canonical import DecodedTogether

        places = list(range(len(payloads)))
        pieces = list(map(self.framed, payloads))
        pieces = [data if data.endswith(b"\n") else data + b"\n" for data in pieces]
        counts = [data.count(b"\n") for data in pieces]
        try:
            decoded = list(self._decode_all(b"".join(pieces), schema, source))
        except Exception:
            # Whatever one message led a parser to: alone, it can hurt no other.
            return [], places
        return [DecodedTogether(places, counts, 1, batch) for batch in decoded], []

    def writer(self, file: Any) -> FormatWriter:
        return LineWriter(self, file)

    def encode(self, batch: pa.RecordBatch, broken: Flags = ()) -> bytes:
        """Encodes rows as lines; the last one has no end."""
        return _with_broken(self.lines(iso_times(batch)), broken, self.text)[:-1]


class LineWriter(FormatWriter):
    """Writes lines to a file or to standard output. A broken row is a line that cannot be read."""

    def __init__(self, form: LineFormat, file: Any) -> None:
        self._form, self._file, self._text = form, file, form.text
        self._begun = False
        self._encoder = codecs.getincrementalencoder(form.text.encoding)()

    def write(self, batch: pa.RecordBatch, broken: Flags = ()) -> None:
        if not self._begun:
            self._begun = True
            self._put(self._form.header(batch))
        self._put(_with_broken(self._form.lines(batch), broken, self._text))
        self._file.flush()

    def _put(self, data: bytes) -> None:
        if data and self._text.encoding != UTF_8:
            try:
                data = self._encoder.encode(data.decode())
            except UnicodeEncodeError:
                raise ConfigError(
                    "source.encoding",
                    self._text.encoding,
                    "has not all letters of these events; feed another format, or use utf-8.",
                ) from None
        self._file.write(data)

    def close(self) -> None:
        if self._file is not sys.stdout.buffer:
            self._file.close()


def iso_times(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns a batch whose timestamps are ISO 8601 text, as every reader of lines takes them."""
    columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_timestamp(column.type):
            text = pc.strftime(column, format="%Y-%m-%dT%H:%M:%S")
            column = pc.binary_join_element_wise(text, "Z", "")
        columns[name] = column
    return pa.RecordBatch.from_pydict(columns)


def _with_broken(data: bytes, broken: Flags, text: TextForm) -> bytes:
    """Lines of which those flagged as broken are replaced."""
    if not any(broken):
        return data
    lines = data.split(b"\n")[:-1]
    if len(lines) != len(broken):  # newlines in quotes
        pieces = quoted_chunks(io.BytesIO(data).read, text.delimiter, line_bytes=len(data))
        lines = [line for piece in pieces for line in piece.lines()]
    return b"".join(
        (BROKEN if bad else line) + b"\n" for line, bad in zip(lines, broken, strict=True)
    )


def _behind_newline(file: File, at: int) -> int | None:
    """Where the first line begins that begins behind an offset; None if it is far."""
    with open_raw(file.path) as raw:
        raw.seek(at)
        rest = raw.readline(CHUNK_BYTES)
    begin = at + len(rest)
    return begin if rest.endswith(b"\n") and begin < file.size else None


def _line_runs(file: File) -> Iterator[Split]:
    """Cuts behind a newline after every SPLIT_BYTES, counting lines on the way."""
    start, first, at, line = 0, 1, 0, 1
    with open_raw(file.path) as raw:
        while block := raw.read(BLOCK):
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
