"""Whether public events are the config's own: then nobody may rehearse on them.

A rehearsal shows true values beside releases. Of the source's own events those are what the promise
hides, so they are refused by where they lie, however that is spelt, and by what they hold, wherever
they lie. It keeps from mistakes; who changes a byte of a copy gets past it.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
from typing import Any, cast

from weir.dpcore.errors import ConfigError
from weir.pipelines.doors.paths import local, resolved
from weir.pipelines.sources.source import Source
from weir.transforms.formats.stored import File, is_local
from weir.transforms.runtime.files import open_raw
from weir.transforms.sources.matching import match

_REMEDY = "a rehearsal shows true values, so it takes public events only; name others, or leave it."


def refuse_own(source: Source | None, on: str) -> tuple[File, ...]:
    """The files that ``--on`` names, if none of them is the source's.

    Of the source names and sizes are looked at. Bytes are compared, and not kept, of files that are
    as large as one of ``--on`` alone.

    Args:
      on: a path, a folder or a glob.

    Raises:
      ConfigError: there is no such file, or one of them is the source's by path or by bytes.
    """
    given = match(local(on), "--on")
    path = None if source is None else source.path
    if path is None:
        return given
    place = local(path)
    try:
        own = match(place, "source")
    except ConfigError:
        own = ()
    named = {resolved(file.path) for file in own}
    pattern = resolved(place)
    for file in given:
        where = resolved(file.path)
        if where in named or fnmatch.fnmatchcase(where, pattern) or _is_under(where, pattern):
            raise ConfigError("--on", on, f"names {file.path}, a file of the source: {_REMEDY}")
        for one in own:
            if one.size == file.size and _same(one, file):
                raise ConfigError(
                    "--on",
                    on,
                    f"names {file.path}, which holds what {one.path} of the source does: {_REMEDY}",
                )
    return given


def _is_under(where: str, folder: str) -> bool:
    return os.path.isdir(folder) and where.startswith(folder.rstrip("/") + "/")


def _same(a: File, b: File) -> bool:
    """Whether two files of one size hold the same bytes; empty ones tell nothing."""
    if not a.size:
        return False
    if is_local(a.path) and is_local(b.path) and os.path.samefile(a.path, b.path):
        return True
    return _digest(a.path) == _digest(b.path)


def _digest(path: str) -> bytes:
    with open_raw(path) as raw:
        return hashlib.file_digest(cast(Any, raw), hashlib.sha256).digest()


__all__ = ["refuse_own"]
