"""Reading files: what is matched, what is refused before a run, and that splits lose nothing."""

from __future__ import annotations

import bz2
import gzip
import json
import logging
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.util import assert_that, equal_to

from weir.dpcore.errors import ConfigError
from weir.pipelines.graph.build import in_process_runner
from weir.pipelines.init.header import sniff
from weir.transforms.beam.read_files import ReadFiles
from weir.transforms.decode.canonical import placed
from weir.transforms.decode.encoding import TextForm, check_encoding
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.formats import lines
from weir.transforms.formats import parquet as parquet_format
from weir.transforms.formats.csv import check_delimiter
from weir.transforms.formats.stored import File
from weir.transforms.runtime import counters
from weir.transforms.runtime.dead_letters import rows
from weir.transforms.runtime.prefetch import ahead
from weir.transforms.sources.files import FileSource
from weir.transforms.sources.opened import OpenedFiles

SCHEMA = EventSchema.build(Stamp("date"), key="store", numbers=["dollars"])
LINES = [f"2024-01-{1 + i % 28:02d},s{i % 3},{i}" for i in range(500)]
CSV = "date,store,dollars\n" + "\n".join(LINES) + "\n"


def read(source: FileSource, schema: EventSchema = SCHEMA) -> tuple[list[Any], int, int]:
    """Values, dead letters and splits of all matched files."""
    values, dead, count = [], 0, 0
    for file in source.match():
        for split in source.splits(file):
            count += 1
            for events, letters, _ in source.decode(split, schema):
                dead += 0 if letters is None else letters.num_rows
                if events is not None:
                    places = placed(events)["@position"].to_pylist()
                    values += zip(places, events["dollars"].to_pylist(), strict=True)
    return values, dead, count


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text(CSV)
    return tmp_path


@pytest.mark.slow
def test_big_text_is_split_at_lines(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = FileSource("csv", str(folder / "a.csv"))
    whole = read(source)
    assert whole == ([(i + 2, float(i)) for i in range(500)], 0, 1)
    for size, block in ((700, 100), (1000, 4096), (64, 7)):
        monkeypatch.setattr(lines, "SPLIT_BYTES", size)
        monkeypatch.setattr(lines, "BLOCK", block)
        counters.reset()
        values, dead, count = read(source)
        assert (values, dead) == whole[:2] and count >= 4
        assert counters.snapshot()["bytes"] == len(CSV)


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress)])
def test_compressed_text(folder: Path, ending: str, pack: Any) -> None:
    path = folder / ("b.csv" + ending)
    path.write_bytes(pack(CSV.encode()))
    assert len(read(FileSource("csv", str(path)))[0]) == 500
    path.write_bytes(pack(CSV.encode())[:-200])
    values, dead, _ = read(FileSource("csv", str(path)))
    assert dead >= 1 and len(values) < 500
    with pytest.raises(ConfigError, match="cannot be read as csv"):
        (folder / ("b.csv" + ending)).write_bytes(b"\x1f\x8bBZh9junk, and not what the name says")
        OpenedFiles(FileSource("csv", str(path)), SCHEMA)


def test_headers_behind_marks_and_blank_lines(folder: Path) -> None:
    (folder / "a.csv").write_bytes(b"\xef\xbb\xbf\n" + CSV.encode().replace(b"\n", b"\r\n"))
    values, dead, _ = read(FileSource("csv", str(folder / "a.csv")))
    assert dead == 0 and values[0] == (3, 0.0) and len(values) == 500


HEADLESS = "\n".join(LINES) + "\n"
NAMES = ("date", "store", "dollars")


@pytest.mark.parametrize("first", ["<date>", "ORCdate", "[date]", "{date}"])
def test_names_that_begin_like_another_format(folder: Path, first: str) -> None:
    (folder / "a.csv").write_text(CSV.replace("date", first, 1))
    schema = EventSchema.build(Stamp(first), key="store", numbers=["dollars"])
    OpenedFiles(FileSource("csv", str(folder / "a.csv")), schema)


