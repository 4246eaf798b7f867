"""Compressed text, one member after the other, as gzip, bzip2 and xz allow."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO

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


__all__ = ["MEMBERS", "Unpacked"]
