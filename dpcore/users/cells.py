"""Cells of users: keyed hashes of users, and their events sorted by cell.

Keyed hashes by which caps choose: of users, of a user's keys in a period, of a user's events.

All have 128 bits. A hash of fewer would now and then make one person of two, and everything
below is a function of a user's own events only as long as users are distinguished. For the same
reason
the user is in every hash that chooses: what one user's ids and keys are decides nothing about
another's.

The three that mix are CBC-MACs over messages of a fixed number of 16-byte blocks, each under a key
of its own; so they are pseudorandom functions, and nobody without the secret can choose an id, a
key or a tick that a cap keeps.

Events of users, gathered into cells: at most so many of a cell, whatever the order they come in.

**Within a cell** (a user, a key and a tick) the events of the smallest hashes of (user, tick, id)
stay. Copies of one id are one event, the one of the smallest content; events without an id count as
often as they come. "The smallest of a set" is a semilattice: the smallest of a union are among
those of its parts, so events may be pruned early, in any cuts, and repeats of an id vanish with no
memory of ids. Only cells are ever pruned early, never keys: where a cap on the ticks or keys of a
period is set, a key dropped early may be the one that the rule keeps.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.dpcore.arrays import Digests, Ints
from weir.dpcore.leaves.hash_sets import changes, order_of
from weir.dpcore.leaves.hashes import IdHashes, content_hashes, id_hashes
from weir.dpcore.native import ciphers
from weir.dpcore.noise.streams import Aes

_NAN: Final = np.float64("nan")
ANY_PERIOD: Final = -1
"""In the place of a period's number in hashes that outlast it."""


@dataclass(frozen=True)
class CapKeys:
    """Keys of these hashes, 16 bytes each; they tell nothing about the secret or the noise.

    Made for the plan's digest: neither the list of keys nor the number of blocks or shards decides
    what a cap keeps.
    """

    users: bytes
    names: bytes
    pairs: bytes
    ids: bytes
    contents: bytes
    rows: bytes
    cells: bytes

    @classmethod
    def derive(cls, secret: bytes, digest: str) -> CapKeys:
        """From the secret, 32 bytes, and the plan's digest, hex."""

        def key(what: str) -> bytes:
            message = f"weir/caps/{what}/{digest}".encode()
            return hmac.new(secret, message, hashlib.sha256).digest()[:16]

        return cls(*(key(field.name) for field in fields(cls)))


def user_hashes(users: Any, keys: CapKeys) -> IdHashes:
    """(n, 2) hashes of users; null, and no user, where the text is missing or empty.

    Args:
      users: as ``id_hashes`` takes ids.
    """
    if not isinstance(users, pa.Array | pa.ChunkedArray):
        users = pa.array(users, pa.large_binary())
    result = id_hashes(users, keys.users)
    if pa.types.is_integer(users.type):
        return result
    if pa.types.is_dictionary(users.type):
        users = users.cast(users.type.value_type)
    empty = pc.fill_null(pc.equal(pc.binary_length(users), 0), True)
    return IdHashes(result.hashes, result.null | empty.to_numpy(zero_copy_only=False))


def name_hashes(names: Any, keys: CapKeys) -> Digests:
    """(n, 2) hashes of keys of releases. names: (n,), as ``id_hashes`` takes ids."""
    return id_hashes(names, keys.names).hashes


def pair_hashes(users: Digests, periods: Ints, names: Any, keys: CapKeys) -> Digests:
    """(n, 2) hashes of (user, period, key): the smallest stay where a cap on keys bites.

    Args:
      users: (n, 2). periods: (n,) int64. names: (n,) keys of releases, as ``id_hashes`` takes ids,
        or their ``name_hashes``, (n, 2) uint64; None: there is one key.
    """
    if names is None:
        named = np.zeros_like(users)
    elif isinstance(names, np.ndarray) and names.ndim == 2:
        named = names
    else:
        named = name_hashes(names, keys)
    return _mac(keys.pairs, users, periods, named)


def lasting_hashes(users: Digests, names: Any, keys: CapKeys) -> Digests:
    """(n, 2) hashes of (user, key), the same in every period; names: see ``pair_hashes``."""
    return pair_hashes(users, np.full(len(users), ANY_PERIOD), names, keys)


def cell_hashes(users: Digests, ticks: Ints, pairs: Digests, keys: CapKeys) -> Digests:
    """(n, 2) hashes of (user, tick, period and key): the smallest stay in the order of hashes.

    Args:
      users: (n, 2). ticks: (n,) int64. pairs: (n, 2), see ``pair_hashes``.
    """
    return _mac(keys.cells, users, ticks, pairs)


