"""Text files cut into chunks of whole lines, with a cap on the length of a line.

Nothing here ever holds more than one chunk and one line of the allowed length: a line that is too
long streams past and leaves its line number behind.

A byte order mark in front of a line is no part of it. A file may begin with one, and files that
have one may be joined; and which record is the first of a file, and so next to the mark, is up to
the records in front of it. So every line loses its mark, and none is read by where it stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.native import kernels

CHUNK_BYTES = 8 * 2**20
LINE_BYTES = 2**20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_NEWLINE, _RETURN = 10, 13
_MARKS = re.compile(rb"^(?:%b)+" % BYTE_ORDER_MARK, re.MULTILINE)


def without_marks(data: bytes) -> bytes:
    """Whole lines, or the beginning of one, without the byte order marks in front of them."""
    if BYTE_ORDER_MARK[:1] not in data or BYTE_ORDER_MARK not in data:
        return data  # the first look is the faster one
    return _MARKS.sub(b"", data)


@dataclass(frozen=True)
class Chunk:
    """Lines of a text file.

    Attributes:
      data: whole lines, without marks; only the last one of a file may lack its newline.
      starts: (n,) int64, where each line that is not blank begins in ``data``.
      ends: (n,) int64, where it ends, without newline and carriage return.
      numbers: (n,) int64, line numbers from 1.
      too_long: (m,) int64, numbers of lines over the cap; they are not among the n.
    """

    data: bytes
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    numbers: NDArray[np.int64]
    too_long: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    def line(self, i: int) -> bytes:
        """Line i of the n, without its end."""
        return self.data[self.starts[i] : self.ends[i]]

    def lines(self) -> list[bytes]:
        """All n lines, without their ends."""
        data = self.data
        return [data[a:b] for a, b in zip(self.starts.tolist(), self.ends.tolist(), strict=True)]

    def select(self, keep: NDArray[np.bool_]) -> bytes:
        """The lines that ``keep`` (n,) marks, each ended by a newline, blank lines left out."""
        kept = np.flatnonzero(keep)
        if not len(kept):
            return b""
        # Neighbours that stay are copied as one run.
        gaps = np.flatnonzero(self.starts[kept[1:]] > self.ends[kept[:-1]] + 2) + 1
        gaps = np.union1d(gaps, np.flatnonzero(np.diff(kept) > 1) + 1)
        firsts = self.starts[kept[np.concatenate([[0], gaps])]].tolist()
        lasts = self.ends[kept[np.concatenate([gaps - 1, [len(kept) - 1]])]].tolist()
        view = memoryview(self.data)
        pieces = [view[a:b] for a, b in zip(firsts, lasts, strict=True)]
        return b"\n".join(pieces) + b"\n"

    def only(self, keep: NDArray[np.bool_]) -> Chunk:
        """A chunk of the lines that ``keep`` (n,) marks and no others."""
        kept = np.flatnonzero(keep)
        starts, ends = self.starts[kept], self.ends[kept]
        pieces = [self.data[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
        stops = np.cumsum(ends - starts + 1) - 1
        data = b"\n".join(pieces) + b"\n"
        return Chunk(data, stops - (ends - starts), stops, self.numbers[kept], self.numbers[:0])

    def line_of(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Offsets into ``data`` -> index of the line they lie in; only for offsets inside lines."""
        return np.searchsorted(self.starts, offsets, side="right") - 1

    def not_utf8(self) -> NDArray[np.bool_]:
        """Which lines are not UTF-8: (n,) bool. Free for ASCII."""
        bad = np.zeros(len(self), dtype=bool)
        if self.data.isascii():
            return bad
        try:
            self.data.decode()
            return bad
        except UnicodeDecodeError:
            pass
        high = np.flatnonzero(np.frombuffer(self.data, np.uint8) >= 128)
        for i in np.unique(self.line_of(high)).tolist():
            if i < 0:
                continue
            try:
                self.line(i).decode()
            except UnicodeDecodeError:
                bad[i] = True
        return bad


def chunks(
    read: Callable[[int], bytes],
    first: int = 1,
    chunk_bytes: int = CHUNK_BYTES,
    line_bytes: int = LINE_BYTES,
) -> Iterator[Chunk]:
    """Cuts a text at newlines.

    Args:
      read: ``read(n)`` gives at most n bytes, none at the end.
      first: number of the first line.
      chunk_bytes: how much to read at a time; no result depends on it.
      line_bytes: longest line allowed, without its newline.
    """
    rest, skipping = b"", False
    while True:
        block = read(chunk_bytes)
        if skipping and block:
            at = block.find(b"\n")
            if at < 0:
                continue
            yield _skipped(first)
            first += 1
            skipping, block = False, block[at + 1 :]
            if not block:
                continue
        if not block:
            break
        cut = block.rfind(b"\n") + 1
        if cut:
            whole = b"".join((rest, memoryview(block)[:cut]))
            chunk, count = _index(whole, first, line_bytes)
            first += count
            rest = block[cut:]
            yield chunk
        else:
            rest += block
        if len(rest) > line_bytes:
            rest = without_marks(rest)
        if len(rest) > line_bytes:
            rest, skipping = b"", True
    if skipping:
        yield _skipped(first)
    elif rest:
        yield _index(rest, first, line_bytes)[0]


def of_bytes(data: bytes, line_bytes: int = LINE_BYTES) -> Chunk:
    """A text that is in memory already, as one chunk."""
    return _index(data, 1, line_bytes)[0]


def _skipped(number: int) -> Chunk:
    none = np.zeros(0, dtype=np.int64)
    return Chunk(b"", none, none, none, np.array([number], dtype=np.int64))


def _index(data: bytes, first: int, line_bytes: int) -> tuple[Chunk, int]:
    """Finds the lines of a chunk; also says how many there are, blank and long ones included."""
    data = without_marks(data)
    buffer = np.frombuffer(data, dtype=np.uint8)
    ends = _newlines(data, buffer)
    if len(data) and data[-1:] != b"\n":
        ends = np.append(ends, len(data))
    starts = np.concatenate([np.zeros(min(len(ends), 1), np.int64), ends[:-1] + 1])
    count = len(ends)
    numbers = np.arange(first, first + count, dtype=np.int64)
    sizes = ends - starts
    if _RETURN not in data and count and sizes.min() > 0 and sizes.max() <= line_bytes:
        return Chunk(data, starts, ends, numbers, numbers[:0]), count
    long, full = sizes > line_bytes, sizes > 0
    returned = np.zeros(count, dtype=bool)
    returned[full] = buffer[ends[full] - 1] == _RETURN
    ends = ends - returned
    kept = (ends > starts) & ~long
    if kept.all():
        return Chunk(data, starts, ends, numbers, numbers[:0]), count
    return Chunk(data, starts[kept], ends[kept], numbers[kept], numbers[long]), count


def _newlines(data: bytes, buffer: NDArray[np.uint8]) -> NDArray[np.int64]:
    if kernels is None:
        return np.flatnonzero(buffer == _NEWLINE)
    # Room for lines of 32 bytes: shorter ones are counted first, and looked for again.
    found = np.empty(len(data) // 32 + 1, dtype=np.int64)
    count = kernels.newlines(data, found)
    if count > len(found):
        found = np.empty(count, dtype=np.int64)
        kernels.newlines(data, found)
    return found[:count]
