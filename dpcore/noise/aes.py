"""AES-128 over whole arrays of 16-byte blocks: the one primitive under all noise."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cached_property

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from weir.dpcore.errors import WeirError
from weir.dpcore.native import ciphers

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
