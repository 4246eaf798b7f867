"""Lines of JSON, in files and messages; and a single JSON object, as a message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.encoding import TextForm
from weir.transforms.decode.lines import Chunk, without_marks
from weir.transforms.formats.format import SAMPLE_ROWS, Samples
from weir.transforms.formats.lines import LineFormat, TextHead
from weir.transforms.formats.text import OVER_LINES, begins_over_lines, first_lines

if TYPE_CHECKING:
    from weir.transforms.decode.canonical import Decoded, Over
    from weir.transforms.decode.schema import EventSchema

_MAPS = pa.map_(pa.string(), pa.float64())
"""Of places, as texts, to numbers."""
_REPLAY_LINES = 1 << 14
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")
"""Outside of texts a line break is white space; inside of them JSON does not allow one."""


class Ndjson(LineFormat):
    """One JSON object a line. Its fields may be data, so their names are not those of columns."""

    name: ClassVar[str] = "ndjson"
    description: ClassVar[str] = "One JSON object a line."
    example: ClassVar[str] = "events-*.ndjson"
    suffixes: ClassVar[tuple[str, ...]] = ("ndjson", "jsonl", "json")
    in_messages: ClassVar[bool] = True
    named_columns: ClassVar[bool] = False

    def head(self, path: str) -> TextHead:
        return TextHead()

    def check(self, path: str, field: str, schema: EventSchema) -> bool:
        """Names and types are those of each record."""
        return True

    def decode_lines(
        self,
        pieces: Iterable[Chunk],
        head: TextHead,
        schema: EventSchema,
        source: str,
        over: Over = map,
    ) -> Iterator[Decoded]:
        from weir.transforms.decode.ndjson import decode_ndjson

        return decode_ndjson(pieces, schema, source, over)

    def batches(self, path: str) -> Iterator[pa.RecordBatch]:
        import orjson

        with open(path, "rb") as file:
            while lines := list(islice(file, _REPLAY_LINES)):
                rows = [orjson.loads(line) for line in map(without_marks, lines) if line.strip()]
                if rows:
                    yield pa.RecordBatch.from_pylist(rows)

    def tables(
        self, path: str, numeric: Sequence[str] | None = None, objects: str | None = None
    ) -> Iterator[pa.Table]:
        """Times are the text that they are there. Where the values of ``objects`` are objects Arrow
        would make a field of each place, and could not tell a null from an absent place."""
        import orjson

        with open(path, "rb") as file:
            data = without_marks(file.read())
        lines = [line for line in data.split(b"\n") if line.strip()]
        first = {} if objects is None or not lines else orjson.loads(lines[0])
        if not isinstance(first, dict) or not isinstance(first.get(objects), dict):
            yield _typed(data)
            return
        records = list(map(orjson.loads, lines))
        if not all(isinstance(record, dict) for record in records):
            raise ValueError("a line is no object")
        values = [record.pop(objects, None) for record in records]
        maps = [list(value.items()) if isinstance(value, dict) else None for value in values]
        table = _typed(b"\n".join(map(orjson.dumps, records)))
        yield table.append_column(objects, pa.array(maps, _MAPS))

    def samples(self, path: str) -> Samples:
        import orjson

        lines = first_lines(path, TextForm(), SAMPLE_ROWS).lines
        if begins_over_lines(lines):
            raise ConfigError("FILE", path, f"holds {OVER_LINES}.")
        values: dict[str, list[Any]] = {}
        for line in lines:
            try:
                record = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            for name, value in record.items() if isinstance(record, dict) else ():
                values.setdefault(name, []).extend([] if value is None else [value])
        return {name: _kind_of_values(result) for name, result in values.items()}, values

    def lines(self, batch: pa.RecordBatch) -> bytes:
        import orjson

        option = orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE
        return b"".join(orjson.dumps(row, option=option) for row in batch.to_pylist())


class Json(Ndjson):
    """One JSON object as a message; it may have line breaks."""

    name: ClassVar[str] = "json"
    suffixes: ClassVar[tuple[str, ...]] = ()
    most_per_message: ClassVar[int | None] = 1

    def framed(self, data: bytes) -> bytes:
        return data.translate(_ONE_LINE)


def _kind_of_values(values: Sequence[Any]) -> str:
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return "boolean"
    if kinds and kinds <= {int, float}:
        return "integer" if kinds == {int} else "number"
    return "text" if kinds <= {str, int} else "other"


def _typed(data: bytes) -> pa.Table:
    """Lines as columns whose types Arrow infers; a text that looks like a time stays text."""
    import pyarrow.json

    table = pyarrow.json.read_json(pa.py_buffer(data))
    times = [field.name for field in table.schema if pa.types.is_temporal(field.type)]
    if not times:
        return table
    schema = pa.schema([(name, pa.string()) for name in times])
    options = pyarrow.json.ParseOptions(explicit_schema=schema)
    again = pyarrow.json.read_json(pa.py_buffer(data), parse_options=options)
    return again.select(table.schema.names)