def row_hashes(
    users: Digests, ticks: Ints, times: Ints, contents: NDArray[Any], ids: Any, keys: CapKeys
) -> tuple[Digests, NDArray[np.bool_]]:
    """(n, 2) hashes of (user, tick, id): the smallest of a cell stay. Which have an id: (n,) bool.

    An event without an id is hashed by its time and content instead: what is the same in both is
    interchangeable, and counts as often as it comes.

    Args:
      users: (n, 2). ticks, times: (n,) int64. contents: (n, w) uint64, see ``contents_of``.
      ids: (n,), as ``id_hashes`` takes them, or their hashes; None: no event has an id.
    """
    n = len(users)
    if ids is None:
        inner, has_id = content_hashes(contents, times, keys.contents), np.zeros(n, dtype=bool)
    else:
        result = ids if isinstance(ids, IdHashes) else id_hashes(ids, keys.ids)
        inner, has_id = result.hashes, ~result.null
        if result.null.any():
            inner, bare = inner.copy(), result.null
            inner[bare] = content_hashes(contents[bare], times[bare], keys.contents)
    return _mac(keys.rows, users, ticks, inner), has_id


def contents_of(times: Ints, columns: Sequence[NDArray[np.float64]]) -> NDArray[np.uint64]:
    """(n, 1 + columns) uint64: what an event says, bit by bit; all that is no number is alike."""
    words = np.empty((len(times), 1 + len(columns)), dtype=np.uint64)
    words[:, 0] = np.asarray(times, dtype=np.int64).view(np.uint64)
    for place, column in enumerate(columns, 1):
        words[:, place] = np.where(np.isnan(column), _NAN, column).view(np.uint64)
    return words


def _mac(key: bytes, first: Digests, numbers: Ints, last: Digests) -> Digests:
    """CBC-MAC of messages of three blocks: (n, 2), a number (n,), (n, 2)."""
    numbers = np.ascontiguousarray(numbers, dtype=np.int64)
    if ciphers is not None:
        out = np.empty((len(numbers), 2), dtype=np.uint64)
        ciphers.mac(key, np.ascontiguousarray(first), numbers, np.ascontiguousarray(last), out)
        return out
    aes, state = Aes(key), np.zeros((len(numbers), 2), dtype=np.uint64)
    middle = np.zeros_like(state)
    middle[:, 0] = numbers.view(np.uint64)
    for part in (first, middle, last):
        state = aes.encrypt_new(state ^ part)
    return np.ascontiguousarray(state)


Rows = NDArray[np.int64]


class Hashed(NamedTuple):
    """Events of known users, in any order.

    Attributes:
      users, pairs, rows: (n, 2) uint64, see ``dpcore.users.cells``.
      ticks: (n,) int64. has_id: (n,) bool.
      contents: (n, w) uint64, by which the copies of an id are distinguished.
      lasting: (n, 2) uint64 of user and key in any period; None: nobody asks for them.
      cells: (n, 2) uint64 of their cells (``cell_hashes``); None: bounds are used up in order of
        time.
      coarse: (n, 2) uint64 of user, period and key of each coarser grouping asked for; None:
        nobody asks where cells meet.
    """

    users: Digests
    pairs: Digests
    rows: Digests
    ticks: Ints
    has_id: NDArray[np.bool_]
    contents: NDArray[np.uint64]
    lasting: Digests | None = None
    cells: Digests | None = None
    coarse: tuple[Digests, ...] | None = None


class SortedCells(NamedTuple):
    """Cells, sorted by (user, tick, hash of user, period and key).

    Attributes:
      users, pairs: (c, 2) uint64. ticks: (c,) int64. sizes: (c,) int64, events of each.
      hashes: (c, 2) uint64, see ``Hashed.cells``.
    """

    users: Digests
    pairs: Digests
    ticks: Ints
    sizes: Ints
    hashes: Digests | None = None


class GatheredCells(NamedTuple):
    """What became of some events.

    Attributes:
      cells: theirs.
      rows: (r,) int64, which events stay: cell by cell, by hash within it.
      copies: how many were copies of an id in their cell. beyond: how many its cap left no room.
    """

    cells: SortedCells
    rows: Rows
    copies: int
    beyond: int


