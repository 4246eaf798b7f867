"""Events of users in many small parts, where every step is in this process: each part fits into the
processor's cache when its turn comes, and none is copied on the way."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weir.transforms.operators.hash_partition import joined

PARTS: Final = 256
"""By the last byte of the hash of a user."""
TOGETHER: Final = 1 << 19
"""Events that are sifted at a time."""
WORKED_ON: Final = 1 << 17
"""Events that are worked on at a time, if they are of several parts."""


class Sifted(NamedTuple):
    """Some events, part by part.

    Attributes:
      batch: they. bounds: (PARTS + 1,) where each part begins, and where the last ends.
    """

    batch: pa.RecordBatch
    bounds: NDArray[np.int64]

    def between(self, first: int, stop: int) -> pa.RecordBatch:
        """Events of parts [first, stop)."""
        low, high = self.bounds[[first, stop]].tolist()
        return self.batch.slice(low, high - low)


class Sieve:
    """Gathers batches until there are enough to be sifted together.

    Args:
      by: column of uint64, hashes by which events belong to parts.
    """

    def __init__(self, by: str) -> None:
        self._by = by
        self._held: list[pa.RecordBatch] = []
        self._rows = 0
        self._sifted: list[Sifted] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes a batch of one row or more."""
        self._held.append(batch)
        self._rows += batch.num_rows
        if self._rows >= TOGETHER:
            self._sift()

    def empty(self) -> list[Sifted]:
        """All that came since it was last empty."""
        if self._held:
            self._sift()
        found, self._sifted = self._sifted, []
        return found

    def _sift(self) -> None:
        whole = joined(self._held)
        self._held, self._rows = [], 0
        part = whole.column(self._by).to_numpy().astype(np.uint8)
        bounds = np.zeros(PARTS + 1, dtype=np.int64)
        np.cumsum(np.bincount(part, minlength=PARTS), out=bounds[1:])
        order = pa.array(np.argsort(part, kind="stable"))
        self._sifted.append(Sifted(whole.take(order), bounds))


def parts_of(sifted: Sequence[Sifted]) -> Iterator[pa.RecordBatch]:
    """All events, those of a part in one batch; small parts together."""
    sizes = np.sum([np.diff(one.bounds) for one in sifted], axis=0)
    for first, stop in runs(sizes.tolist(), WORKED_ON):
        pieces = [one.between(first, stop) for one in sifted]
        yield joined([piece for piece in pieces if piece.num_rows])


def runs(sizes: Sequence[int], enough: int) -> Iterator[tuple[int, int]]:
    """Runs [first, stop) of parts: of ``enough`` events at most, or a single part; none empty."""
    first, held = 0, 0
    for stop, size in enumerate(itertools.chain(sizes, [enough])):
        if held and (held + size > enough or stop == len(sizes)):
            yield first, stop
            first, held = stop, 0
        held += size
