"""A folder of results: what may be written into it, and moving files into place whole."""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from apache_beam.io.filesystems import FileSystems

from dpcore.errors import ConfigError

PLAN_FILE = "_plan.json"
COMPLETE_FILE = "_COMPLETE"
DIGITS = 12


def file_name(first: int, last: int, form: str) -> str:
    """Name of the file that holds ticks first .. last."""
    return f"ticks-{first:0{DIGITS}d}-{last:0{DIGITS}d}.{form}"


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


def check(folder: str, layout: str, field: str, fresh_secret: bool = False) -> bool:
    """Whether a plan may write into a folder; reads only.

    Args:
      layout: of the plan (``plan.layout``); a folder belongs to one.
      field: of the config, for messages, like ``sink.parquet``.
      fresh_secret: the run draws a secret of its own, so it cannot go on with another run's files.

    Returns:
      Whether the folder was begun before, by this plan.

    Raises:
      ConfigError: the folder is finished, belongs to another plan, or holds something else.
    """
    stored = read(join(folder, PLAN_FILE))
    if stored is None:
        if has_anything(folder):
            raise ConfigError(
                field,
                folder,
                "holds files that no run of this plan wrote: give an empty or a new folder.",
            )
        return False
    try:
        other = json.loads(stored)
    except ValueError:
        other = {}
    if not isinstance(other, dict) or other.get("layout") != layout:
        raise ConfigError(
            field,
            folder,
            "holds results of another plan: give another folder (weir diff compares).",
        )
    if read(join(folder, COMPLETE_FILE)) is not None:
        raise ConfigError(
            field, folder, "is complete: this plan has been run. Give another folder to run again."
        )
    if fresh_secret and has_results(folder):
        raise ConfigError(
            field,
            folder,
            "holds releases made with another secret, and this run would draw a fresh one: set "
            "secret to the one of that run, or give another folder (which spends budget again).",
        )
    return True


def prepare(folder: str, plan: Mapping[str, Any], field: str, fresh_secret: bool = False) -> bool:
    """Begins or goes on with a folder: ``check``, then ``_plan.json``; before any data is read.

    Args:
      plan: what ``plan --json`` prints.

    Returns:
      Whether the folder was begun before.

    Raises:
      ConfigError: see ``check``.
    """
    begun = check(folder, str(plan["layout"]), field, fresh_secret)
    if not begun:
        text = json.dumps(plan, indent=2, sort_keys=True) + "\n"
        put(join(folder, PLAN_FILE), text.encode())
    return begun


def finish(folder: str) -> None:
    """Marks a folder as complete."""
    put(join(folder, COMPLETE_FILE), b"")


def has_anything(folder: str) -> bool:
    """Whether a folder holds any file."""
    return any(not name.startswith(".") for name in names(folder))


def has_results(folder: str) -> bool:
    """Whether a folder holds released files."""
    return any(name.startswith("ticks-") for name in names(folder))


def names(folder: str) -> list[str]:
    """Names of the files in a folder; none where there is no such folder."""
    if not is_remote(folder):
        path = Path(folder)
        if path.exists() and not path.is_dir():
            raise ConfigError("sink", folder, "is a file; give a folder.")
        return [entry.name for entry in path.iterdir()] if path.is_dir() else []
    matched = FileSystems.match([folder.rstrip("/") + "/*"])
    return [posixpath.basename(item.path) for result in matched for item in result.metadata_list]
