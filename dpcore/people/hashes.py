"""Keyed hashes by which caps choose: of users, of a user's keys in a period, of a user's events.

All have 128 bits. A hash of fewer would now and then make one person of two, and everything
below is a function of a user's own events only as long as users are told apart. For the same reason
the user is in every hash that chooses: what one user's ids and keys are decides nothing about
another's.

The two that mix are CBC-MACs over messages of a fixed number of 16-byte blocks, each under a key of
its own; so they are pseudorandom functions, and nobody without the secret can choose an id or a key
that a cap keeps.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.dpcore.arrays import Digests, Ints
from weir.dpcore.leaves.id_hash import (
    IdHashes,
    id_hashes,
)
from weir.dpcore.leaves.row_hash import content_hashes
from weir.dpcore.native import ciphers
from weir.dpcore.noise.aes import Aes

_NAN: Final = np.float64("nan")


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

    @classmethod
    def derive(cls, secret: bytes, digest: str) -> CapKeys:
        """From the secret, 32 bytes, and the plan's digest, hex."""

        def key(what: str) -> bytes:
            message = f"weir/caps/{what}/{digest}".encode()
            return hmac.new(secret, message, hashlib.sha256).digest()[:16]

        return cls(*(key(what) for what in ("users", "names", "pairs", "ids", "contents", "rows")))


def user_hashes(users: Any, keys: CapKeys) -> IdHashes:
    """(n, 2) hashes of users; null, and no user, where the text is missing or empty.

    Args:
      users: as ``id_hashes`` takes ids.
    """
    if not isinstance(users, pa.Array | pa.ChunkedArray):
        users = pa.array(users, pa.large_binary())
    found = id_hashes(users, keys.users)
    if pa.types.is_integer(users.type):
        return found
    if pa.types.is_dictionary(users.type):
        users = users.cast(users.type.value_type)
    empty = pc.fill_null(pc.equal(pc.binary_length(users), 0), True)
    return IdHashes(found.hashes, found.null | empty.to_numpy(zero_copy_only=False))


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
        found = ids if isinstance(ids, IdHashes) else id_hashes(ids, keys.ids)
        inner, has_id = found.hashes, ~found.null
        if found.null.any():
            inner, bare = inner.copy(), found.null
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
