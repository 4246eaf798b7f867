"""A keyed digest of files: whether they hold the same bytes, told to whom has the key alone."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any, cast

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from weir.dpcore.errors import ConfigError
from weir.transforms.sources.matching import File, is_local, match, open_raw


def seal(path: str, field: str, key: bytes) -> str | None:
    """Digest of the files of a path, a folder or a glob, whatever their names; 32 hex digits.

    Local files are read whole. Of files in a bucket, size and the store's own checksum count.
    None: there are none, or they cannot be read (the run itself says what is wrong).
    """
    own = hmac.new(key, b"weir ledger source", hashlib.sha256).digest()
    try:
        found = sorted(_one(file, own) for file in match(path, field))
    except (OSError, BeamIOError, ConfigError):
        return None
    digest = hashlib.blake2b(key=own, digest_size=16)
    for one in found:
        digest.update(len(one).to_bytes(8, "little") + one)
    return digest.hexdigest()


def _one(file: File, key: bytes) -> bytes:
    if not is_local(file.path):
        return f"{file.size} {FileSystems.checksum(file.path)}".encode()
    with open_raw(file.path) as raw:
        read = cast(Any, raw)
        return hashlib.file_digest(read, lambda: hashlib.blake2b(key=key)).digest()
