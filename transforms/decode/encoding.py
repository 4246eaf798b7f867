"""Texts in other encodings than UTF-8, made UTF-8 on the way, line by line.

Lines are cut before they are decoded, so that what cannot be decoded damages its own line only.
That needs an encoding in which a newline can be told without what stands before it: one that keeps
ASCII as it is, or UTF-16 and UTF-32, whose units are counted from the beginning of the file."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.lines import LINE_BYTES

UTF_8 = "utf-8"

_WIDE = {"utf-16": 2, "utf-16-le": 2, "utf-16-be": 2, "utf-32": 4, "utf-32-le": 4, "utf-32-be": 4}
_MARKS = {
    "utf-16": {codecs.BOM_UTF16_BE: "utf-16-be"},
    "utf-32": {codecs.BOM_UTF32_BE: "utf-32-be"},
}
_PLAIN = bytes(range(128)) + b" \\u0041.xn--mnchen-3ya. +AGE- ~{ ~} a-"
_SHIFTS = (b"\x1b$B", b"\x1b$)C", b"\x1b(J", b"\x1b$A")
_SPOILT = "�".encode()


@lru_cache
def check_encoding(name: str) -> str:
    """The usual name of an encoding.

    Raises:
      ConfigError: there is none of that name, or lines cannot be cut without reading on from the
        file's beginning.
    """
    try:
        result = codecs.lookup(name)
        text = "".encode(name) == b"" if result.name not in _WIDE else True
    except (LookupError, ValueError, TypeError):
        # Codecs of bytes, like base64, are no encodings of text.
        raise ConfigError(
            "source.encoding",
            name,
            "is no encoding of text known here; write one like utf-8, latin-1, cp1252 or utf-16.",
        ) from None
    usual = result.name.replace("_", "-")
    if usual in ("utf-8", "utf-8-sig"):
        return UTF_8
    if usual in _WIDE:
        return usual
    if not text or not _keeps_lines(usual):
        raise ConfigError(
            "source.encoding",
            name,
            "has no newline that stands for itself, so that one bad byte could damage all that "
            f"follows; convert the file first, like `iconv -f {name} -t UTF-8`.",
        )
    return usual


def _keeps_lines(name: str) -> bool:
    """Whether ASCII is itself, and a newline ends whatever stands before it."""
    try:
        if _PLAIN.decode(name).encode("utf-8") != _PLAIN:
            return False
        for shift in _SHIFTS:
            if shift.decode(name).encode() != shift:
                return False
    except UnicodeError:
        return False
    heads = [bytes([item]) for item in range(128, 256)]
    heads += [head + bytes([item]) for head in heads for item in (0x30, 0x5C, 0x80, 0xA1, 0xFE)]
    return all(_ends(head + b"\n", name) for head in heads)


def _ends(line: bytes, name: str) -> bool:
    """Whether a newline is one behind these bytes, or they are none of the encoding's."""
    try:
        return line.decode(name).endswith("\n")
    except UnicodeError:
        return True


def width_of(name: str) -> int:
    """Bytes of a newline."""
    return _WIDE.get(name, 1)


class Recoded:
    """A text as UTF-8.

    A line that cannot be decoded gets bytes that are not UTF-8, so that it is rejected as any
    such line is; one that is far over the cap becomes one that is just over it. Memory is bounded
    by what is read at a time and four times the cap.

    Args:
      read: ``read(n)`` gives at most n stored bytes, none at the end.
      encoding: from ``check_encoding``.
      line_bytes: longest line allowed.
    """

    def __init__(self, read: Callable[[int], bytes], encoding: str, line_bytes: int) -> None:
        self._source = read
        self._encoding = encoding
        self._width = width_of(encoding)
        self._newline = "\n".encode(encoding) if self._width == 1 else b""
        self._line_bytes = line_bytes
        self._rest = b""
        self._skipping = False
        self._begun = False

    def read(self, n: int) -> bytes:
        """About n bytes of UTF-8, whole lines if there are any; none at the end."""
        while True:
            block = self._source(n)
            data = self._rest + block
            if not self._begun and (len(data) >= 4 or not block):
                self._begin(data)
            if not block:
                self._rest = b""
                return b"" if self._skipping else self._recode(data)
            cut = self._behind_last(data) if self._begun else 0
            if self._skipping:
                first = self._behind_first(data)
                self._rest = data[first:] if first else data[len(data) - len(data) % self._width :]
                if first:
                    self._skipping = False
                    return b"\n"
                continue
            self._rest = data[cut:]
            if cut:
                return self._recode(data[:cut])
            # A line of the length allowed may wait here for the rest of its newline.
            most = 4 * self._line_bytes + self._width
            if len(self._rest) >= most and len(self._unmarked()) >= most:
                self._rest = data[len(data) - len(data) % self._width :]
                self._skipping = True
                return b"\xff" * (self._line_bytes + 1)

    def _begin(self, data: bytes) -> None:
        """A mark says in which order bytes stand; without one the lesser comes first."""
        self._begun = True
        if self._encoding in _MARKS:
            marks = _MARKS[self._encoding]
            result = next((name for mark, name in marks.items() if data.startswith(mark)), None)
            self._encoding = result or f"{self._encoding}-le"
        self._newline = "\n".encode(self._encoding)

    def _unmarked(self) -> bytes:
        """The line that waits, without the byte order marks in front of it, which do not count."""
        mark = re.escape("\ufeff".encode(self._encoding, "ignore"))
        result = re.match(rb"(?:%b)+" % mark, self._rest) if mark else None
        self._rest = self._rest[result.end() if result else 0 :]
        return self._rest

    def _behind_first(self, data: bytes, start: int = 0) -> int:
        at = data.find(self._newline, start)
        while at % self._width and at >= 0:
            at = data.find(self._newline, at + 1)
        return at + self._width if at >= 0 else 0

    def _behind_last(self, data: bytes) -> int:
        at = data.rfind(self._newline)
        while at % self._width and at >= 0:
            at = data.rfind(self._newline, 0, at + self._width - 1)
        return at + self._width if at >= 0 else 0

    def _recode(self, data: bytes) -> bytes:
        if self._width == 1 and data.isascii():
            return data
        try:
            return data.decode(self._encoding).encode()
        except UnicodeError:
            pass
        lines = []
        at = 0
        while at < len(data):
            end = self._behind_first(data, at) or len(data)
            lines.append(self._line(data[at:end]))
            at = end
        return b"".join(lines)

    def _line(self, line: bytes) -> bytes:
        try:
            return line.decode(self._encoding).encode()
        except UnicodeError:
            # Some decoders take the newline for a part of what they cannot read.
            body = line.removesuffix(self._newline)
            text = body.decode(self._encoding, "replace").encode().replace(_SPOILT, b"\xff")
            return text if body == line else text + b"\n"


class TextForm(NamedTuple):
    """How a text is written; all but ``line_bytes`` is for CSV.

    Attributes:
      delimiter: what stands between fields.
      line_bytes: longest line, in UTF-8.
      columns: names of the fields where there is no header, in order; None where there is one.
      encoding: from ``transforms.decode.encoding.check_encoding``.
      quoted_newlines: whether quoted fields may hold newlines.
    """

    delimiter: str = ","
    line_bytes: int = LINE_BYTES
    columns: tuple[str, ...] | None = None
    encoding: str = UTF_8
    quoted_newlines: bool = False
