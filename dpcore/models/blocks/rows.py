"""Rows of complete blocks, packed: what waits for fits, and no longer."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.leaves.sparse_rows import PackedRows, SparseRows
from weir.dpcore.models.erm.packed import Packed, joined, nothing, some, void
from weir.dpcore.models.scaling import STEP


class BlockRows(NamedTuple):
    """Rows of K keys. Joining two groups of keys joins each array.

    Attributes:
      counts: (K,) int64, rows of each key.
      rows: N, key after key and block after block: (N, width) int32 in units of ``STEP``, or packed
        where they are sparse; exact. Where users are the unit, one number more, before them: how
        many rows share a weight of 1.
      blocks: (N,) int64, the block of its key that each row is in.
    """

    counts: Ints
    rows: Packed
    blocks: Ints

    @classmethod
    def empty(cls, n_keys: int, width: int, sparse: bool = False) -> BlockRows:
        """No rows."""
        zeros = np.zeros(n_keys, dtype=np.int64)
        return cls(zeros, nothing(width, sparse), np.zeros(0, dtype=np.int64))

    @property
    def keys(self) -> Ints:
        """(N,), key of each row."""
        return np.repeat(np.arange(len(self.counts), dtype=np.int64), self.counts)

    def joined(self, later: BlockRows, oldest: Ints) -> BlockRows:
        """These rows and, of the same keys, those of later blocks; without blocks before
        ``oldest`` (K,)."""
        both = self._since(oldest), later._since(oldest)
        parts = [part for part in both if len(part.blocks)]
        if not parts:
            return both[0]
        if len(parts) == 1:
            return parts[0]
        counts = parts[0].counts + parts[1].counts
        blocks = np.concatenate([part.blocks for part in parts])
        rows = joined([part.rows for part in parts])
        if len(counts) == 1:
            return BlockRows(counts, rows, blocks)
        order = np.argsort(np.concatenate([part.keys for part in parts]), kind="stable")
        return BlockRows(counts, some(rows, order), blocks[order])

    def _since(self, oldest: Ints) -> BlockRows:
        """Without blocks before ``oldest`` (K,); no copy where nothing goes."""
        keys = self.keys
        stay = self.blocks >= oldest[keys]
        if stay.all():
            return self
        counts = np.bincount(keys[stay], minlength=len(self.counts))
        if len(counts) == 1:  # block after block: what stays is the end
            last = slice(len(stay) - int(counts[0]), None)
            return BlockRows(counts, some(self.rows, last), self.blocks[last])
        return BlockRows(counts, some(self.rows, stay), self.blocks[stay])

    def of(
        self,
        key: int,
        first: int,
        last: int,
        width: int,
        sample: NDArray[np.bool_] | None = None,
    ) -> tuple[Any, Floats]:
        """Features and targets (n,) of one key's blocks first .. last, both included: the rows that
        say something (not void), of those in the sample.

        Args:
          width: numbers in a row, the target among them.
          sample: which of the rows, void ones among them; None: all.

        Returns:
          Features (n, width - 1), an array, or scipy's csr_array where rows are packed.
        """
        said = self._said(key, first, last, sample)
        if isinstance(said, PackedRows):
            targets = said.targets.astype(np.float64)
            return SparseRows.from_packed(said, width - 1).csr, targets
        found = np.multiply(said, STEP, dtype=np.float64)
        return found[:, :-1], found[:, -1]

    def weighed(
        self, key: int, first: int, last: int, sample: NDArray[np.bool_] | None = None
    ) -> tuple[Floats, Floats, Floats]:
        """The same of dense rows that begin with how many share their weight; and their weights
        (n,)."""
        said = self._said(key, first, last, sample)
        assert not isinstance(said, PackedRows)
        found = np.multiply(said[:, 1:], STEP, dtype=np.float64)
        return found[:, :-1], found[:, -1], 1.0 / said[:, 0]

    def _said(self, key: int, first: int, last: int, sample: NDArray[np.bool_] | None) -> Packed:
        start = int(self.counts[:key].sum())
        blocks = self.blocks[start : start + int(self.counts[key])]
        begin, end = np.searchsorted(blocks, [first, last + 1]).tolist()
        rows = some(self.rows, slice(start + begin, start + end))
        said = ~void(rows)
        if sample is not None:
            said &= sample
        return rows if said.all() else some(rows, said)
