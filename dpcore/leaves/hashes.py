"""Keyed hashes of event ids and of rows.

Keyed 128-bit hashes of event ids, a batch at a time.

What is kept when a bound is binding, and which event counts as a duplicate, is decided by these
hashes. The hash is AES-128 CBC-MAC whose first frame is the length of the id: E_k(...
E_k(E_k(length) ^ x_1) ... ^ x_m), the id padded with zeros to whole frames of 16 bytes. A length in
front makes the messages prefix-free, so under a secret key this is a pseudorandom function for ids
of any length
(Petrank, Rackoff (2000)): nobody without the key can choose ids that collide, or that win a cap,
better than by chance; n ids collide by accident with probability about n^2 / 2^129.

A hash depends on the key and on the bytes of that id only, never on the batch around it.

Hashes of events: which rows stay when a bound is binding, and which events are one and the same.

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
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from weir.dpcore.arrays import Digests, Ints
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.sparse_rows import SparseRows
from weir.dpcore.native import ciphers
from weir.dpcore.noise.streams import Aes, block_buffer

Bytes = NDArray[np.uint8]

FRAME: Final = 16
LONG: Final = 32 * FRAME
"""Longer ids are hashed one at a time: the call per id then costs less than its bytes."""

CHUNK: Final = 1 << 15
"""Ids hashed together: their frames stay in the processor's cache."""

_KEEP: Final = np.array([(1 << (8 * n)) - 1 for n in range(9)], dtype=np.uint64)
"""Mask of the first n bytes of a little-endian word."""


class IdHashes(NamedTuple):
    """Hashes of a batch of ids.

    Attributes:
      hashes: (n, 2) uint64, the 16 bytes of the hash as little-endian words; 0 where null.
      null: (n,) bool. A null id equals no other id, least of all another null.
    """

    hashes: Digests
    null: NDArray[np.bool_]


