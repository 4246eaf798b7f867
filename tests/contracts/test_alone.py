"""Each record is read alone: whatever stands next to it, the same values, bits and reasons.

For every format of files and every payload of messages, of which each must have its records here
to be registered at all: records are read one by one, and then in pairs, all together, turned
round, each left out in turn and each put in the place of each other, with borders of chunks,
blocks and batches in between. What becomes of a record may differ in its position alone.

Thousands of pairs a format are read each time. For more, in fresh places each time:
``ALONE_EXAMPLES=5000 python -m pytest tests/contracts/test_alone.py``.
"""

from __future__ import annotations

import io
import itertools
import os
import pickle
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contracts import alone_avro, alone_cells, alone_columns
from tests.transforms.avro_files import container
from weir.dpcore.errors import ConfigError
from weir.transforms.beam.pubsub.messages import Message, MessageDecoder
from weir.transforms.columns.keys import KEY, is_key, keys_of
from weir.transforms.columns.list_columns import is_list
from weir.transforms.decode.arrow import decode_arrow
from weir.transforms.decode.canonical import Decoded, placed
from weir.transforms.decode.csv import decode_csv
from weir.transforms.decode.lines import chunks
from weir.transforms.decode.memory_events import TABLE, decode_table
from weir.transforms.decode.ndjson import decode_ndjson
from weir.transforms.decode.parquet import decode_parquet
from weir.transforms.decode.schema import EventSchema
from weir.transforms.formats.registry import FORMATS, file_formats, message_formats
from weir.transforms.runtime.dead_letters import rows

pytestmark = pytest.mark.slow

Outcome = tuple[Any, ...]
"""Of one record: its cells, or None; and the (field, reason) of its dead letters."""

Read = Callable[[Sequence[Any], int], Iterable[Decoded]]
"""Records, and how many bytes or records lie between borders -> what is decoded."""

EXAMPLES = int(os.environ.get("ALONE_EXAMPLES", "60"))
BORDERS = (1, 2, 3, 1 << 24)


class Case:
    """Records of one file, and how they are read.

    Args:
      records: of any kind.
      read: writes some of them and decodes what was written.
      place: (index among the written, border) -> where a record is: (source, position).
    """

    def __init__(
        self, records: Sequence[Any], read: Read, place: Callable[[int, int], tuple[str, int]]
    ) -> None:
        self.records, self._read, self._place = records, read, place
        self._bits = [pickle.dumps(record) for record in records]
        self._known: dict[Any, list[Outcome] | str] = {}

    def outcomes(self, order: Sequence[int], border: int) -> list[Outcome] | str:
        """What becomes of each of some records; of the columns' types if they are refused.

        Equal records in the same order are the same bytes: these are read once.
        """
        bits = (border, *(self._bits[at] for at in order))
        if bits not in self._known:
            self._known[bits] = self._outcomes([self.records[at] for at in order], border)
        return self._known[bits]

    def _outcomes(self, some: Sequence[Any], border: int) -> list[Outcome] | str:
        try:
            found = _by_place(self._read(some, border))
        except ConfigError:
            return "refused"
        places = [self._place(at, border) for at in range(len(some))]
        assert set(found) <= set(places)
        return [found.get(place, (None, ())) for place in places]


def _by_place(decoded: Iterable[Decoded]) -> dict[tuple[str, int], Outcome]:
    cells: dict[tuple[str, int], Any] = {}
    letters: dict[tuple[str, int], list[tuple[str, str]]] = {}
    for events, dead, _ in decoded:
        if events is not None:
            events = placed(events)
            names = [name for name in events.schema.names if name not in ("@position", "@source")]
            columns = [_bits(events.column(name)) for name in names]
            parts = [name for name in names if is_key(name)]
            if len(parts) > 1:
                names.append(KEY)
                columns.append(_bits(keys_of(events, parts).keys))
            whole = events.schema.metadata[b"source"].decode()
            sources = [whole] * events.num_rows
            if "@source" in events.schema.names:
                sources = events.column("@source").to_pylist()
            places = zip(sources, events.column("@position").to_pylist(), strict=True)
            for place, *values in zip(places, *columns, strict=True):
                assert place not in cells
                cells[place] = tuple(zip(names, values, strict=True))
        if dead is not None:
            for source, position, field, reason in rows(dead):
                letters.setdefault((source, position), []).append((field, reason))
    return {
        place: (cells.get(place), tuple(sorted(letters.get(place, ()))))
        for place in cells.keys() | letters.keys()
    }


