"""What this process does with memory that it has freed."""

from __future__ import annotations

import ctypes
import os

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


__all__ = ["keep_freed"]
