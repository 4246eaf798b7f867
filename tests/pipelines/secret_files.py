"""Files of events that are made of secrets: whole, broken, misnamed, with secrets for names."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Mapping
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

WORDS = ("Quillfeather", "zebedee@example.org", "7306415289", "Grünspan-Xu")
"""What must never be seen: a name, an address, a number, letters beyond ASCII."""

NAME, MAIL, NUMBER, FOREIGN = WORDS

COLUMNS = ("at", "id", "user_id", "store", "amount", "note")

Rows = list[dict[str, Any]]


def rows() -> Rows:
    """Events with secrets in all fields that are not released, and where none can be read."""
    found = [
        {
            "at": f"2024-01-01T{i % 24:02d}:00:00Z",
            "id": f"{MAIL}-{i}",
            "user_id": f"{NAME}-{i}",
            "store": ("north", "south", FOREIGN)[i % 3],
            "amount": float(NUMBER) + i / 4,
            "note": f"{NAME} {FOREIGN} {NUMBER}",
        }
        for i in range(60)
    ]
    for i, name in enumerate(("at", "amount", "store", "id")):
        found[10 * i + 5][name] = f"{NAME} {NUMBER}"
    found[50]["at"] = None
    found[51]["amount"] = NAME
    return found


def csv(events: Rows) -> bytes:
    out = io.BytesIO()
    pyarrow.csv.write_csv(_table(events), out)
    return out.getvalue()


def ndjson(events: Rows) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in events).encode()


def parquet(events: Rows) -> bytes:
    out = io.BytesIO()
    pq.write_table(_table(events), out, compression="none", row_group_size=20)
    return out.getvalue()


def arrow(events: Rows) -> bytes:
    out = io.BytesIO()
    table = _table(events)
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table, 20)
    return out.getvalue()


def avro(events: Rows) -> bytes:
    names = list(events[0])
    plain = [name.isidentifier() for name in names]
    fields = [
        {
            "name": name if fine else f"f{i}",
            "type": ["null", "string", "double"],
            "doc": f"{NAME} {name}",
            "aliases": [NAME],
        }
        for i, (name, fine) in enumerate(zip(names, plain, strict=True))
    ]
    schema = {"type": "record", "name": NAME, "doc": MAIL, "fields": fields}
    shown = [
        {field["name"]: row[name] for field, name in zip(fields, names, strict=True)}
        for row in events
    ]
    out = io.BytesIO()
    metadata = {"owner": f"{NAME} {MAIL}"}
    fastavro.writer(out, schema, shown, metadata=metadata, sync_interval=400)
    return out.getvalue()


def _text(value: Any) -> str | None:
    return None if value is None else f"{value}"


def _table(events: Rows) -> pa.Table:
    texts = [{name: _text(value) for name, value in row.items()} for row in events]
    table = pa.Table.from_pylist(texts)
    told = {"owner": NAME, MAIL: NUMBER}
    fields = [field.with_metadata({NAME: MAIL}) for field in table.schema]
    return table.cast(pa.schema(fields, metadata=told))


WRITERS: Mapping[str, Callable[[Rows], bytes]] = {
    "csv": csv,
    "ndjson": ndjson,
    "parquet": parquet,
    "arrow": arrow,
    "avro": avro,
}
"""A writer for each format that a source can be of."""


def secret_names(form: str) -> bytes:
    """Events whose names of columns are people."""
    renamed = [{f"{MAIL}/{name} {NUMBER}": value for name, value in row.items()} for row in rows()]
    return WRITERS[form](renamed)


def secret_types() -> pa.Table:
    """A column for numbers that is a structure of secret names; times of a secret zone."""
    amount = pa.StructArray.from_arrays([pa.array([1.0])], [NAME])
    at = pa.array([0], pa.timestamp("us", "UTC")).view(pa.timestamp("us", NAME))
    return pa.table({"at": at, "id": ["1"], "store": ["north"], "amount": amount})


def folder(form: str) -> dict[str, bytes]:
    """A good file and broken ones of a format, by name; the good one comes first."""
    good = WRITERS[form](rows())
    middle = len(good) // 2
    files = {
        f"a.{form}": good,
        f"b.{form}": good[: 2 * len(good) // 3],
        f"c.{form}": good[:middle] + f"\x00\xff{NAME}".encode() + good[middle + 20 :],
        f"d.{form}": good[:150] + NAME.encode(),
        f"e.{form}": b"",
    }
    if form in ("csv", "ndjson"):
        head = good.split(b"\n")[0] + b"\n"
        files[f"f.{form}.gz"] = gzip.compress(good)
        files[f"g.{form}.gz"] = gzip.compress(good)[:-60]
        files[f"h.{form}"] = head + 40_000 * NAME.encode() + b"\n" + good.split(b"\n", 1)[1]
        files[f"i.{form}"] = good.decode().encode("latin-1")
    if form == "csv":
        files["j.csv"] = head + f'2024-01-01,"{NAME}\n{MAIL},{NUMBER}\n'.encode() + good
        # A header that is there, under events of another shape.
        files["k.csv"] = head + f"{NAME} {MAIL} {NUMBER}\n".encode() * 20
    if form == "ndjson":
        deep = f'{{"at": {"[" * 5000}"{NAME}"{"]" * 5000}}}\n'
        people = json.dumps({MAIL: NAME, NAME: {FOREIGN: NUMBER}}) + "\n"
        broken = f'{{"at": "{NAME}\\q", "{MAIL}\n{NAME}\n"{NAME}"\n[{NUMBER}]\n'
        files["j.ndjson"] = (deep + people + broken + f"{NUMBER}\n").encode()
    return files


def wrong(form: str) -> dict[str, tuple[str, bytes]]:
    """What is refused as a whole: file name -> (the format that a config takes it for, bytes)."""
    found = {
        f"as_{form}_is_{other}": (form, write(rows()))
        for other, write in WRITERS.items()
        if other != form
    }
    found[f"names.{form}"] = (form, secret_names(form))
    found[f"log.{form}"] = (form, f"2024-01-01 00:00:01 ERROR {NAME} <{MAIL}>\n".encode() * 50)
    found[f"zip.{form}"] = (form, b"PK\x03\x04" + NAME.encode() * 50)
    found[f"xml.{form}"] = (form, f"<?xml version='1.0'?><{NAME}>{MAIL}".encode() * 50)
    found[f"binary.{form}"] = (form, b"\x00\x01" + NAME.encode() * 50)
    found[f"wide.{form}"] = (form, csv(rows()).decode().encode("utf-16"))
    if form == "csv":
        body = csv(rows()).split(b"\n", 1)[1]
        found["headless.csv"] = (form, body)
        found["words.csv"] = (form, f"{NAME},{FOREIGN}\nx,y\n{NAME},z\n".encode())
        found["one.csv"] = (form, (NAME + "\n").encode())
        found["quote.csv"] = (form, f'"{NAME},{MAIL}\n'.encode() * 9)
        found["latin.csv"] = (form, f"{FOREIGN},{NAME}\n".encode("latin-1") * 9)
        found["long.csv"] = (form, NAME.encode() * 40_000)
        found["twice.csv"] = (form, f"{NAME},at,at,id,{NAME}\n".encode())
    if form in ("parquet", "arrow"):
        out = io.BytesIO()
        table = secret_types()
        if form == "parquet":
            pq.write_table(table.drop_columns(["at"]).append_column("at", pa.array(["x"])), out)
        else:
            with pa.ipc.new_file(out, table.schema) as writer:
                writer.write_table(table)
        found[f"types.{form}"] = (form, out.getvalue())
    return found


__all__ = ["COLUMNS", "WORDS", "WRITERS", "folder", "rows", "wrong"]
