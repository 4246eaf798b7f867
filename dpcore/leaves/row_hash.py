"""Hashes of events: which rows stay when a cap bites, and which events are one and the same.

**What a cap keeps of neighbours.** The rows of the smallest hashes stay. One row that is there or
not, or exchanged for another of another hash, moves at most one row over the edge: of what is kept
one row goes and one comes, whatever the relation. With ids the hash is that of the id, so under
replace_one the content of a row decides neither its own place nor that of others. Without ids it
is that of the content, keyed, and the exchange is what it costs: learners pay for both rows.

Keys are derived for a name. Where rows are kept by their hashes the name is the plan's digest, so
that neither the list of keys nor the number of blocks decides what is released.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import numpy as np

from weir.dpcore.arrays import Digests, Ints
from weir.dpcore.leaves.id_hash import hash_spans, id_hashes
from weir.dpcore.leaves.sparse_rows import SparseRows


def row_key(secret: bytes, name: str) -> bytes:
    """16-byte key of the hashes that say which rows stay when a cap bites."""
    return hmac.new(secret, b"weir/rows/" + name.encode(), hashlib.sha256).digest()[:16]


def dedupe_key(secret: bytes, name: str) -> bytes:
    """16-byte key of the hashes of ids; tells nothing about the secret or the noise."""
    return hmac.new(secret, b"weir/deduplicate/" + name.encode(), hashlib.sha256).digest()[:16]


def content_hashes(rows: Any, times: Ints, key: bytes) -> Digests:
    """(n, 2) hashes of events without an id: of their time and row, of a sparse row its digest."""
    sparse = isinstance(rows, SparseRows)
    own = rows.digests() if sparse else np.ascontiguousarray(rows).view(np.uint64)
    words = np.empty((len(rows), own.shape[1] + 1), dtype="<u8")
    words[:, 0] = times.view(np.uint64)
    words[:, 1:] = own
    offsets = np.arange(len(rows) + 1, dtype=np.int64) * 8 * words.shape[1]
    return hash_spans(offsets, words.reshape(-1).view(np.uint8), key)


def hashes_of_users(high: Digests, low: Digests, ticks: Ints) -> Digests:
    """(n, 2) hashes of rows where the cap is on users: the same for all rows of a user in a tick.

    A public number of the tick is laid over them, one to one, so that where a cap bites, others
    stay at each tick.

    Args:
      high, low: (n,) keyed hash of each row's user. ticks: (n,) int64.
    """
    with np.errstate(over="ignore"):
        words = ticks.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    words ^= words >> np.uint64(32)
    return np.stack([high ^ (words * np.uint64(0xD6E8FEB86659FD93)), low], axis=1)


def event_hashes(secret: bytes, name: str, rows: Any, times: Ints, ids: Any | None) -> Digests:
    """(n, 2) hashes of events: of the id where there is one, of the content elsewhere.

    Args:
      secret: 32 bytes. name: the plan's digest.
      rows: (n, r) bounded rows. times: (n,) int64 microseconds.
      ids: n texts, bytes or None, as ``id_hashes`` takes them; None: no event has an id.
    """
    hashes = content_hashes(rows, times, row_key(secret, name))
    if ids is not None:
        found, null = id_hashes(ids, dedupe_key(secret, name))
        hashes[~null] = found[~null]
    return hashes
