"""Public normals: random, known to everybody, and the same wherever and whenever they are drawn.

For what must be random but not secret: a random projection, Monte-Carlo. Never noise of a release.
"""

from __future__ import annotations

import hashlib

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import positive
from weir.dpcore.noise.aes import Aes
from weir.dpcore.noise.inverse_normal import normal_from_bits

_DOMAIN = b"weir public normals"


class PublicNormals:
    """Standard normals as a function of (purpose, seed, index), the same bits on every CPU.

    Block j of index i is AES(key, (i, j)), its key the BLAKE2b hash of purpose and seed, neither of
    which is a secret.

    Args:
      purpose: what they are for; different ones share nothing.
      seed: in [0, 2^63).
    """

    def __init__(self, purpose: bytes, seed: int = 0) -> None:
        name = seed.to_bytes(8, "little") + purpose
        self._key = hashlib.blake2b(name, digest_size=16, person=_DOMAIN[:16]).digest()

    def draw(self, index: int, n: int, dimension: int) -> Floats:
        """(n, dimension), row by row from the stream of ``index``."""
        positive(n=n, dimension=dimension)
        total = n * dimension
        counters = np.empty((-(-total // 2), 2), dtype=np.uint64)
        counters[:, 0] = index
        counters[:, 1] = np.arange(len(counters), dtype=np.uint64)
        words = Aes(self._key).encrypt_new(counters).reshape(-1)[:total]
        return normal_from_bits(words).reshape(n, dimension)
