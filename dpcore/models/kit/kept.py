"""Rows that are kept for fits: packed and exact, within a public limit or block by block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.leaves.rows import RowLeaf, grouped
from weir.dpcore.leaves.sparse_rows import PackedRows, SparseRows
from weir.dpcore.models.kit.rows import STEP, is_void
from weir.dpcore.noise.noise import Noise

Dense = NDArray[np.int32]
Packed = Dense | PackedRows
"""(N, width) int32, features then target; or the same packed. Of one program always the same."""

VOID = -(2**31)
"""The target of a dense packed row that is void."""


def packed(leaf: RowLeaf) -> Packed:
    """Rows of a leaf, whole multiples of ``STEP`` in [-1, 1], as states hold them: exact."""
    if isinstance(leaf.rows, SparseRows):
        return leaf.rows.packed
    rows = np.asarray(leaf.rows, dtype=np.float64) * (1.0 / STEP)
    rows[is_void(rows), -1] = VOID
    return np.rint(rows).astype(np.int32)


def nothing(width: int, sparse: bool = False) -> Packed:
    """No rows."""
    return PackedRows.empty() if sparse else np.zeros((0, width), dtype=np.int32)


def count(rows: Packed) -> int:
    """N."""
    return len(rows.targets) if isinstance(rows, PackedRows) else len(rows)


def some(rows: Packed, which: Any) -> Packed:
    """Some of the rows: by slice, mask or places."""
    if not isinstance(rows, PackedRows):
        dense: Dense = rows[which]
        return dense
    # Their width does not matter here: no place is looked at.
    result = SparseRows.from_packed(rows, 0)[which]
    lengths = result.lengths.astype(np.int32)
    return PackedRows(lengths, result.indices, result.values, rows.targets[which])


def joined(parts: Sequence[Packed]) -> Packed:
    """One part after the other."""
    if isinstance(parts[0], PackedRows):
        return PackedRows(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    return np.concatenate(parts)


def void(rows: Packed) -> NDArray[np.bool_]:
    """(N,) which rows are void."""
    result: NDArray[np.bool_]
    result = np.isnan(rows.targets) if isinstance(rows, PackedRows) else rows[:, -1] == VOID
    return result


def words_of(leaf: RowLeaf) -> NDArray[np.int64]:
    """All that rows say, as whole numbers: (N, w), of sparse rows their digests."""
    if isinstance(leaf.rows, SparseRows):
        return leaf.rows.digests().view(np.int64)
    rows = packed(leaf)
    assert not isinstance(rows, PackedRows)
    return rows.astype(np.int64)


class Prefix(NamedTuple):
    """Rows of K keys. Joining two blocks of keys joins each array.

    A limit keeps, of a key's rows so far, the R smallest in (keyed id hash, arrival): a sample that
    nobody without the secret can steer, and the same whenever it is cut down, since the R smallest
    of a union are among the R smallest of each part.

    **Formal guarantees**: where two streams' capped leaves differ in one row swapped for another
    (or one more), what is kept of any prefix differs in at most one row swapped (or one more): with
    C the rows in common, both keep the R - 1 smallest of C and one row more. Ranks depend on a
    row's own hash and place only, so no other row moves.

    Attributes:
      counts: (K,) int64, rows of each key.
      rows: N, key after key, in order of arrival: (N, width) int32 in units of ``STEP``, or packed
        where they are sparse; exact.
      hashes: (N, 2) uint64, keyed hash of each row's event.
    """

    counts: Ints
    rows: Packed
    hashes: Digests

    @classmethod
    def empty(cls, n_keys: int, width: int, sparse: bool = False) -> Prefix:
        """No rows."""
        hashes = np.zeros((0, 2), dtype=np.uint64)
        return cls(np.zeros(n_keys, dtype=np.int64), nothing(width, sparse), hashes)

    @property
    def emptied(self) -> Prefix:
        """The same keys without rows."""
        none = slice(0, 0)
        return Prefix(np.zeros_like(self.counts), some(self.rows, none), self.hashes[none])

    @property
    def keys(self) -> Ints:
        """(N,), key of each row."""
        return np.repeat(np.arange(len(self.counts), dtype=np.int64), self.counts)

    def with_rows(self, leaves: Sequence[RowLeaf], limit: int, users: bool = False) -> Prefix:
        """These rows and those of later ticks, in order, each key within the limit: of rows, or of
        users, whose hash all rows of theirs have."""
        leaves = [leaf for leaf in leaves if len(leaf.rows)]
        if not leaves:
            return self
        return self._with(
            np.concatenate([self.keys, *(leaf.keys for leaf in leaves)]),
            joined([self.rows, *(packed(leaf) for leaf in leaves)]),
            np.concatenate([self.hashes, *(leaf.id_hash for leaf in leaves)]),
            limit,
            users,
        )

    def joined(self, later: Prefix, limit: int) -> Prefix:
        """These rows and, of the same keys, those that came after them, within the limit."""
        if not count(later.rows):
            return self
        return self._with(
            np.concatenate([self.keys, later.keys]),
            joined([self.rows, later.rows]),
            np.concatenate([self.hashes, later.hashes]),
            limit,
        )

    def _with(
        self, keys: Ints, rows: Packed, hashes: Digests, limit: int, users: bool = False
    ) -> Prefix:
        """Rows in order of arrival, as a prefix of the same keys."""
        order = np.argsort(keys, kind="stable")
        counts = np.bincount(keys, minlength=len(self.counts))
        if (counts > limit).any():
            if users:
                order = order[of_smallest(keys[order], hashes[order], limit)]
            else:
                order = order[smallest(keys[order], hashes[order], counts, limit)]
            counts = np.bincount(keys[order], minlength=len(self.counts))
        return Prefix(counts, some(rows, order), hashes[order])


def smallest(keys: Ints, hashes: Digests, counts: Ints, limit: int) -> NDArray[np.bool_]:
    """Which rows stay: the ``limit`` smallest hashes of each key, earlier rows first in a tie.

    keys: (N,) not decreasing. counts: (K,), rows of each. -> (N,).
    """
    crowded = np.flatnonzero((counts > limit)[keys])
    own = keys[crowded]
    order = np.lexsort((hashes[crowded, 1], hashes[crowded, 0], own))
    ranked = own[order]
    rank = np.arange(len(ranked)) - np.searchsorted(ranked, ranked)
    keep = np.ones(len(keys), dtype=bool)
    keep[crowded[order[rank >= limit]]] = False
    return keep


def of_smallest(keys: Ints, hashes: Digests, limit: int) -> NDArray[np.bool_]:
    """Which rows stay: all rows of the ``limit`` smallest hashes of each key. keys, hashes: (N,),
    (N, 2) -> (N,)."""
    order, starts = grouped(keys, hashes)
    own = keys[order[starts]]
    rank = np.arange(len(own)) - np.searchsorted(own, own)
    keep = np.empty(len(order), dtype=bool)
    keep[order] = np.repeat(rank < limit, np.diff(starts, append=len(order)))
    return keep


def row_digests(leaves: Sequence[RowLeaf], noise: Noise) -> Digests:
    """Digest of what each key gathered in each tick: (n, K, 2) uint64, 0 where that is nothing.

    The XOR of keyed digests of (tick, place in the key's canonical order, id hash, row, or the
    digest of a sparse row): all that a run depends on. Places keep equal rows from cancelling. Two
    different streams differ in a non-empty set of these, whose digests are independent and uniform,
    so that the XOR over a prefix is the same with probability 2^-128.

    Args:
      leaves: of n ticks, of the same K keys. noise: keyed, of the stride's first tick.
    """
    n_keys = leaves[0].n_keys
    out = np.zeros((len(leaves), n_keys, 2), dtype=np.uint64)
    some = [i for i, leaf in enumerate(leaves) if len(leaf.rows)]
    if not some:
        return out
    words = np.concatenate([_words(leaves[i], noise.first_tick + i) for i in some])
    digests = noise.at(0).leaf_digests(words[None])[0]
    cells = np.concatenate([leaves[i].keys + i * n_keys for i in some])
    first = np.flatnonzero(np.diff(cells, prepend=-1))
    out.reshape(-1, 2)[cells[first]] = np.bitwise_xor.reduceat(digests, first, axis=0)
    return out


def _words(leaf: RowLeaf, tick: int) -> Ints:
    """(N, 4 + w) int64; the first word, tick + 1, is never 0."""
    own = words_of(leaf)
    words = np.empty((len(own), 4 + own.shape[1]), dtype=np.int64)
    words[:, 0] = tick + 1
    words[:, 1] = np.arange(len(leaf.rows)) - leaf.offsets[leaf.keys]
    words[:, 2:4] = leaf.id_hash.view(np.int64)
    words[:, 4:] = own
    return words


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
        result = np.multiply(said, STEP, dtype=np.float64)
        return result[:, :-1], result[:, -1]

    def weighed(
        self, key: int, first: int, last: int, sample: NDArray[np.bool_] | None = None
    ) -> tuple[Floats, Floats, Floats]:
        """The same of dense rows that begin with how many share their weight; and their weights
        (n,)."""
        said = self._said(key, first, last, sample)
        assert not isinstance(said, PackedRows)
        result = np.multiply(said[:, 1:], STEP, dtype=np.float64)
        return result[:, :-1], result[:, -1], 1.0 / said[:, 0]

    def _said(self, key: int, first: int, last: int, sample: NDArray[np.bool_] | None) -> Packed:
        start = int(self.counts[:key].sum())
        blocks = self.blocks[start : start + int(self.counts[key])]
        begin, end = np.searchsorted(blocks, [first, last + 1]).tolist()
        rows = some(self.rows, slice(start + begin, start + end))
        said = ~void(rows)
        if sample is not None:
            said &= sample
        return rows if said.all() else some(rows, said)
