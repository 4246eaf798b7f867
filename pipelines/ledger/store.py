"""The store of a ledger: entries in a hash chain, and the disks that it must not lie on."""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from weir.dpcore.errors import ConfigError


@dataclass(frozen=True)
class Row:
    """One record as it is stored.

    Attributes:
      number: in its scope, from 0 on. body: JSON text. before, hash: hexadecimal.
    """

    number: int
    body: str
    before: str
    hash: str


def next_row(scope: str, rows: Sequence[Row], body: Mapping[str, Any]) -> Row:
    """The record that follows."""
    before = rows[-1].hash if rows else _hash(scope, -1, "", "")
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    number = len(rows)
    return Row(number, text, before, _hash(scope, number, before, text))


def verify(scope: str, rows: Sequence[Row], name: str) -> None:
    """Refuses records that are not what was written.

    Args:
      name: of the ledger, for the message.

    Raises:
      ConfigError: names the first record that does not fit.
    """
    before = _hash(scope, -1, "", "")
    for place, row in enumerate(rows):
        texts = all(isinstance(part, str) for part in (row.body, row.before, row.hash))
        fits = texts and row.number == place and row.before == before
        if not fits or row.hash != _hash(scope, row.number, before, row.body):
            raise ConfigError(
                "ledger",
                name,
                f"has been changed: record {place:,} of the scope {scope!r} is not what was "
                "written there, so nobody knows what is spent. Bring the ledger back from a copy, "
                "or open a new scope that counts everything that was released.",
            )
        before = row.hash


def _hash(scope: str, number: int, before: str, body: str) -> str:
    fields = ("weir ledger", scope, str(number), before, body)
    framed = b"".join(
        len(data).to_bytes(8, "little") + data for data in (field.encode() for field in fields)
    )
    return hashlib.sha256(framed).hexdigest()


REMOTE: Final = frozenset(
    [
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "davfs",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "orangefs",
        "pvfs2",
        "smb3",
        "smbfs",
        "virtiofs",
        "vboxsf",
        "vmhgfs",
    ]
)
"""Types of file systems whose locks are another machine's to keep, or nobody's."""
MOUNTS: Final = Path("/proc/self/mountinfo")


def remote_type(path: Path, mounts: Path = MOUNTS) -> str | None:
    """Type of the file system of a path where it is known to lie on another machine.

    None: it does not, or this system does not tell (it is Linux that does). File systems of
    programs (``fuse.*``) count as remote, because most are: ``sshfs``, ``gcsfuse``, ``s3fs``.
    """
    try:
        text = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    real = os.path.realpath(path)
    result, depth = "", -1
    for line in text.splitlines():
        left, dash, right = line.partition(" - ")
        fields = left.split(" ")
        if not dash or len(fields) < 5:
            continue
        mount = fields[4].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        inside = mount == "/" or real == mount or real.startswith(mount + "/")
        if inside and len(mount) >= depth:  # of two in one place the later lies on top
            result, depth = right.split(" ")[0], len(mount)
    return result if result in REMOTE or result.startswith("fuse.") else None


T = TypeVar("T")

VERSION: Final = 1
"""Of the stored layout; raised when an older Weir could no longer read it."""


class Transaction(NamedTuple):
    """What a transaction adds to a scope, and what it answers."""

    bodies: Sequence[Mapping[str, Any]]
    answer: Any


class LedgerStore(ABC):
    """Chains of records by scope, only ever added to."""

    name: str
    """What it is called in messages: a path, or a place without passwords."""

    @abstractmethod
    def scopes(self) -> list[str]:
        """Names of the scopes, sorted."""

    @abstractmethod
    def rows(self, scope: str) -> list[Row]:
        """Records of a scope in order, not yet verified. Writes nothing."""

    @abstractmethod
    def chains(self) -> dict[str, list[Row]]:
        """Records of all scopes, each in order, not yet verified. Writes nothing. Within ``work``
        of ``change``, what it answers is part of the transaction."""

    @abstractmethod
    def key(self, create: bool) -> bytes | None:
        """32 random bytes next to the records, not in them: what digests of events are keyed with.

        Args:
          create: whether to make them where there are none.

        Returns:
          None where there are none, and none are to be made.
        """

    @property
    def key_name(self) -> str:
        """Where the key is, in words."""
        return f"the key of {self.name}"

    @abstractmethod
    def change(self, scope: str, work: Callable[[Sequence[Row]], Transaction]) -> Any:
        """One transaction: nobody else writes to the scope from ``work``'s rows to the commit.

        Args:
          work: records in order -> what to add, and the answer. It may be called again where a
            server asks for that; what it raises ends the transaction and nothing is written.

        Returns:
          The answer, once what is added is safe on disk.
        """

    @abstractmethod
    def close(self) -> None:
        """Lets go of it."""


def refuse_newer(name: str, version: int) -> None:
    """Raises ConfigError where a newer Weir made a ledger."""
    if version > VERSION:
        raise ConfigError(
            "ledger",
            name,
            f"was made by a newer Weir (layout {version}, this one reads {VERSION}): upgrade.",
        )
