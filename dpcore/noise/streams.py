"""Keyed streams of random words, and the ciphers and hashes behind them."""

from __future__ import annotations

import copy
import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from weir.dpcore.errors import WeirError
from weir.dpcore.native import ciphers, kernels

if sys.byteorder != "little":  # words are laid out in blocks as they lie in memory
    raise WeirError("Weir needs a little-endian machine: its noise is defined on such words.")

Words = NDArray[np.uint64]
"""(..., 2) uint64: 16-byte blocks as two little-endian words."""


def block_buffer(n: int) -> Words:
    """Room for n encrypted blocks: (n + 1, 2) uint64; ``encrypt`` needs the last row as slack."""
    return np.empty((n + 1, 2), dtype=np.uint64)


def _bytes_of(words: Words) -> memoryview:
    return memoryview(words).cast("B")  # type: ignore[arg-type]


class Aes:
    """AES-128 in ECB mode, a pseudorandom permutation of blocks. Threads must not share one.

    By a kernel where the processor has instructions for it, else by ``cryptography``.

    Attributes:
      key: 16 bytes, for kernels. Never shown.
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != 16:
            raise ValueError(f"an AES-128 key has 16 bytes, got {len(key)}.")
        self.key = key

    @cached_property
    def _update(self) -> Callable[[memoryview, memoryview], int]:
        return Cipher(algorithms.AES(self.key), modes.ECB()).encryptor().update_into

    def encrypt(self, source: Words, out: Words) -> Words:
        """Encrypts each block.

        Args:
          source: (n, 2) uint64, C-contiguous.
          out: a ``block_buffer`` of at least n blocks, not overlapping ``source``.

        Returns:
          The first n rows of ``out``: (n, 2).
        """
        n = source.shape[0]
        if ciphers is not None:
            ciphers.encrypt(self.key, source, out[:n])
        elif n:
            self._update(_bytes_of(source), _bytes_of(out[: n + 1]))
        return out[:n]

    def chain(self, head: Words, source: Words) -> Words:
        """Where CBC ends: the last block over source (n, 2), n >= 1, that follows ``head`` (2,)."""
        cipher = Cipher(algorithms.AES(self.key), modes.CBC(head.tobytes())).encryptor()
        return np.frombuffer(cipher.update(source.tobytes())[-16:], dtype=np.uint64)

    def encrypt_new(self, source: Words) -> Words:
        """Encrypts each block of (n, 2) uint64 into a new array."""
        return self.encrypt(np.ascontiguousarray(source), block_buffer(source.shape[0]))


PERSON = 16
"""Bytes of a domain, at most."""


def digests(
    names: Sequence[bytes], size: int, person: bytes, key: bytes = b""
) -> NDArray[np.uint8]:
    """Digests of names, (n, size) uint8.

    Args:
      names: (n,) of any length. size: bytes of a digest, 1 to 64.
      person: the domain, 16 bytes at most. key: 64 bytes at most; empty: anybody can compute it.
    """
    out = np.empty((len(names), size), dtype=np.uint8)
    if kernels is None:
        for place, name in enumerate(names):
            result = hashlib.blake2b(name, digest_size=size, person=person, key=key).digest()
            out[place] = np.frombuffer(result, dtype=np.uint8)
        return out
    offsets = np.zeros(len(names) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, names), np.int64, len(names)), out=offsets[1:])
    kernels.blake2b(key, person.ljust(PERSON, b"\0"), b"".join(names), offsets, out)
    return out


GAUSSIAN = 1
K_NORM = 2
DISCRETE_GAUSSIAN = 3
SELECTION = 4
SAMPLE = 5
LAPLACE = 6
GENERALISED_GAUSSIAN = 7

WORK = 16384
"""Words made at once: what is worked on stays in the cache."""

WORDS, NORMALS, EXPONENTIALS, GUMBELS, LAPLACES = range(5)
"""What a kernel makes of words, each of its word: see ``inverse_normal`` and ``selection``."""

_LEVEL_BITS = 40
_PART_BITS = 16


class Streams:
    """Streams of 16-byte blocks of random bits, seeded by a MAC over everything that names a draw.

    The seed of a stream is the CBC-MAC over exactly three frames, so no input is a prefix of
    another: (user tag), (purpose u8 | part u16 | level u40, index u64), (digest). Block j of the
    stream is AES_stream(seed XOR j): seeds are pseudorandom 128-bit values, so two streams of at
    most 2^b blocks overlap with probability 2^(b - 128); among N streams, N^2 2^(b - 129).

    Args:
      mac: cipher of the MAC, which made ``heads``.
      stream: cipher of the streams.
      heads: (K, 2) uint64, the MAC's state after its first frame, the user tag.
      purpose: one of the purposes above; different ones share nothing.
      part: index of the mechanism inside a program, in [0, 2^16).
      labels: (m, 2) uint64 of (level in [0, 2^40), index).
      digests: (m, K, 2) uint64.
    """

    def __init__(
        self,
        mac: Aes,
        stream: Aes,
        heads: Words,
        purpose: int,
        part: int,
        labels: Words,
        digests: Words,
    ) -> None:
        n_labels, n_keys = labels.shape[0], heads.shape[0]
        if labels.shape != (n_labels, 2) or digests.shape != (n_labels, n_keys, 2):
            raise ValueError(
                f"labels must be (m, 2) and digests (m, K={n_keys}, 2), "
                f"got {labels.shape} and {digests.shape}."
            )
        if labels.dtype != np.uint64 or digests.dtype != np.uint64:
            raise ValueError(f"expected uint64, got {labels.dtype} and {digests.dtype}.")
        if n_labels and int(labels[:, 0].max()) >= 1 << _LEVEL_BITS:
            raise ValueError(f"a label's level must be below 2^{_LEVEL_BITS}.")
        if not 0 <= part < 1 << _PART_BITS:
            raise ValueError(f"part must lie in [0, 2^{_PART_BITS}), got {part}.")
        if not 0 < purpose < 256:
            raise ValueError(f"purpose must lie in [1, 255], got {purpose}.")
        self._mac, self._stream, self._heads, self._digests = mac, stream, heads, digests
        self._labels = labels.copy()
        self._labels[:, 0] |= np.uint64(purpose << (_PART_BITS + _LEVEL_BITS) | part << _LEVEL_BITS)
        self.shape = (n_labels, n_keys)

    def part(self, labels: slice, keys: slice) -> Streams:
        """The streams of some labels and keys."""
        out = copy.copy(self)
        out._heads, out._labels = self._heads[keys], self._labels[labels]
        out._digests = self._digests[labels, keys]
        out.shape = len(out._labels), len(out._heads)
        return out

    @property
    def sources(self) -> tuple[bytes, bytes, Words, Words]:
        """What names all streams but for their digests, as kernels take it."""
        return self._mac.key, self._stream.key, np.ascontiguousarray(self._heads), self._labels

    @property
    def named(self) -> tuple[bytes, bytes, Words, Words, Words]:
        """What names all streams, as kernels take it."""
        return *self.sources, np.ascontiguousarray(self._digests)

    def drawn(self, count: int, kind: int) -> NDArray[Any] | None:
        """Numbers made of the first ``count`` words of every stream, by a kernel.

        Args:
          kind: what is made of a word, one of those above.

        Returns:
          (m, K, count) uint64 for ``WORDS``, else float64; None where kernels are missing.
        """
        if ciphers is None:
            return None
        out = np.empty((*self.shape, count), dtype=np.uint64 if kind == WORDS else np.float64)
        ciphers.draw(*self.named, out, bytes([kind]))
        return out

    def chunks(self, pairs: int) -> Iterator[tuple[tuple[slice, slice], Words]]:
        """Seeds in pieces that stay in the cache.

        Args:
          pairs: about how many (label, key) pairs a piece should hold.

        Yields:
          (slice of labels, slice of keys), and their seeds (P, 2) uint64, label-major; valid until
          the next piece is asked for.
        """
        one: Words | None = None
        for where in self._pieces(pairs):
            digests = self._digests[where]
            size = digests.shape[0] * digests.shape[1]
            if one is None:  # the first piece is the largest
                one, two = block_buffer(size), block_buffer(size)
            framed = one[:size].reshape(digests.shape)
            for word in range(2):  # word by word: a loop along keys, not along two words
                heads, labels = self._heads[where[1], word], self._labels[where[0], None, word]
                np.bitwise_xor(heads, labels, out=framed[:, :, word])
            state = self._mac.encrypt(one[:size], two)
            np.bitwise_xor(state.reshape(digests.shape), digests, out=framed)
            yield where, self._mac.encrypt(one[:size], two)

    def _pieces(self, pairs: int) -> Iterator[tuple[slice, slice]]:
        """All (labels, keys) in pieces of about so many pairs."""
        n_labels, n_keys = self.shape
        if not n_labels or not n_keys:
            return
        columns = min(n_keys, max(1, pairs))
        rows = min(n_labels, max(1, pairs // columns))
        for row in range(0, n_labels, rows):
            for column in range(0, n_keys, columns):
                yield (
                    slice(row, min(row + rows, n_labels)),
                    slice(column, min(column + columns, n_keys)),
                )

    def words(self, count: int, work: int = WORK) -> Iterator[tuple[tuple[slice, slice], Words]]:
        """The first ``count`` words of every stream.

        Args:
          count: random words per stream.
          work: about how many words to make at once.

        Yields:
          (slice of labels, slice of keys), and (P, count) uint64, C-contiguous, label-major.
        """
        if ciphers is not None:
            yield from self._words(count, work)
            return
        blocks = (count + 1) // 2
        counters = np.arange(blocks, dtype=np.uint64)
        room: tuple[Words, Words] | None = None
        for where, seeds in self.chunks(max(1, work // max(1, count))):
            if room is None:  # the first piece is the largest
                size = seeds.shape[0] * blocks
                room = (block_buffer(size), block_buffer(size))
            words = self.blocks(seeds, counters, room).reshape(seeds.shape[0], 2 * blocks)
            yield where, np.ascontiguousarray(words[:, :count])

    def _words(self, count: int, work: int) -> Iterator[tuple[tuple[slice, slice], Words]]:
        """``words`` by a kernel."""
        for where in self._pieces(max(1, work // max(1, count))):
            words = self.part(*where).drawn(count, WORDS)
            assert words is not None
            yield where, words.reshape(-1, count)

    def blocks(self, seeds: Words, counters: Words, scratch: tuple[Words, Words]) -> Words:
        """Blocks of streams.

        Args:
          seeds: (P, 2) uint64.
          counters: (B,) or (P, B) uint64, which blocks of each stream.
          scratch: two ``block_buffer`` of at least P * B blocks; the result lies in the second.

        Returns:
          (P, B, 2) uint64 random words.
        """
        n, count = seeds.shape[0], counters.shape[-1]
        if counters.shape == (1,) and not counters[0]:  # the first block alone: seed XOR 0
            return self.encrypt(seeds, scratch[1]).reshape(n, 1, 2)
        source = scratch[0][: n * count]
        framed = source.reshape(n, count, 2)
        np.bitwise_xor(seeds[:, None, 0], counters, out=framed[:, :, 0])
        framed[:, :, 1] = seeds[:, None, 1]
        return self.encrypt(source, scratch[1]).reshape(n, count, 2)

    def encrypt(self, source: Words, out: Words) -> Words:
        """Blocks of streams at (n, 2) points seed XOR counter, into a ``block_buffer``: (n, 2)."""
        return self._stream.encrypt(source, out)
