"""Keyed noise once more, one block at a time and from the standard library where it can be."""

from __future__ import annotations

import hashlib
import hmac

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

SECRET = bytes(range(32))
PLAN = bytes(range(100, 132))


def framed(*fields: bytes) -> bytes:
    return b"".join(len(field).to_bytes(8, "little") + field for field in fields)


def hkdf_expand(key: bytes, info: bytes, length: int) -> bytes:
    """RFC 5869, section 2.3."""
    block, out, number = b"", b"", 1
    while len(out) < length:
        block = hmac.new(key, block + info + bytes([number]), hashlib.sha256).digest()
        out, number = out + block, number + 1
    return out[:length]


def aes(key: bytes, block: bytes) -> bytes:
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)


def xor(one: bytes, two: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, two, strict=True))


def mac(key: bytes, *frames: bytes) -> bytes:
    state = bytes(16)
    for frame in frames:
        state = aes(key, xor(state, frame))
    return state


class Reference:
    """What ``RootKey`` and ``KeyedNoise`` must agree with."""

    def __init__(self, secret: bytes, release: str, plan: bytes) -> None:
        prk = hmac.new(b"weir/noise", secret, hashlib.sha256).digest()
        info = framed((1).to_bytes(4, "little"), release.encode(), plan)
        self.root = hkdf_expand(prk, info, 32)

    def subkey(self, name: bytes, length: int = 16) -> bytes:
        return hkdf_expand(self.root, framed(b"weir/noise", name), length)

    def tag(self, user: bytes) -> bytes:
        key = self.subkey(b"user tag", 32)
        return hashlib.blake2b(user, key=key, digest_size=16, person=b"weir user tag").digest()

    def leaf(self, part: int, tick: int, leaf: list[int]) -> bytes:
        if not any(leaf):
            return bytes(16)
        head = (1 << 56 | part << 40 | len(leaf)).to_bytes(8, "little") + tick.to_bytes(8, "little")
        data = b"".join(value.to_bytes(8, "little", signed=True) for value in leaf)
        data += bytes(-len(data) % 16)
        frames = [data[i : i + 16] for i in range(0, len(data), 16)]
        return mac(self.subkey(b"leaf"), head, *frames)

    def seed(
        self, purpose: int, part: int, level: int, index: int, user: bytes, digest: bytes
    ) -> bytes:
        word = purpose << 56 | part << 40 | level
        frame = word.to_bytes(8, "little") + index.to_bytes(8, "little")
        return mac(self.subkey(b"mac"), self.tag(user), frame, digest)

    def words(self, seed: bytes, count: int) -> list[int]:
        out: list[int] = []
        for block in range((count + 1) // 2):
            data = aes(self.subkey(b"stream"), xor(seed, block.to_bytes(16, "little")))
            out += [int.from_bytes(data[:8], "little"), int.from_bytes(data[8:], "little")]
        return out[:count]
