"""Avro object container files, also as messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from weir.transforms.formats.format import BatchWriter, DecodeOptions, FileContent, Format
from weir.transforms.formats.stored import Split

if TYPE_CHECKING:
    from weir.transforms.decode.canonical import Decoded
    from weir.transforms.decode.schema import EventSchema

_UNKNOWN = pa.struct([])
"""Stands for a type that Arrow does not have, or that only the values tell."""
_PLAIN = {
    **{"int": pa.int64(), "long": pa.int64(), "float": pa.float64(), "double": pa.float64()},
    **{"string": pa.string(), "enum": pa.string(), "boolean": pa.bool_(), "bytes": pa.binary()},
}
_LOGICAL = {
    "date": pa.date32(),
    **{
        f"{local}timestamp-{name}": pa.timestamp(unit, zone)
        for local, zone in (("", "UTC"), ("local-", None))
        for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}


class Avro(Format):
    """Avro container files. A file is one split."""

    name: ClassVar[str] = "avro"
    description: ClassVar[str] = "Avro container files."
    example: ClassVar[str] = "events.avro"
    suffixes: ClassVar[tuple[str, ...]] = ("avro",)
    magics: ClassVar[tuple[bytes, ...]] = (b"Obj\x01",)
    in_messages: ClassVar[bool] = True

    def read(self, file: Any, rows: int) -> FileContent | None:
        import fastavro

        try:
            reader: Any = fastavro.reader(file)
            declared = {field["name"]: field["type"] for field in reader.writer_schema["fields"]}
        except Exception:
            # fastavro raises whatever its input leads it to; its text may quote content.
            return None
        types = {name: arrow_type(kind) for name, kind in declared.items()}
        return FileContent(pa.schema(list(types.items())), _batches(reader, types, rows))

    def check(self, path: str, field: str, schema: EventSchema) -> bool:
        from weir.transforms.decode.avro import read_header, wire_of

        with self.open(path) as file:
            header = read_header(file)
        if header is not None:
            wire_of(header, schema, path)
        return header is not None

    def decode_open(
        self, file: Any, schema: EventSchema, how: DecodeOptions, split: Split
    ) -> Iterator[Decoded]:
        from weir.transforms.decode.avro import decode_avro

        yield from decode_avro(file, schema, split.path, how.lost)

    def begin(self, file: Any, schema: pa.Schema) -> BatchWriter:
        return _RecordWriter(file, schema)


class _RecordWriter(BatchWriter):
    """Writes all rows when it is closed."""

    def __init__(self, file: Any, schema: pa.Schema) -> None:
        self._file, self._schema = file, schema
        self._rows: list[dict[str, Any]] = []

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self._rows += batch.to_pylist()

    def close(self) -> None:
        import fastavro

        fastavro.writer(self._file, avro_schema(self._schema), self._rows)


def _batches(
    reader: Any, types: Mapping[str, pa.DataType], rows: int
) -> Iterator[tuple[pa.RecordBatch, float]]:
    """Records as columns of their declared types; what has none, as Arrow infers it."""
    try:
        while records := list(islice(reader, rows)):
            columns = {
                name: pa.array(
                    [record[name] for record in records], None if kind == _UNKNOWN else kind
                )
                for name, kind in types.items()
            }
            yield pa.RecordBatch.from_pydict(columns), 0.0
    except Exception as error:  # as above
        raise ValueError(type(error).__name__) from None


def arrow_type(kind: Any) -> pa.DataType:
    """Returns the Arrow type of an Avro type, as fastavro gives its values."""
    if isinstance(kind, list):
        options = [option for option in kind if option != "null"]
        return arrow_type(options[0]) if len(options) == 1 else _UNKNOWN
    if not isinstance(kind, dict):
        return _PLAIN.get(str(kind), _UNKNOWN)
    logical = kind.get("logicalType")
    if logical == "decimal" and kind["precision"] <= pa.decimal128(38).precision:
        return pa.decimal128(kind["precision"], kind.get("scale", 0))
    if logical is not None:
        return _LOGICAL.get(logical, _UNKNOWN)
    if kind["type"] == "array":
        items = arrow_type(kind["items"])
        return _UNKNOWN if items == _UNKNOWN else pa.list_(items)
    return arrow_type(kind["type"])


def avro_schema(schema: pa.Schema) -> dict[str, Any]:
    """Returns the Avro record of Arrow columns; every field may be null."""

    def kind(arrow: pa.DataType) -> Any:
        if pa.types.is_timestamp(arrow):
            return {"type": "long", "logicalType": "timestamp-micros"}
        if pa.types.is_boolean(arrow):
            return "boolean"
        if pa.types.is_integer(arrow):
            return "long"
        if pa.types.is_list(arrow):
            return {"type": "array", "items": kind(arrow.value_type)}
        return "double" if pa.types.is_floating(arrow) else "string"

    return {
        "type": "record",
        "name": "event",
        "fields": [{"name": field.name, "type": ["null", kind(field.type)]} for field in schema],
    }
