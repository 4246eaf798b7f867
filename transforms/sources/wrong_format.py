"""What a file is that is not what its config says: told by how it begins, in words of our own."""

from __future__ import annotations

import codecs
import json
from collections.abc import Sequence

from weir.transforms.decode.encoding import UTF_8
from weir.transforms.sources import matching

_KINDS: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b", "gzip data; give it a name that ends in .gz"),
    (b"BZh", "bzip2 data; give it a name that ends in .bz2"),
    (b"\xfd7zXZ\x00", "xz data; give it a name that ends in .xz"),
    (b"\x28\xb5\x2f\xfd", "zstd data; unpack it first"),
    (b"PK\x03\x04", "a zip archive or a workbook; unpack it, or save its sheet as CSV"),
    (b"\xd0\xcf\x11\xe0", "an Office file; save its sheet as CSV"),
    (b"%PDF", "a PDF; events are needed"),
    (b"\x89PNG", "an image; events are needed"),
    (b"\xff\xd8\xff", "an image; events are needed"),
    (b"\x89HDF", "HDF5; save it as Parquet"),
    (b"SQLite format 3\x00", "an SQLite database; save a table as CSV"),
)
_MARKS: tuple[tuple[bytes, str], ...] = (
    (codecs.BOM_UTF32_LE, "UTF-32 text; write source.encoding: utf-32"),
    (codecs.BOM_UTF32_BE, "UTF-32 text; write source.encoding: utf-32"),
    (codecs.BOM_UTF16_LE, "UTF-16 text; write source.encoding: utf-16"),
    (codecs.BOM_UTF16_BE, "UTF-16 text; write source.encoding: utf-16"),
)
_XML = "XML or HTML; save it as NDJSON or CSV"
_ALONE = "lines that end in carriage returns alone; make them newlines: tr '\\r' '\\n' < OLD > NEW"
_TWICE = "lines that end in two carriage returns; remove them: tr -d '\\r' < OLD > NEW"
_ARRAY = "one JSON array; save it as NDJSON, one object a line"
OVER_LINES = "JSON objects over several lines; write one object a line, like `jq -c . FILE`"


def kind_of(start: bytes, form: str, encoding: str = UTF_8) -> str | None:
    """What a file holds that is none of ``form``, and what to do; None where that is not told.

    Args:
      start: its first bytes as they are stored. form: csv, ndjson, parquet, arrow or avro.
      encoding: of CSV.
    """
    for magic, other in matching.MAGICS.items():
        if start.startswith(magic):
            return None if other == form else f"{other}; write source: {{{other}: ...}}"
    for magic, told in _KINDS + (_MARKS if encoding == UTF_8 else ()):
        if start.startswith(magic):
            return told
    return None


def kind_of_text(start: bytes, form: str, header: bool = False) -> str | None:
    """As ``kind_of``, of a text once it is unpacked and decoded.

    header: whether CSV begins with one, which is no event: carriage returns in it are looked at.
    """
    text = start.lstrip(b" \t\r\n")
    if b"\x00" in start:
        return "binary data; text is needed"
    if text.startswith(b"<") and (text[1:2] in b"?!" or not any(one in text for one in b",;\t|")):
        return _XML  # a header may begin so too, but then names follow
    if text.startswith(b"[{") or (form == "ndjson" and text.startswith(b"[")):
        return _ARRAY
    if form == "csv" and text.startswith(b'{"'):
        return "JSON; write source: {ndjson: ...}"
    return returns_of(start, form) if header and form == "csv" else None


def begins_over_lines(lines: Sequence[bytes]) -> bool:
    """Whether a text begins with a JSON object of several lines.

    Args:
      lines: the first ones that are not blank.
    """
    first = lines[0].strip() if lines else b""
    if first == b"{" or not first.startswith(b"{"):
        return first == b"{"
    try:
        text = b"\n".join(lines).decode(errors="replace")
        _, end = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return False
    return "\n" in text.lstrip()[:end]


def returns_of(line: bytes, form: str) -> str | None:
    """What to do where carriage returns end lines in place of newlines; None where they do not. In
    JSON they may stand within a line.

    Args:
      line: the first, or its beginning. form: csv or ndjson.
    """
    text = line.lstrip()
    at = text.find(b"\r")
    if at < 0 or text[:at].count(b'"') % 2:
        return None
    rest = text[at:].lstrip(b"\r")
    if form == "csv":
        return _ALONE if rest else _TWICE
    return _ALONE if text[at - 1 : at] == b"}" and rest.startswith(b"{") else None


__all__ = ["OVER_LINES", "begins_over_lines", "kind_of", "kind_of_text", "returns_of"]
