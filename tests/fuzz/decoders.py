"""Decoders of files: each record is read alone, whatever stands next to it.

An input is a few bytes of choice and one record (or a whole file). The record is read alone,
between two good ones and again without the compiled kernels; what becomes of each must be the same.
"""

from __future__ import annotations

import io
import json
import tempfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.contracts import alone_cells, alone_columns
from tests.contracts import alone_encodings as enc
from tests.contracts.test_alone import Outcome, _by_place
from tests.contracts.test_encodings import FEW, ROLES, WRITERS, batch, held, moved
from tests.fuzz.configs import BASE
from tests.fuzz.target import Target, require, without_kernels
from tests.transforms.avro_files import container, encoded, record_of
from weir.dpcore.config.schema import ListColumn
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import loads
from weir.pipelines.feed.feed import read_batches
from weir.pipelines.init.header import sniff
from weir.pipelines.results import events
from weir.transforms.decode.canonical import Decoded
from weir.transforms.decode.csv import decode_csv
from weir.transforms.decode.encoding import TextForm
from weir.transforms.decode.lines import chunks, without_marks
from weir.transforms.decode.ndjson import decode_ndjson
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.formats.registry import FORMATS, file_formats
from weir.transforms.sources import lookup
from weir.transforms.sources.file_checks import check_files, signs_of
from weir.transforms.sources.files import FileSource
from weir.transforms.sources.matching import match

TIME = "2020-01-01T00:00:00Z"
GOOD = {"t": TIME, "a": TIME, "k": "north", "l": "8", "i": "1", "u": "u1", "x": "2.5"}
GOOD |= {"w": "w", "b": "true", "n": "1"}
OTHER = {**GOOD, "k": "7", "i": "2", "x": "1", "b": "false"}
ARRIVAL = Stamp("a", None, "UTC", "schema.arrival")

SCHEMAS = (
    EventSchema(Stamp("t")),
    EventSchema(Stamp("t"), ("k",), "i", columns={"x": "number"}),
    EventSchema(Stamp("t"), ("k", "l"), unit="u", columns={"w": "text", "b": "boolean"}),
    EventSchema(Stamp("t"), ("l", "k", "w"), "i", "u", ARRIVAL, {"x": "number", "n": "any"}),
    EventSchema(Stamp("t"), columns={"k": "text", "x": "number"}).lenient(),
    EventSchema(Stamp("x", "epoch_s"), ("t",), columns={"b": "boolean"}),
    EventSchema(Stamp("x", "epoch_ns"), ("b",), columns={"x": "number", "t": "any"}),
    EventSchema(Stamp("t", None, "America/St_Johns"), ("x",), "x", "x"),
    EventSchema(Stamp("t", "%Y-%m-%dT%H:%M:%SZ"), ("k",), arrival=ARRIVAL),
)
WHOLE = 1 << 20
BORDERS = (1, 2, 5, WHOLE)
NAMES = alone_cells.COLUMNS

JOB = loads(BASE)
LIST = ListColumn(column="l", size=4)

Read = Callable[[Sequence[bytes], int], Iterable[Decoded]]


def outcomes_of(
    read: Read, records: Sequence[bytes], border: int, place: Callable[[int], Any]
) -> list[Outcome] | str:
    """What becomes of each record; of columns' types if they are refused."""
    try:
        by_place = _by_place(read(records, border))
    except ConfigError as error:
        require(bool(error.field and error.remedy), "a refusal names field and remedy", error)
        return "refused"
    places = [place(at) for at in range(len(records))]
    require(set(by_place) <= set(places), "no outcome is of no record", set(by_place) - set(places))
    return [by_place.get(at, (None, ())) for at in places]


_good: dict[Any, Any] = {}
"""What becomes of good records alone."""


