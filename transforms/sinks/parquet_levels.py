"""Small numbers as Parquet writes them: runs of one value, or bits packed beside each other.

Source: "Parquet encoding definitions", Apache Parquet, Encodings.md: run length encoding /
  bit-packing hybrid.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from transforms.sinks.thrift import varint

Numbers = NDArray[np.integer[Any]]

GROUP = 8
"""Numbers that are packed together: as many bytes as one has bits."""
WORTH = 32
"""Numbers of a run, on an average, from which on runs are written."""
MOST_RUNS = 4096
"""Each is written by itself."""


def bits_of(largest: int) -> int:
    """Bits that numbers from 0 to ``largest`` take, one at least."""
    return max(1, largest.bit_length())


def run(value: int, count: int, bits: int) -> bytes:
    """``count`` times one value."""
    return varint(count << 1) + value.to_bytes((bits + 7) // 8, "little") if count else b""


def hybrid(numbers: Numbers, bits: int) -> bytes:
    """Numbers in [0, 2^bits), bits <= 32: as runs where they are few and long, else packed."""
    n = len(numbers)
    if not n:
        return b""
    changes = numbers[1:] != numbers[:-1]
    if np.count_nonzero(changes) < min(MOST_RUNS, max(1, n // WORTH)):
        ends = np.append(np.flatnonzero(changes) + 1, n)
        values, counts = numbers[ends - 1].tolist(), np.diff(ends, prepend=0).tolist()
        return b"".join(run(*one, bits) for one in zip(values, counts, strict=True))
    return varint(-(-n // GROUP) << 1 | 1) + packed(numbers, bits)


def packed(numbers: Numbers, bits: int) -> bytes:
    """Numbers in [0, 2^bits), the lowest bits first; zeros fill up the last group."""
    groups = -(-len(numbers) // GROUP)
    words = np.zeros((-(-GROUP * bits // 64), groups), dtype=np.uint64)
    whole = len(numbers) // GROUP * GROUP
    for place in range(GROUP):
        column = numbers[place:whole:GROUP].astype(np.uint64)
        if whole < len(numbers):
            last = numbers[whole + place] if whole + place < len(numbers) else 0
            column = np.append(column, np.uint64(last))
        word, shift = divmod(place * bits, 64)
        words[word] |= column << np.uint64(shift)
        if shift + bits > 64:
            words[word + 1] |= column >> np.uint64(64 - shift)
    together = np.ascontiguousarray(words.T).astype("<u8", copy=False).view(np.uint8)
    return np.ascontiguousarray(together.reshape(groups, 8 * len(words))[:, :bits]).tobytes()


__all__ = ["bits_of", "hybrid", "packed", "run"]
