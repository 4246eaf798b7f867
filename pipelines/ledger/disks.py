"""Which file systems lie on another machine, where a lock of SQLite may hold nobody back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

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
    found, depth = "", -1
    for line in text.splitlines():
        left, dash, right = line.partition(" - ")
        fields = left.split(" ")
        if not dash or len(fields) < 5:
            continue
        mount = fields[4].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        inside = mount == "/" or real == mount or real.startswith(mount + "/")
        if inside and len(mount) >= depth:  # of two in one place the later lies on top
            found, depth = right.split(" ")[0], len(mount)
    return found if found in REMOTE or found.startswith("fuse.") else None


__all__ = ["REMOTE", "remote_type"]
