"""A folder of results: what may be written into it, and moving files into place whole."""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import re
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from apache_beam.io.filesystems import FileSystems

from dpcore.errors import ConfigError

PLAN_FILE = "_plan.json"
COMPLETE_FILE = "_COMPLETE"
HELD_FOLDER = "_held"
"""Folder inside a folder of results: what a run over files wrote and did not publish yet."""
DIGITS = 12
_TICKS = re.compile(r"ticks-(\d+)-(\d+)\.")


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


def exists(path: str) -> bool:
    """Whether there is a file."""
    return bool(FileSystems.exists(path)) if is_remote(path) else Path(path).is_file()


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


def held(folder: str) -> str:
    """Where a run over files keeps what it did not publish yet."""
    return join(folder, HELD_FOLDER)


def make_held(folder: str) -> None:
    """Makes that folder for its owner only: what is in it is not published."""
    if not is_remote(folder):
        Path(held(folder)).mkdir(parents=True, exist_ok=True, mode=0o700)


def check(folder: str, layout: str, field: str) -> bool:
    """Whether a plan may write into a folder; reads only.

    Args:
      layout: of the plan (``plan.layout``); a folder belongs to one.
      field: of the config, for messages, like ``sink.parquet``.

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
            field,
            folder,
            "is complete: this plan has been run. Give another folder to run again, or --new.",
        )
    return True


def refuse_fresh(folder: str, field: str) -> None:
    """Refuses to go on from releases with a secret that is drawn anew.

    Raises:
      ConfigError: the folder has some, published or held back.
    """
    if ticks_in(folder):
        raise ConfigError(
            field,
            folder,
            "holds releases made with another secret, and this run would draw a fresh one: set "
            "secret to the one of that run, or give another folder (which spends budget again).",
        )
    if ticks_in(held(folder)):
        raise ConfigError(
            field,
            folder,
            "holds back releases made with another secret, and this run would draw a fresh one: "
            "set secret to the one of that run, or publish them with --publish. They cost nothing "
            f"as long as nobody sees them: remove {held(folder)} to start again.",
        )


def prepare(folder: str, plan: Mapping[str, Any], field: str) -> bool:
    """Begins or goes on with a folder: ``check``, then ``_plan.json``; before any data is read.

    Args:
      plan: what ``plan --json`` prints.

    Returns:
      Whether the folder was begun before.

    Raises:
      ConfigError: see ``check``.
    """
    begun = check(folder, str(plan["layout"]), field)
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
    """Whether a folder holds releases, published or held back."""
    return ticks_in(folder) > 0 or ticks_in(held(folder)) > 0


def ticks_in(folder: str) -> int:
    """How many ticks there are up to the last one that a folder has a file of; 0: no file."""
    found = (_TICKS.match(name) for name in names(folder))
    return max((int(match[2]) + 1 for match in found if match), default=0)


def names(folder: str) -> list[str]:
    """Names of the files in a folder; none where there is no such folder."""
    if not is_remote(folder):
        path = Path(folder)
        if path.exists() and not path.is_dir():
            raise ConfigError("sink", folder, "is a file; give a folder.")
        return [entry.name for entry in path.iterdir()] if path.is_dir() else []
    matched = FileSystems.match([folder.rstrip("/") + "/*"])
    return [posixpath.basename(item.path) for result in matched for item in result.metadata_list]
