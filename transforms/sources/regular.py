"""Whether a path of this machine is a file that can be read twice. Imports no Beam."""

from __future__ import annotations

import os
import stat

from weir.dpcore.errors import ConfigError

_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device or a terminal"),
    (stat.S_ISBLK, "a device"),
)


def require_regular(path: str, field: str) -> None:
    """Refuses what is there and is neither a file nor a folder. Opens nothing: that may block.

    A file is matched, looked at and read, each from its beginning; all that a pipe holds is gone
    after the first of these, and its size is 0.

    Args:
      field: the setting that holds the path.

    Raises:
      ConfigError: a pipe, a socket or a device.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return
    for is_kind, kind in _KINDS:
        if is_kind(mode):
            raise ConfigError(
                field,
                path,
                f"is {kind}, and only files can be read. Write its data to a file first, like "
                "`zcat events.csv.gz > events.csv`, and name that file; names that end in .gz, "
                ".bz2 or .xz are unpacked.",
            )


__all__ = ["require_regular"]
