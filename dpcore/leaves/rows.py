"""Row leaves: the clipped rows that each key of a block gathered in one tick, canonical.

**Same bytes.** A leaf is a function of the set of its events alone: rows are in the order (key,
event time, keyed id hash, bytes of the row), so partial leaves merge in any order, and however
events were cut into bundles, to the same bytes. Where rows are sparse, digests stand for their
bytes.

**Cap.** At most ``cap`` rows a key and tick are kept: the smallest in (keyed id hash, event time,
bytes), never the first to arrive. The cap smallest of a union are among the cap smallest of each
part, so partial leaves may be capped early and the result is bit for bit the same:
capped(merge(capped parts)) = capped(merge(parts)), and the numbers dropped add up to the same.
Without the key of the hash nobody can choose an id that stays. Where a bound is binding, rows
compete: one event more may push another out. So after a cap, an event that is added or removed
changes its cell by at most one row added, removed or *replaced*, and what consumes a capped leaf
must take its sensitivity for that.

**Users.** Where the unit is a user, the hash of a row is that of its user, and the cap is on users
(``capped_users``): of each key the rows of the users with the smallest hashes stay, all of a user's
or none. The same holds of users then: one who leaves lets in at most one other.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Digests, Ints
from weir.dpcore.errors import CodecError, at_least_one, in_words
from weir.dpcore.leaves.hashes import hash_spans
from weir.dpcore.leaves.sparse_rows import SparseRows, offsets_of

Table = NDArray[np.float64] | NDArray[np.int64] | SparseRows

_MAGIC: Final = b"WRL\x01"
_HEADER: Final = struct.Struct("<4s4sqqq")
_TYPES: Final = {b"<f8\0": np.dtype("<f8"), b"<i8\0": np.dtype("<i8")}
_SPARSE: Final = b"csr\0"


@dataclass(frozen=True, eq=False)
class RowLeaf:
    """Rows of K keys (compressed sparse rows), in canonical order. Make one by the class methods.

    Attributes:
      offsets: (K + 1,) int64; key k has rows offsets[k] .. offsets[k + 1] - 1.
      rows: (N, r) float64 or int64, or ``SparseRows`` of float32, bounded.
      event_time: (N,) int64, microseconds.
      id_hash: (N, 2) uint64, keyed hash of the event's id (of its content where it has none).
    """

    offsets: Ints
    rows: Table
    event_time: Ints
    id_hash: Digests

    @classmethod
    def from_events(
        cls, keys: Ints, rows: Table, event_time: Ints, id_hash: Digests, n_keys: int
    ) -> RowLeaf:
        """Sorts events into a leaf.

        Args:
          keys: (N,) int64 in [0, n_keys), position of each event's key in the block.
          rows, event_time, id_hash: as in the attributes, in any order.
          n_keys: K.

        Raises:
          ValueError: shapes that do not fit, rows of another type, or a key outside the block.
        """
        n = len(keys)
        if len(rows.shape) != 2 or not len(rows) == len(event_time) == len(id_hash) == n:
            raise ValueError(f"rows {rows.shape} do not fit {n} events.")
        kinds = (np.float32,) if isinstance(rows, SparseRows) else (np.float64, np.int64)
        known = rows.dtype in kinds
        if not known or id_hash.shape != (n, 2):
            raise ValueError(f"rows of type {rows.dtype}, hashes of shape {id_hash.shape}.")
        counts = np.bincount(keys, minlength=n_keys)
        if len(counts) != n_keys:
            raise ValueError("a key is outside the block.")
        packed: Any = rows if isinstance(rows, SparseRows) else np.ascontiguousarray(rows)
        first, last = [keys, event_time], [*id_hash.T]
        if isinstance(packed, SparseRows):  # their digests cost more than a longer sort
            first, last = first + last, []
        order = _order(first, lambda at: [*(item[at] for item in last), *_words(packed[at]).T])
        return cls(offsets_of(counts), packed[order], event_time[order], id_hash[order])

    @classmethod
    def empty(cls, n_keys: int, width: int, dtype: Any = np.float64) -> RowLeaf:
        """A leaf without rows."""
        nothing = np.zeros(0, dtype=np.int64)
        hashes = np.zeros((0, 2), dtype=np.uint64)
        return cls.from_events(nothing, np.zeros((0, width), dtype), nothing, hashes, n_keys)

    @classmethod
    def merge(cls, parts: Sequence[RowLeaf]) -> RowLeaf:
        """All rows of partial leaves of the same block and tick; their order does not matter.

        Raises:
          ValueError: no parts, or parts of different shapes or types.
        """
        shapes = {(part.n_keys, part.width, part.kind) for part in parts}
        if len(shapes) != 1:
            raise ValueError(f"partial leaves do not fit together: {sorted(map(str, shapes))}.")
        if len(parts) == 1:
            return parts[0]
        return cls.from_events(
            np.concatenate([part.keys for part in parts]),
            joined([part.rows for part in parts]),
            np.concatenate([part.event_time for part in parts]),
            np.concatenate([part.id_hash for part in parts]),
            parts[0].n_keys,
        )

    @property
    def n_keys(self) -> int:
        """K."""
        return len(self.offsets) - 1

    @property
    def width(self) -> int:
        """r, numbers in a row."""
        return int(self.rows.shape[1])

    @property
    def kind(self) -> bytes:
        """What rows are: four bytes."""
        if isinstance(self.rows, SparseRows):
            return _SPARSE
        return self.rows.dtype.str.encode().ljust(4, b"\0")

    @property
    def counts(self) -> Ints:
        """(K,) rows of each key."""
        return np.diff(self.offsets)

    @property
    def keys(self) -> Ints:
        """(N,) key of each row."""
        return np.repeat(np.arange(self.n_keys, dtype=np.int64), self.counts)

    def of(self, key: int) -> Table:
        """(n, r) rows of one key, in canonical order."""
        return self.rows[self.offsets[key] : self.offsets[key + 1]]

    def capped(self, cap: int) -> CappedLeaf:
        """Keeps at most ``cap`` rows of each key: the smallest keyed hashes."""
        at_least_one(cap=cap)
        counts = self.counts
        if not len(counts) or counts.max() <= cap:
            return CappedLeaf(self, 0)
        keys = self.keys
        crowded = np.flatnonzero((counts > cap)[keys])
        own, hashes, times = keys[crowded], self.id_hash[crowded], self.event_time[crowded]
        rows = self.rows[crowded]
        order = _order(
            [own, hashes[:, 0]], lambda at: [hashes[at, 1], times[at], *_words(rows[at]).T]
        )
        ranked = own[order]
        rank = np.arange(len(ranked)) - np.searchsorted(ranked, ranked)
        keep = np.ones(len(keys), dtype=bool)
        keep[crowded[order[rank >= cap]]] = False
        leaf = RowLeaf(
            offsets_of(np.minimum(counts, cap)),
            self.rows[keep],
            self.event_time[keep],
            self.id_hash[keep],
        )
        return CappedLeaf(leaf, int(len(keep) - np.count_nonzero(keep)))

    def by_user(self) -> tuple[Ints, Ints]:
        """Where hashes are of users: an order in which rows of a key and user lie together, and the
        first place of each: (N,), (u,)."""
        return grouped(self.keys, self.id_hash)

    def capped_users(self, users: int) -> CappedLeaf:
        """Keeps all rows of at most so many users of each key: those of the smallest hashes."""
        at_least_one(users=users)
        if not len(self.rows) or self.counts.max() <= users:
            return CappedLeaf(self, 0)
        order, starts = self.by_user()
        sizes = np.diff(starts, append=len(order))
        own = self.keys[order[starts]]
        rank = np.arange(len(own)) - np.searchsorted(own, own)
        keep = np.zeros(len(order), dtype=bool)
        keep[order] = np.repeat(rank < users, sizes)
        dropped = int(len(keep) - np.count_nonzero(keep))
        if not dropped:
            return CappedLeaf(self, 0)
        counts = np.bincount(self.keys[keep], minlength=self.n_keys)
        rows, times = self.rows[keep], self.event_time[keep]
        return CappedLeaf(RowLeaf(offsets_of(counts), rows, times, self.id_hash[keep]), dropped)

    def digests(self, tick: int, key: bytes) -> Digests:
        """Keyed digest of each key's data in this tick: what its noise is bound to.

        Args:
          tick: absolute tick.
          key: 16 secret bytes, used for nothing else.

        Returns:
          (K, 2) uint64; 0 where a key has no rows.
        """
        offsets, data = self.canonical_bytes(tick)
        result = hash_spans(offsets, data, key)
        result[self.counts == 0] = 0
        return result

    def canonical_bytes(self, tick: int) -> tuple[Ints, NDArray[np.uint8]]:
        """One span of bytes a key: (tick, count), then (event time, id hash, row) of each row,
        of a sparse row its digest.

        Returns:
          offsets (K + 1,) int64 into data, and data as bytes. Little-endian 8-byte words.
        """
        own = _words(self.rows)
        record = 3 + own.shape[1]
        offsets = self.offsets * record + 2 * np.arange(self.n_keys + 1)
        words = np.empty(int(offsets[-1]), dtype="<u8")
        words[offsets[:-1]] = np.uint64(tick)
        words[offsets[:-1] + 1] = self.counts
        records = np.empty((len(self.rows), record), dtype="<u8")
        records[:, 0] = self.event_time.view(np.uint64)
        records[:, 1:3] = self.id_hash
        records[:, 3:] = own
        inside = np.ones(len(words), dtype=bool)
        inside[offsets[:-1]] = inside[offsets[:-1] + 1] = False
        words[inside] = records.ravel()
        return offsets * 8, words.view(np.uint8)

    def to_bytes(self) -> bytes:
        """Deterministic: equal leaves have equal bytes."""
        header = _HEADER.pack(_MAGIC, self.kind, self.n_keys, len(self.rows), self.width)
        arrays: list[NDArray[Any]] = [self.offsets, self.event_time, self.id_hash]
        if isinstance(self.rows, SparseRows):
            arrays += [self.rows.offsets, self.rows.values, self.rows.indices]
        else:
            arrays.append(self.rows)
        return b"".join([header, *(array.tobytes() for array in arrays)])

    @classmethod
    @in_words
    def from_bytes(cls, data: bytes) -> RowLeaf:
        """Inverse of ``to_bytes``. The arrays are read-only views of ``data``.

        Raises:
          CodecError: not stored rows of this version, or damaged.
        """
        if len(data) < _HEADER.size:
            raise CodecError(f"stored rows have at least {_HEADER.size} bytes, got {len(data)}.")
        magic, kind, n_keys, n, width = _HEADER.unpack_from(data)
        sparse = kind == _SPARSE
        if magic != _MAGIC or not (sparse or kind in _TYPES) or min(n_keys, n, width) < 0:
            raise CodecError("not stored rows, or of another version.")
        own = n + 1 if sparse else n * width
        size = _HEADER.size + 8 * (n_keys + 1 + 3 * n + own)
        if len(data) < size:
            raise CodecError(f"stored rows of {size} bytes, got {len(data)}.")
        at = _HEADER.size

        def take(count: int, dtype: Any) -> NDArray[Any]:
            nonlocal at
            result: NDArray[Any] = np.frombuffer(data, dtype=dtype, count=count, offset=at)
            at += result.nbytes
            return result

        offsets = _checked(take(n_keys + 1, "<i8"), n)
        event_time = take(n, "<i8")
        id_hash = take(2 * n, "<u8").reshape(n, 2)
        rows: Table
        if sparse:
            inner = take(n + 1, "<i8")
            numbers = int(inner[-1])
            size += 8 * numbers
            if numbers < 0 or len(data) != size:
                raise CodecError(f"stored rows of {size} bytes, got {len(data)}.")
            values, indices = take(numbers, "<f4"), take(numbers, "<i4")
            rows = SparseRows(_checked(inner, numbers), indices, values, width)
        else:
            if len(data) != size:
                raise CodecError(f"stored rows of {size} bytes, got {len(data)}.")
            rows = take(n * width, _TYPES[kind]).reshape(n, width)
        return cls(offsets, rows, event_time, id_hash)


class CappedLeaf(NamedTuple):
    """A leaf within its cap, and how many rows that cost (for the operator only)."""

    leaf: RowLeaf
    dropped: int


def grouped(keys: Ints, hashes: Digests) -> tuple[Ints, Ints]:
    """Order by (key, hash), and where each pair of them begins in it: (N,), (u,)."""
    order = np.lexsort((hashes[:, 1], hashes[:, 0], keys))
    own, ranked = keys[order], hashes[order]
    other = np.ones(len(order), dtype=bool)
    other[1:] = (own[1:] != own[:-1]) | (ranked[1:] != ranked[:-1]).any(axis=1)
    return order, np.flatnonzero(other)


def joined(parts: Sequence[Any]) -> Any:
    """Rows of several groups of events, one after the other: tables, or ``SparseRows``."""
    if isinstance(parts[0], SparseRows):
        return SparseRows.concatenate(parts)
    return np.concatenate(parts)


def _checked(offsets: Ints, last: int) -> Ints:
    """Raises unless offsets begin at 0, do not decrease, and end at ``last``."""
    if offsets[0] != 0 or offsets[-1] != last or (np.diff(offsets) < 0).any():
        raise CodecError("the offsets of stored rows are damaged.")
    return offsets


def _order(first: list[NDArray[Any]], rest: Callable[[Ints], list[NDArray[Any]]]) -> Ints:
    """Sorting permutation by the columns ``first``, then by those that ``rest`` gives of some
    places, most significant first.

    The many columns of ``rest`` are only looked at where ``first`` ties.
    """
    order = np.lexsort(first[::-1])
    same = np.ones(max(len(order) - 1, 0), dtype=bool)
    for column in first:
        ranked = column[order]
        same &= ranked[1:] == ranked[:-1]
    if same.any():
        run = np.concatenate([[0], np.cumsum(~same)])
        tied = np.concatenate([same, [False]]) | np.concatenate([[False], same])
        members = order[tied]
        inner = np.lexsort([*rest(members)[::-1], run[tied]])
        order[tied] = members[inner]
    return order


def _words(rows: Table) -> Digests:
    """The bits of each number, or the digest of a sparse row: (N, r) or (N, 4) uint64."""
    if isinstance(rows, SparseRows):
        return rows.digests()
    return rows.view(np.uint64)
