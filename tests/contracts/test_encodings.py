"""Every encoding of a column, in every role: as its plain values are read, or refused by its type.

A file's schema is a public fact. So a column that cannot play its role is refused by file, column
and type before a record is read, by anyone who looks at the file: the check before a run, the
reader,
and ``weir init``, which proposes no such column. And how values are encoded is no matter of theirs:
a dictionary with indices of any width, runs and views hold what plain values do, however many names
there are, and whatever one of them is.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.contracts import alone_columns
from tests.contracts import alone_encodings as enc
from tests.contracts.test_alone import Outcome, _by_place
from tests.transforms.events import collect
from weir.dpcore.errors import ConfigError
from weir.pipelines.init.header import sniff
from weir.transforms.decode.canonical import Decoded
from weir.transforms.decode.memory_events import decode_table
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.formats.registry import FORMATS
from weir.transforms.sources.file_checks import check_files
from weir.transforms.sources.files import FileSource
from weir.transforms.sources.matching import match

T = Stamp("t", "epoch_s")
ROLES: dict[str, EventSchema] = {
    "time": EventSchema(Stamp("c")),
    "count": EventSchema(Stamp("c", "epoch_s")),
    "spelled": EventSchema(Stamp("c", "%Y%m%d")),
    "arrival": EventSchema(T, arrival=Stamp("c", field="schema.arrival")),
    "key": EventSchema(T, keys=("c",)),
    "id": EventSchema(T, id="c"),
    "unit": EventSchema(T, unit="c"),
    "number": EventSchema(T, columns={"c": "number"}),
    "text": EventSchema(T, columns={"c": "text"}, fields={"c": "where"}),
    "boolean": EventSchema(T, columns={"c": "boolean"}, fields={"c": "where"}),
    "any": EventSchema(T, columns={"c": "any"}, fields={"c": "where"}),
}
VALUES = ("number", "text", "boolean", "any")
"""Roles that reject no record: they can be tried at once, of a column each."""

Write = Callable[[Sequence[pa.RecordBatch]], bytes]
WRITERS: dict[str, tuple[str, Write]] = {
    "a stream": ("arrow", lambda some: alone_columns.arrow(some, True)),
    "a file": ("arrow", lambda some: alone_columns.arrow(some, False)),
    "parquet": ("parquet", lambda some: alone_columns.parquet(some, 1 << 20)),
    "parquet of others": ("parquet", lambda some: alone_columns.parquet(some, 1 << 20, False)),
}
FEW = (enc.PLAIN, "dictionary of int8", "runs to int32", "runs of a dictionary", "extension")
OFTEN = (*enc.STRINGS, pa.binary(), pa.int64(), pa.decimal128(38), pa.timestamp("us"))
"""Types that are tried with indices and ends of every width; of others the width is no matter."""


def batch(
    kind: pa.DataType, form: str, cells: Sequence[enc.Cell], inside: bool = False
) -> pa.RecordBatch:
    """Records with a cell each; inside: in fields of the column ``o``."""
    values = enc.encoded(kind, form, cells)
    named = dict.fromkeys(("c", *VALUES), values)
    if inside:
        named = {"o": pa.StructArray.from_arrays(list(named.values()), list(named))}
    named["t"] = pa.array([1_704_103_200] * len(cells), pa.int64())
    return pa.RecordBatch.from_arrays(list(named.values()), names=list(named))


def moved(schema: EventSchema, inside: bool) -> EventSchema:
    """The same roles, of fields inside of ``o``."""
    if not inside:
        return schema

    def stamp(one: Stamp | None) -> Any:
        away = one is None or one.column == "t"
        return one if away else Stamp(f"o.{one.column}", one.format, field=one.field)

    return EventSchema(
        stamp(schema.time),
        tuple(f"o.{name}" for name in schema.keys),
        schema.id and f"o.{schema.id}",
        schema.unit and f"o.{schema.unit}",
        stamp(schema.arrival),
        {f"o.{name}": kind for name, kind in schema.columns.items()},
        {f"o.{name}": field for name, field in schema.fields.items()},
    )


def refusal(data: bytes, form: str, schema: EventSchema) -> str | None:
    """Why a file is refused."""
    try:
        list(FORMATS[form].decode_bytes(data, schema, "the/file"))
    except ConfigError as error:
        return str(error)
    return None


def held(kind: pa.DataType, form: str, writer: str, inside: bool = False) -> bool:
    parquet = writer.startswith("parquet")
    # Its writer refuses seconds that are too many for milliseconds.
    too_long = parquet and pa.types.is_timestamp(kind) and kind.unit == "s"
    return enc.can_be_held(kind, form, parquet, inside) and not too_long


def outcomes(decoded: Iterable[Decoded], count: int, source: str = "f") -> list[Outcome]:
    """What becomes of each record."""
    found = _by_place(decoded)
    return [found.get((source, at), (None, ())) for at in range(count)]


def accepted(kind: pa.DataType, write: Write, form: str, inside: bool) -> list[EventSchema]:
    """Roles that a type can play; those of values all together."""
    data = write([batch(kind, enc.PLAIN, [None], inside)])
    can = {
        role for role, schema in ROLES.items() if refusal(data, form, moved(schema, inside)) is None
    }
    apart = [ROLES[role] for role in ROLES if role in can and role not in (*VALUES, "arrival")]
    values = EventSchema(
        T,
        arrival=ROLES["arrival"].arrival if "arrival" in can else None,
        columns={role: ROLES[role].columns["c"] for role in VALUES if role in can},
    )
    return [moved(schema, inside) for schema in (*apart, values)]


@pytest.mark.slow
@pytest.mark.parametrize("inside", [False, True], ids=["column", "field"])
@pytest.mark.parametrize("kind", enc.KINDS, ids=str)
def test_an_encoding_is_read_as_its_plain_values(kind: pa.DataType, inside: bool) -> None:
    cells: list[enc.Cell] = [*enc.samples(kind), *([] if pa.types.is_union(kind) else [None])]
    forms = enc.FORMS if kind in OFTEN and not inside else FEW
    for writer, (name, write) in WRITERS.items():
        if not held(kind, enc.PLAIN, writer, inside):
            continue
        files = []
        for form in forms:
            if held(kind, form, writer, inside):
                whole = [batch(kind, form, cells, inside)]
                apart = [batch(kind, form, [cell], inside) for cell in cells]
                # Batches of a file have one dictionary.
                files.append((form, write(whole if writer == "a file" else apart)))
        single = [write([batch(kind, enc.PLAIN, [cell], inside)]) for cell in cells]
        for schema in accepted(kind, write, name, inside):
            alone = [
                outcomes(FORMATS[name].decode_bytes(data, schema, "f"), 1)[0] for data in single
            ]
            for form, data in files:
                found = outcomes(FORMATS[name].decode_bytes(data, schema, "f"), len(cells))
                assert found == alone, (schema, form, writer)


@pytest.mark.slow
@pytest.mark.parametrize("kind", enc.KINDS, ids=str)
def test_a_type_is_refused_before_a_record_is_read(kind: pa.DataType, tmp_path: Path) -> None:
    """And the same roles of it, in every encoding and by every reader."""
    plain = WRITERS["a stream"][1]([batch(kind, enc.PLAIN, [])])
    accepted_roles = {role for role in ROLES if refusal(plain, "arrow", ROLES[role]) is None}
    for writer, (name, write) in WRITERS.items():
        for form, inside in itertools.product(FEW, (False, True)):
            if not held(kind, form, writer, inside):
                continue
            some = [batch(kind, form, [*enc.samples(kind)[:2], None], inside)]
            full, empty = write(some), write([batch(kind, form, [], inside)])
            path = tmp_path / f"{writer} {form} {inside}.{name}".replace(" ", "_")
            path.write_bytes(full)
            source = FileSource(name, str(path))
            matched = match(str(path), source.field)
            reasons = {}
            for role, schema in ROLES.items():
                asked = moved(schema, inside)
                reason = reasons[role] = refusal(full, name, asked)
                assert refusal(empty, name, asked) == reason
                if not (writer == "parquet of others" and _only_arrow_knows(kind)):
                    assert (reason is None) == (role in accepted_roles), (role, form)
                try:
                    check_files(source, matched, asked)
                    assert reason is None
                except ConfigError as error:
                    assert reason == str(error).replace(str(path), "the/file")
                if reason is not None:
                    assert ("'o.c'" if inside else "'c'") in reason and "the/file" in reason
                    if pa.types.is_duration(kind) and writer != "parquet of others":
                        assert f"duration[{kind.unit}]" in reason
            if not inside:
                _proposes_no_other(path, reasons)


def _only_arrow_knows(kind: pa.DataType) -> bool:
    """Types whose values are whole numbers in Parquet, which says no more of them."""
    return pa.types.is_duration(kind)


def _proposes_no_other(path: Path, reasons: Mapping[str, str | None]) -> None:
    """What ``weir init`` proposes of a file is not refused: of its roles, by what each is."""
    found = sniff(str(path))
    proposed = [("number", name) for name in found["numbers"]]
    proposed += [("key", name) for name in found["keys"]]
    if found["time"] is not None and found["time"]["format"] is None:
        proposed.append(("time", found["time"]["column"]))
    for role, name in proposed:
        if name == "c":
            assert reasons[role] is None, (role, found)


# As many names as there are.

WIDTHS = {pa.int8(): 300, pa.uint8(): 300, pa.int16(): 33_000, pa.uint16(): 66_000}
"""Index -> more names than it can tell apart: of a row group whose pieces had a dictionary each."""


def pieces(index: pa.DataType, names: Sequence[bytes]) -> list[Any]:
    """A column in pieces, each with as many names as such indices can tell apart at most."""
    most = min(2 ** (enc.bits(index) - pa.types.is_signed_integer(index)), 50_000)
    form = f"dictionary of {index}"
    parts = [names[at : at + most] for at in range(0, len(names), most)]
    return [
        _named(index, part) if len(part) > 500 else enc.encoded(pa.string(), form, part)
        for part in parts
    ]


def _named(index: pa.DataType, names: Sequence[bytes]) -> Any:
    """As ``encoded``, of names that are all different."""
    held = enc.values_of(pa.string(), names)
    return pa.DictionaryArray.from_arrays(pa.array(range(len(names)), index), held, safe=False)


def in_role(role: str, at: int) -> bytes:
    """One of many values that a role can read."""
    if role == "boolean":
        return b"true" if at % 2 else b"false" + b" " * at
    return str(1_704_000_000 + at).encode()


ROLE_OF_TEXT = ("count", "key", "id", "unit", "number", "text", "boolean", "any")


@pytest.mark.slow
@pytest.mark.parametrize("stored", [True, False], ids=["stored", "not stored"])
@pytest.mark.parametrize("index", enc.INDICES, ids=str)
def test_any_number_of_names_is_read(index: pa.DataType, stored: bool) -> None:
    count = WIDTHS.get(index, 300)
    roles = ROLE_OF_TEXT if count < 1000 else ("id",)
    for role, extra in itertools.product(roles, ([], [b"\xff\xff"])):
        names = [in_role(role, at) for at in range(count)]
        given = [*names[: count // 2], *extra, *names[count // 2 :]]
        times = pa.array([1_704_103_200] * len(given), pa.int64())
        column = pa.chunked_array(pieces(index, given))
        data = alone_columns.parquet_of(pa.table({"t": times, "c": column}), stored)
        plain = pa.table({"t": times, "c": enc.values_of(pa.string(), given)})
        schema = ROLES[role]
        found = collect(FORMATS["parquet"].decode_bytes(data, schema, "f"))
        expected = alone_columns.parquet_of(plain, False)
        events, dead = collect(FORMATS["parquet"].decode_bytes(expected, schema, "f"))
        assert repr(found) == repr((events, dead))  # NaN is not equal to itself
        assert len(events) >= count and len(dead) == len(extra) * (role != "any")


@pytest.mark.parametrize("index", [pa.int8(), pa.uint8()], ids=str)
@pytest.mark.parametrize("role", ROLE_OF_TEXT)
def test_any_number_of_names_of_a_table_or_a_frame_is_read(role: str, index: pa.DataType) -> None:
    names = [in_role(role, at) for at in range(300)]
    column = pa.chunked_array(pieces(index, names))
    times = pa.array([1_704_103_200] * len(names), pa.int64())
    table = pa.table({"t": times, "c": column})
    frame = pd.DataFrame(
        {"t": times.to_numpy(), "c": pd.Series(pd.array(column, dtype=pd.ArrowDtype(column.type)))}
    )
    plain = pa.table({"t": times, "c": enc.values_of(pa.string(), names)})
    schema = ROLES[role]
    expected = outcomes(decode_table(plain, schema), len(names), "the table")
    assert outcomes(decode_table(table, schema), len(names), "the table") == expected
    assert outcomes(decode_table(frame, schema), len(names), "the frame") == expected
    assert all(one[0] is not None and not one[1] for one in expected)


@pytest.mark.slow
@settings(max_examples=300, database=None)
@given(st.data())
def test_damage_to_any_encoding_raises_nothing_and_ends_no_process(data: st.DataObject) -> None:
    """What a few wrong bytes lead Arrow to stays in the dead letters of what they frame."""
    kind, form = data.draw(st.sampled_from(enc.KINDS)), data.draw(st.sampled_from(enc.FORMS))
    writer, inside = data.draw(st.sampled_from(list(WRITERS))), data.draw(st.booleans())
    assume(held(kind, form, writer, inside))
    name, write = WRITERS[writer]
    cells: list[enc.Cell] = [*enc.samples(kind), *([] if pa.types.is_union(kind) else [None])]
    damaged = bytearray(write([batch(kind, form, cells * 2, inside)]))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    schema = moved(ROLES[data.draw(st.sampled_from(list(ROLES)))], inside)
    if data.draw(st.booleans()):
        schema = schema.lenient()
    with contextlib.suppress(ConfigError):  # the damage has changed a column's name or type
        list(FORMATS[name].decode_bytes(bytes(damaged), schema, "f"))
