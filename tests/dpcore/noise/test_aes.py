from __future__ import annotations

import numpy as np
import pytest

from weir.dpcore.noise.streams import Aes, block_buffer


def test_fips_197_appendix_c1():
    cipher = Aes(bytes(range(16)))
    plain = np.frombuffer(bytes.fromhex("00112233445566778899aabbccddeeff"), dtype=np.uint64)
    encrypted = cipher.encrypt_new(plain.reshape(1, 2))
    assert encrypted.tobytes().hex() == "69c4e0d86a7b0430d8cdb78070b4c55a"


def test_each_block_is_encrypted_alone():
    cipher = Aes(bytes(16))
    blocks = np.arange(2000, dtype=np.uint64).reshape(-1, 2)
    out = cipher.encrypt(blocks, block_buffer(1500))
    assert out.shape == (1000, 2)
    for i in (0, 17, 999):
        assert np.array_equal(out[i], Aes(bytes(16)).encrypt_new(blocks[i : i + 1])[0])


def test_no_blocks():
    assert Aes(bytes(16)).encrypt_new(np.empty((0, 2), dtype=np.uint64)).shape == (0, 2)


def test_key_length():
    with pytest.raises(ValueError, match="16 bytes, got 15"):
        Aes(bytes(15))
