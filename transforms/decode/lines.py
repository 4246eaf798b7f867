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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.native import kernels

CHUNK_BYTES = 8 * 2**20
LINE_BYTES = 2**20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

FEW = 1000
"""Bytes like the first of a mark that are looked at one by one."""
_NEWLINE, _RETURN = 10, 13
_OTHERS = bytes([_RETURN, BYTE_ORDER_MARK[0]])
_MARKS = re.compile(rb"^(?:%b)+" % BYTE_ORDER_MARK, re.MULTILINE)


def without_marks(data: bytes) -> bytes:
    """Whole lines, or the beginning of one, without the byte order marks in front of them."""
    return _MARKS.sub(b"", data) if _holds_marks(data) else data


def _holds_marks(data: bytes) -> bool:
    at = data.find(BYTE_ORDER_MARK[:1])  # ten times as fast as a look for the whole of it
    for _ in range(FEW):
        if at < 0 or data.startswith(BYTE_ORDER_MARK, at):
            return at >= 0
        at = data.find(BYTE_ORDER_MARK[:1], at + 1)
    return at >= 0 and data.find(BYTE_ORDER_MARK, at) >= 0


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
        retained = np.flatnonzero(keep)
        if not len(retained):
            return b""
        # Neighbours that stay are copied as one run.
        gaps = np.flatnonzero(self.starts[retained[1:]] > self.ends[retained[:-1]] + 2) + 1
        gaps = np.union1d(gaps, np.flatnonzero(np.diff(retained) > 1) + 1)
        firsts = self.starts[retained[np.concatenate([[0], gaps])]].tolist()
        lasts = self.ends[retained[np.concatenate([gaps - 1, [len(retained) - 1]])]].tolist()
        view = memoryview(self.data)
        pieces = [view[a:b] for a, b in zip(firsts, lasts, strict=True)]
        return b"\n".join(pieces) + b"\n"

    def only(self, keep: NDArray[np.bool_]) -> Chunk:
        """A chunk of the lines that ``keep`` (n,) marks and no others."""
        retained = np.flatnonzero(keep)
        starts, ends = self.starts[retained], self.ends[retained]
        pieces = [self.data[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
        stops = np.cumsum(ends - starts + 1) - 1
        data = b"\n".join(pieces) + b"\n"
        return Chunk(data, stops - (ends - starts), stops, self.numbers[retained], self.numbers[:0])

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
    ends, returns, marks = _looked_at(data)
    if marks and (clean := without_marks(data)) is not data:
        data = clean
        ends, returns, _ = _looked_at(data)
    buffer = np.frombuffer(data, dtype=np.uint8)
    if len(data) and data[-1:] != b"\n":
        ends = np.append(ends, len(data))
    starts = np.concatenate([np.zeros(min(len(ends), 1), np.int64), ends[:-1] + 1])
    count = len(ends)
    numbers = np.arange(first, first + count, dtype=np.int64)
    sizes = ends - starts
    plain = count and sizes.min() > 0 and sizes.max() <= line_bytes
    if plain and (not returns or not (buffer[ends - 1] == _RETURN).any()):
        return Chunk(data, starts, ends, numbers, numbers[:0]), count
    long, full = sizes > line_bytes, sizes > 0
    returned = np.zeros(count, dtype=bool)
    returned[full] = buffer[ends[full] - 1] == _RETURN
    ends = ends - returned
    retained = (ends > starts) & ~long
    if retained.all():
        return Chunk(data, starts, ends, numbers, numbers[:0]), count
    return Chunk(data, starts[retained], ends[retained], numbers[retained], numbers[long]), count


def _looked_at(data: bytes) -> tuple[NDArray[np.int64], bool, bool]:
    """Where newlines are; whether a carriage return is there, and the first byte of a mark."""
    if kernels is None:
        ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == _NEWLINE)
        return ends, _RETURN in data, BYTE_ORDER_MARK[0] in data
    # Room for lines of 32 bytes: shorter ones are counted first, and looked for again.
    result, seen = np.empty(len(data) // 32 + 1, dtype=np.int64), np.zeros(2, dtype=np.bool_)
    count = kernels.newlines(data, result, _OTHERS, seen)
    if count > len(result):
        result = np.empty(count, dtype=np.int64)
        kernels.newlines(data, result, _OTHERS, seen)
    return result[:count], bool(seen[0]), bool(seen[1])


_QUOTE, _NEWLINE, _RETURN = 34, 10, 13

Ints = NDArray[np.int64]


def record_pattern(delimiter: str) -> re.Pattern[bytes]:
    """Matches a record as far as its newline, or as far as a quote that is left open."""
    mark = re.escape(delimiter.encode())
    quoted = rb'"[^"]*+(?:""[^"]*+)*+"(?!")[^%b\n]*+' % mark
    field = rb'(?:%b|[^"%b\n][^%b\n]*+|)' % (quoted, mark, mark)
    return re.compile(rb"%b(?:%b%b)*+" % (field, mark, field))


def holds_newlines(data: bytes, delimiter: str) -> bool:
    """Whether a quoted field among the first records of a text is closed behind a newline.

    Args:
      data: the beginning of a file, from the first byte of a record on.
    """
    pattern = record_pattern(delimiter)
    at = 0
    while at < len(data):
        result = pattern.match(data, at)
        end = result.end() if result else at
        if data[end : end + 1] == b"\n" and b"\n" in data[at:end]:
            return True
        at = data.find(b"\n", end) + 1 or len(data)
    return False


def quoted_chunks(
    read: Callable[[int], bytes],
    delimiter: str,
    first: int = 1,
    chunk_bytes: int = CHUNK_BYTES,
    line_bytes: int = LINE_BYTES,
) -> Iterator[Chunk]:
    """As ``text.chunks``, of records; a record's number is that of its first line.

    Args:
      read: ``read(n)`` gives at most n bytes, none at the end.
      delimiter: one character.
      first: number of the first line.
      chunk_bytes: how much to read at a time; no result depends on it.
      line_bytes: longest record allowed, without its newline.
    """
    pattern = record_pattern(delimiter)
    rest, skipping = b"", False
    while True:
        block = read(chunk_bytes)
        if skipping and block:
            at = block.find(b"\n")
            if at < 0:
                continue
            first += 1
            skipping, block = False, block[at + 1 :]
            if not block:
                continue
        if skipping:
            return
        data = without_marks(rest + block)
        cut = _cut(data, first, pattern, ord(delimiter), line_bytes, not block)
        first += cut.lines
        rest, skipping = cut.rest, cut.skipping
        yield cut.chunk
        if not block:
            return


class _Cut(NamedTuple):
    """A chunk; newlines in it; what is left for the next; whether to look for a newline first."""

    chunk: Chunk
    lines: int
    rest: bytes
    skipping: bool


def _to_match(buffer: NDArray[np.uint8], ends: Ints, delimiter: int) -> Ints:
    """Lines whose quotes have to be looked at one by one.

    In all others each quote that opens a field has a delimiter or a newline in front, and the next
    one has such behind it: they close what they open. Most quoted lines are like that.
    """
    quotes = np.flatnonzero(buffer == _QUOTE)
    lines = np.searchsorted(ends, quotes)
    order = np.arange(len(quotes)) - np.searchsorted(lines, lines)
    around = np.concatenate([[_NEWLINE], buffer, [_QUOTE]])
    before, behind = around[quotes], around[quotes + 2]
    opens = (before == delimiter) | (before == _NEWLINE)
    closes = (behind == delimiter) | (behind == _NEWLINE) | (behind == _RETURN)
    plain = np.where(order % 2 == 0, opens, closes)
    last = np.append(lines[1:] != lines[:-1], True) if len(lines) else np.zeros(0, dtype=bool)
    return np.unique(lines[~plain | (last & (order % 2 == 0))])


def _cut(
    data: bytes,
    first: int,
    pattern: re.Pattern[bytes],
    delimiter: int,
    line_bytes: int,
    ended: bool,
) -> _Cut:
    buffer = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(buffer == _NEWLINE)
    partial = bool(data) and data[-1] != _NEWLINE
    if partial:
        ends = np.append(ends, len(data))
    n = len(ends)
    starts = np.concatenate([np.zeros(min(n, 1), np.int64), ends[:-1] + 1])
    whole = n - 1 if partial and not ended else n
    head = np.ones(n, dtype=bool)
    long = ends - starts > line_bytes
    last = ends.copy()
    stop, cursor, skipping = whole, 0, False
    for place in _to_match(buffer, ends, delimiter).tolist():
        if place < cursor:
            continue
        start = int(starts[place])
        result = pattern.match(data, start, min(start + line_bytes + 1, len(data)))
        at = result.end() if result else start
        end = int(np.searchsorted(ends, at))
        if end >= whole or ends[end] != at:
            if len(data) - start > line_bytes:
                long[place] = True
                end = int(np.searchsorted(ends, start + line_bytes))
                skipping = end >= whole
            elif ended:
                end = n - 1
            else:
                stop = place
                break
        head[place + 1 : end + 1] = False
        last[place] = ends[end]
        cursor = end + 1
    if partial and not ended and not skipping and stop == whole:
        skipping = bool(long[-1])
    stop = n if skipping else stop
    long |= last - starts > line_bytes
    retained = head & ~long
    full = last > starts
    returned = np.zeros(n, dtype=bool)
    returned[full] = buffer[last[full] - 1] == _RETURN
    last = last - returned
    retained = (retained & (last > starts))[:stop]
    numbers = np.arange(first, first + n, dtype=np.int64)
    used = len(data) if stop == n else int(starts[stop])
    chunk = Chunk(
        data[:used],
        starts[:stop][retained],
        last[:stop][retained],
        numbers[:stop][retained],
        numbers[:stop][(head & long)[:stop]],
    )
    lines = stop - 1 if skipping else stop
    return _Cut(chunk, lines, data[used:], skipping)
