"""The rows that each key has gathered so far: packed, within a public limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Digests, Ints
from weir.dpcore.leaves.rows import RowLeaf, grouped
from weir.dpcore.models.erm.packed import (
    VOID,
    Dense,
    Packed,
    count,
    joined,
    nothing,
    packed,
    some,
    words_of,
)
from weir.dpcore.models.gradients import Gradients
from weir.dpcore.models.scaling import STEP
from weir.dpcore.models.solvers.design import Design
from weir.dpcore.noise.noise import Noise


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

    def design(self, gradients: Gradients) -> Design:
        """As floats, for a solver: the rows that have a gradient. Void ones have taken their place
        within cap and limit, and are in no sum and no count: that swaps, adds or removes one row.
        """
        dense = cast(Dense, self.rows)
        said = dense[:, -1] != VOID
        rows = np.multiply(dense[said], STEP, dtype=np.float64)
        return Design.of(self.keys[said], rows, self.hashes[said], gradients)


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