def read_alone(
    read: Read,
    records: Sequence[Any],
    about: tuple[Any, ...],
    blank: bool = False,
    place: Callable[[int], Any] = lambda at: ("f", at + 1),
    borders: Sequence[int] = BORDERS,
) -> None:
    """The rule, for the record in the middle of two good ones.

    Args:
      about: names how the good ones are read. blank: whether nothing need become of the record.
      borders: how many records or bytes lie between borders; the input decides which is tried.
    """
    first, record, last = records
    alone = outcomes_of(read, [record], WHOLE, place)
    about = (repr(about), first)
    if about not in _good:
        _good[about] = [outcomes_of(read, [good], WHOLE, place) for good in (first, last)]
    ends = _good[about]
    if "refused" in (alone, *ends):
        together = outcomes_of(read, records, WHOLE, place)
        require({*map(str, (alone, *ends, together))} == {"refused"}, "columns alone are refused")
        return
    if not blank:
        require(alone != [(None, ())], "a record gives an event or a reason")
    expected = [*ends[0], *alone, *ends[1]]
    border = borders[zlib.crc32(repr(record).encode()) % len(borders)]
    together = outcomes_of(read, records, border, place)
    require(together == expected, "a record is read alone", border, together, expected)
    with without_kernels():
        slow = outcomes_of(read, records, WHOLE, place)
    require(slow == expected, "numpy reads what kernels read", slow, expected)


# Records of files of lines.


def line_of(form: str, cells: dict[str, str]) -> bytes:
    return json.dumps(cells).encode() if form == "ndjson" else ",".join(cells.values()).encode()


def _lines(form: str) -> Target:
    def check(data: bytes) -> None:
        schema = SCHEMAS[data[0] % len(SCHEMAS)] if data else SCHEMAS[0]
        nest = form == "ndjson" and data[:1] >= b"\x80"
        schema = alone_cells.inside(schema) if nest else schema
        record = data[1:].replace(b"\n", b"")
        good = [line_of(form, cells) for cells in (GOOD, OTHER)]

        def read(records: Sequence[bytes], border: int) -> Iterable[Decoded]:
            text = io.BytesIO(b"".join(record + b"\n" for record in records))
            pieces = chunks(text.read, chunk_bytes=border * 8)
            if form == "csv":
                return decode_csv(pieces, NAMES, schema, "f")
            return decode_ndjson(pieces, schema, "f")

        blank = not without_marks(record).strip()
        read_alone(read, [good[0], record, good[1]], (form, schema), blank)

    def seeds() -> list[bytes]:
        odd = [text.encode() for text in alone_cells.TEXTS] + list(alone_cells.NOT_TEXT)
        records = [b"", line_of(form, GOOD), alone_cells.MARK + line_of(form, OTHER)]
        names = list(GOOD)
        if form == "csv":
            odd += [b'""', b'"a""b"', b'"open', b'a"b', b'"a"b', b'"a,b"', b"\r", alone_cells.MARK]
            cells = [value.encode() for value in GOOD.values()]
            for place, text in enumerate(odd):
                at = place % len(cells)
                records.append(b",".join([*cells[:at], text, *cells[at + 1 :]]))
            records += [b",".join(cells[:-1]), b",".join([*cells, b"more"]), b'"' + records[1]]
        else:
            for place, token in enumerate(alone_cells.JSON_TOKENS):
                pairs = [(name, json.dumps(GOOD[name]).encode()) for name in names]
                pairs[place % len(pairs)] = (names[place % len(pairs)], token)
                records.append(alone_cells._object(pairs))
                if place % 4 == 0:  # a name a second time
                    pairs.append((names[place % len(names)], b"1"))
                    records.append(alone_cells._object(pairs))
            outer = b'{"m":{"t":"%b","x":1,"o":{"k":"a"}}}' % TIME.encode()
            records += [outer, outer[:-1], b'{"m":null}', b"[]", b"{}", b"{}{}", outer + b"\0"]
            return [
                bytes([at % len(SCHEMAS) + 0x80 * (record[:5] == outer[:5])]) + record
                for at, record in enumerate(records)
            ]
        return [bytes([at % len(SCHEMAS)]) + record for at, record in enumerate(records)]

    marks = (b'"', b",", b"\r", b"\xef\xbb\xbf", b"\\u0000", b"\\ud800", b"{", b"}", b":")
    words = [*marks, *(text.encode() for text in alone_cells.WORDS if text)]
    return Target(check, seeds, words)


# Records of typed columns: one cell, of any type, encoding and role.


@cache
def _kinds(form: str) -> tuple[pa.DataType, ...]:
    return tuple(kind for kind in enc.KINDS if held(kind, enc.PLAIN, _writers(form)[0]))


def _writers(form: str) -> list[str]:
    return [name for name, (of, _) in WRITERS.items() if of == form]


