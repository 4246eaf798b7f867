"""An id is read to its last digit, whatever it is written as: 64 bits are no border of what it is.

A column of ids that are larger may hold half of them below 2^64. If only these were read, half of
the records would be lost, and a release of the others would pass for all. What is no whole number
is a dead letter of its own record, with the field and the reason.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import fastavro
import pandas as pd
import pyarrow as pa
import pytest

from tests.contracts import alone_columns
from tests.transforms.avro_files import record_of
from tests.transforms.events import collect
from weir.transforms.beam.pubsub.messages import Message, MessageDecoder
from weir.transforms.decode.canonical import Decoded
from weir.transforms.decode.memory_events import decode_table
from weir.transforms.decode.mixed_columns import decode_rows
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.formats.registry import FORMATS
from weir.transforms.formats.stored import ALL, Split
from weir.transforms.sources.files import FileSource

IDS = [0, 7, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**64 + 1, 10**30, -(2**64) - 1]
SCHEMA = EventSchema(
    Stamp("t"), keys=("k",), id="i", unit="u", columns={"w": "text", "x": "number"}
)
Records = list[dict[str, Any]]
Read = Callable[[Records], Iterable[Decoded]]


def records(ids: Iterable[Any]) -> Records:
    return [{"t": "2024-01-05", **dict.fromkeys("kiuwx", one)} for one in ids]


def _lines(some: Records) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in some)


def _csv(some: Records) -> bytes:
    rows = [",".join(str(value) for value in one.values()) + "\n" for one in some]
    return ("t,k,i,u,w,x\n" + "".join(rows)).encode()


def _table(kind: pa.DataType) -> Callable[[Records], pa.Table]:
    def made(some: Records) -> pa.Table:
        values = [Decimal(one["i"]) if pa.types.is_decimal(kind) else one["i"] for one in some]
        column = pa.array(values, kind)
        return pa.table({"t": ["2024-01-05"] * len(some), **dict.fromkeys("kiuwx", column)})

    return made


def _parquet(kind: pa.DataType) -> Read:
    return lambda some: FORMATS["parquet"].decode_bytes(
        alone_columns.parquet_of(_table(kind)(some)), SCHEMA, "f"
    )


def _arrow(kind: pa.DataType) -> Read:
    return lambda some: FORMATS["arrow"].decode_bytes(
        alone_columns.arrow(_table(kind)(some).to_batches(), True), SCHEMA, "f"
    )


def _avro(kind: Any) -> Callable[[Records], bytes]:
    def made(some: Records) -> bytes:
        out = io.BytesIO()
        fields = {"t": "string", **dict.fromkeys("kiuwx", kind)}
        decimals = [
            {name: one[name] if name == "t" else Decimal(one[name]) for name in one} for one in some
        ]
        fastavro.writer(out, fastavro.parse_schema(record_of(fields)), decimals)
        return out.getvalue()

    return made


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 0}


def _messages(form: str, write: Callable[[Records], bytes], apart: bool = False) -> Read:
    def read(some: Records) -> list[Decoded]:
        parts = [[one] for one in some] if apart else [some]
        messages = [Message(str(at), write(part), 1) for at, part in enumerate(parts)]
        return MessageDecoder(form, SCHEMA, "s").decode(messages)

    return read


def _frame(some: Records) -> Iterable[Decoded]:
    return decode_table(
        pd.DataFrame({name: [one[name] for one in some] for name in some[0]}), SCHEMA
    )


READERS: dict[str, tuple[Read, int]] = {
    "csv": (lambda some: FORMATS["csv"].decode_bytes(_csv(some), SCHEMA, "f"), 0),
    "ndjson": (lambda some: FORMATS["ndjson"].decode_bytes(_lines(some), SCHEMA, "f"), 0),
    "messages of ndjson": (_messages("ndjson", _lines), 0),
    "messages of json": (_messages("json", _lines, apart=True), 0),
    "python": (lambda some: decode_rows(some, 0, SCHEMA), 0),
    "a frame": (_frame, 0),
    "parquet": (_parquet(pa.uint64()), 64),
    "parquet of decimals": (_parquet(pa.decimal128(38)), 0),
    "parquet of long decimals": (_parquet(pa.decimal256(70)), 0),
    "arrow": (_arrow(pa.uint64()), 64),
    "arrow of decimals": (_arrow(pa.decimal128(38)), 0),
    "messages of arrow": (
        _messages(
            "arrow",
            lambda some: alone_columns.arrow(_table(pa.decimal256(70))(some).to_batches(), True),
        ),
        0,
    ),
    "avro": (lambda some: FORMATS["avro"].decode_bytes(_avro(DECIMAL)(some), SCHEMA, "f"), 0),
    "avro of a choice": (
        lambda some: FORMATS["avro"].decode_bytes(_avro(["null", DECIMAL])(some), SCHEMA, "f"),
        0,
    ),
    "messages of avro": (_messages("avro", _avro(DECIMAL)), 0),
}


@pytest.mark.parametrize("reader", READERS)
def test_an_id_is_read_to_its_last_digit(reader: str) -> None:
    read, bits = READERS[reader]
    ids = [one for one in IDS if not bits or 0 <= one < 2**bits]
    events, dead = collect(read(records(ids)))
    assert not dead and len(events) == len(ids)
    for role in ("@key", "@id", "@unit", "w"):
        assert sorted(event[role] for event in events) == sorted(map(str, ids)), role
    assert sorted(event["x"] for event in events) == sorted(map(float, ids))


@pytest.mark.slow
def test_ids_stay_apart_that_a_double_holds_as_one() -> None:
    ids = range(2**64, 2**64 + 500)
    for reader, (read, bits) in READERS.items():
        if not bits:
            events, dead = collect(read(records(ids)))
            assert not dead and len({event["@id"] for event in events}) == 500, reader


ODD = ["1e30", "1.5", "100000000000000000000.0", "true", "[1]", "9" * 5000]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd[:12])
def test_what_is_no_id_is_its_own_record(odd: str) -> None:
    """A number of more digits than Python reads too: what it would cost is not its record's."""
    lines = [f'{{"t":"2024-01-05","i":{one}}}' for one in (2**64, odd, 7, 2**64 + 1)]
    data = "\n".join(lines).encode()
    events, dead = collect(
        FORMATS["ndjson"].decode_bytes(data, EventSchema(Stamp("t"), id="i"), "f")
    )
    assert [event["@id"] for event in events] == [str(2**64), "7", str(2**64 + 1)]
    assert dead == [(2, "i: unreadable_id")]


def test_numbers_that_stay_such_are_those_that_are_spelled(tmp_path: Any) -> None:
    """A file's whole numbers are hashed as their digits; decimals of as many are spelled."""
    from weir.dpcore.leaves.hashes import id_hashes

    found = []
    for kind in (pa.uint64(), pa.decimal128(20), pa.string()):
        path = tmp_path / f"{kind}.parquet".replace(" ", "")
        column = pa.array([Decimal(2**63), Decimal(2**64 - 1)]).cast(pa.decimal128(20)).cast(kind)
        alone_columns.write_to(path, pa.table({"t": ["2024-01-05"] * 2, "i": column}))
        source = FileSource("parquet", str(path))
        (read,) = source.decode(Split(str(path), 0, ALL, 1, 1), EventSchema(Stamp("t"), id="i"))
        found.append(id_hashes(read.events.column("@id"), bytes(16)).hashes.tolist())
    assert found[0] == found[1] == found[2]