def test_files_without_a_header(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a.csv").write_bytes(b"\xef\xbb\xbf" + HEADLESS.encode())
    source = FileSource("csv", str(folder / "a.csv"), TextForm(columns=NAMES))
    OpenedFiles(source, SCHEMA)
    expected = [(i + 1, float(i)) for i in range(500)]
    assert read(source) == (expected, 0, 1)
    monkeypatch.setattr(lines, "SPLIT_BYTES", 700)
    monkeypatch.setattr(lines, "BLOCK", 100)
    values, dead, count = read(source)
    assert (values, dead) == (expected, 0) and count > 4


def test_places_inside_a_file_of_long_lines(tmp_path: Path) -> None:
    """Lines of the longest allowed length are found from any offset."""
    size, count = 2**20 - 1, 8
    path = tmp_path / "long.ndjson"
    path.write_bytes((b"x" * size + b"\n") * count)
    file = File(str(path), path.stat().st_size)
    starts = [split.start for split in FileSource("ndjson", str(path)).format.places(file, count)]
    assert starts == [line * (size + 1) for line in range(count - 1, 1, -1)]


def test_columns_are_held_against_the_first_line(folder: Path) -> None:
    (folder / "a.csv").write_text("2024-01-05,XYZZY,7,8\n")
    with pytest.raises(ConfigError, match="names 3 columns, but the first line.*4 fields") as told:
        OpenedFiles(FileSource("csv", str(folder / "a.csv"), TextForm(columns=NAMES)), SCHEMA)
    assert "XYZZY" not in str(told.value)
    with pytest.raises(ConfigError, match="key.column = 'store'.*columns are date, shop, dollars"):
        (folder / "a.csv").write_text(HEADLESS)
        columns = ("date", "shop", "dollars")
        OpenedFiles(FileSource("csv", str(folder / "a.csv"), TextForm(columns=columns)), SCHEMA)


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-be", "utf-32"])
def test_encodings(
    folder: Path, encoding: str, header: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (CSV if header else HEADLESS).replace("s1", "süd")
    (folder / "a.csv").write_bytes(text.encode(encoding))
    (folder / "b.csv.gz").write_bytes(gzip.compress(text.encode(encoding)))
    monkeypatch.setattr(lines, "SPLIT_BYTES", 700)
    for name in ("a.csv", "b.csv.gz"):
        columns = None if header else NAMES
        path = str(folder / name)
        source = FileSource(
            "csv", path, TextForm(columns=columns, encoding=check_encoding(encoding))
        )
        OpenedFiles(source, SCHEMA)
        counters.reset()
        values, dead, count = read(source)
        assert values == [(i + 1 + header, float(i)) for i in range(500)]
        assert dead == 0 and (count > 1) == (encoding == "latin-1" and name == "a.csv")
        assert counters.snapshot()["bytes"] == (folder / name).stat().st_size
        keys = [
            key
            for file in source.match()
            for split in source.splits(file)
            for events, _, _ in source.decode(split, SCHEMA)
            for key in events["@key"].to_pylist()
        ]
        assert keys.count("süd") == 167


@pytest.mark.parametrize("made", [iter, ahead])
def test_a_file_that_was_replaced_is_read_anew(tmp_path: Path, made: Any) -> None:
    source = FileSource("parquet", str(tmp_path / "a.parquet"))

    def written(count: int, group: int) -> list[Any]:
        table = {"date": ["2024-01-01"] * count, "store": ["s"] * count, "dollars": range(count)}
        new = tmp_path / "new.parquet"
        pq.write_table(pa.table(table), new, row_group_size=group)
        new.replace(tmp_path / "a.parquet")
        (file,) = source.match()
        found = [d for s in source.splits(file) for d in source.decode(s, SCHEMA, made)]
        assert all(dead is None for _, dead, _ in found)
        return [v for events, _, _ in found for v in placed(events)["@position"].to_pylist()]

    assert written(10, 3) == list(range(10))
    assert written(20, 7) == list(range(20))
    assert written(10, 10) == list(range(10))


def test_who_stops_early_leaves_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Any] = []
    monkeypatch.setattr(
        parquet_format.Parquet,
        "open",
        lambda self, path: opened.append(pa.OSFile(path)) or opened[-1],
    )
    path = tmp_path / "a.parquet"
    table = {"date": ["2024-01-01"] * 100, "store": ["s"] * 100, "dollars": range(100)}
    pq.write_table(pa.table(table), path, row_group_size=1)
    source = FileSource("parquet", str(path))
    (split,) = [split for file in source.match() for split in source.splits(file)]
    found: Any = source.decode(split, SCHEMA, ahead)
    assert next(found).events.num_rows == 1
    found.close()
    assert len(opened) >= 1 and all(file.closed for file in opened)


def test_quoted_newlines(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a.csv").write_text(CSV + '2024-01-05,"no\nrth",7\n2024-01-05,s,8\n')
    path = str(folder / "a.csv")
    assert read(FileSource("csv", path))[:2][0][500:] == [(504, 8.0)]
    assert read(FileSource("csv", path))[1] == 2
    monkeypatch.setattr(lines, "SPLIT_BYTES", 700)
    source = FileSource("csv", path, TextForm(quoted_newlines=True))
    OpenedFiles(source, SCHEMA)
    values, dead, count = read(source)
    assert sorted(values)[500:] == [(502, 7.0), (504, 8.0)] and (dead, count) == (0, 1)
    (folder / "a.csv").write_text('date,"sto\nre",dollars\n')
    with pytest.raises(ConfigError, match="does not begin with a header"):
        OpenedFiles(source, SCHEMA)


def test_row_groups_are_split(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_format, "SPLIT_ROWS", 100)
    rows = pa.table({"date": ["2024-01-01"] * 500, "store": ["s"] * 500, "dollars": range(500)})
    pq.write_table(rows, folder / "a.parquet", row_group_size=50)
    counters.reset()
    values, dead, count = read(FileSource("parquet", str(folder / "a.parquet")))
    assert (values, dead, count) == ([(i, float(i)) for i in range(500)], 0, 5)
    assert counters.snapshot()["bytes"] == (folder / "a.parquet").stat().st_size


def test_globs_and_folders_in_order(folder: Path) -> None:
    for name in ("c.csv", "b.csv", "_SUCCESS", ".hidden"):
        (folder / name).write_text("")
    names = ["a.csv", "b.csv", "c.csv"]
    for path in (f"{folder}/*.csv", f"{folder}/*", f"{folder}/", str(folder)):
        assert [Path(f.path).name for f in FileSource("csv", path).match()] == names
    odd = folder / "odd[1].csv"
    odd.write_text(CSV)
    assert FileSource("csv", str(odd)).match() == (File(str(odd), len(CSV)),)


@pytest.mark.parametrize(
    ("form", "name", "content", "message"),
    [
        ("csv", "none", None, "source.csv = .*matches no file"),
        ("csv", "x", b"date,shop,dollars\n2024-01-05,a,1\n", "key.column = 'store'.*date, shop"),
        ("csv", "x", b"PAR1....", "source.csv.*holds parquet.*source: {parquet"),
        ("ndjson", "x", b"Obj\x01....", "holds avro"),
        ("csv", "x", b"\xff\xfed\x00", "UTF-16 text; write source.encoding: utf-16"),
        (
            "csv",
            "x",
            b"da\xebte,store\n",
            "source.encoding = 'utf-8': is not how line 1 of.*latin-1",
        ),
        ("csv", "x", b"2024-01-05,XYZZY,7\n", "line 1 has 3 fields: .*header: false and columns"),
        ("csv", "x", b"tea,XYZZY,7\n", "line 1 has 3 fields: 2 of names, 1 of numbers"),
        ("csv", "x", b"date,XYZZY\n", "2 fields of names, and nothing below"),
        ("csv", "x", b"tea,XYZZY\ntea,b\n", "line 1 has 2 fields like those of the lines below"),
        ("csv", "x", b"XYZZY did this and that to all of us\n", "line 1 has 1 field of other text"),
        ("csv", "x", b'"XYZZY\n', "line 1 opens a quote and does not close it"),
        ("csv", "x", b"\x1f\x8b\x08XYZZY", "holds gzip data"),
        ("ndjson", "x", b"PK\x03\x04XYZZY", "holds a zip archive or a workbook"),
        ("csv", "x", b"%PDF-1.4 XYZZY", "holds a PDF"),
        ("csv", "x", b"<?xml XYZZY", "holds XML"),
        ("ndjson", "x", b' [{"date": "XYZZY"}]', "holds one JSON array"),
        ("csv", "x", b'{"date": "XYZZY"}', "holds JSON; write source: {ndjson"),
        ("csv", "x", b"date,XYZZY\x00\x01\n", "holds binary data"),
        ("csv", "x.gz", b"XYZZY", "cannot be read as csv"),
        ("csv", "x", b"x" * 2_000_000, "limits.line_bytes = 1048576: is less than line 1"),
        ("parquet", "x", b"date,store\n", "cannot be read as parquet"),
        ("arrow", "x", b"date,store\n", "cannot be read as arrow"),
        ("avro", "x", b"date,store\n", "cannot be read as avro"),
    ],
)
def test_refused_before_anything_runs(
    tmp_path: Path, form: str, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=message) as caught:
        OpenedFiles(FileSource(form, str(tmp_path / name)), SCHEMA)
    assert "XYZZY" not in str(caught.value)


def test_types_are_checked_before_anything_runs(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"date": [1.5], "store": ["s"], "dollars": [1]}), tmp_path / "x.parquet"
    )
    with pytest.raises(ConfigError, match="schema.time = 'date'.*holds numbers"):
        OpenedFiles(FileSource("parquet", str(tmp_path / "x.parquet")), SCHEMA)
    with pytest.raises(ConfigError, match="source.delimiter"):
        check_delimiter(";;")
    with pytest.raises(ConfigError, match="is no format"):
        FileSource("xml", "x")