def _columns(form: str) -> Target:
    def check(data: bytes) -> None:
        kind_at, how, role, *_ = (*data[:3], 0, 0, 0)
        kind, inside = _kinds(form)[kind_at % len(_kinds(form))], bool(how & 0x80)
        encoding = FEW[how % len(FEW)]
        writer = _writers(form)[(how >> 4) % 2]
        if not held(kind, encoding, writer, inside):
            return
        schema = moved(list(ROLES.values())[role % len(ROLES)], inside)
        bits = _cell(kind, data[3:])
        good = enc.samples(kind)

        def read(records: Sequence[Any], border: int) -> Iterable[Decoded]:
            some = [records[at : at + border] for at in range(0, len(records), border)]
            if writer == "a file":  # batches of a file have one dictionary
                some = [records]
            batches = [batch(kind, encoding, part, inside) for part in some]
            return FORMATS[form].decode_bytes(WRITERS[writer][1](batches), schema, "f")

        def place(at: int) -> tuple[str, int]:
            return "f", at

        records = [good[0], bits, good[-1]] if good else [None, bits, None]
        about = (str(kind), encoding, writer, schema)
        read_alone(read, records, about, True, place, (1, 2, WHOLE))

    def seeds() -> list[bytes]:
        return [
            bytes([at, (at * 7 + place * 3) % 256, (at + place) % len(ROLES)]) + cell
            for at, kind in enumerate(_kinds(form))
            for place, cell in enumerate(enc.samples(kind))
        ]

    return Target(check, seeds)


