"""Files on a disk or in a bucket: read, and moved into place whole."""

from __future__ import annotations

import contextlib
import os
import posixpath
import shutil
import uuid
from pathlib import Path

from apache_beam.io.filesystems import FileSystems

from weir.dpcore.errors import ConfigError


def is_remote(folder: str) -> bool:
    """Whether a folder is a bucket and not on a disk."""
    return "://" in folder


def join(folder: str, name: str) -> str:
    """Path of a file in a folder."""
    return posixpath.join(folder, name) if is_remote(folder) else str(Path(folder) / name)


def read(path: str) -> bytes | None:
    """Content of a file, or None where there is none."""
    if not is_remote(path):
        try:
            return Path(path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
    if not FileSystems.exists(path):
        return None
    with FileSystems.open(path) as file:
        return bytes(file.read())


def put(path: str, content: bytes) -> bool:
    """Moves a file into place whole, unless one is there: then it stays, and False is returned.

    On a disk the move is a hard link, which never replaces anything, however many try at once.
    """
    folder, name = os.path.split(path)
    temporary = join(folder, f".{name}.{uuid.uuid4().hex}.part")
    if is_remote(path):
        if FileSystems.exists(path):
            return False
        with FileSystems.create(temporary) as file:
            file.write(content)
        FileSystems.rename([temporary], [path])
        return True
    Path(folder).mkdir(parents=True, exist_ok=True)
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        return _place(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _place(temporary: str, path: str) -> bool:
    """Links a whole file into place; False where another one is."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        if os.path.exists(path):
            return False
        os.replace(temporary, path)
    return True


def replace(path: str, content: bytes) -> None:
    """Puts a whole file in place of what is there."""
    if put(path, content) or read(path) == content:
        return
    if is_remote(path):
        with FileSystems.create(path) as file:
            file.write(content)
        return
    temporary = Path(f"{path}.part")
    temporary.write_bytes(content)
    temporary.replace(path)


def move(source: str, target: str) -> bool:
    """Moves a whole file; False, and nothing is done, without a source or where a target is.

    Stopped in between, both may be there, with the same bytes.
    """
    if is_remote(source):
        if not FileSystems.exists(source) or FileSystems.exists(target):
            return False
        FileSystems.rename([source], [target])
        return True
    try:
        moved = _place(source, target)
    except FileNotFoundError:
        return False
    if moved:
        with contextlib.suppress(FileNotFoundError):  # moved, not linked
            os.unlink(source)
    return moved


def remove(path: str) -> None:
    """Removes a file, or a folder with all that is in it; nothing happens where there is none."""
    if is_remote(path):
        inside = [
            item.path
            for result in FileSystems.match([path.rstrip("/") + "/*"])
            for item in result.metadata_list
        ]
        found = [*inside, *([path] if FileSystems.exists(path) else [])]
        if found:
            FileSystems.delete(found)
    elif Path(path).is_dir():
        shutil.rmtree(path)
    else:
        Path(path).unlink(missing_ok=True)


def names(folder: str) -> list[str]:
    """Names of the files in a folder; none where there is no such folder."""
    if not is_remote(folder):
        path = Path(folder)
        if path.exists() and not path.is_dir():
            raise ConfigError("sink", folder, "is a file; give a folder.")
        return [entry.name for entry in path.iterdir()] if path.is_dir() else []
    matched = FileSystems.match([folder.rstrip("/") + "/*"])
    return [posixpath.basename(item.path) for result in matched for item in result.metadata_list]


def exists(path: str) -> bool:
    """Whether there is a file."""
    return bool(FileSystems.exists(path)) if is_remote(path) else Path(path).is_file()
