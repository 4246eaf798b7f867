"""Files on a disk, or on what looks like one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from weir.dpcore.errors import ConfigError
from weir.transforms.runtime.stores.store import Entry, Store

LOCK = ".weir.lock"
"""File that is locked around a move, in folders without hard links."""


class Disk(Store):
    """Files of this machine. A hard link never replaces anything, however many try at once."""

    def names(self, folder: str) -> list[str]:
        path = Path(folder)
        if path.exists() and not path.is_dir():
            raise ConfigError("sink", folder, "is a file; give a folder.")
        return [entry.name for entry in path.iterdir()] if path.is_dir() else []

    def under(self, start: str) -> Iterator[Entry]:
        top = os.path.dirname(start)
        for folder, _, names in os.walk(top or "."):
            for name in names:
                path = os.path.join(folder, name)
                path = path if top else path.removeprefix("./")
                result = self.entry(path) if path.startswith(start) else None
                if result is not None:  # it may be gone by now
                    yield result

    def entry(self, path: str) -> Entry | None:
        try:
            result = os.stat(path)
        except OSError:
            return None
        if stat.S_ISDIR(result.st_mode):
            return None
        return Entry(path, result.st_size, result.st_mtime)  # a pipe, too: its reader refuses it

    def read(self, path: str) -> bytes | None:
        try:
            return Path(path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def open(self, path: str) -> BinaryIO:
        return open(path, "rb")

    def create(self, path: str, content: bytes) -> bool:
        with _written(path, content) as temporary:
            return _place(temporary, path)

    def replace(self, path: str, content: bytes) -> None:
        with _written(path, content) as temporary:
            os.replace(temporary, path)

    def move(self, source: str, target: str) -> bool:
        try:
            moved = _place(source, target)
        except FileNotFoundError:
            return False
        if moved:
            with contextlib.suppress(FileNotFoundError):  # moved, not linked
                os.unlink(source)
        return moved

    def remove(self, path: str) -> None:
        if Path(path).is_dir():
            shutil.rmtree(path)
        else:
            Path(path).unlink(missing_ok=True)


@contextlib.contextmanager
def _written(path: str, content: bytes) -> Iterator[str]:
    """A whole file in the folder of a path, gone afterwards unless it was moved."""
    folder, name = os.path.split(path)
    Path(folder).mkdir(parents=True, exist_ok=True)
    temporary = os.path.join(folder, f".{name}.{uuid.uuid4().hex}.part")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _place(temporary: str, path: str) -> bool:
    """Links a whole file into place; False where another one is."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except FileNotFoundError:
        raise
    except OSError:  # a file system without hard links
        with open(os.path.join(os.path.dirname(path), LOCK), "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # ends with this process, however it ends
            if os.path.exists(path):
                return False
            os.replace(temporary, path)
    return True


__all__ = ["Disk"]
