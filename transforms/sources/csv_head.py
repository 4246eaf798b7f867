"""How a CSV file begins: its header, and the lines below it for a second opinion on the header."""

from __future__ import annotations

import csv
from typing import NamedTuple

from weir.dpcore.errors import ConfigError
from weir.transforms.decode import header_test
from weir.transforms.decode.csv import parse_header
from weir.transforms.decode.schema import EventSchema
from weir.transforms.decode.text_form import TextForm
from weir.transforms.sources import matching
from weir.transforms.sources.text_file import first_line, first_lines
from weir.transforms.sources.wrong_format import returns_of

_ROWS = 50


class Head(NamedTuple):
    """The beginning of a file.

    Attributes:
      names: of columns, from the header or from the config.
      number: of the header's last line, from 1; 0 where there is no header.
      rows: fields of records below it.
    """

    names: tuple[str, ...]
    number: int
    rows: tuple[tuple[str, ...], ...]


def csv_head(path: str, form: TextForm, rows: int = 0) -> Head | None:
    """Reads the beginning of a file; None if nothing is in it.

    Args:
      path: of the file. form: how it is written. rows: how many records to look at.

    Raises:
      ConfigError: it does not begin with a header line.
      Unreadable: it is compressed, and damaged.
    """
    headless = form.columns is not None
    found = first_lines(path, form, max(1, rows + (not headless)), quoted=True)
    if found.broken and not found.lines:
        raise matching.Unreadable
    if found.too_long:
        raise ConfigError(
            "limits.line_bytes",
            form.line_bytes,
            f"is less than line {found.numbers[0]} of {path} has, where the columns should be; is "
            f"it CSV?{returns_in(path, form)}",
        )
    if not found.lines:
        return None
    records = tuple(_fields(line, form.delimiter) for line in found.lines[not headless :])
    if form.columns is not None:
        return Head(form.columns, 0, records)
    names = parse_header(found.lines[0], form.delimiter, path, found.numbers[0])
    return Head(names, found.numbers[0], records)


def check_head(path: str, field: str, form: TextForm, schema: EventSchema) -> None:
    """Refuses a file whose columns are not those of the config.

    Args:
      field: the setting that holds the path.

    Raises:
      ConfigError: says what was found, by number and kind of fields.
      Unreadable: the file is compressed, and damaged; or it has no line where its header should be.
    """
    head = csv_head(path, form, _ROWS)
    if head is None:
        if form.columns is None:
            raise matching.Unreadable
        return
    if form.columns is not None:
        width = len(head.rows[0])
        if width != len(form.columns):
            raise ConfigError(
                "source.columns",
                list(form.columns),
                f"names {len(form.columns)} columns, but the first line of {path} has "
                f"{header_test.described(head.rows[0])}; name every column, in order, and check "
                f"source.delimiter.{returns_in(path, form)}",
            )
        schema.require(form.columns, path)
        return
    doubt = header_test.doubt(head.names, head.rows)
    if doubt is not None and not set(schema.needed) <= set(head.names):
        raise ConfigError(
            field,
            path,
            f"does not begin with a header: line {head.number} has {doubt}. If the file has none, "
            "write header: false and columns: [...] in source; if it has one, name its columns as "
            "it does, and check source.delimiter.",
        )
    schema.require(head.names, path, head.rows)


def returns_in(path: str, form: TextForm, kind: str = "csv") -> str:
    """What carriage returns end in a text, as a sentence behind another; "" where they end none."""
    odd = returns_of(first_line(path, form), kind)
    return "" if odd is None else f" It holds {odd}."


def _fields(line: bytes, delimiter: str) -> tuple[str, ...]:
    text = line.decode(errors="replace")
    try:
        return tuple(next(csv.reader([text], delimiter=delimiter), ()))
    except csv.Error:
        return (text,)


__all__ = ["Head", "check_head", "csv_head", "returns_in"]
