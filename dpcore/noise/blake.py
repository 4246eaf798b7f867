"""BLAKE2b of many names at once: what ``hashlib`` gives of each."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.native import kernels

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
            found = hashlib.blake2b(name, digest_size=size, person=person, key=key).digest()
            out[place] = np.frombuffer(found, dtype=np.uint8)
        return out
    offsets = np.zeros(len(names) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, names), np.int64, len(names)), out=offsets[1:])
    kernels.blake2b(key, person.ljust(PERSON, b"\0"), b"".join(names), offsets, out)
    return out
