"""Files of events: which there are, what format they have, which columns. Reads no event."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.avro import Header, read_header
from weir.transforms.decode.columnar import is_broken

MAGICS = {b"PAR1": "parquet", b"ARROW1": "arrow", b"Obj\x01": "avro"}
COMPRESSED: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}
_BROKEN_ARCHIVE = (EOFError, zlib.error, lzma.LZMAError, OSError)


class File(NamedTuple):
    """A matched file and its size in bytes."""

    path: str
    size: int


def match(path: str, field: str) -> tuple[File, ...]:
    """The files of a path, a folder or a glob, in order of their paths.

    Of a folder or a glob, files whose names begin with a dot or an underscore are left out.

    Raises:
      ConfigError: there is none.
    """
    if is_local(path):
        if os.path.isfile(path):
            return (File(path, os.path.getsize(path)),)
        if os.path.isdir(path):
            path = os.path.join(path, "")
    try:
        found = FileSystems.match([path])[0].metadata_list
    except (BeamIOError, ValueError):
        raise ConfigError(
            field,
            path,
            "cannot be looked up; check the spelling, the access rights, and that Beam's extra for "
            "this file system is installed (gs:// needs apache-beam[gcp]).",
        ) from None
    named = (File(one.path, one.size_in_bytes) for one in found)
    files = sorted(
        file
        for file in named
        if file.path == path or not file.path.rpartition("/")[2].startswith((".", "_"))
    )
    if not files:
        raise ConfigError(
            field,
            path,
            "matches no file; check the path. A glob needs its pattern, like events/*.",
        )
    return tuple(files)


def is_local(path: str) -> bool:
    """Whether a path is on this machine's own file system."""
    return FileSystems.get_scheme(path) is None


def open_raw(path: str) -> BinaryIO:
    """The bytes of a file as they are stored."""
    file: BinaryIO = FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
    return file


def is_compressed(path: str) -> bool:
    """Whether a text's name says that it is compressed."""
    return path.endswith(tuple(COMPRESSED))


def unpacked(raw: BinaryIO, path: str) -> BinaryIO:
    """The text behind stored bytes."""
    for ending, opener in COMPRESSED.items():
        if path.endswith(ending):
            file: BinaryIO = opener(raw)
            return file
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
        try:
            if form == "parquet":
                found = pq.read_schema(raw)
            else:
                try:
                    found = pa.ipc.open_file(raw).schema
                except pa.ArrowInvalid:
                    raw.seek(0)
                    found = pa.ipc.open_stream(raw).schema
            _ = found.names  # names that are not UTF-8 fail here, and not where they are used
            return found
        except Exception as error:
            if not is_broken(error):
                raise
            return None
