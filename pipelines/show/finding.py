"""What ``weir doctor`` finds of one thing, and how that is judged."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from weir.pipelines.terminal import bytes_text

State = Literal["good", "absent", "wrong"]
"""absent: not there, and not needed for what was asked."""

LEAST_DISK = 1 << 30
"""Bytes that a run should find free."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
      group: of the page. what: its name. state: see ``State``. found: what is there, in words.
      remedy: what to do; empty where all is good. package: whether it is one of Python.
    """

    group: str
    what: str
    state: State
    found: str
    remedy: str = ""
    package: bool = False


def judged(group: str, what: str, good: bool, found: str, remedy: str) -> Finding:
    """Good, or wrong with what to do."""
    return Finding(group, what, "good" if good else "wrong", found, "" if good else remedy)


def space(group: str, what: str, folder: Path) -> Finding:
    """Whether a folder, or the one that it would be made in, can be written to and has room."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not os.access(there, os.W_OK):
        return Finding(group, what, "wrong", f"{folder} cannot be written", f"chmod u+w {there}")
    free = shutil.disk_usage(there).free
    return judged(
        group, what, free >= LEAST_DISK, f"{folder}, {bytes_text(free)} free",
        f"make room: {bytes_text(LEAST_DISK)} or more",
    )  # fmt: skip


__all__ = ["Finding", "State", "judged", "space"]
