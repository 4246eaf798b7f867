"""The formats of files and messages by name: a further one is a file next to this one and a line
here. Another package adds one by an entry point in the group ``weir.formats``."""

from __future__ import annotations

import codecs
from pathlib import PurePath

from weir.dpcore.registry import Registry
from weir.transforms.decode.encoding import UTF_8, TextForm
from weir.transforms.formats.format import Format

_OTHERS: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b", "gzip data; give it a name that ends in .gz"),
    (b"BZh", "bzip2 data; give it a name that ends in .bz2"),
    (b"\xfd7zXZ\x00", "xz data; give it a name that ends in .xz"),
    (b"\x28\xb5\x2f\xfd", "zstd data; give it a name that ends in .zst"),
    (b"PK\x03\x04", "a zip archive or a workbook; unpack it, or save its sheet as CSV"),
    (b"\xd0\xcf\x11\xe0", "an Office file; save its sheet as CSV"),
    (b"%PDF", "a PDF; events are needed"),
    (b"\x89PNG", "an image; events are needed"),
    (b"\xff\xd8\xff", "an image; events are needed"),
    (b"\x89HDF", "HDF5; save it as Parquet"),
    (
        b"SQLite format 3\x00",
        "an SQLite database; its tables are read by source: {sql: {url: 'sqlite:///FILE', table: "
        "NAME}}, which weir init 'sqlite:///FILE#NAME' writes",
    ),
)
_MARKS: tuple[tuple[bytes, str], ...] = (
    (codecs.BOM_UTF32_LE, "UTF-32 text; write source.encoding: utf-32"),
    (codecs.BOM_UTF32_BE, "UTF-32 text; write source.encoding: utf-32"),
    (codecs.BOM_UTF16_LE, "UTF-16 text; write source.encoding: utf-16"),
    (codecs.BOM_UTF16_BE, "UTF-16 text; write source.encoding: utf-16"),
)


class Formats(Registry):
    """Name -> ``Format`` of usual texts; its file is imported when it is first asked for."""

    def __getitem__(self, name: str) -> Format:
        return self.of(name, TextForm())

    def of(self, name: str, text: TextForm) -> Format:
        """Returns a format whose texts are written in a certain way."""
        form: Format = super().__getitem__(name)(text)
        return form


FORMATS = Formats(
    {
        "csv": "weir.transforms.formats.csv:Csv",
        "json": "weir.transforms.formats.ndjson:Json",
        "ndjson": "weir.transforms.formats.ndjson:Ndjson",
        "parquet": "weir.transforms.formats.parquet:Parquet",
        "arrow": "weir.transforms.formats.arrow:Arrow",
        "avro": "weir.transforms.formats.avro:Avro",
    },
    "weir.formats",
)


def file_formats() -> tuple[str, ...]:
    """Returns the names of formats that files can have."""
    return tuple(name for name, form in FORMATS.items() if form.suffixes)


def message_formats() -> tuple[str, ...]:
    """Returns the names of formats that messages can have."""
    return tuple(name for name, form in FORMATS.items() if form.in_messages)


def format_of(path: str | PurePath) -> Format | None:
    """Returns the format that the end of a file's name says; None where it says none."""
    suffix = PurePath(path).suffix.lower().removeprefix(".")
    return next((form for form in FORMATS.values() if suffix in form.suffixes), None)


def suffixes() -> str:
    """Returns the suffixes of all formats as a list in words: ``.csv, .tsv, ...``."""
    return ", ".join(f".{suffix}" for form in FORMATS.values() for suffix in form.suffixes)


def sniffed(start: bytes) -> Format | None:
    """Returns the format that the first bytes of a file tell for sure; None where they do not."""
    return next((form for form in FORMATS.values() if form.sniff(start)), None)


def other_kind(start: bytes, name: str, encoding: str = UTF_8) -> str | None:
    """Returns what a file holds that is not of a format, and what to do; None where it may be.

    Args:
      start: its first bytes as they are stored. name: of the format. encoding: of CSV.
    """
    for form in FORMATS.values():
        if form.magics and start.startswith(form.magics):
            return None if form.name == name else f"{form.name}; write source: {{{form.name}: ...}}"
    for magic, remedy in _OTHERS + (_MARKS if encoding == UTF_8 else ()):
        if start.startswith(magic):
            return remedy
    return None
