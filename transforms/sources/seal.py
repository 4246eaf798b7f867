"""A keyed digest of files, and whether they are still what it was made of when they are read.

With the key, two digests show whether two inputs hold the same bytes. Without it they show nothing,
not even to somebody who knows every record but one. Local files are read whole, once. Of an object
in a bucket the identity counts: path, size, the store's checksum, and when it was written. A
checksum alone is not enough, because a CRC can be forged.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from weir.dpcore.errors import ConfigError, WeirError
from weir.transforms.formats.stored import COMPRESSED, File, is_local
from weir.transforms.runtime import files

SETTLED_NS: Final = 50_000_000
"""A file that was written less long ago may be written again without a new time of change: file
systems take the time from a clock that stands still for a few milliseconds."""
TRIES: Final = 3
BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


class SourceChanged(WeirError):
    """A file is not the one that the run began with."""


class Sealed(NamedTuple):
    """Files as they were when they were looked at.

    Attributes:
      digest: 32 hex digits. files: each with its version.
    """

    digest: str
    files: tuple[File, ...]


def key_for(key: bytes) -> bytes:
    """The key of digests of events, from one that serves other things too."""
    return hmac.new(key, b"weir ledger source", hashlib.sha256).digest()


Names = Callable[[str], Mapping[str, str | None]]
"""Path of a file -> what its folders say of its records."""


def _no_names(path: str) -> Mapping[str, str | None]:
    """Of a file whose folders say nothing."""
    return {}


def seal(
    find: Callable[[], Sequence[File]], field: str, key: bytes, names: Names = _no_names
) -> Sealed | None:
    """Looks at all files; their order does not matter, and of their names only how they are
    compressed, and what the names of folders say of the records.

    Args:
      find: gives the files. field: the setting that names them. key: of the digest.

    None: there are none, or they cannot be read (the run itself says what is wrong).

    Raises:
      ConfigError: they change while they are looked at.
    """
    own = key_for(key)
    try:
        result = find()
    except (OSError, ConfigError):
        return None
    try:
        pairs = [_one(file, field, own, names(file.path)) for file in result]
    except OSError:
        return None
    digest = hashlib.blake2b(key=own, digest_size=16)
    for pair, _ in sorted(pairs):
        digest.update(len(pair).to_bytes(8, "little") + pair)
    return Sealed(digest.hexdigest(), tuple(file for _, file in pairs))


def refuse_changed(path: str, version: str, when: str) -> None:
    """Ends a run whose file is not the version that it began with.

    Args:
      path: of the file. version: as ``seal`` noted it; "": nobody did. when: for the message.

    Raises:
      SourceChanged: says so, and nothing of the content.
    """
    if version and not _is_same(path, version):
        raise SourceChanged(
            f"{path} changed {when}, and the ledger has entered it as it was. Put it back and run "
            "again, which goes on under the same entry; other events need a new secret, which is "
            "an entry of its own."
        )


def version_of(path: str) -> str:
    """What changes whenever a file does: of a local one its size, times of the last change of
    content and of the file itself (which nobody can set), its number, and this machine."""
    if not is_local(path):
        result = files.entry(path)
        return "none" if result is None else f"{result.size} {result.checksum} {result.changed}"
    try:
        at = os.stat(path)
    except FileNotFoundError:
        return "none"
    return f"{at.st_size} {at.st_mtime_ns} {at.st_ctime_ns} {at.st_ino} {_machine()}"


def _is_same(path: str, sealed: str) -> bool:
    """Whether a file is a version. A worker on another machine sees other times of the same file,
    or has a copy: there the content must agree."""
    before, content = sealed.rsplit(" ", 1)
    now = version_of(path)
    if now == before:
        return True
    machines = [item.rsplit(" ", 1)[-1] for item in (before, now)]
    if not is_local(path) or now == "none" or machines[0] == machines[1]:
        return False
    return _content_at(path, now) == content


@lru_cache(maxsize=1024)
def _content_at(path: str, version: str) -> str:
    """Digest of a file as it is at a version, once a process."""
    return _content(path).hex()


@cache
def _machine() -> str:
    """This machine since it was started; containers of it are the same."""
    with suppress(OSError):
        return BOOT.read_text().strip()
    return platform.node() or "unknown"


def _one(
    file: File, field: str, key: bytes, partition: Mapping[str, str | None]
) -> tuple[bytes, File]:
    """Keyed digest and version of one file."""
    for _ in range(TRIES):
        if is_local(file.path):
            _wait_until_settled(file.path)
        before = version_of(file.path)
        if is_local(file.path) or not before.split()[2:]:
            content = _content(file.path)
        else:
            content = _digest(f"{file.path} {before}".encode())
        if version_of(file.path) == before:
            ending = next((end for end in COMPRESSED if file.path.endswith(end)), "")
            said = ending.encode() + (_spelled(partition) if partition else b"")
            keyed = hashlib.blake2b(content + said, key=key, digest_size=16).digest()
            return keyed, file._replace(version=f"{before} {content.hex()}")
    raise ConfigError(
        field, file.path, "changes while it is looked at: wait until it is written, and run again."
    )


def _spelled(partition: Mapping[str, str | None]) -> bytes:
    return json.dumps(dict(partition), sort_keys=True).encode()


def _content(path: str) -> bytes:
    with files.open_raw(path) as raw:
        read = cast(Any, raw)
        return hashlib.file_digest(read, lambda: hashlib.blake2b(digest_size=32)).digest()


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=32).digest()


def _wait_until_settled(path: str) -> None:
    rest = SETTLED_NS - (time.time_ns() - os.stat(path).st_ctime_ns)
    if rest > 0:
        time.sleep(min(rest, SETTLED_NS) / 1e9)