def _cell(kind: pa.DataType, data: bytes) -> enc.Cell:
    """Bytes as the bits of a value of a type."""
    if (
        kind in enc.NESTED
        or isinstance(kind, pa.BaseExtensionType)
        and kind.storage_type in (enc.NESTED)
    ):
        return data[:1] or None
    kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    if kind in enc.STRINGS or kind in enc.BYTES:
        return data
    if pa.types.is_boolean(kind):
        return bytes([len(data) % 2])
    return data.ljust(enc.bits(kind) // 8, b"\0")[: enc.bits(kind) // 8]


# Records of Avro: the bytes of one, in a block of its own.

_NULLABLE: list[Any] = ["null", "long", "double", "string", "bytes", "boolean"]
_STAMP = {"type": "long", "logicalType": "timestamp-micros"}
_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
AVRO = (
    record_of(dict.fromkeys(NAMES, "string")),
    record_of({**dict.fromkeys(NAMES, _NULLABLE), "t": _STAMP, "x": "double"}),
    record_of({**dict.fromkeys(NAMES, ["null", "string"]), "x": _DECIMAL, "b": "boolean"}),
    record_of(
        {
            **dict.fromkeys(NAMES, ["string", "bytes"]),
            "w": {"type": "enum", "name": "e", "symbols": ["north", "south"]},
            "u": {"type": "fixed", "name": "f", "size": 4},
            "n": {"type": "array", "items": ["null", "long"]},
            "l": {"type": "map", "values": "string"},
        }
    ),
)


def _avro_record() -> Target:
    good = [encoded(cells, AVRO[0]) for cells in (GOOD, OTHER)]

    def check(data: bytes) -> None:
        schema_at, at, *_ = (*data[:2], 0, 0)
        declared, schema = AVRO[at % len(AVRO)], SCHEMAS[schema_at % len(SCHEMAS)]
        ends = [encoded(cells, declared) for cells in (avro_row(GOOD, at), avro_row(OTHER, at))]

        def read(records: Sequence[bytes], border: int) -> Iterable[Decoded]:
            packed = "deflate" if border == 2 else "null"
            whole = container(declared, records, 1, packed)
            return FORMATS["avro"].decode_bytes(whole, schema, "f")

        records = [ends[0], data[2:], ends[1]]
        about = ("avro", at % len(AVRO), schema)
        read_alone(read, records, about, False, lambda at: ("f", at), (1, 2))

    def seeds() -> list[bytes]:
        some = [bytes([role, at]) + encoded(avro_row(GOOD, at), kind)
                for at, kind in enumerate(AVRO) for role in range(len(SCHEMAS))]  # fmt: skip
        return [*some, *(seed[: len(seed) // 2] for seed in some), b"\0\0" + good[0] + b"more",
                b"\0\0" + b"\xff" * 12, b"\1\1" + b"\x80" * 11]  # fmt: skip

    return Target(check, seeds)


def avro_row(cells: dict[str, str], at: int) -> dict[str, Any]:
    """Cells as values of a schema."""
    if at % len(AVRO) == 1:
        return {**cells, "t": 1_577_836_800_000_000, "x": float(cells["x"])}
    if at % len(AVRO) == 2:
        return {**cells, "x": b"\x01\x00", "b": cells["b"] == "true"}
    if at % len(AVRO) == 3:
        return {**cells, "w": "north", "u": b"abcd", "n": [1, None], "l": {"a": "b"}}
    return dict(cells)


# Whole files.

ENDINGS = {"csv": ("", ".gz", ".zst"), "ndjson": ("", ".bz2", ".xz")}


def _file(form: str) -> Target:
    endings = ENDINGS.get(form, ("",))

    def check(data: bytes) -> None:
        choice, data = (data[0], data[1:]) if data else (0, data)
        text = TextForm()
        if form == "csv":
            text = TextForm(quoted_newlines=bool(choice & 0x40), delimiter=",;\t|"[choice >> 4 & 3])
        schema = SCHEMAS[choice % 4]
        with tempfile.TemporaryDirectory(dir=_memory()) as folder:
            path = Path(folder) / f"events.{form}{endings[choice % len(endings)]}"
            path.write_bytes(data)
            source = FileSource(form, str(path), text=text)
            results = []
            for slow in (False, True):
                if slow:
                    with without_kernels():
                        results.append(_whole(source, schema))
                else:
                    results.append(_whole(source, schema))
            require(repr(results[0]) == repr(results[1]), "numpy reads what kernels read", *results)
            for read in (
                partial(sniff, str(path)),
                lambda: list(read_batches(path, JOB)),
                lambda: list(events.tables(path, (), "--events")),
                lambda: list(events.tables(path, (), "--events", LIST)),
                partial(lookup._table, str(path)),
                partial(signs_of, str(path), form == "csv", text),
            ):
                try:
                    read()
                except ConfigError as error:
                    require(bool(error.field and error.remedy), "a refusal names field and remedy")

    def seeds() -> list[bytes]:
        rows = [GOOD, OTHER]
        tables = pa.Table.from_pylist(rows)
        if form == "csv":
            head = ",".join(NAMES).encode() + b"\n"
            body = b"".join(line_of(form, cells) + b"\n" for cells in rows)
            quoted = head + body.replace(b"north", b'"no\nrth"')
            mixed = [head + body, head, b"", quoted, b'"' + head + body, body, head * 2 + b"\0"]
            mixed += [(head + body).replace(b",", b";"), (head + body).decode().encode("utf-16")]
            return [bytes([at]) + some for some in mixed for at in (0, 1, 0x40, 0x50)]
        if form == "ndjson":
            body = b"".join(line_of(form, cells) + b"\n" for cells in rows)
            return [b"\0" + some for some in (body, body[:-5], b"", b"\n\n" + body, b"[\n" + body)]
        if form == "avro":
            whole = [container(AVRO[0], [encoded(cells, AVRO[0]) for cells in rows], 1)]
        elif form == "parquet":
            whole = [alone_columns.parquet_of(tables), alone_columns.parquet_of(tables, False, 1)]
        else:
            whole = [alone_columns.arrow(tables.to_batches(), kind) for kind in (True, False)]
        return [b"\0" + data for one in whole for data in (one, one[:-9], one[:60], one[40:])]

    return Target(check, seeds, [magic for magic in FORMATS[form].magics])


@cache
def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _whole(source: FileSource, schema: EventSchema) -> Any:
    """What becomes of a file: outcomes by place, or in words why it is refused."""
    path = source.paths[0]
    try:
        matched = match(path, source.field)
        check_files(source, matched, schema)
        parts = [part for file in matched for split in source.splits(file)
                 for part in source.decode(split, schema)]  # fmt: skip
    except ConfigError as error:
        require(bool(error.field and error.remedy), "a refusal names field and remedy", error)
        return str(error)
    return sorted(_by_place(parts).items())


def targets() -> dict[str, Callable[[], Target]]:
    """Name -> target, of every registered format of files."""
    results: dict[str, Callable[[], Target]] = {}
    for form in file_formats():
        results[f"{form}.file"] = partial(_file, form)
        record = _lines if FORMATS[form].is_text else _columns
        results[f"{form}.record"] = _avro_record if form == "avro" else partial(record, form)
    return results
