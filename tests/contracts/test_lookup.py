"""Columns of a public table: as if they lay in the records, in every format of files and messages
and in memory; each record is looked up alone."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.contracts.test_alone import Outcome, _by_place
from weir.dpcore.config.lookup import PublicLookup
from weir.dpcore.errors import ConfigError
from weir.transforms.beam.pubsub.messages import Message, MessageDecoder
from weir.transforms.decode.canonical import Decoded
from weir.transforms.decode.memory_events import TABLE, decode_table
from weir.transforms.decode.mixed_columns import decode_rows
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.formats.registry import FORMATS, file_formats
from weir.transforms.sources.lookup import with_table

ROWS = {
    "zip": ["01234", "7", "north", "n\u00fc"],
    "kind": ["a", "a", "b", "a"],
    "region": ["EU", "US", None, "EU"],
    "size": [1.5, 2.0, None, -3.0],
    "since": ["2024-01-01", "2024-05-01T12:00:00Z", "soon", None],
    "open": [True, False, None, True],
}
ZIPS = ["01234", "1234", "7", "7.0", "north", "NORTH", None, "", "n\u00fc", "01234 ", "north"]
ROLES: dict[str, dict[str, Any]] = {
    "key": {"time": Stamp("t"), "key": "region"},
    "keys": {"time": Stamp("t"), "key": ["region", "zip"]},
    "unit": {"time": Stamp("t"), "id": "i", "unit": "region"},
    "time": {"time": Stamp("since"), "id": "i"},
    "number": {"time": Stamp("t"), "numbers": ["size"]},
    "where": {"time": Stamp("t"), "where": "region == 'EU' and size > 0 and open"},
    "nothing else": {"time": None, "where": "region is None"},
}


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("public") / "zips.parquet"
    pq.write_table(pa.table(ROWS), path)
    return path


def schema_with(public: Path, role: str, on: Any = "zip", **more: Any) -> EventSchema:
    add = [name for name in ROWS if name not in ("zip", "kind")]
    section = with_table(PublicLookup(public=str(public), on=on, add=add))  # type: ignore[arg-type]
    return EventSchema.build(lookup=section.table, **{**ROLES[role], **more})


def records(zips: Iterable[Any]) -> list[dict[str, Any]]:
    return [
        {"t": f"2024-01-01T00:00:{at:02d}Z", "i": f"e{at}", "zip": code}
        for at, code in enumerate(zips)
    ]


def joined(rows: list[dict[str, Any]], empty_is_null: bool) -> list[dict[str, Any]]:
    """The same with the columns in them."""
    found = {code: at for at, code in enumerate(ROWS["zip"])}
    result = []
    for row in rows:
        code = None if empty_is_null and row["zip"] == "" else row["zip"]
        at = found.get(code)
        more = {name: None if at is None else ROWS[name][at] for name in ROWS if name != "zip"}
        result.append({**row, **more})
    return result


def read(form: str, rows: Sequence[dict[str, Any]], schema: EventSchema) -> list[Outcome]:
    """What becomes of each record of a file, of messages or of memory."""
    first, source = 0, "f"
    if form == "rows":
        source = "events"
        decoded: list[Decoded] = list(decode_rows(list(rows), 0, schema))
    elif form == "table":
        decoded = list(decode_table(typed(rows), schema))
        source = TABLE
    elif form == "messages":
        source, first = "s#", 1
        sent = [Message(str(at), json.dumps(row).encode(), 1) for at, row in enumerate(rows)]
        decoded = list(MessageDecoder("json", schema, "s").decode(sent))
    else:
        out = io.BytesIO()
        out.close = lambda: None  # type: ignore[method-assign]
        writer = FORMATS[form].writer(out)
        writer.write(typed(rows))
        writer.close()
        decoded = list(FORMATS[form].decode_bytes(out.getvalue(), schema, "f"))
        first = {"csv": 2, "ndjson": 1, "json": 1}.get(form, 0)
    found = _by_place(decoded)
    if form == "messages":
        return [found.get((f"s#{at}", 1), (None, ())) for at in range(len(rows))]
    if form == "rows" and found:
        source = next(iter(found))[0]
    return [found.get((source, at + first), (None, ())) for at in range(len(rows))]


def typed(rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    kinds = {"size": pa.float64(), "open": pa.bool_()}
    names = list(rows[0])
    return pa.RecordBatch.from_pylist(
        list(rows), pa.schema([(name, kinds.get(name, pa.string())) for name in names])
    )


FORMS = (*file_formats(), "rows", "table", "messages")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("role", ROLES)
def test_a_column_of_the_table_is_read_as_one_of_the_record(
    form: str, role: str, public: Path
) -> None:
    """And each record alone: another next to it changes nothing."""
    schema, bare = schema_with(public, role), EventSchema.build(**ROLES[role])
    rows = records(ZIPS)
    together = read(form, rows, schema)
    assert any(cells for cells, _ in together)
    assert together == read(form, joined(rows, form == "csv"), bare)
    assert read(form, rows[::-1], schema)[::-1] == together
    for at in range(0, len(rows), 2):
        assert read(form, [rows[at]], schema) == [together[at]]


def test_values_of_other_types_cost_their_own_record(public: Path) -> None:
    """In memory and in JSON a column may hold anything."""
    schema = schema_with(public, "key")
    values = ["01234", 7, 7.5, True, None, [1], {"a": 1}, "n\u00fc", b"7", b"\xff", 2**70]
    for form in ("rows", "messages"):
        some = [v for v in values if form == "rows" or not isinstance(v, bytes)]
        together = read(form, records(some), schema)
        keys = [None if cells is None else dict(cells)["@key"][1] for cells, _ in together]
        assert keys[:2] == ["EU", "US"] and keys[some.index("n\u00fc")] == "EU"
        assert [read(form, [row], schema)[0] for row in records(some)] == together


def test_several_columns_are_compared_together(public: Path) -> None:
    schema = schema_with(public, "key", ["zip", "kind"])
    pairs = [("01234", "a"), ("01234", "b"), ("north", "b"), ("north", None), ("n\u00fc", "a")]
    rows = [
        {**row, "kind": kind}
        for row, (_, kind) in zip(records(z for z, _ in pairs), pairs, strict=True)
    ]
    found = read("parquet", rows, schema)
    keys = [None if cells is None else dict(cells)["@key"][1] for cells, _ in found]
    assert keys == ["EU", None, None, None, "EU"]


def test_the_digest_is_of_what_the_table_says(public: Path, tmp_path: Path) -> None:
    def digest(rows: dict[str, Any], name: str, **section: Any) -> str:
        path = tmp_path / name
        with path.open("wb") as file:
            writer = FORMATS[path.suffix[1:]].writer(file)
            writer.write(pa.RecordBatch.from_pydict(rows))
            writer.close()
        given = {"on": "zip", "add": ["region"], **section}
        return str(with_table(PublicLookup(public=str(path), **given)).table.digest)

    rows = {"zip": ["a", "b"], "region": ["EU", "US"], "other": ["x", "y"]}
    turned = {name: values[::-1] for name, values in rows.items()}
    first = digest(rows, "a.parquet")
    assert first == digest(turned, "b.parquet") == digest(rows, "c.arrow") == digest(rows, "d.csv")
    assert first == digest({**rows, "other": ["z", "z"]}, "e.parquet"), "what is not added"
    assert first != digest({**rows, "region": ["EU", "EU"]}, "f.parquet")
    assert first != digest({**rows, "zip": ["a", "c"]}, "g.parquet")
    # A table that was written again is read again.
    assert digest({**rows, "zip": ["a", "c"]}, "a.parquet") != first


@pytest.mark.parametrize(
    ("rows", "section", "message"),
    [
        ({"zip": ["a", "a"], "region": ["x", "x"]}, {}, "holds the same zip in two rows"),
        ({"zip": [7, 8], "region": ["x", "x"]}, {"on": "zap"}, "lookup.on = 'zap': is not one"),
        ({"zip": ["a"], "regio": ["x"]}, {}, "lookup.add = 'region': is not one column of"),
        ({"zip": ["a", None], "region": ["x", "y"]}, {}, "is missing or no text in a row of"),
        ({"zip": [1.5], "region": ["x"]}, {}, "lookup.on = 'zip': is of type double"),
        ({"zip": ["a"], "region": [[1]]}, {}, "lookup.add = 'region': is of type list"),
    ],
)
def test_what_is_no_table_to_look_up_in_is_refused(
    rows: dict[str, Any], section: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(rows), path)
    with pytest.raises(ConfigError, match=message):
        with_table(PublicLookup(**{"public": str(path), "on": "zip", "add": ["region"], **section}))


def test_files_that_are_no_tables_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"no table")
    for name, message in (
        ("none.parquet", "cannot be read .No such file"),
        ("bad.parquet", "cannot be read as parquet"),
        ("t.xyz", "has no ending that says its format"),
    ):
        (tmp_path / "t.xyz").write_text("zip,region\n")
        with pytest.raises(ConfigError, match=f"lookup.public = .*{message}"):
            with_table(PublicLookup(public=str(tmp_path / name), on=("zip",), add=("region",)))


def test_a_record_that_has_the_column_already_is_refused(public: Path) -> None:
    schema = schema_with(public, "key")
    rows = joined(records(ZIPS), False)
    with pytest.raises(ConfigError, match="lookup.add = 'region': is a column of f too"):
        read("parquet", rows, schema)
    with pytest.raises(ConfigError, match="lookup.on = 'zip': is not a column of f"):
        read("parquet", [{"t": "2024", "i": "e"}], schema)
    with pytest.raises(ConfigError, match="lookup.on = 'zip': is read as text, and otherwise by"):
        schema_with(public, "key", numbers=["zip"])