def id_hashes(ids: Any, key: bytes) -> IdHashes:
    """Hashes a batch of ids. A string and its UTF-8 bytes hash alike, and a whole number as its
    decimal digits do.

    Args:
      ids: Arrow array (or chunked array) of string, binary, their large and fixed-size forms, of
        whole numbers, or a dictionary of those; or a sequence of bytes or None.
      key: 16 secret bytes.

    Raises:
      ConfigError: ids of another type.
    """
    array = ids if isinstance(ids, pa.Array | pa.ChunkedArray) else _array(ids)
    if isinstance(array, pa.ChunkedArray):
        parts = [id_hashes(chunk, key) for chunk in array.chunks]
        if not parts:
            return IdHashes(np.zeros((0, 2), dtype=np.uint64), np.zeros(0, dtype=bool))
        return IdHashes(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    if pa.types.is_dictionary(array.type):
        return _dictionary_hashes(array, key)
    if pa.types.is_integer(array.type):
        return _number_hashes(array, key)
    if pa.types.is_fixed_size_binary(array.type):
        array = array.cast(pa.large_binary())
    width = _offset_type(array.type)
    null = np.zeros(len(array), dtype=bool)
    if array.null_count:
        null = array.is_null().to_numpy(zero_copy_only=False)
    _, offset_buffer, data_buffer = array.buffers()
    if len(array) == 0 or offset_buffer is None:
        return IdHashes(np.zeros((len(array), 2), dtype=np.uint64), null)
    offsets = np.frombuffer(offset_buffer, dtype=width)[array.offset :][: len(array) + 1]
    data = np.frombuffer(data_buffer if data_buffer is not None else b"", dtype=np.uint8)
    hashes = hash_spans(offsets, data, key)
    if array.null_count:
        hashes[null] = 0
    return IdHashes(hashes, null)


def hash_spans(offsets: NDArray[Any], data: Bytes, key: bytes) -> Digests:
    """Hashes consecutive spans of bytes.

    Args:
      offsets: (n + 1,) int32 or int64, not decreasing; span i is data[offsets[i] : offsets[i + 1]].
      data: bytes.
      key: 16 secret bytes.

    Returns:
      (n, 2) uint64.

    Raises:
      ValueError: offsets that decrease or leave the data.
    """
    n = len(offsets) - 1
    if ciphers is not None:
        out = np.empty((n, 2), dtype=np.uint64)
        ciphers.hash_spans(key, np.ascontiguousarray(offsets), data, out)
        return out
    offsets = offsets.astype(np.int64, copy=False)
    lengths = np.diff(offsets)
    if n and (offsets[0] < 0 or offsets[-1] > len(data) or lengths.min() < 0):
        raise ValueError("offsets must not decrease, nor leave the data.")
    out = np.empty((n, 2), dtype=np.uint64)
    aes = Aes(key)
    words = _Words(data)
    for at in range(0, n, CHUNK):
        starts, sizes = offsets[at : min(at + CHUNK, n)], lengths[at : at + CHUNK]
        _hash_chunk(starts, sizes, words, aes, key, out[at : at + CHUNK])
    return out


def _number_hashes(array: Any, key: bytes) -> IdHashes:
    """Hashes whole numbers as their decimal digits."""
    if ciphers is None or pa.types.is_uint64(array.type):
        return id_hashes(array.cast(pa.string()), key)
    null = np.zeros(len(array), dtype=bool)
    if array.null_count:
        null = array.is_null().to_numpy(zero_copy_only=False)
        array = array.fill_null(0)
    numbers = array.to_numpy().astype(np.int64, copy=False)
    hashes = np.empty((len(numbers), 2), dtype=np.uint64)
    ciphers.hash_numbers(key, np.ascontiguousarray(numbers), hashes)
    hashes[null] = 0
    return IdHashes(hashes, null)


def _hash_chunk(
    starts: Ints, lengths: Ints, words: _Words, aes: Aes, key: bytes, out: Digests
) -> None:
    """Hashes some spans into ``out``, one frame of all of them at a time."""
    first, last = int(lengths.min()), int(lengths.max())
    if last > LONG:
        longer = lengths > LONG
        for i in np.flatnonzero(longer):
            out[i] = _hash_one(words.bytes_of(int(starts[i]), int(lengths[i])), key)
        short = np.flatnonzero(~longer)
        if short.size:
            some = np.empty((short.size, 2), dtype=np.uint64)
            _hash_chunk(starts[short], lengths[short], words, aes, key, some)
            out[short] = some
        return
    # The first frame is the length alone: one block per length, not per id.
    heads = np.zeros((last - first + 1, 2), dtype=np.uint64)
    heads[:, 0] = np.arange(first, last + 1, dtype=np.uint64)
    out[:] = aes.encrypt_new(heads)[lengths - first]
    live: Ints | None = None  # ids that have this frame at all; None: every one
    buffer = block_buffer(len(lengths))
    for frame in range(-(-last // FRAME)):
        if first <= frame * FRAME:  # some ids are over
            live = np.flatnonzero(lengths > frame * FRAME)
        at = starts if live is None else starts[live]
        left = (lengths if live is None else lengths[live]) - frame * FRAME
        block = out.copy() if live is None else out[live]
        full = first >= (frame + 1) * FRAME
        for word in range(2):
            block[:, word] ^= words.read(at + (frame * FRAME + 8 * word), left - 8 * word, full)
        done = aes.encrypt(block, buffer)
        if live is None:
            out[:] = done
        else:
            out[live] = done


class _Words:
    """Little-endian 8-byte words at any byte position of some data."""

    def __init__(self, data: Bytes) -> None:
        self._data = data
        self._last = max(len(data) - 8, 0)
        if len(data) < 8:
            self._data = np.concatenate([data, np.zeros(8 - len(data), dtype=np.uint8)])
        self._view: NDArray[np.uint64] = np.ndarray(
            shape=(self._last + 1,), dtype="<u8", buffer=self._data, strides=(1,)
        )

    def read(self, at: Ints, left: Ints, full: bool) -> Digests:
        """Words at positions ``at``, zero past the ``left`` bytes (``full``: at least 8)."""
        if full:
            return self._view[at]
        # A word that would start too near the end of the data is read earlier and shifted.
        spot = np.clip(at, 0, self._last)
        shift = np.clip(at - spot, 0, 7).astype(np.uint64)
        shift <<= np.uint64(3)
        result = self._view[spot]
        result >>= shift
        result &= _KEEP[np.clip(left, 0, 8)]
        return result

    def bytes_of(self, start: int, length: int) -> bytes:
        """One span."""
        return self._data[start : start + length].tobytes()


def _hash_one(message: bytes, key: bytes) -> Digests:
    """The same hash of one message, by CBC over all of it: (2,) uint64."""
    padded = message + bytes(-len(message) % FRAME)
    head = len(message).to_bytes(FRAME, "little")
    cipher = Cipher(algorithms.AES(key), modes.CBC(bytes(FRAME))).encryptor()
    return np.frombuffer((cipher.update(head + padded) + cipher.finalize())[-FRAME:], dtype="<u8")


def _dictionary_hashes(array: Any, key: bytes) -> IdHashes:
    """Hashes each entry of the dictionary once."""
    entries = id_hashes(array.dictionary, key)
    null = array.is_null().to_numpy(zero_copy_only=False)
    index = array.indices.fill_null(0).to_numpy(zero_copy_only=False)
    hashes = np.zeros((len(array), 2), dtype=np.uint64)
    if len(entries.null):
        null = null | entries.null[index]
        hashes = entries.hashes[index]
        hashes[null] = 0
    return IdHashes(hashes, null)


def _array(ids: Sequence[bytes | None]) -> Any:
    return pa.array(ids, type=pa.large_binary())


def _offset_type(kind: Any) -> str:
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return "<i4"
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return "<i8"
    raise ConfigError("schema.id", str(kind), "must be a column of strings or bytes.")


def row_key(secret: bytes, name: str) -> bytes:
    """16-byte key of the hashes that say which rows stay when a bound is binding."""
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

    A public number of the tick is laid over them, one to one, so that where a bound is binding,
    others stay at each tick.

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
        result, null = id_hashes(ids, dedupe_key(secret, name))
        hashes[~null] = result[~null]
    return hashes
