"""Standard input and pipes as files: what comes out of one is copied into a private temporary file,
because a source is matched, looked at and read, each time from its beginning.

On Linux the file loses its name once it is written, so that nothing is left of it however the
process ends; elsewhere it is removed when the process exits.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import sys
import tempfile
from contextlib import suppress
from typing import BinaryIO

from weir.dpcore.errors import ConfigError
from weir.transforms.formats.stored import is_compressed
from weir.transforms.runtime import files

STDIN = "-"
_STDIN_NAMES = (STDIN, "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
_BYTES = 1 << 20
_spooled: dict[str, str] = {}
"""Path -> its copy. What a pipe holds comes once."""


def is_stream(path: str) -> bool:
    """Whether a path is standard input or a pipe. Opens nothing: that may block."""
    if path == STDIN:
        return True
    if files.is_remote(path):
        return False
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def spooled(path: str, field: str) -> str:
    """The path of a copy of what a pipe holds, mode 0600. Waits until its writer is done.

    Raises:
      ConfigError: nothing is piped in, it cannot be read or kept, or its name says that it is
        compressed.
    """
    if path not in _spooled:
        if is_compressed(path):
            raise ConfigError(
                field,
                path,
                "is a pipe, and its name ends as that of a compressed file. Unpack on the way in, "
                "like `zcat events.csv.gz | weir run job.yaml --set source.csv=-`.",
            )
        _spooled[path] = _copied(path, field)
    return _spooled[path]


def _copied(path: str, field: str) -> str:
    stdin = path in _STDIN_NAMES
    if stdin and (sys.stdin is None or sys.stdin.isatty()):
        raise ConfigError(
            field,
            path,
            "is standard input, and nothing is piped into it. Write `... | weir run job.yaml`, or "
            "name a file.",
        )
    descriptor, name = tempfile.mkstemp(prefix="weir-")  # of mode 0600
    try:
        with os.fdopen(os.dup(descriptor), "wb") as out, _opened(path, stdin) as raw:
            shutil.copyfileobj(raw, out, _BYTES)
    except OSError as error:
        os.unlink(name)
        os.close(descriptor)
        raise ConfigError(
            field,
            path,
            f"cannot be copied to {tempfile.gettempdir()} ({error.strerror}). Free space there, or "
            "set TMPDIR to a folder that has some.",
        ) from None
    reopened = f"/proc/self/fd/{descriptor}"
    if os.path.exists(reopened):
        os.unlink(name)
        return reopened
    os.close(descriptor)
    atexit.register(_remove, name)
    return name


def _opened(path: str, stdin: bool) -> BinaryIO:
    return os.fdopen(os.dup(0), "rb") if stdin else open(path, "rb")


def _remove(name: str) -> None:
    with suppress(OSError):
        os.unlink(name)
