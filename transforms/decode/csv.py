"""CSV: records under names of columns, which the first line or the config gives.

One record is one line: a quoted field may not hold a line break, unless the chunks are of records
(``transforms.decode.quoted_text``). Quotes follow RFC 4180 otherwise. A record with another number
of fields than there are names, with a quote left open, or with a carriage return inside, is
malformed. A field that is not UTF-8, or no number where one is needed, is malformed, not its
record.

Plain lines are read by a kernel, each on its own (``transforms.decode.cells``), the others by
Arrow; all by Arrow where the kernel is missing, or most lines are not plain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
from numpy.typing import NDArray

from weir.dpcore.native import kernels
from weir.transforms.decode.canonical import Decoded, Over, assemble
from weir.transforms.decode.cast import MISSING
from weir.transforms.decode.json_lines import Plain, column
from weir.transforms.decode.lines import Chunk
from weir.transforms.decode.schema import EventSchema
from weir.transforms.runtime.dead_letters import dead_letters

_ASCII = bytes.maketrans(bytes(range(128, 256)), b"?" * 128)


def decode_csv(
    chunks: Iterable[Chunk],
    header: Sequence[str],
    schema: EventSchema,
    source: str,
    delimiter: str = ",",
    quoted_newlines: bool = False,
    over: Over = map,
) -> Iterator[Decoded]:
    """Lines without the header -> canonical batches.

    Args:
      chunks: from ``text.chunks``.
      header: names of columns.
      schema: the roles of columns.
      source: path.
      delimiter: one character.
      quoted_newlines: the chunks are of records, in which quoted fields may hold newlines.
      over: applies a function to every chunk, in order: ``ahead.in_turn`` on several cores.

    Raises:
      ConfigError: a needed column is not in the header.
    """
    schema.refuse_lists()
    schema.require(header, source, ())
    parser = _CsvParser(header, schema, delimiter, quoted_newlines)
    for result in over(lambda chunk: list(parser.decode(chunk, source)), chunks):
        yield from result


class _CsvParser:
    def __init__(
        self, header: Sequence[str], schema: EventSchema, delimiter: str, quoted_newlines: bool
    ) -> None:
        # Positions instead of names: a name may be odd, empty, or there twice.
        self._names = [f"c{i}" for i in range(len(header))]
        self._wanted = {name: f"c{list(header).index(name)}" for name in schema.needed}
        self._schema, self._quoted_newlines = schema, quoted_newlines
        self._options = {"delimiter": delimiter, "newlines_in_values": quoted_newlines}
        texts = {*schema.keys, schema.id, schema.unit, *(item.column for item in schema.stamps)}
        self._types: dict[str, pa.DataType] = {
            self._wanted[name]: pa.float64()
            for name, kind in schema.columns.items()
            if kind == "number" and name not in texts and name in self._wanted
        }
        self._delimiter = delimiter
        self._cells = {
            int(at[1:]): self._types.get(at, pa.string()) for at in self._wanted.values()
        }
        mark = re.escape(delimiter.encode())
        field = rb'(?:"(?:[^"]|"")*+"(?!")[^%b]*|[^"%b][^%b]*|)' % (mark, mark, mark)
        self._closed = re.compile(rb"%b(?:%b%b)*+" % (field, mark, field), re.DOTALL)

    def decode(self, chunk: Chunk, source: str) -> Iterator[Decoded]:
        """A chunk -> a canonical batch, and dead letters."""
        if len(chunk.too_long):
            yield Decoded(None, dead_letters(source, chunk.too_long, "too_long"))
        if not len(chunk):
            return
        plain = plain_cells(chunk, len(self._names), self._cells, self._delimiter)
        if plain is None or 2 * np.count_nonzero(plain.lines) < len(chunk):
            yield from self._by_arrow(chunk, source)
            return
        # What is odd comes first: a first look at a file ends with what shows that events fit.
        if not plain.lines.all():
            yield from self._by_arrow(chunk.only(~plain.lines), source, odd=True)
        raw = {name: plain.columns[at] for name, at in self._wanted.items()}
        numbers = chunk.numbers[plain.lines]
        yield assemble(raw, numbers, self._schema, source, empty_is_null=True)

    def _by_arrow(self, chunk: Chunk, source: str, odd: bool = False) -> Iterator[Decoded]:
        """odd: what is amiss in most of its lines is looked for in front of the parse, not behind
        one that has failed; what is found is the same."""
        bad = _stray_returns(chunk, self._quoted_newlines)
        if odd:
            bad |= [not self.is_closed(line) for line in chunk.lines()]
        for i in range(len(chunk) - 1, -1, -1):
            # What follows tells that a quote was left open. Nothing follows the last line.
            if not bad[i] and self.is_closed(chunk.line(i)):
                break
            bad[i] = True
        raw = self.columns(chunk, bad, {} if odd else self._types)
        if bad.any():
            dead = dead_letters(source, chunk.numbers[bad], "malformed")
            yield Decoded(None, dead)
        if not bad.all():
            yield assemble(raw, chunk.numbers[~bad], self._schema, source, empty_is_null=True)

    def is_closed(self, line: bytes) -> bool:
        """Whether a record leaves no quote open."""
        return b'"' not in line or self._closed.fullmatch(line) is not None

    def columns(
        self, chunk: Chunk, bad: NDArray[np.bool_], types: dict[str, pa.DataType]
    ) -> dict[str, Any]:
        """Columns of the lines that are not bad, text where one is not of its type; marks further
        bad lines in ``bad``."""
        if chunk.not_utf8().any():
            # Arrow cannot name a line to be skipped that is not UTF-8: find those without it.
            self._read(replace(chunk, data=chunk.data.translate(_ASCII)), bad, {})
        try:
            table = self._read(chunk, bad, types)
        except pa.ArrowInvalid:
            table = self._read(chunk, bad, {})
        return {name: table.column(at) for name, at in self._wanted.items()}

    def _read(self, chunk: Chunk, bad: NDArray[np.bool_], types: dict[str, pa.DataType]) -> Any:
        table, lost = self._parse(chunk, ~bad, types)
        value = len(bad) - int(bad.sum())
        if table.num_rows + len(lost) != value:
            # A quote left open has swallowed lines: find it, and read again without.
            quoted = np.flatnonzero(np.frombuffer(chunk.data, np.uint8) == 34)
            for i in np.unique(chunk.line_of(quoted)).tolist():
                if i >= 0 and not bad[i] and not self.is_closed(chunk.line(i)):
                    bad[i] = True
            table, lost = self._parse(chunk, ~bad, types)
        places = np.flatnonzero(~bad)
        bad[places[lost]] = True
        return table

    def _parse(
        self, chunk: Chunk, keep: NDArray[np.bool_], types: dict[str, pa.DataType]
    ) -> tuple[Any, NDArray[np.int64]]:
        """Reads lines; also says which of them (in order) have another number of fields."""
        data = chunk.data if keep.all() and not len(chunk.too_long) else chunk.select(keep)
        lost: list[int] = []

        def skip(row: Any) -> str:
            lost.append(row.number - 1)
            return "skip"

        wanted = list(dict.fromkeys(self._wanted.values()))
        if not keep.any():
            return pa.table({name: pa.array([], pa.string()) for name in wanted}), np.array([], int)
        table = arrow_csv.read_csv(
            pa.BufferReader(data),
            read_options=arrow_csv.ReadOptions(
                use_threads=False, block_size=len(data) + 1, column_names=self._names
            ),
            parse_options=arrow_csv.ParseOptions(**self._options, invalid_row_handler=skip),
            convert_options=arrow_csv.ConvertOptions(
                check_utf8=False,
                include_columns=wanted,
                column_types={name: types.get(name, pa.string()) for name in wanted},
                null_values=list(MISSING),
                strings_can_be_null=False,
            ),
        )
        return table, np.array(lost, dtype=np.int64)


def _stray_returns(chunk: Chunk, quoted_newlines: bool) -> NDArray[np.bool_]:
    """Lines with a carriage return that ends nothing: other readers would end a record there.

    In front of a newline inside a record it ends a line of a quoted field.
    """
    bad = np.zeros(len(chunk), dtype=bool)
    data = chunk.data
    if b"\r" not in data:
        return bad
    # Of a line that ends in one more than its end has, the newline behind may be the chunk's own.
    at = np.flatnonzero(np.frombuffer(data, np.uint8) == 13)
    lines = chunk.line_of(at)
    inside = (lines >= 0) & (at < chunk.ends[lines])
    if quoted_newlines:
        following = np.frombuffer(data + b"\0", np.uint8)[at + 1]
        inside &= following != 10
    bad[lines[inside]] = True
    return bad


_UNUSED = -1
_TEXT, _NUMBER = 0, 1


def plain_cells(
    chunk: Chunk, fields: int, types: Mapping[int, pa.DataType], delimiter: str
) -> Plain | None:
    """Reads the plain lines of a chunk.

    Args:
      fields: of a line. types: string or double, of the fields that are needed, by place.

    Returns:
      columns by the names "c0", "c1", ... of places; None where the kernel is missing.
    """
    n, k = len(chunk), len(types)
    if kernels is None or not n or len(chunk.data) >= 1 << 31:
        return None
    wanted = np.full((fields, 2), _UNUSED, dtype=np.int64)
    for at, (place, kind) in enumerate(types.items()):
        wanted[place] = _NUMBER if kind == pa.float64() else _TEXT, at
    values, sizes = np.empty((k, n), dtype=np.int64), np.empty((k, n), dtype=np.int64)
    there, lines = np.empty((k, n), dtype=np.bool_), np.empty(n, dtype=np.bool_)
    kernels.cells(
        chunk.data, chunk.starts, chunk.ends, wanted, values, sizes, there, lines,
        delimiter.encode(),
    )  # fmt: skip
    m = int(np.count_nonzero(lines))
    columns = {
        f"c{place}": column(
            chunk.data, int(wanted[place, 0]), values[at, :m], sizes[at, :m], there[at, :m]
        )
        for at, place in enumerate(types)
    }
    return Plain(lines, columns)