def _bits(column: Any) -> list[Any]:
    """Values as whole numbers and texts, with the column's type: NaN is not equal to itself."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = str(column.type)
    if is_list(column.type):
        return [(kind, None if one is None else _list_bits(one)) for one in column.to_pylist()]
    if pa.types.is_floating(column.type) or pa.types.is_timestamp(column.type):
        column = column.view(pa.int64())
    return [(kind, value) for value in column.to_pylist()]


def _list_bits(numbers: list[Any]) -> list[Any]:
    return [(one["at"], struct.pack("<d", one["number"])) for one in numbers]


def read_as(schema: EventSchema, nest: bool) -> EventSchema:
    """The schema that records are read by: some columns inside of others, if they are nested."""
    return alone_cells.inside(schema) if nest else schema


# Files.


def _text(records: Sequence[bytes], border: int, decode: Callable[[Any], Any]) -> Any:
    data = b"".join(record + b"\n" for record in records)
    return decode(chunks(io.BytesIO(data).read, chunk_bytes=border * 8))


def _csv(draw: Any, schema: EventSchema, nest: bool) -> Case:
    names = [alone_cells.INSIDE.get(name, name) if nest else name for name in alone_cells.COLUMNS]
    lines = draw(alone_cells.csv_lines(schema))

    def read(records: Sequence[bytes], border: int) -> Iterable[Decoded]:
        return _text(
            records, border, lambda text: decode_csv(text, names, read_as(schema, nest), "f")
        )

    return Case(lines, read, lambda at, _: ("f", at + 1))


def _ndjson(draw: Any, schema: EventSchema, nest: bool) -> Case:
    lines = draw(alone_cells.json_lines(schema, nest))

    def read(records: Sequence[bytes], border: int) -> Iterable[Decoded]:
        return _text(records, border, lambda text: decode_ndjson(text, read_as(schema, nest), "f"))

    return Case(lines, read, lambda at, _: ("f", at + 1))


def _batches(
    table: alone_columns.Table, records: Sequence[Any], border: int, alike: bool = False
) -> Any:
    some = [records[at : at + border] for at in range(0, len(records), border)]
    return [table.batch(part, alike) for part in some] or [table.batch([], alike)]


def _parquet(draw: Any, schema: EventSchema, nest: bool) -> Case:
    table = draw(alone_columns.tables(schema, loose=False, nest=nest))

    def read(records: Sequence[Any], border: int) -> Iterable[Decoded]:
        data = alone_columns.parquet(_batches(table, records, 1), border, table.stored)
        return list(
            decode_parquet(pa.BufferReader(data), read_as(schema, nest), "f", batch_rows=border)
        )

    return Case(table.records, read, lambda at, _: ("f", at))


def _arrow(draw: Any, schema: EventSchema, nest: bool) -> Case:
    table = draw(alone_columns.tables(schema, loose=True, nest=nest))

    def read(records: Sequence[Any], border: int) -> Iterable[Decoded]:
        stream = border % 2 == 0
        data = alone_columns.arrow(_batches(table, records, border, not stream), stream)
        return list(decode_arrow(pa.BufferReader(data), read_as(schema, nest), "f"))

    return Case(table.records, read, lambda at, _: ("f", at))


def _avro(draw: Any, schema: EventSchema, nest: bool) -> Case:
    given = draw(alone_avro.files(schema, nest))

    def read(records: Sequence[bytes], border: int) -> Iterable[Decoded]:
        data = container(given.declared, records, border, "deflate" if border == 2 else "null")
        return list(FORMATS["avro"].decode_bytes(data, read_as(schema, nest), "f"))

    return Case(given.records, read, lambda at, _: ("f", at))


def _table(draw: Any, schema: EventSchema, nest: bool) -> Case:
    """A table of Arrow that lies in memory, in chunks."""
    table = draw(alone_columns.tables(schema, loose=True, nest=nest))

    def read(records: Sequence[Any], border: int) -> Iterable[Decoded]:
        held = pa.Table.from_batches(_batches(table, records, border))
        return list(decode_table(held, read_as(schema, nest), batch_rows=max(2, border)))

    return Case(table.records, read, lambda at, _: (TABLE, at))


FILES: dict[str, Callable[[Any, EventSchema, bool], Case]] = {
    "csv": _csv,
    "ndjson": _ndjson,
    "parquet": _parquet,
    "arrow": _arrow,
    "avro": _avro,
}

# Messages, each of up to ``border`` records.


def _messages(
    form: str,
    schema: EventSchema,
    records: Sequence[Any],
    write: Callable[[Sequence[Any]], bytes],
    first: int,
) -> Case:
    def read(some: Sequence[Any], border: int) -> Iterable[Decoded]:
        parts = [some[at : at + border] for at in range(0, len(some), border)]
        pulled = [Message(str(at), write(part), 1) for at, part in enumerate(parts)]
        return MessageDecoder(form, schema, "s").decode(pulled)

    return Case(records, read, lambda at, border: (f"s#{at // border}", at % border + first))


def _full(lines: list[bytes]) -> list[bytes]:
    """A message of nothing is refused as a message: that is not what a record says."""
    return [line if line.removeprefix(alone_cells.MARK).strip() else b"{}" for line in lines]


def _json_messages(draw: Any, schema: EventSchema, nest: bool) -> Case:
    lines = _full(draw(alone_cells.json_lines(schema, nest)))
    decoder = MessageDecoder("json", read_as(schema, nest), "s")

    def read(some: Sequence[bytes], _: int) -> Iterable[Decoded]:
        return decoder.decode([Message(str(at), line, 1) for at, line in enumerate(some)])

    return Case(lines, read, lambda at, _: (f"s#{at}", 1))


def _ndjson_messages(draw: Any, schema: EventSchema, nest: bool) -> Case:
    lines = _full(draw(alone_cells.json_lines(schema, nest)))
    return _messages("ndjson", read_as(schema, nest), lines, lambda part: b"\n".join(part), 1)


def _avro_messages(draw: Any, schema: EventSchema, nest: bool) -> Case:
    given = draw(alone_avro.files(schema, nest))
    return _messages(
        "avro",
        read_as(schema, nest),
        given.records,
        lambda part: container(given.declared, part, 2),
        0,
    )


def _arrow_messages(draw: Any, schema: EventSchema, nest: bool) -> Case:
    table = draw(alone_columns.tables(schema, loose=True, nest=nest))
    return _messages(
        "arrow",
        read_as(schema, nest),
        table.records,
        lambda part: alone_columns.arrow(
            _batches(table, part, 2, len(part) % 2 != 0), len(part) % 2 == 0
        ),
        0,
    )


MESSAGES: dict[str, Callable[[Any, EventSchema, bool], Case]] = {
    "json": _json_messages,
    "ndjson": _ndjson_messages,
    "avro": _avro_messages,
    "arrow": _arrow_messages,
}


def _orders(count: int) -> Iterator[tuple[int, ...]]:
    whole = tuple(range(count))
    yield whole
    yield whole[::-1]
    yield whole * 3
    yield from itertools.permutations(whole, 2)
    for at in whole:
        yield whole[:at] + whole[at + 1 :]
        yield whole[:at] + (whole[at - 1],) + whole[at + 1 :]


def _check(case: Case, border: int) -> None:
    alone = [case.outcomes([at], border) for at in range(len(case.records))]
    for order in _orders(len(case.records)):
        together = case.outcomes(order, border)
        if together == "refused":
            assert all(outcome == "refused" for outcome in alone)
            return
        for at, outcome in zip(order, together, strict=True):
            assert [outcome] == alone[at], (case.records[at], order)


@pytest.mark.parametrize("form", file_formats())
def test_a_record_of_a_file_is_read_alone(form: str) -> None:
    _search(FILES[form])


def test_a_record_of_a_table_in_memory_is_read_alone() -> None:
    _search(_table)


@pytest.mark.parametrize("form", message_formats())
def test_a_record_of_a_message_is_read_alone(form: str) -> None:
    _search(MESSAGES[form])


def _search(make: Callable[[Any, EventSchema, bool], Case]) -> None:
    @settings(
        max_examples=EXAMPLES,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(st.data())
    def run(data: Any) -> None:
        schema = data.draw(alone_cells.schemas())
        if data.draw(st.booleans()):
            schema = schema.lenient()
        nest = data.draw(st.integers(0, 2)) == 0
        _check(make(data.draw, schema, nest), data.draw(st.sampled_from(BORDERS)))

    run()
