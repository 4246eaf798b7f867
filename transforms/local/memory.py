"""How much memory is left for this process, and an error before there is none."""

from __future__ import annotations

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
    found = [left for left in (_of_system(), _of_group()) if left is not None]
    return min(found, default=None)


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


__all__ = ["MemoryFull", "available", "refuse_full"]
