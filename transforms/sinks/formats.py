"""Text in CSV that a spreadsheet would take for a formula: guarded, and given back exactly.

A key like ``=HYPERLINK(...)`` may come from anyone who sends events, and a spreadsheet that opens
the
file would run it. A cell of text that begins with one of ``= + - @``, tab or carriage return gets
an apostrophe before it, which spreadsheets take for "this is text". So that reading gives back what
was there, one that begins with apostrophes and then such a sign gets one more. Numbers are numbers.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from weir.transforms.release.few import INDICES, Shape
from weir.transforms.release.table import NUMBER, RELEASE_SCHEMA
from weir.transforms.sinks.sorted_table import file_table

_PLAIN = r"\A('*[=+\-@\t\r])"
_GUARDED = r"\A'('*[=+\-@\t\r])"


def guarded(texts: Any) -> Any:
    """An array of texts, chunked or not, as a CSV file holds them; nulls stay."""
    return pc.replace_substring_regex(texts, _PLAIN, r"'\1")


def given_back(texts: Any) -> Any:
    """The inverse of ``guarded``."""
    return pc.replace_substring_regex(texts, _GUARDED, r"\1")


NOT_CODED = ("value", "low", "high")
"""Columns whose values hardly repeat."""
BATCH = 1 << 17
"""Values that Parquet's writer takes at a time."""
WORTH = 2 / 3
"""Numbers are compressed where it leaves less than this of them: noise fills most of their bits,
and compressing it takes a third of the time of a file."""
SAMPLE = 1 << 16
"""Bytes by which that is told: snappy looks at as many at a time."""
_SNAPPY = pa.Codec("snappy")
_ROWS = 1 << 16


def parquet(table: pa.Table) -> bytes:
    """Parquet with the types of RELEASE_SCHEMA; repeated values are dictionary-encoded."""
    sink = pa.BufferOutputStream()
    lists = [f.name for f in table.schema if pa.types.is_list(f.type)]
    coded = [name for name in table.schema.names if name not in (*NOT_CODED, *lists)]
    leaves = {
        name: f"{name}.list.element" if name in lists else name for name in table.schema.names
    }
    noise = [name for name in NOT_CODED if name in leaves and not worth_compressing(table[name])]
    pq.write_table(
        file_table(table),
        sink,
        use_dictionary=[*coded, *(["stddev.list.element"] if lists else [])],
        compression={leaf: "none" if name in noise else "snappy" for name, leaf in leaves.items()},
        store_schema=False,
        # None of keys: every tick has them all, and finding their ends costs as much as the rest.
        write_statistics=["tick", "name", "over"],
        write_batch_size=BATCH,
    )
    return bytes(memoryview(sink.getvalue()))


