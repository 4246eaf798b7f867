"""The text of a file: unpacked, as UTF-8, whatever it is stored as."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from weir.transforms.decode.encoding import UTF_8, Recoded
from weir.transforms.decode.lines import Chunk, chunks
from weir.transforms.decode.quoted_text import quoted_chunks
from weir.transforms.decode.text_form import TextForm
from weir.transforms.sources import matching

_LONG = 2**12
"""Bytes of a first line that tell what a text is."""
_BEGIN = 2**13
_STEP = 2**16
"""Bytes unpacked at a time: damage may take these along, whatever is asked for."""


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
        self._file: Any = matching.unpacked(raw, path)
        self._packed = matching.is_compressed(path)
        self._ahead = b""
        self._left = size
        self._moved = moved
        self._form = form
        self.read: Callable[[int], bytes] = self._stored
        if form.encoding != UTF_8:
            self.read = Recoded(self._stored, form.encoding, form.line_bytes).read

    def chunks(self, first: int, quoted: bool, **sizes: int) -> Iterator[Chunk]:
        """Chunks of lines, or of records where quoted fields may hold newlines.

        Args:
          first: number of the first line.
          quoted: whether the text is CSV. sizes: ``chunk_bytes``, for tests and short looks.
        """
        cap = self._form.line_bytes
        if quoted and self._form.quoted_newlines:
            found = quoted_chunks(self.read, self._form.delimiter, first, line_bytes=cap, **sizes)
        else:
            found = chunks(self.read, first, line_bytes=cap, **sizes)
        for chunk in found:
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
                if not matching.is_broken_archive(error):
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


def first_lines(path: str, form: TextForm, count: int = 1, quoted: bool = False) -> First:
    """Looks at the beginning of a text."""
    found: list[bytes] = []
    numbers: list[int] = []
    with matching.open_raw(path) as raw:
        text = TextFile(raw, path, form)
        for chunk in text.chunks(1, quoted, chunk_bytes=_BEGIN):
            if (
                not found
                and len(chunk.too_long)
                and not any(line.strip() for line in chunk.lines())
            ):
                return First((), (int(chunk.too_long[0]),), True, text.broken)
            for line, at in zip(chunk.lines(), chunk.numbers.tolist(), strict=True):
                if found or line.strip():
                    found.append(line)
                    numbers.append(at)
            if len(found) >= count:
                break
        return First(tuple(found[:count]), tuple(numbers[:count]), False, text.broken)


def first_line(path: str, form: TextForm) -> bytes:
    """The first line of a text that is not blank, or its beginning where it is longer."""
    found = first_lines(path, form)
    if found.lines:
        return found.lines[0][:_LONG]
    if not found.too_long:
        return b""
    with matching.open_raw(path) as raw:
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


__all__ = ["First", "TextFile", "behind", "first_line", "first_lines"]
