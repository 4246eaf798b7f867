"""Files of events as they are stored: whole or a part, packed or not, and counts of their bytes."""

from __future__ import annotations

import bz2
import lzma
import math
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple

from weir.transforms.runtime import files

ALL = -1
"""End of a split that goes to the end of its file."""
PACKED_BYTES = 1 << 13
"""Stored bytes read at a time. What is known of the place of a damage is as coarse as that."""


class _Gzip:
    """A decompressor of one member of gzip, used as those of ``bz2`` and ``lzma`` are."""

    def __init__(self) -> None:
        self._one = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)

    @property
    def eof(self) -> bool:
        """Whether the member's checksum and size were read, and are right."""
        return self._one.eof

    @property
    def unused_data(self) -> bytes:
        """Bytes behind the member."""
        return self._one.unused_data

    @property
    def needs_input(self) -> bool:
        """Whether all that was given is used."""
        return not self._one.unconsumed_tail

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """At most so many bytes of text."""
        return self._one.decompress(self._one.unconsumed_tail + data, max_length)


class _Few:
    """Reads few stored bytes at a time, whatever is asked for."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self.closed = False

    def read(self, n: int = -1) -> bytes:
        """At most so many bytes."""
        return self._raw.read(min(n, PACKED_BYTES) if n >= 0 else PACKED_BYTES)

    def close(self) -> None:
        """Leaves the file open: whoever opened it closes it."""


class UnpackedZstd:
    """Reads the text of all frames of zstd, as ``Unpacked`` does of members.

    Args:
      raw: as stored.
    """

    def __init__(self, raw: BinaryIO) -> None:
        import pyarrow as pa

        file: Any = _Few(raw)
        self._text = pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")
        self._any = False

    def read1(self, n: int) -> bytes:
        """Up to n bytes; none at the end.

        Raises:
          EOFError: the file has no frame. OSError: it ends within one, is damaged, or something
            else stands behind a frame.
        """
        text: bytes = self._text.read(n)
        if not text and not self._any and self._text.tell() == 0:
            raise EOFError
        self._any = True
        return text


MEMBERS: dict[str, Callable[[], Any]] = {
    ".gz": _Gzip,
    ".bz2": bz2.BZ2Decompressor,
    ".xz": lzma.LZMADecompressor,
}
"""Ending of a file's name -> a decompressor of one member."""


class Unpacked:
    """Reads the text of all members of a compressed file.

    The standard library's readers take a damaged member for the end of the file, unless it is the
    first one; here it is an error wherever it is, and so is a file that ends within a member.

    Args:
      raw: as stored. member: makes a decompressor of one member.
    """

    def __init__(self, raw: BinaryIO, member: Callable[[], Any]) -> None:
        self._raw, self._new = raw, member
        self._member = member()

    def read1(self, n: int) -> bytes:
        """Up to n bytes; none at the end.

        Raises:
          EOFError: the file ends within a member, or has none. OSError, zlib.error, LZMAError: it
            is damaged, or something else stands behind a member.
        """
        while True:
            packed = b""
            if self._member.eof:
                packed = self._behind_member()
                if not packed:
                    return b""
                self._member = self._new()
            elif self._member.needs_input:
                packed = self._raw.read(PACKED_BYTES)
            ended = not packed and self._member.needs_input
            text: bytes = self._member.decompress(packed, n)
            if text:
                return text
            if ended and not self._member.eof:
                raise EOFError

    def _behind_member(self) -> bytes:
        """What follows a member but for padding with zeros; nothing at the end of the file."""
        packed: bytes = self._member.unused_data.lstrip(b"\0")
        while not packed and (block := self._raw.read(PACKED_BYTES)):
            packed = block.lstrip(b"\0")
        return packed


ZSTD = ".zst"
COMPRESSED = (*MEMBERS, ZSTD)
"""How names of compressed texts end."""
_BROKEN_ARCHIVE = (EOFError, zlib.error, lzma.LZMAError, OSError)


class File(NamedTuple):
    """A matched file, its size in bytes, and its version where somebody noted it (see seal)."""

    path: str
    size: int
    version: str = ""


class UnreadableFile(Exception):
    """A file is damaged; carries nothing of what it holds."""


class Split(NamedTuple):
    """A part of a file that one worker decodes.

    Attributes:
      path: of the file.
      start: first byte (text) or row group (Parquet).
      end: behind the last one; ALL goes to the end of the file.
      first: number of the first line, for text.
      size: bytes that this split stands for in the progress.
      version: of the file, where somebody noted it (see seal).
    """

    path: str
    start: int
    end: int
    first: int
    size: int
    version: str = ""


class LostBytes:
    """Counts stored bytes of a split that could not be read, and files of which nothing could.

    Attributes:
      fruitful: whether any event came out of it.
    """

    def __init__(self, split: Split) -> None:
        self.fruitful = False
        self._split = split
        self._share = 0.0

    def add(self, share: float) -> None:
        """Takes note of a share of the split."""
        self._share = min(1.0, self._share + share)

    def end(self) -> None:
        """Counts, rounded up: what is lost is never nothing."""
        from weir.transforms.runtime import counters

        if not self._share:
            return
        counters.add("lost_bytes", max(1, math.ceil(self._share * self._split.size)))
        whole = self._split.start == 0 and self._split.end == ALL
        if whole and self._share == 1.0 and not self.fruitful:
            counters.add("lost_files")


class ReadBytes:
    """Counts stored bytes of a split as they are read."""

    def __init__(self, raw: BinaryIO, split: Split) -> None:
        self._raw = raw
        self._counted = split.start
        self._end = split.start + split.size

    def tell(self) -> None:
        """Takes note of how far the file was read."""
        self._to(self._raw.tell())

    def end(self) -> None:
        """Takes note of its end."""
        self._to(self._end)

    def _to(self, at: int) -> None:
        from weir.transforms.runtime import counters

        counters.add("bytes", max(0, at - self._counted))
        self._counted = max(at, self._counted)


def is_local(path: str) -> bool:
    """Whether a path is on this machine's own file system."""
    return not files.is_remote(path)


def is_compressed(path: str) -> bool:
    """Whether a text's name says that it is compressed."""
    return path.endswith(COMPRESSED)


def unpacked(raw: BinaryIO, path: str) -> BinaryIO | Unpacked | UnpackedZstd:
    """The text behind stored bytes."""
    if path.endswith(ZSTD):
        return UnpackedZstd(raw)
    for ending, member in MEMBERS.items():
        if path.endswith(ending):
            return Unpacked(raw, member)
    return raw


def first_bytes(path: str, n: int = 8) -> bytes:
    """How a file begins, as stored."""
    with files.open_raw(path) as raw:
        return raw.read(n)


def is_broken_archive(error: Exception) -> bool:
    """Whether an error says that a compressed file is damaged, not that disk or network failed."""
    return isinstance(error, _BROKEN_ARCHIVE) and getattr(error, "errno", None) is None