def worth_compressing(column: pa.ChunkedArray) -> bool:
    """Whether the first of a column's numbers take much less room compressed."""
    if not column.num_chunks:
        return False
    numbers = column.chunk(0)
    if pa.types.is_list(numbers.type):
        numbers = numbers.flatten()
    sample = numbers.slice(0, SAMPLE // 8).to_numpy(zero_copy_only=False).tobytes()
    return len(_SNAPPY.compress(sample)) < WORTH * len(sample)


def csv(table: pa.Table) -> bytes:
    """CSV with a header; lists are JSON text, null is empty, times are ISO 8601.

    A number of a flat row that is not finite is nan, inf or -inf. Text that a spreadsheet would
    take for a formula is guarded (see ``formula``)."""
    columns = {
        name: guarded(texts(column)) if is_text(column.type) else texts(column)
        for name, column in zip(table.schema.names, table.columns, strict=True)
    }
    out = io.BytesIO()
    options = pa.csv.WriteOptions(include_header=True, quoting_style="needed")
    pa.csv.write_csv(pa.table(columns), out, options)
    return out.getvalue()


def ndjson(table: pa.Table) -> bytes:
    """One JSON object a line, in the order of the columns."""
    lines: list[bytes] = []
    for start in range(0, table.num_rows, _ROWS):
        lines.append("".join(json_lines(table.slice(start, _ROWS))).encode())
    return b"".join(lines)


def json_lines(table: pa.Table) -> list[str]:
    """Rows as JSON objects, each with its line end."""
    pieces: list[Any] = []
    for place, (name, column) in enumerate(zip(table.schema.names, table.columns, strict=True)):
        pieces.append(("{" if place == 0 else ",") + json.dumps(name) + ":")
        pieces.append(json_values(column))
    pieces.append("}\n")
    scalars = [pa.scalar(p, pa.string()) if isinstance(p, str) else p for p in pieces]
    joined = pc.binary_join_element_wise(*scalars, pa.scalar("", pa.string()))
    return list(joined.to_pylist())


def json_values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as JSON texts."""
    value_type = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_list(column.type):
        return pa.chunked_array([json_lists(chunk) for chunk in column.chunks], pa.string())
    if pa.types.is_string(value_type):
        return over_dictionary(column, lambda words: [json.dumps(word) for word in words])
    text = texts(column)
    if pa.types.is_timestamp(value_type):
        text = pc.binary_join_element_wise('"', text, '"', "")
    return finite(text)


def texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as text; nulls stay nulls."""
    if pa.types.is_list(column.type):
        return pa.chunked_array([json_lists(c, null=None) for c in column.chunks], pa.string())
    if pa.types.is_floating(column.type):
        return number_texts(column)
    if not pa.types.is_dictionary(column.type):
        return pc.cast(column, pa.string())
    value_type = column.type.value_type
    if pa.types.is_timestamp(value_type):
        return over_dictionary(column, lambda times: [iso(time) for time in times])
    if pa.types.is_floating(value_type):
        return over_dictionary(column, lambda numbers: [repr(number) for number in numbers])
    return over_dictionary(column, lambda values: [str(value) for value in values])


def number_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Doubles in the fewest digits that give them back; whole ones keep a decimal point."""
    text = pc.cast(column, pa.string())
    whole = pc.match_substring_regex(text, "^-?[0-9]+$")
    return pc.if_else(whole, pc.binary_join_element_wise(text, ".0", ""), text)


def iso(time: Any) -> str:
    """A UTC time as text, microseconds only where there are some."""
    return str(time.replace(tzinfo=None).isoformat()) + "Z"


def is_text(kind: pa.DataType) -> bool:
    """Whether a column is of texts, coded or not."""
    return bool(pa.types.is_string(kind.value_type if pa.types.is_dictionary(kind) else kind))


def over_dictionary(
    column: pa.ChunkedArray, text: Callable[[Sequence[Any]], list[str]]
) -> pa.ChunkedArray:
    """Writes the distinct values of a dictionary column as text, once each."""
    chunks = [
        pa.array(text(chunk.dictionary.to_pylist()), pa.string()).take(chunk.indices)
        for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, pa.string())


def json_lists(column: pa.ListArray, null: str | None = "null") -> pa.Array:
    """Lists of numbers as JSON lists; what is not finite is null."""
    numbers = column.values.to_numpy(zero_copy_only=False)
    if pa.types.is_integer(column.type.value_type):
        return joined_lists(column, pc.cast(column.values, pa.string()), null)
    bits, where = np.unique(numbers.view(np.int64), return_inverse=True)  # -0.0 is not 0.0
    distinct = bits.view(np.float64)
    words = np.array(
        [repr(x) if np.isfinite(x) else "null" for x in distinct.tolist()] or [""], dtype=object
    )
    parts = pa.array(words[where] if len(distinct) else [], pa.string())
    return joined_lists(column, parts, null)


def joined_lists(column: pa.ListArray, parts: pa.Array, null: str | None) -> pa.Array:
    """Lists as texts. parts: the text of each of their numbers."""
    lists = pa.ListArray.from_arrays(column.offsets, parts)
    text = pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")
    if column.null_count:
        text = pc.if_else(column.is_valid(), text, pa.scalar(null, pa.string()))
    return text


def finite(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """JSON knows no infinity: null instead."""
    odd = pc.is_in(text, pa.array(["inf", "-inf", "nan"]))
    return pc.fill_null(pc.if_else(odd, pa.scalar(None, pa.string()), text), "null")


def row_texts(
    content: bytes, form: str, sparse: frozenset[str] = frozenset()
) -> dict[str, tuple[str | None, ...]]:
    """What is released -> its numbers (NUMBER) as text, to compare two files of one format.

    sparse: names of vectors whose zeros are passed over, in whichever layout they are written.
    """
    if form == "ndjson":
        rows = [json.loads(line) for line in content.decode().splitlines()]
    else:
        source = pa.BufferReader(content)
        types = {name: pa.string() for name in RELEASE_SCHEMA.names}
        convert = pa.csv.ConvertOptions(column_types=types)
        table = (
            pq.read_table(source)
            if form == "parquet"
            else pa.csv.read_csv(source, convert_options=convert)
        )
        if form == "csv":
            table = pa.table([given_back(column) for column in table.columns], table.schema.names)
        rows = table.to_pylist()
    named = ("release", "key", "tick", "name", "over", "index")
    results = {}
    for row in rows:
        value = row["value"]
        if row["name"] in sparse:
            if "index" not in row:
                value = _not_zero(value, row.get(INDICES))
            elif _is_zero(value):
                continue
        numbers = (value, *(row.get(name) for name in NUMBER[1:]))
        results[repr([row.get(name) for name in named])] = tuple(
            None if number in (None, "") else repr(number) for number in numbers
        )
    return results


def _not_zero(value: list[Any] | str, places: list[int] | str | None) -> dict[int, Any]:
    """What is not 0 of a packed vector, by its place; nothing of one that says nothing yet.

    value, places: lists, or their texts. places: None where all coordinates are there.
    """
    numbers = json.loads(value) if isinstance(value, str) else value
    at = json.loads(places) if isinstance(places, str) and places else places
    pairs = enumerate(numbers) if not at else zip(at, numbers, strict=True)
    return {place: number for place, number in pairs if number not in (None, 0)}


def _is_zero(value: float | str | None) -> bool:
    """Whether a value, or its text, is 0."""
    return value not in (None, "") and float(value or 0) == 0


def up_to(table: pa.Table, last: int) -> pa.Table:
    """Rows of ticks up to ``last``."""
    ticks = np.concatenate(
        [
            np.asarray(pc.fill_null(chunk.dictionary.take(chunk.indices), 0))
            for chunk in table["tick"].chunks
        ]
        or [np.zeros(0, dtype=np.int64)]
    )
    return table.filter(pa.array(ticks <= last))


def encode(table: pa.Table, form: str, shape: Shape | None) -> bytes:
    """A sorted table as the bytes of a file.

    Args:
      table: IN_FLIGHT_SCHEMA. form: parquet, csv or ndjson. shape: how vectors become rows; None:
        as lists of every coordinate.
    """
    return FORMATS[form](table if shape is None else shape.table(table))


FORMATS: dict[str, Callable[[pa.Table], bytes]] = {
    "parquet": parquet,
    "csv": csv,
    "ndjson": ndjson,
}
"""Format -> bytes of a sorted table, packed or flat."""
