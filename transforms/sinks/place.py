"""A folder of results: what may be written into it, and when it is complete."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from weir.dpcore.errors import ConfigError
from weir.transforms.runtime import fence
from weir.transforms.runtime.files import (
    exists,
    is_remote,
    join,
    move,
    names,
    put,
    read,
    remove,
    replace,
)

PLAN_FILE = "_plan.json"
COMPLETE_FILE = "_COMPLETE"
MARKS_FILE = "_marks.json"
"""Marks of the secrets of a run, next to its plan."""
HELD_FOLDER = "_held"
"""Folder inside a folder of results: what a run over files wrote and did not publish yet."""
PARTS = "sink_parts"
"""Field of ``_plan.json``: files of a range of ticks, where there are several."""
DIGITS = 12
_TICKS = re.compile(r"ticks-(\d+)-(\d+)\.")


_FILE = re.compile(r"ticks-(\d+)-(\d+)\.(?:(\d+)-of-\d+\.)?(?:parquet|csv|ndjson)\Z")


class FileSpan(NamedTuple):
    """What a file holds: its first and last tick, and the number of its part."""

    first: int
    last: int
    part: int


class Part(NamedTuple):
    """Which of the files of a range of ticks: number, of how many."""

    number: int
    among: int


WHOLE = Part(0, 1)
"""The only file of a range."""


def file_name(first: int, last: int, form: str, part: Part = WHOLE) -> str:
    """Name of the file that holds ticks first .. last, of one part of the blocks."""
    ticks = f"ticks-{first:0{DIGITS}d}-{last:0{DIGITS}d}"
    if part.among == 1:
        return f"{ticks}.{form}"
    width = len(str(part.among))
    return f"{ticks}.{part.number + 1:0{width}d}-of-{part.among}.{form}"


def json_in(content: bytes | None) -> dict[str, Any] | None:
    """The JSON object that a file of a folder holds; None where it is absent, or holds none."""
    try:
        stored = json.loads(content or b"null")
    except (ValueError, RecursionError):
        return None
    return stored if isinstance(stored, dict) else None


@contextlib.contextmanager
def as_written(field: str, folder: str) -> Iterator[None]:
    """Inside, fields of ``_plan.json`` are read, which somebody may have edited.

    Raises:
      ConfigError: one of them is missing, or of another type.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        raise ConfigError(
            field,
            folder,
            f"holds a {PLAN_FILE} that is not as its run wrote it. Put the file back from a copy.",
        ) from None


def parts_in(folder: str) -> int | None:
    """In how many files a folder of results has each range; None where none was begun."""
    stored = json_in(read(join(folder, PLAN_FILE)))
    if stored is None:
        return None  # ``check`` says what is wrong with the folder
    with as_written("sink", folder):
        return int(stored.get(PARTS, 1))


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
        if not has_anything(folder):
            return False
        stored = read(join(folder, PLAN_FILE))  # another run may have begun it meanwhile
    if stored is None:
        raise ConfigError(
            field,
            folder,
            "holds files that no run of this plan wrote: give an empty or a new folder.",
        )
    if (json_in(stored) or {}).get("layout") != layout:
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


def entered_as(folder: str) -> str | None:
    """Entry of a ledger that counts the run of a folder, as the run noted it; None: no ledger was
    asked."""
    noted = (json_in(read(join(folder, PLAN_FILE))) or {}).get("ledger")
    return str(noted["entry"]) if isinstance(noted, dict) and "entry" in noted else None


def refuse_fresh(folder: str, field: str) -> None:
    """Refuses to go on from releases with a secret that is drawn again.

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
        entry = entered_as(folder)
        again = (
            f"They cost nothing as long as nobody sees them: remove {held(folder)} to start again."
            if entry is None
            else f"The ledger counts them as spent (entry {entry}), and a run into another folder "
            f"too; {held(folder)} stays as it is."
        )
        raise ConfigError(
            field,
            folder,
            "holds back releases made with another secret, and this run would draw a fresh one: "
            f"set secret to the one of that run, or publish them with --publish. {again}",
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
        if not put(join(folder, PLAN_FILE), text.encode()):  # another run was faster
            return check(folder, str(plan["layout"]), field)
    return begun


def finish(folder: str) -> None:
    """Marks a folder as complete."""
    put(join(folder, COMPLETE_FILE), b"")


def has_anything(folder: str) -> bool:
    """Whether a folder holds any file that says whose it is."""
    return any(not name.startswith(".") and name != fence.FOLDER for name in names(folder))


def has_results(folder: str) -> bool:
    """Whether a folder holds releases, published or held back."""
    return ticks_in(folder) > 0 or ticks_in(held(folder)) > 0


def span_of(name: str) -> FileSpan | None:
    """Which ticks the file of a name holds; None: it is no file of releases."""
    match = _FILE.match(name)
    return None if match is None else FileSpan(int(match[1]), int(match[2]), int(match[3] or 1) - 1)


def release_files(folder: str) -> dict[str, FileSpan]:
    """Names of the files of releases in a folder, in order of ticks, and what they hold."""
    spans = {name: span_of(name) for name in sorted(names(folder))}
    return {name: span for name, span in spans.items() if span is not None}


def ticks_in(folder: str) -> int:
    """How many ticks there are up to the last one that a folder has a file of; 0: no file."""
    result = (_TICKS.match(name) for name in names(folder))
    return max((int(match[2]) + 1 for match in result if match), default=0)


__all__ = [
    "COMPLETE_FILE",
    "DIGITS",
    "HELD_FOLDER",
    "MARKS_FILE",
    "PARTS",
    "PLAN_FILE",
    "WHOLE",
    "FileSpan",
    "Part",
    "check",
    "entered_as",
    "exists",
    "file_name",
    "finish",
    "has_anything",
    "has_results",
    "held",
    "is_remote",
    "join",
    "make_held",
    "move",
    "names",
    "parts_in",
    "prepare",
    "put",
    "read",
    "refuse_fresh",
    "release_files",
    "remove",
    "replace",
    "span_of",
    "ticks_in",
]
