"""Files of events: which there are, what format they have, which columns. Reads no event."""

from __future__ import annotations

import glob
import lzma
import os
import zlib
from typing import BinaryIO, NamedTuple

import pyarrow as pa

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.avro import Header, read_header
from weir.transforms.decode.columnar import is_broken
from weir.transforms.decode.nested import check_names
from weir.transforms.decode.parquet import parquet_groups
from weir.transforms.runtime import files
from weir.transforms.runtime.files import open_raw as open_raw
from weir.transforms.sources.regular import require_regular
from weir.transforms.sources.unpack import MEMBERS, Unpacked

MAGICS = {b"PAR1": "parquet", b"ARROW1": "arrow", b"Obj\x01": "avro"}
COMPRESSED = tuple(MEMBERS)
"""How names of compressed texts end."""
_BROKEN_ARCHIVE = (EOFError, zlib.error, lzma.LZMAError, OSError)


class File(NamedTuple):
    """A matched file, its size in bytes, and its version where somebody noted it (see seal)."""

    path: str
    size: int
    version: str = ""


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
        found = files.match(path)
    named = [
        File(one.path, one.size)
        for one in found
        if one.path == path or not one.path.rpartition("/")[2].startswith((".", "_"))
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


def is_local(path: str) -> bool:
    """Whether a path is on this machine's own file system."""
    return not files.is_remote(path)


def is_compressed(path: str) -> bool:
    """Whether a text's name says that it is compressed."""
    return path.endswith(COMPRESSED)


def unpacked(raw: BinaryIO, path: str) -> BinaryIO | Unpacked:
    """The text behind stored bytes."""
    for ending, member in MEMBERS.items():
        if path.endswith(ending):
            return Unpacked(raw, member)
    return raw


def first_bytes(path: str, n: int = 8) -> bytes:
    """How a file begins, as stored."""
    with open_raw(path) as raw:
        return raw.read(n)


def is_broken_archive(error: Exception) -> bool:
    """Whether an error says that a compressed file is damaged, not that disk or network failed."""
    return isinstance(error, _BROKEN_ARCHIVE) and getattr(error, "errno", None) is None


class Unreadable(Exception):
    """A file is damaged; carries nothing of what it holds."""


def avro_header(path: str) -> Header | None:
    """The header of an Avro file; None if it is none."""
    with open_raw(path) as raw:
        return read_header(raw)


def arrow_schema(form: str, path: str) -> pa.Schema | None:
    """The schema of a Parquet or Arrow file; None if it cannot be read."""
    with open_raw(path) as raw:
        if form == "parquet":
            groups = parquet_groups(raw)
            return None if groups is None else groups.schema
        try:
            try:
                found = pa.ipc.open_file(raw).schema
            except pa.ArrowInvalid:
                raw.seek(0)
                found = pa.ipc.open_stream(raw).schema
            check_names(found)
            return found
        except Exception as error:
            if not is_broken(error):
                raise
            return None
