"""How much memory is left for this process, and what it does with memory that it has freed."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from weir.dpcore.errors import WeirError

RESERVE = 128 * 2**20
"""Bytes that must be left: what a batch and its copies take."""
_SYSTEM = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


class MemoryFull(WeirError):
    """A run that needs more memory than there is. Its text holds nothing of an event."""


def refuse_full() -> None:
    """Ends a run that has almost used up the memory of this machine or of its container.

    Raises:
      MemoryFull: says how much is left, and what to do.
    """
    left = available()
    if left is not None and left < RESERVE:
        raise MemoryFull(
            f"memory is nearly used up ({left >> 20} MB are left), and the local engine keeps what "
            "it has gathered in memory. Run on a larger machine, or with --runner flink; the same "
            "command with the same secret goes on from the results so far."
        )


def available() -> int | None:
    """Bytes that this process may still take; None where the system does not say."""
    results = [left for left in (_of_system(), _of_group()) if left is not None]
    return min(results, default=None)


def _of_system() -> int | None:
    try:
        lines = _SYSTEM.read_text().splitlines()
    except OSError:
        return None
    sizes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(sizes[0]) * 1024 if sizes else None


def _of_group() -> int | None:
    """Of the control group (version 2): pages of files count as free."""
    try:
        most = (_GROUP / "memory.max").read_text().strip()
        used = int((_GROUP / "memory.current").read_text())
        stat = (_GROUP / "memory.stat").read_text().splitlines()
    except (OSError, ValueError):
        return None
    if most == "max":
        return None
    cached = sum(int(line.split()[1]) for line in stat if line.startswith("inactive_file "))
    return int(most) - used + cached


TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Numbers of settings of the C library of GNU (``mallopt``)."""
KEPT = 256 * 2**20
"""Bytes that a heap of the C library may keep at its end."""
LARGEST = 32 * 2**20
"""Bytes from which on a block is asked of the system, and given back to it: as many as can be."""
_OWN = ("MALLOC_", "GLIBC_TUNABLES")


def keep_freed() -> bool:
    """Lets this process keep what it frees for what it asks for next. Batches are alike, so it is
    as much; from the system it would come as new pages, which have to be cleared each time: a fifth
    of the time in which a text is decoded. For processes that do one thing and end.

    Returns:
      Whether it does: another C library knows no such settings, and where the surroundings say how
      memory is to be kept (``MALLOC_...``, ``GLIBC_TUNABLES``) they are heard.
    """
    if any(name.startswith(_OWN) for name in os.environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if mallopt is None:
        return False
    return bool(mallopt(TRIM_THRESHOLD, KEPT)) and bool(mallopt(MMAP_THRESHOLD, LARGEST))


def give_back() -> None:
    """Gives the system what this process has freed: after much was freed that is not asked for
    again, as heaps keep it, each for its own threads. Gigabytes take a fifth of a second."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


__all__ = ["MemoryFull", "available", "give_back", "keep_freed", "refuse_full"]
