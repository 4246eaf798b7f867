"""The text of a file: unpacked, as UTF-8, whatever it is stored as; and signs that it is none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from weir.transforms.decode.encoding import UTF_8, Recoded, TextForm
from weir.transforms.decode.lines import Chunk, chunks, quoted_chunks
from weir.transforms.formats.stored import is_broken_archive, is_compressed, unpacked
from weir.transforms.runtime.files import open_raw

_LONG = 2**12
"""Bytes of a first line that tell what a text is."""
_BEGIN = 2**13
_STEP = 2**16
"""Bytes unpacked at a time: damage may take these along, whatever is asked for."""

_XML = "XML or HTML; save it as NDJSON or CSV"
_ALONE = "lines that end in carriage returns alone; make them newlines: tr '\\r' '\\n' < OLD > NEW"
_TWICE = "lines that end in two carriage returns; remove them: tr -d '\\r' < OLD > NEW"
_ARRAY = "one JSON array; save it as NDJSON, one object a line"
OVER_LINES = "JSON objects over several lines; write one object a line, like `jq -c . FILE`"


class TextFile:
    """Reads a file, or a part of it that begins behind a newline.

    Args:
      raw: as stored, at the part's beginning. path: says how it is compressed.
      form: how it is written.
      size: stored bytes of the part; None goes to the end.
      moved: called after each read.

    Attributes:
      broken: a compressed file turned out to be damaged: its text ends early, with its last
        whole line.
    """

    def __init__(
        self,
        raw: BinaryIO,
        path: str,
        form: TextForm,
        size: int | None = None,
        moved: Callable[[], None] = lambda: None,
    ) -> None:
        self.broken = False
        self._raw = raw
        self._at = self._before = raw.tell()
        self._file: Any = unpacked(raw, path)
        self._packed = is_compressed(path)
        self._ahead = b""
        self._left = size
        self._moved = moved
        self._form = form
        self.read: Callable[[int], bytes] = self._stored
        if form.encoding != UTF_8:
            self.read = Recoded(self._stored, form.encoding, form.line_bytes).read

    def chunks(self, first: int, **sizes: int) -> Iterator[Chunk]:
        """Chunks of lines, or of records where quoted fields may hold newlines.

        Args:
          first: number of the first line. sizes: ``chunk_bytes``, for tests and short looks.
        """
        cap = self._form.line_bytes
        if self._form.quoted_newlines:
            result = quoted_chunks(self.read, self._form.delimiter, first, line_bytes=cap, **sizes)
        else:
            result = chunks(self.read, first, line_bytes=cap, **sizes)
        for chunk in result:
            yield _without_cut_line(chunk) if self.broken else chunk

    @property
    def readable(self) -> int:
        """Stored bytes in front of the block that the last text came from: of a damaged file, those
        that are known to be whole. Where in the block the damage lies nobody can say."""
        return self._before

    def _stored(self, n: int) -> bytes:
        if self._packed:
            return self._unpack(n)
        data: bytes = self._file.read(n if self._left is None else min(n, self._left))
        if self._left is not None:
            self._left -= len(data)
        if data:
            self._moved()
        return data

    def _unpack(self, n: int) -> bytes:
        pieces, size = [self._ahead], len(self._ahead)
        while size < n and not self.broken:
            try:
                piece = self._file.read1(_STEP)
            except Exception as error:
                if not is_broken_archive(error):
                    raise
                self.broken, piece = True, b""
            if not piece:
                break
            if self._at < (now := self._raw.tell()):
                self._before, self._at = self._at, now
            pieces.append(piece)
            size += len(piece)
            self._moved()
        data = b"".join(pieces)
        self._ahead = data[n:]
        return data[:n]


def _without_cut_line(chunk: Chunk) -> Chunk:
    """Leaves out a last line without a newline: damage cut it, and half a number is a number."""
    if not len(chunk) or chunk.data[chunk.ends[-1] :].strip(b"\r"):
        return chunk
    cut = int(chunk.starts[-1])
    return replace(
        chunk,
        data=chunk.data[:cut],
        starts=chunk.starts[:-1],
        ends=chunk.ends[:-1],
        numbers=chunk.numbers[:-1],
    )


class First(NamedTuple):
    """The first lines of a text that are not blank.

    Attributes:
      lines: without their ends, in UTF-8 as far as they could be decoded.
      numbers: of these lines, from 1.
      too_long: the text begins with a line over the cap; only its number is there.
      broken: the text is damaged.
    """

    lines: tuple[bytes, ...]
    numbers: tuple[int, ...]
    too_long: bool
    broken: bool


def first_lines(path: str, form: TextForm, count: int = 1) -> First:
    """Looks at the beginning of a text: its first lines, or records with newlines in quotes."""
    results: list[bytes] = []
    numbers: list[int] = []
    with open_raw(path) as raw:
        text = TextFile(raw, path, form)
        for chunk in text.chunks(1, chunk_bytes=_BEGIN):
            if (
                not results
                and len(chunk.too_long)
                and not any(line.strip() for line in chunk.lines())
            ):
                return First((), (int(chunk.too_long[0]),), True, text.broken)
            for line, at in zip(chunk.lines(), chunk.numbers.tolist(), strict=True):
                if results or line.strip():
                    results.append(line)
                    numbers.append(at)
            if len(results) >= count:
                break
        return First(tuple(results[:count]), tuple(numbers[:count]), False, text.broken)


def first_line(path: str, form: TextForm) -> bytes:
    """The first line of a text that is not blank, or its beginning where it is longer."""
    result = first_lines(path, form._replace(quoted_newlines=False))
    if result.lines:
        return result.lines[0][:_LONG]
    if not result.too_long:
        return b""
    with open_raw(path) as raw:
        return TextFile(raw, path, form).read(_LONG).lstrip().partition(b"\n")[0]


def behind(pieces: Iterator[Chunk], number: int) -> Iterator[Chunk]:
    """Chunks without the lines up to a number."""
    for chunk in pieces:
        at = int(np.searchsorted(chunk.numbers, number, side="right"))
        if not at:
            yield chunk
            continue
        cut = int(chunk.starts[at]) if at < len(chunk) else len(chunk.data)
        yield Chunk(
            chunk.data[cut:],
            chunk.starts[at:] - cut,
            chunk.ends[at:] - cut,
            chunk.numbers[at:],
            chunk.too_long[chunk.too_long > number],
        )


def kind_of_text(start: bytes, form: str, header: bool = False) -> str | None:
    """As ``kind_of``, of a text once it is unpacked and decoded.

    header: whether CSV begins with one, which is no event: carriage returns in it are looked at.
    """
    text = start.lstrip(b" \t\r\n")
    if b"\x00" in start:
        return "binary data; text is needed"
    if text.startswith(b"<") and (text[1:2] in b"?!" or not any(item in text for item in b",;\t|")):
        return _XML  # a header may begin so too, but then names follow
    if text.startswith(b"[{") or (form == "ndjson" and text.startswith(b"[")):
        return _ARRAY
    if form == "csv" and text.startswith(b'{"'):
        return "JSON; write source: {ndjson: ...}"
    return returns_of(start, form) if header and form == "csv" else None


def begins_over_lines(lines: Sequence[bytes]) -> bool:
    """Whether a text begins with a JSON object of several lines.

    Args:
      lines: the first ones that are not blank.
    """
    first = lines[0].strip() if lines else b""
    if first == b"{" or not first.startswith(b"{"):
        return first == b"{"
    try:
        text = b"\n".join(lines).decode(errors="replace")
        _, end = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return False
    return "\n" in text.lstrip()[:end]


def returns_of(line: bytes, form: str) -> str | None:
    """What to do where carriage returns end lines in place of newlines; None where they do not. In
    JSON they may stand within a line.

    Args:
      line: the first, or its beginning. form: csv or ndjson.
    """
    text = line.lstrip()
    at = text.find(b"\r")
    if at < 0 or text[:at].count(b'"') % 2:
        return None
    rest = text[at:].lstrip(b"\r")
    if form == "csv":
        return _ALONE if rest else _TWICE
    return _ALONE if text[at - 1 : at] == b"}" and rest.startswith(b"{") else None
