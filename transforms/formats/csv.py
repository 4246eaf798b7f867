"""CSV files: their header, and the lines below it for a second opinion on the header."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.encoding import UTF_8, Recoded, TextForm
from weir.transforms.decode.header_sniffing import described, doubt
from weir.transforms.decode.lines import Chunk, chunks, without_marks
from weir.transforms.formats.format import SAMPLE_ROWS, Samples
from weir.transforms.formats.lines import LineFormat, TextHead
from weir.transforms.formats.stored import UnreadableFile
from weir.transforms.formats.text import first_line, first_lines, returns_of

if TYPE_CHECKING:
    from weir.transforms.decode.canonical import Decoded, Over
    from weir.transforms.decode.schema import EventSchema

_ROWS = 50
_REPLAY_BYTES = 1 << 14


class Csv(LineFormat):
    """CSV, with a header line or columns that the config names."""

    name: ClassVar[str] = "csv"
    description: ClassVar[str] = "CSV, with a header line or columns."
    example: ClassVar[str] = "purchases.csv"
    suffixes: ClassVar[tuple[str, ...]] = ("csv", "tsv", "txt")

    def says_columns(self) -> bool:
        """Returns whether there is a header; otherwise lines are events."""
        return self.text.columns is None

    def head(self, path: str) -> TextHead | None:
        return csv_head(path, self.text)

    def check(self, path: str, field: str, schema: EventSchema) -> bool:
        try:
            check_head(path, field, self.text, schema)
        except UnreadableFile:
            return False
        return True

    def decode_lines(
        self,
        pieces: Iterable[Chunk],
        head: TextHead,
        schema: EventSchema,
        source: str,
        over: Over = map,
    ) -> Iterator[Decoded]:
        from weir.transforms.decode.csv import decode_csv

        delimiter, quoted = self.text.delimiter, self.text.quoted_newlines
        return decode_csv(pieces, head.names, schema, source, delimiter, quoted, over)

    def decode_bytes(self, data: bytes, schema: EventSchema, source: str) -> Iterator[Decoded]:
        if data:
            file, cap = io.BytesIO(data), self.text.line_bytes
            names = parse_header(file.readline(cap), self.text.delimiter, source)
            pieces = chunks(file.read, first=2, line_bytes=cap)
            yield from self.decode_lines(pieces, TextHead(names), schema, source)

    def batches(self, path: str) -> Iterator[pa.RecordBatch]:
        """Every column as text."""
        import pyarrow.csv

        text, names = self.text, self.text.columns
        if names is None:
            with open(path, "rb") as file:
                read: Callable[[int], bytes] = file.read
                if text.encoding != UTF_8:
                    read = Recoded(read, text.encoding, text.line_bytes).read
                first = next(chunks(read, chunk_bytes=_REPLAY_BYTES), None)
                if first is None or not len(first):
                    return
                names = parse_header(first.line(0), text.delimiter, path)
        yield from pyarrow.csv.open_csv(
            path,
            read_options=pyarrow.csv.ReadOptions(
                column_names=list(names),
                skip_rows=0 if text.columns is not None else 1,
                encoding=text.encoding,
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=text.delimiter, newlines_in_values=text.quoted_newlines
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string())
            ),
        )

    def tables(
        self, path: str, numeric: Sequence[str] | None = None, objects: str | None = None
    ) -> Iterator[pa.Table]:
        """Columns in addition ``numeric`` whose values would be written in another way are text."""
        import pyarrow.csv

        table = pyarrow.csv.read_csv(path)
        doubtful = [
            field.name
            for field in table.schema
            if numeric is not None
            and field.name not in numeric
            and not pa.types.is_string(field.type)
        ]
        if len(set(table.schema.names)) == table.num_columns and doubtful:
            kinds = dict.fromkeys(doubtful, pa.string())
            options = pyarrow.csv.ConvertOptions(include_columns=doubtful, column_types=kinds)
            texts = pyarrow.csv.read_csv(path, convert_options=options)
            for name in doubtful:
                own, text = table[name], texts[name]
                text = pc.if_else(own.is_valid(), text, pa.scalar(None, pa.string()))
                if not pc.all(pc.equal(own.cast(pa.string()), text)).as_py():
                    table = table.set_column(table.schema.names.index(name), name, text)
        yield table

    def samples(self, path: str) -> Samples:
        """Without a header and with no names in ``text.columns`` the columns are c1, c2 ...

        Raises:
          ConfigError: there is no header, or the text is not in this encoding.
        """
        from weir.transforms.decode.cast import MISSING

        text = self.text
        first = first_lines(path, text, SAMPLE_ROWS + 1)
        for line, number in zip(first.lines, first.numbers, strict=True):
            try:
                line.decode()
            except UnicodeDecodeError:
                raise ConfigError(
                    "--encoding",
                    text.encoding,
                    f"is not how line {number} of {path} is written; if it is text, say "
                    "in which encoding, like --encoding latin-1 or --encoding cp1252.",
                ) from None
        try:
            head = csv_head(path, text, SAMPLE_ROWS) or TextHead()
        except UnreadableFile:
            raise ConfigError("FILE", path, "is compressed, and damaged.") from None
        names, rows = head.names, head.rows
        if text.columns is not None:
            width = len(rows[0]) if rows else 0
            names = names or tuple(f"c{i + 1}" for i in range(width))
            if len(names) != width:
                raise ConfigError(
                    "--columns",
                    ",".join(names),
                    f"must name all {width} fields of {path}, in order.",
                )
        values: dict[str, list[Any]] = {}
        for i, name in enumerate(names):
            cells = [row[i].strip() for row in rows if len(row) == len(names)]
            values[name] = [cell for cell in cells if cell not in MISSING]
        return {name: _kind_of_texts(cells) for name, cells in values.items()}, values

    def header(self, batch: pa.RecordBatch) -> bytes:
        if self.text.columns is not None:
            return b""
        mark = self.text.delimiter
        return mark.join(_quoted(name, mark) for name in batch.schema.names).encode() + b"\n"

    def lines(self, batch: pa.RecordBatch) -> bytes:
        """Of a file without a header those columns that nothing needs are empty."""
        import pyarrow.csv

        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        if self.text.columns is not None:
            nothing = pa.nulls(batch.num_rows, pa.string())
            columns = {name: columns.get(name, nothing) for name in self.text.columns}
        out = io.BytesIO()
        options = pyarrow.csv.WriteOptions(
            include_header=False, quoting_style="needed", delimiter=self.text.delimiter
        )
        table = pa.table(list(columns.values()), names=list(columns))
        pyarrow.csv.write_csv(table, out, options)
        return out.getvalue()


def _quoted(name: str, delimiter: str) -> str:
    """A name in a header."""
    odd = any(mark in name for mark in (delimiter, '"', "\r", "\n"))
    return '"' + name.replace('"', '""') + '"' if odd else name


def _kind_of_texts(values: Sequence[str]) -> str:
    if not values:
        return "text"
    if all(re.fullmatch(r"[+-]?\d{1,18}", value) for value in values):
        # Digits with leading zeros are a code, not a number.
        coded = any(re.fullmatch(r"[+-]?0\d+", value) for value in values)
        return "text" if coded else "integer"
    if all(re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", value) for value in values):
        return "number"
    return "boolean" if all(value.lower() in ("true", "false") for value in values) else "text"


def parse_header(line: bytes, delimiter: str, source: str, number: int = 1) -> tuple[str, ...]:
    """The first line of a file -> names of columns.

    Args:
      number: of the line, from 1.

    Raises:
      ConfigError: it is not UTF-8 text, or holds a quote that is not closed.
    """
    try:
        text = without_marks(line).decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise ConfigError(
            "source.encoding",
            "utf-8",
            f"is not how line {number} of {source} is written, where the header line should be; "
            "if it is text, say in which encoding, like latin-1 or cp1252.",
        ) from None
    try:
        names = tuple(next(csv.reader([text], delimiter=delimiter, strict=True)))
    except (csv.Error, StopIteration):
        names = ()
    if not names or any("\n" in name for name in names):
        raise ConfigError(
            "source.csv",
            source,
            f"does not begin with a header: line {number} opens a quote and does not close it. If "
            "the file has no header, write header: false and columns: [...] in source.",
        )
    return names


def check_delimiter(delimiter: str) -> None:
    """Raises ConfigError unless the delimiter is one printable ASCII character or a tab."""
    good = len(delimiter) == 1 and delimiter.isascii() and delimiter not in '"\r\n'
    if not good or not (delimiter == "\t" or delimiter.isprintable()):
        raise ConfigError(
            "source.delimiter", delimiter, 'must be one character, like ",", ";", "|" or a tab.'
        )


def csv_head(path: str, form: TextForm, rows: int = 0) -> TextHead | None:
    """Reads the beginning of a file; None if nothing is in it.

    Args:
      path: of the file. form: how it is written. rows: how many records to look at.

    Raises:
      ConfigError: it does not begin with a header line.
      Unreadable: it is compressed, and damaged.
    """
    headless = form.columns is not None
    result = first_lines(path, form, max(1, rows + (not headless)))
    if result.broken and not result.lines:
        raise UnreadableFile
    if result.too_long:
        raise ConfigError(
            "limits.line_bytes",
            form.line_bytes,
            f"is less than line {result.numbers[0]} of {path} has, where the columns should be; is "
            f"it CSV?{returns_in(path, form)}",
        )
    if not result.lines:
        return None
    records = tuple(_fields(line, form.delimiter) for line in result.lines[not headless :])
    if form.columns is not None:
        return TextHead(form.columns, 0, records)
    names = parse_header(result.lines[0], form.delimiter, path, result.numbers[0])
    return TextHead(names, result.numbers[0], records)


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
            raise UnreadableFile
        return
    if form.columns is not None:
        width = len(head.rows[0])
        if width != len(form.columns):
            raise ConfigError(
                "source.columns",
                list(form.columns),
                f"names {len(form.columns)} columns, but the first line of {path} has "
                f"{described(head.rows[0])}; name every column, in order, and check "
                f"source.delimiter.{returns_in(path, form)}",
            )
        schema.require(form.columns, path)
        return
    result = doubt(head.names, head.rows)
    if result is not None and not set(schema.needed) <= set(head.names):
        raise ConfigError(
            field,
            path,
            f"does not begin with a header: line {head.number} has {result}. If the file has none, "
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