def gather(events: Hashed, most: int) -> GatheredCells:
    """Sorts events into cells, and keeps ``most`` of each."""
    n = len(events.ticks)
    if not n:
        words = np.zeros((0, 2), dtype=np.uint64)
        nothing = np.zeros(0, dtype=np.int64)
        return GatheredCells(SortedCells(words, words, nothing, nothing), nothing, 0, 0)
    order, code = _ordered(events)
    cell = np.zeros(n, dtype=np.int64)
    same = np.flatnonzero(code[1:] == code[:-1])
    new = np.ones(n - 1, dtype=bool)
    new[same] = (events.pairs[order[same]] != events.pairs[order[same + 1]]).any(axis=1)
    np.cumsum(new, out=cell[1:])
    order, retained, copies, beyond = _pruned(events, order, cell, most)
    if copies or beyond:
        order, cell = order[retained], cell[retained]
    starts = np.flatnonzero(np.diff(cell, prepend=-1))
    first = order[starts]
    sizes = np.diff(starts, append=len(order))
    users, pairs = events.users.take(first, axis=0), events.pairs.take(first, axis=0)
    hashes = None if events.cells is None else events.cells.take(first, axis=0)
    cells = SortedCells(users, pairs, events.ticks[first], sizes, hashes)
    return GatheredCells(cells, order, copies, beyond)


def _ordered(events: Hashed) -> tuple[Rows, NDArray[np.uint64]]:
    """Events by (user, tick, hash of user, period and key), and a number of each one's (user, tick)
    in that order."""
    users = events.users
    order = order_of((users[:, 0], users[:, 1]))
    ticks = events.ticks - events.ticks.min()
    span = int(ticks.max()) + 1
    if span.bit_length() + len(ticks).bit_length() > 62:  # numbers of ticks, not ticks, fit
        result, ticks = np.unique(ticks, return_inverse=True)
        span = len(result)
    code = np.cumsum(changes(users.take(order, axis=0))) - 1
    code *= span
    code += ticks[order]
    # The first bits of the hash of a pair stand behind the number of its user and tick: with them
    # next to nothing is left to be distinguished.
    bits = np.uint64(max(1, int(code[-1] + span).bit_length()))
    pairs = events.pairs.take(order, axis=0)
    packed = code.view(np.uint64) << (np.uint64(64) - bits)
    packed |= pairs[:, 0] >> bits
    within = order_of((packed, pairs[:, 0], pairs[:, 1]))
    return order[within], code[within].view(np.uint64)


def _pruned(
    events: Hashed, order: Rows, cell: Ints, most: int
) -> tuple[Rows, NDArray[np.bool_], int, int]:
    """Events sorted by hash within their cells, and which of them stay.

    Args:
      order: (n,) events, cell by cell. cell: (n,) number of the cell of each.
    """
    retained = np.ones(len(order), dtype=bool)
    crowded = np.flatnonzero(np.bincount(cell)[cell] > 1)
    if not len(crowded):
        return order, retained, 0, 0
    some, of = order[crowded], cell[crowded]
    hashes, has_id = events.rows[some], events.has_id[some]
    content = [events.contents[some, at] for at in range(events.contents.shape[1])]
    sort = np.lexsort((*reversed(content), has_id, hashes[:, 1], hashes[:, 0], of))
    some, of, hashes, has_id = some[sort], of[sort], hashes[sort], has_id[sort]
    again = np.zeros(len(some), dtype=bool)
    again[1:] = (of[1:] == of[:-1]) & (hashes[1:] == hashes[:-1]).all(axis=1)
    again[1:] &= has_id[1:] & has_id[:-1]
    rank = ranks(~again, of)
    beyond = ~again & (rank >= most)
    order = order.copy()
    order[crowded] = some
    retained[crowded] = ~(again | beyond)
    return order, retained, int(again.sum()), int(beyond.sum())


def ranks(counted: NDArray[np.bool_], groups: Ints) -> Ints:
    """(n,) how many before it in its group count. groups: (n,), those of one group together."""
    if not len(groups):
        return np.zeros(0, dtype=np.int64)
    before: Ints = np.cumsum(counted) - counted
    first = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
    sizes = np.diff(first, append=len(groups))
    result: Ints = before - np.repeat(before[first], sizes)
    return result


def ranges(starts: Ints, sizes: Ints) -> Ints:
    """start, start + 1, ..., so many of each, one after the other; no size is 0."""
    if not len(starts):
        return np.zeros(0, dtype=np.int64)
    steps = np.ones(int(sizes.sum()), dtype=np.int64)
    ends = np.cumsum(sizes)[:-1]
    steps[0] = starts[0]
    steps[ends] = starts[1:] - (starts[:-1] + sizes[:-1] - 1)
    return np.cumsum(steps)
