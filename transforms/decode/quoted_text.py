"""CSV whose quoted fields may hold newlines, cut into chunks of whole records.

Here a record's end follows from where it began: a quote that is never closed takes the lines behind
it with it. It takes at most ``line_bytes``, the longest record allowed; then reading goes on at the
next newline. A record that opens no quote is read alone, as everywhere. Byte order marks in front
of lines go, as everywhere; in front of those inside of a record, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.transforms.decode.lines import CHUNK_BYTES, LINE_BYTES, Chunk, without_marks

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
        found = pattern.match(data, at)
        end = found.end() if found else at
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
        found = pattern.match(data, start, min(start + line_bytes + 1, len(data)))
        at = found.end() if found else start
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
    kept = head & ~long
    full = last > starts
    returned = np.zeros(n, dtype=bool)
    returned[full] = buffer[last[full] - 1] == _RETURN
    last = last - returned
    kept = (kept & (last > starts))[:stop]
    numbers = np.arange(first, first + n, dtype=np.int64)
    used = len(data) if stop == n else int(starts[stop])
    chunk = Chunk(
        data[:used],
        starts[:stop][kept],
        last[:stop][kept],
        numbers[:stop][kept],
        numbers[:stop][(head & long)[:stop]],
    )
    lines = stop - 1 if skipping else stop
    return _Cut(chunk, lines, data[used:], skipping)


__all__ = ["holds_newlines", "quoted_chunks", "record_pattern"]
