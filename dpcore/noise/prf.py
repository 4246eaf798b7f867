"""Noise as a keyed pseudorandom function of what is being released.

The same data give the same noise, so a retry repeats its release; different data give independent
noise, so two versions of a sum do not subtract to their difference. See ``RootKey`` and
``KeyedNoise``.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand

from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.errors import ConfigError
from weir.dpcore.native import ciphers
from weir.dpcore.noise import replay
from weir.dpcore.noise.discrete_gaussian import discrete_gaussian
from weir.dpcore.noise.gaussian import gaussian, k_norm
from weir.dpcore.noise.generalised_gaussian import generalised_gaussian
from weir.dpcore.noise.selection import gumbel, laplace, select_gumbel
from weir.dpcore.noise.streams import (
    DISCRETE_GAUSSIAN,
    GAUSSIAN,
    GENERALISED_GAUSSIAN,
    K_NORM,
    LAPLACE,
    SAMPLE,
    SELECTION,
    WORDS,
    Aes,
    Streams,
    Words,
    block_buffer,
    digests,
)

VERSION = 1
"""Raised whenever any draw changes its value: the version is part of the root key."""

_DOMAIN = b"weir/noise"
_SECRET_BYTES = 32
_BLOCKS_OF_KEYS = 512
_LEAF_FRAME = 1
_WIDE = 8
"""Leaves with more than this many coordinates for each of them are chained one by one."""


def _framed(*fields: bytes) -> bytes:
    """Concatenation that no two different tuples share: each field after its length."""
    return b"".join(len(field).to_bytes(8, "little") + field for field in fields)


class RootKey:
    """All keys of one release under one plan. Holds key material: never printed, copied or pickled.

    root = HKDF-SHA256(secret; salt = domain tag; info = noise version, release name, plan digest),
    and each subkey is an HKDF expansion of it under its own label. So two releases, or two plans
    that differ in anything that shapes a release, never share noise (one noise at two scales would
    subtract to the data).
    """

    __slots__ = ("_leaf", "_mac", "_stream", "_tag", "heads", "identity", "release")

    def __init__(self, root: bytes, release: str) -> None:
        def subkey(label: bytes, length: int) -> bytes:
            info = _framed(_DOMAIN, label)
            return HKDFExpand(algorithm=hashes.SHA256(), length=length, info=info).derive(root)

        self.release = release
        self._leaf = subkey(b"leaf", 16)
        self._mac = subkey(b"mac", 16)
        self._stream = subkey(b"stream", 16)
        self._tag = subkey(b"user tag", 32)
        self.identity = subkey(b"identity", 16)  # may be shown: tells secrets apart, no more
        self.heads = functools.lru_cache(maxsize=_BLOCKS_OF_KEYS)(self._heads)

    @classmethod
    def derive(cls, secret: bytes, release: str, plan_digest: bytes) -> RootKey:
        """Derives the keys of a release.

        Args:
          secret: 32 bytes (or more) that only Tick and Train ever hold.
          release: the release's name.
          plan_digest: SHA-256 of the canonical plan, 32 bytes.

        Raises:
          ConfigError: when the secret is too short. Its value is never shown.
        """
        if len(secret) < _SECRET_BYTES:
            raise ConfigError(
                "secret",
                f"({len(secret)} bytes)",
                f"must have at least {_SECRET_BYTES} random bytes; make a new one.",
            )
        if len(plan_digest) != 32:
            raise ValueError(f"plan_digest must have 32 bytes, got {len(plan_digest)}.")
        info = _framed(VERSION.to_bytes(4, "little"), release.encode(), plan_digest)
        kdf = HKDF(algorithm=hashes.SHA256(), length=32, salt=_DOMAIN, info=info)
        return cls(kdf.derive(bytes(secret)), release)

    def tag(self, key: bytes) -> bytes:
        """16-byte keyed hash of a user key of any length."""
        return self.tags((key,)).tobytes()

    def tags(self, keys: Sequence[bytes]) -> Words:
        """The same of many: (K, 2) uint64."""
        return digests(keys, 16, b"weir user tag", self._tag).view(np.uint64)

    def sampled(self, key: bytes, share: float) -> bool:
        """Whether a user key lies in a share of all keys, by a keyed hash of its own."""
        digest = hashlib.blake2b(key, key=self._tag, digest_size=8, person=b"weir sample").digest()
        return int.from_bytes(digest, "little") < share * 2.0**64

    def _heads(self, keys: tuple[bytes, ...]) -> Words:
        """MAC states after the user tags of a block of keys: (K, 2) uint64, read-only."""
        if len(set(keys)) != len(keys):
            raise ValueError("user keys of a block must be distinct: equal keys would share noise.")
        heads = self.mac().encrypt_new(self.tags(keys))
        heads.flags.writeable = False
        return heads

    def leaf(self) -> Aes:
        """A fresh cipher of the leaf digests."""
        return Aes(self._leaf)

    def mac(self) -> Aes:
        """A fresh cipher of the seeds."""
        return Aes(self._mac)

    def stream(self) -> Aes:
        """A fresh cipher of the streams."""
        return Aes(self._stream)

    def __repr__(self) -> str:
        return f"RootKey(release={self.release!r}, keys hidden)"

    def __reduce__(self) -> str:
        raise TypeError("a RootKey is never pickled or copied; derive it where the secret is.")


class KeyedNoise:
    """The noise of a stride: draws are functions of (root, part, purpose, label, key, digest).

    Never of a key's position, its block, the length of the stride, or other keys' data.

    **Leaf digest**: CBC-MAC over (purpose, part, dimension, tick) and the leaf's words under a key
    of its own; the first frame fixes how many follow, so the MAC is a pseudorandom function. An
    all-zero leaf has digest zero. Mechanisms name a history by the XOR of its leaf digests: two
    different histories differ in a non-empty set of (tick, leaf), whose digests are independent and
    uniform, so their XOR is zero with probability 2^-128. The same argument covers a tree node, the
    XOR of its own leaves. Digests are secret.

    **Formal guarantees**: if AES is a pseudorandom permutation, draws of different (part, purpose,
    label, user key, digest) cannot be told from independent ones but with advantage q^2 / 2^128 for
    q blocks in all. Differential privacy of what is released with this noise is computational in
    that sense.

    Args:
      root: keys of the release.
      part: index of the mechanism inside its program, in [0, 2^16).
      keys: K distinct user keys (a tuple is least expensive: what depends on it is remembered).
      first_tick: index of the stride's first tick, 0 or more.
    """

    def __init__(self, root: RootKey, part: int, keys: Sequence[bytes], first_tick: int) -> None:
        if first_tick < 0:
            raise ValueError(f"first_tick must be 0 or more, got {first_tick}.")
        if not 0 <= part < 1 << 16:
            raise ValueError(f"part must lie in [0, 2^16), got {part}.")
        self._root = root
        self._part = part
        self._heads: Words = root.heads(tuple(keys))
        self._first_tick = int(first_tick)

    @property
    def first_tick(self) -> int:
        """Index of the first tick of the stride."""
        return self._first_tick

    def at(self, first_tick: int, keys: slice | None = None) -> KeyedNoise:
        """The same noise for a stride that begins at another tick, for all keys or some of them.

        A mechanism whose leaves depend on its own last release steps tick by tick with it.
        """
        if first_tick < 0:
            raise ValueError(f"first_tick must be 0 or more, got {first_tick}.")
        other = object.__new__(KeyedNoise)
        other._root, other._part = self._root, self._part
        other._heads = self._heads if keys is None else self._heads[keys]
        other._first_tick = int(first_tick)
        return other

    def __repr__(self) -> str:
        return f"KeyedNoise(part={self._part}, keys={len(self._heads)}, {self._first_tick=})"

    def leaf_digests(self, leaves: Ints) -> Digests:
        """Keyed digests of (tick, leaf), zero where a leaf is 0: (n, K, d) -> (n, K, 2)."""
        n, n_keys, dimension = leaves.shape
        if ciphers is not None:
            out = np.empty((n, n_keys, 2), dtype=np.uint64)
            cipher, heads = self._leaf_heads(n, dimension)
            ciphers.leaf_digests(cipher.key, heads, np.ascontiguousarray(leaves), out)
            return out
        out = np.zeros((n, n_keys, 2), dtype=np.uint64)
        some = np.bitwise_or.reduce(leaves, axis=2) != 0
        tick, key = np.nonzero(some)
        if not tick.size:
            return out
        if tick.size < dimension // _WIDE:  # few wide leaves: one long chain each
            cipher, heads = self._leaf_heads(n, dimension)
            padded = np.zeros((-(-dimension // 2), 2), dtype=np.uint64)
            flat = padded.reshape(-1)[:dimension]
            for t, k in zip(tick.tolist(), key.tolist(), strict=True):
                flat[:] = leaves[t, k].view(np.uint64)
                out[t, k] = cipher.chain(heads[t], padded)
            return out
        rows = np.ascontiguousarray(leaves).reshape(-1, dimension)
        every = tick.size == len(rows)  # then views do, without a copy of each piece
        where = None if every else tick * n_keys + key
        self._chain_rows(n, tick, rows, where, out.reshape(-1, 2))
        return out

    def cell_digests(self, ticks: Ints, values: Ints) -> Digests:
        """What ``leaf_digests`` gives of single leaves, none of which is 0.

        Args:
          ticks: (m,) from the stride's first on. values: (m, d) int64.

        Returns:
          (m, 2).
        """
        out = np.empty((len(ticks), 2), dtype=np.uint64)
        if len(ticks):
            self._chain_rows(int(ticks.max()) + 1, ticks, np.ascontiguousarray(values), None, out)
        return out

    def _leaf_heads(self, n: int, dimension: int) -> tuple[Aes, Words]:
        """The cipher of leaf digests, and its state after the first frame of n ticks."""
        cipher = self._root.leaf()
        first = np.empty((n, 2), dtype=np.uint64)
        first[:, 0] = _LEAF_FRAME << 56 | self._part << 40 | dimension
        first[:, 1] = np.arange(self._first_tick, self._first_tick + n, dtype=np.uint64)
        return cipher, cipher.encrypt_new(first)

    def _chain_rows(
        self, n: int, tick: Ints, leaves: Ints, where: Ints | None, out: Digests
    ) -> None:
        """Digests of leaves of the ticks ``tick`` (m,), below n: of rows of ``leaves`` (r, d) and
        into rows of ``out`` (r, 2); where: which, (m,); None: all of them."""
        dimension = leaves.shape[1]
        cipher, heads = self._leaf_heads(n, dimension)
        if ciphers is not None and where is None:
            ciphers.cell_digests(cipher.key, heads, np.ascontiguousarray(tick), leaves, out)
            return
        flat = leaves.view(np.uint64)
        step = 1 << 14
        buffers = block_buffer(min(step, tick.size)), block_buffer(min(step, tick.size))
        for start in range(0, tick.size, step):
            piece = slice(start, start + step)
            rows = flat[piece] if where is None else flat[where[piece]]
            state = heads[tick[piece]]
            for frame in range(0, dimension, 2):
                source = buffers[0][: len(rows)]
                source[:] = state
                source[:, : min(2, dimension - frame)] ^= rows[:, frame : frame + 2]
                state = cipher.encrypt(source, buffers[1])
            out[piece if where is None else where[piece]] = state

    def gaussian(self, labels: Digests, digests: Digests, dimension: int) -> Floats:
        """Standard normals. labels: (m, 2) uint64; digests: (m, K, 2) -> (m, K, dimension)."""
        return gaussian(self._streams(GAUSSIAN, labels, digests), dimension)

    def k_norm(self, labels: Digests, digests: Digests, dimension: int) -> Floats:
        """Density proportional to exp(-||x||_2). Shapes as in ``gaussian``."""
        return k_norm(self._streams(K_NORM, labels, digests), dimension)

    def discrete_gaussian(
        self,
        labels: Digests,
        digests: Digests,
        variances: Sequence[int] | Sequence[tuple[int, ...]],
    ) -> Ints:
        """Exact discrete Gaussians, sigma^2 = variances[i] for coordinate i, or of each label:
        (m, K, d) int64."""
        return discrete_gaussian(self._streams(DISCRETE_GAUSSIAN, labels, digests), variances)

    def gumbel(self, labels: Digests, digests: Digests, dimension: int) -> Floats:
        """Standard Gumbel variables, for selection. Shapes as in ``gaussian``."""
        return gumbel(self._streams(SELECTION, labels, digests), dimension)

    def select(self, labels: Digests, digests: Digests, scores: Floats, scale: float) -> Ints:
        """Indices of the least ``scores - scale * gumbel``, by few logarithms: (m, J) -> (m,)."""
        return select_gumbel(self._streams(SELECTION, labels, digests), scores, scale)

    def laplace(self, labels: Digests, digests: Digests, dimension: int) -> Floats:
        """Standard Laplace variables, for selection. Shapes as in ``gaussian``."""
        return laplace(self._streams(LAPLACE, labels, digests), dimension)

    def generalised_gaussian(
        self, labels: Digests, digests: Digests, dimension: int, exponent: float
    ) -> Floats:
        """Density proportional to exp(-||x||_r^2 / 2), r the exponent. Shapes as ``gaussian``."""
        streams = self._streams(GENERALISED_GAUSSIAN, labels, digests)
        return generalised_gaussian(streams, dimension, exponent)

    def bits(self, labels: Digests, digests: Digests, count: int) -> Words:
        """Uniform random words, for sampling: (m, K, count) uint64."""
        streams = self._streams(SAMPLE, labels, digests)
        drawn = streams.drawn(count, WORDS)
        if drawn is not None:
            return drawn
        out = np.empty((*streams.shape, count), dtype=np.uint64)
        for where, words in streams.words(count):
            out[where] = words.reshape(out[where].shape)
        return out

    def sources(self, purpose: int, labels: Digests) -> tuple[bytes, bytes, Words, Words] | None:
        """What names draws of labels (m, 2) and any digests, for a kernel that makes these itself;
        None where there is none, or draws are recorded."""
        if ciphers is None or replay.session() is not None:
            return None
        unnamed = np.broadcast_to(np.uint64(0), (len(labels), len(self._heads), 2))
        return self._streams(purpose, labels, unnamed).sources

    def _streams(self, purpose: int, labels: Digests, digests: Digests) -> Streams:
        root, recorded = self._root, replay.session()
        if recorded is not None and purpose != SAMPLE:
            recorded.draws(purpose, self._part, self._heads, labels, digests)
        return Streams(root.mac(), root.stream(), self._heads, purpose, self._part, labels, digests)
