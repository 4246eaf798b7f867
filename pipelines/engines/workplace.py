"""Temporary folders that say whether their owner still lives, so that leftovers can be told apart.

A process that is killed removes nothing. It holds a lock on a file of its folder, which the system
lets go of however it ends; who starts next removes the folders whose lock is free.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import TextIO

LOCK = ".lock"


class Workplace:
    """A temporary folder of this process.

    Args:
      prefix: of its name; ``sweep`` finds those of killed processes by it.
    """

    def __init__(self, prefix: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=prefix))
        self._lock: TextIO = (self.folder / LOCK).open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Removes it, with all that is in it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()


def sweep(prefix: str) -> list[Path]:
    """Removes this user's folders of a prefix whose owners are gone; returns which.

    A folder without a lock file is left alone: it may be younger than its lock, or not ours.
    """
    gone = []
    for folder in sorted(Path(tempfile.gettempdir()).glob(f"{prefix}*")):
        with contextlib.suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with (folder / LOCK).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
                gone.append(folder)
    return gone
