"""Ed25519 keys (RFC 8032): made, read by reference, used and checked.

A signing key is 32 bytes, kept and referred to as the secret of the noise is. It has nothing to do
with that secret: who holds it can sign, and learns nothing about events.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from weir.dpcore.errors import ConfigError
from weir.transforms.runtime.secret import SecretRef, drawn

FIELD = "sink.signing_key"
_HEX = re.compile(rb"[0-9a-fA-F]{64}")


@dataclass(frozen=True)
class Signer:
    """Signs with a key that is read where it is used.

    Attributes:
      reference: where the key is.
    """

    reference: SecretRef

    def _key(self) -> Ed25519PrivateKey:
        """Reads the key.

        Raises:
          ConfigError: it cannot be read, or is not 32 bytes; quotes nothing of it.
        """
        try:
            return Ed25519PrivateKey.from_private_bytes(self.reference.resolve())
        except ConfigError as error:
            remedy = error.remedy.partition(" (make one with")[0].rstrip(".")
            raise ConfigError(
                f"{FIELD}.{self.reference.kind}",
                error.value,
                f"{remedy}. It is the key that signs receipts: make one with weir keygen.",
            ) from None

    def public(self) -> str:
        """The public key, 64 hex digits. Raises as ``sign``."""
        return _hex(self._key().public_key())

    def sign(self, content: bytes) -> str:
        """The signature of some bytes, 128 hex digits.

        Raises:
          ConfigError: the key cannot be read.
        """
        return self._key().sign(content).hex()


def is_signed(content: bytes, signature: str, public: str) -> bool:
    """Whether a signature of some bytes was made with the signing key of a public one."""
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(signature), content)
    except (InvalidSignature, ValueError):
        return False
    return True


def generate(path: Path) -> str:
    """Makes a signing key that only its owner can read, and its public key at ``path.pub``.

    Returns:
      The public key, 64 hex digits.

    Raises:
      ConfigError: a file is there already, or none can be written.
    """
    key = Ed25519PrivateKey.from_private_bytes(drawn())
    public = path.with_name(f"{path.name}.pub")
    for file in (path, public):
        if file.exists():
            raise ConfigError(
                "file",
                str(file),
                "is there already, and no key is replaced. Give another name.",
            )
    pem = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    secret = key.private_bytes_raw().hex().encode() + b"\n"
    try:
        for file, content, mode in ((path, secret, 0o600), (public, pem, 0o644)):
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(handle, "wb") as out:
                out.write(content)
    except OSError as error:
        raise ConfigError("file", str(path), f"cannot be written: {error.strerror}.") from None
    return _hex(key.public_key())


def read_public(place: str) -> str:
    """A public key as 64 hex digits.

    Args:
      place: a file with the key as PEM or as 64 hex digits, or those digits themselves.

    Raises:
      ConfigError: names ``--public-key``.
    """
    if _HEX.fullmatch(place.encode()):
        return place.lower()
    try:
        content = Path(place).read_bytes().strip()
    except OSError as error:
        raise ConfigError(
            "--public-key", place, f"cannot be read: {error.strerror}. Give KEY.pub of weir keygen."
        ) from None
    try:
        key = serialization.load_pem_public_key(content)
    except ValueError:
        key = None
    if isinstance(key, Ed25519PublicKey):
        return _hex(key)
    raise ConfigError(
        "--public-key",
        place,
        "is no public key of Ed25519 in PEM. Give KEY.pub of weir keygen, or its 64 hex digits.",
    )


def _hex(key: Ed25519PublicKey) -> str:
    return key.public_bytes_raw().hex()


__all__ = ["FIELD", "Signer", "generate", "is_signed", "read_public"]
