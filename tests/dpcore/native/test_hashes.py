"""Kernels that hash give the bits of ``hashlib``, and of AES block by block."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from weir.dpcore.leaves import hashes
from weir.dpcore.native import ciphers
from weir.dpcore.noise import streams
from weir.dpcore.users import cells
from weir.dpcore.users.cells import CapKeys

TEXTS = [os.urandom(n) for n in [*range(70), 127, 128, 129, 255, 256, 257, 511, 512, 513, 5_000]]
KEYS = CapKeys.derive(bytes(range(32)), "cd" * 32)


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Any, Any]]:
    """Calls with kernels, and again without any."""

    def call(work: Callable[[], Any]) -> tuple[Any, Any]:
        fast = work()
        with monkeypatch.context() as patch:
            for module in (streams, cells, hashes):
                patch.setattr(module, "ciphers", None)
            patch.setattr(streams, "kernels", None)
            return fast, work()

    return call


@pytest.mark.parametrize("size", [1, 8, 16, 33, 64])
@pytest.mark.parametrize("key", [b"", b"k", bytes(range(32)), bytes(range(64))], ids=len)
def test_blake2b_is_that_of_the_library(compiled: Any, size: int, key: bytes) -> None:
    found = streams.digests(TEXTS, size, b"somebody", key)
    for text, digest in zip(TEXTS, found, strict=True):
        one = hashlib.blake2b(text, digest_size=size, person=b"somebody", key=key)
        assert digest.tobytes() == one.digest()
    assert streams.digests([], size, b"somebody", key).shape == (0, size)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_ids_of_any_length(compiled: Any, both: Any, kind: pa.DataType) -> None:
    ids = pa.array([None, *TEXTS, None, *reversed(TEXTS), b""], kind)
    for part in (ids, ids.slice(3), ids.slice(7, 1), ids.slice(0, 0)):
        fast, slow = both(lambda part=part: hashes.id_hashes(part, KEYS.ids))
        assert np.array_equal(fast.hashes, slow.hashes) and np.array_equal(fast.null, slow.null)


@pytest.mark.parametrize("kind", ["int8", "int16", "int64", "uint8", "uint32", "uint64"])
def test_whole_numbers(compiled: Any, both: Any, kind: str) -> None:
    rng, info = np.random.default_rng(1), np.iinfo(kind)
    powers = [10**n + d for n in range(20) for d in (-1, 0)]
    ends = [n for p in powers for n in (p, -p) if info.min <= n <= info.max]
    some = rng.integers(info.min, info.max, 1_000, dtype=kind, endpoint=True)
    numbers = np.concatenate([some, np.array([*ends, info.min, info.max], dtype=kind)])
    column = pa.array(numbers, mask=rng.random(len(numbers)) < 0.1)
    fast, slow = both(lambda: hashes.id_hashes(column, KEYS.users))
    assert np.array_equal(fast.hashes, slow.hashes) and np.array_equal(fast.null, slow.null)


@pytest.mark.parametrize("n", [0, 1, 127, 128, 129, 1_000])
def test_hashes_of_pairs_and_rows(compiled: Any, both: Any, n: int) -> None:
    rng = np.random.default_rng(n)
    users, names = rng.integers(0, 2**64, (2, n, 2), dtype=np.uint64)
    periods = rng.integers(-5, 2**62, n)
    fast, slow = both(lambda: cells.pair_hashes(users, periods, names, KEYS))
    assert np.array_equal(fast, slow)
    fast, slow = both(lambda: cells.pair_hashes(users, periods, None, KEYS))
    assert np.array_equal(fast, slow)


def test_buffers_that_do_not_fit_are_refused(compiled: Any) -> None:
    out, data = np.zeros((2, 2), dtype=np.uint64), np.zeros(9, dtype=np.uint8)
    for wrong in ([0, 3, 10], [0, 5, 4], [-1, 3, 4], [0]):
        offsets = np.array(wrong)
        with pytest.raises(ValueError, match="offsets do not decrease"):
            compiled.blake2b(b"", bytes(16), data, offsets, np.zeros((3, 5), dtype=np.uint8))
        if ciphers is not None:
            with pytest.raises(ValueError, match="must not decrease, nor leave"):
                ciphers.hash_spans(bytes(16), offsets, data, out)
    if ciphers is not None:
        with pytest.raises(ValueError):
            ciphers.hash_numbers(bytes(16), np.zeros(3, dtype=np.int64), out)
        with pytest.raises(ValueError):
            ciphers.mac(bytes(15), out, np.zeros(2, dtype=np.int64), out, out.copy())
