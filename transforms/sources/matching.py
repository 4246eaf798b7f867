"""Files of events: which there are at a path, and which of them can be read twice. Opens none."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Sequence

from weir.dpcore.errors import ConfigError
from weir.transforms.formats.stored import File, is_local
from weir.transforms.runtime import files

_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device or a terminal"),
    (stat.S_ISBLK, "a device"),
)


def match_all(paths: Sequence[str], field: str) -> tuple[File, ...]:
    """The files of several paths, folders and globs, in order of their paths; each once.

    Raises:
      ConfigError: one of them matches none, or a pipe, a socket or a device.
    """
    if len(paths) == 1:
        return match(paths[0], field)
    results: dict[str, File] = {}
    for path in paths:
        for file in match(path, field):
            place = os.path.realpath(file.path) if is_local(file.path) else file.path
            results.setdefault(place, file)
    return tuple(sorted(results.values()))


def match_dataset(root: str, field: str) -> tuple[File, ...]:
    """The files of a partitioned folder at any depth, in order of their paths.

    Files and folders whose names begin with a dot or an underscore are left out.

    Raises:
      ConfigError: there is none, or one is a pipe, a socket or a device.
    """
    with files.refusals(field):
        result = sorted(files.under(root))
    named = [File(item.path, item.size) for item in result if not _is_hidden(item.path, root)]
    if not named:
        raise ConfigError(
            field,
            root,
            "holds no file. Write the folder that holds the folders COLUMN=VALUE.",
        )
    for file in named:
        if is_local(file.path):
            require_regular(file.path, field)
    return tuple(named)


def _is_hidden(path: str, root: str) -> bool:
    """As other readers of datasets see it: a folder of a column may begin with an underscore."""
    parts = path.removeprefix(root).strip("/").split("/")
    return any(part.startswith(".") or (part[:1] == "_" and "=" not in part) for part in parts)


def match(path: str, field: str) -> tuple[File, ...]:
    """The files of a path, a folder or a glob, in order of their paths.

    Of a folder or a glob, files whose names begin with a dot or an underscore are left out.

    Raises:
      ConfigError: there is none, or one is a pipe, a socket or a device.
    """
    if is_local(path):
        require_regular(path, field)
        if os.path.isfile(path):
            return (File(path, os.path.getsize(path)),)
        if os.path.isdir(path):
            path = os.path.join(path, "")
    with files.refusals(field):
        result = files.match(path)
    named = [
        File(item.path, item.size)
        for item in result
        if item.path == path or not item.path.rpartition("/")[2].startswith((".", "_"))
    ]
    if not named:
        raise ConfigError(field, path, _no_file(path, field.rpartition(".")[2]))
    for file in named:
        if is_local(file.path):
            require_regular(file.path, field)
    return tuple(named)


def _no_file(path: str, form: str) -> str:
    """What to do about a path that no file matches."""
    inside = f"{path}*" if path.endswith("/") else path
    if not is_local(path) or not any(map(os.path.isdir, glob.glob(inside))):
        return "matches no file; check the path. A glob needs its pattern, like events/*."
    near, deep = f"{inside}/*.{form}", f"{inside}/**/*.{form}"
    below = near if glob.glob(near) else deep
    return f"matches folders and no file. Write a glob that goes into them, like {below}."


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
                f"is {kind}, and only files can be read here. Write its data to a file first, "
                "like `zcat events.csv.gz > events.csv`, and name that file; names that end in "
                ".gz, .bz2, .xz or .zst are unpacked.",
            )