@pytest.mark.slow
def test_the_transform(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    (folder / "b.csv").write_text("dollars,store,date\nXYZZY,s,2024-01-01\n7,s,2024-01-01\n")
    (folder / "c.csv").write_text("store,dollars,date\n")
    counters.reset()
    transform = OpenedFiles(FileSource("csv", f"{folder}/*.csv"), SCHEMA)
    with beam.Pipeline(runner=in_process_runner()) as pipeline:
        out = pipeline | ReadFiles(transform)
        events = out.events | "Rows" >> beam.Map(lambda batch: batch.num_rows)
        events = events | "Of all" >> beam.CombineGlobally(sum)
        dead = out.dead | "Reasons" >> beam.FlatMap(
            lambda batch: [(field, reason) for *_, field, reason in rows(batch)]
        )
        assert_that(events, equal_to([502]), label="events")
        assert_that(dead, equal_to([("dollars", "not_a_number")]), label="dead")
    assert counters.snapshot() == {
        "events": 502,
        "not_a_number": 1,
        "not_a_number_in_dollars": 1,
        "bytes": transform.size,
        "source_files": 3,
    }
    assert "XYZZY" not in caplog.text


def test_sniffing_tells_names_and_types_only(tmp_path: Path) -> None:
    records = [
        {
            "comment": f"XYZZY {i}",
            "purchase_id": f"p{i}",
            "user_id": i,
            "store": "north",
            "day": f"2024010{1 + i % 9}",
            "dollars": i / 8,
            "items": i,
            "gift": True,
        }
        for i in range(50)
    ]
    names = list(records[0])
    table = pa.Table.from_pylist(records)
    pq.write_table(table, tmp_path / "x.parquet")
    with pa.ipc.new_stream(str(tmp_path / "x.arrow"), table.schema) as writer:
        writer.write_table(table)
    (tmp_path / "x.jsonl").write_text("\n".join(json.dumps(row) for row in records))
    written = [";".join(names), *(";".join(str(v) for v in row.values()) for row in records)]
    (tmp_path / "x.txt").write_text("\n".join(written))
    for name in ("x.parquet", "x.arrow", "x.jsonl", "x.txt"):
        # Keys of JSON objects are data until somebody says that they are names.
        said = names if name == "x.jsonl" else None
        found = sniff(str(tmp_path / name), said)
        assert found["time"] == {"column": "day", "format": "%Y%m%d"}
        assert (found["id"], found["unit"]) == ("purchase_id", "user_id")
        assert found["keys"] == ["store", "comment"]
        assert found["numbers"] == ["dollars", "items"]
        assert (found["text"] and found["text"].delimiter) == (";" if name == "x.txt" else None)
        types = {column["name"]: column["type"] for column in found["columns"]}
        assert list(types) == names
        assert (types["dollars"], types["gift"], types["store"]) == ("number", "boolean", "text")
        assert "XYZZY" not in str(found) and "north" not in str(found)


def test_sniffing_what_cannot_be_read(tmp_path: Path) -> None:
    for name, content in (("a.csv", b""), ("b.bin", b"\x00\x01"), ("c.parquet", b"PAR1x")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ConfigError, match="FILE"):
            sniff(str(tmp_path / name))
    with pytest.raises(ConfigError, match="cannot be opened"):
        sniff(str(tmp_path / "none.csv"))
