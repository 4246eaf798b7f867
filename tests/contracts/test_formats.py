"""A format of files and messages is one file and one line: an artificial one goes through every
command, and every registered one states what it must."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.pipelines.conftest import Weir, weir  # noqa: F401 - a fixture
from weir.dpcore.registry import installed
from weir.pipelines.sources.payload import OWN
from weir.pipelines.sources.registry import SOURCES
from weir.transforms.beam.pubsub.messages import Message, MessageDecoder
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.formats.format import Format
from weir.transforms.formats.registry import (
    FORMATS,
    file_formats,
    format_of,
    message_formats,
    sniffed,
)

BARS = '''
import json
import pyarrow as pa
from weir.transforms.formats.format import FileContent, Format

class Bars(Format):
    """A line of names and types, and a line of JSON lists a batch."""
    name = "bars"
    description = "Files of bars."
    example = "events.bars"
    suffixes = ("bars",)
    magics = (b"|bars|",)
    in_messages = True

    def read(self, file, rows):
        lines = file.read().split(b"\\n")
        if not lines[0].startswith(b"|bars|"):
            return None
        schema = pa.schema([(n, getattr(pa, t)()) for n, t in json.loads(lines[0][6:])])
        return FileContent(schema, self._batches(schema, [line for line in lines[1:] if line]))

    def _batches(self, schema, lines):
        for line in lines:
            try:
                columns = [pa.array(c, f.type) for c, f in zip(json.loads(line), schema)]
                yield pa.RecordBatch.from_arrays(columns, schema=schema), 1 / len(lines)
            except (ValueError, pa.ArrowException):
                yield None, 1 / len(lines)

    def begin(self, file, schema):
        return Writer(file, schema)

class Writer:
    def __init__(self, file, schema):
        self.file = file
        kind = lambda t: {"double": "float64"}.get(str(t), str(t))
        known = [[f.name, kind(f.type) if hasattr(pa, kind(f.type)) else "string"] for f in schema]
        file.write(b"|bars|" + json.dumps(known).encode() + b"\\n")

    def write_batch(self, batch):
        columns = [
            [str(one) if hasattr(one, "year") else one for one in column.to_pylist()]
            for column in batch.columns
        ]
        self.file.write(json.dumps(columns).encode() + b"\\n")

    def close(self):
        pass
'''
CONFIG = """\
name: lab
source: {bars: "events*.bars"}
schema: {time: at, id: id}
key: {column: site, declared: [east, west]}
clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-10T00:00:00Z}
privacy: {epsilon: 100000, delta: 1e-6, protect_for: all, relation: replace_one}
model:
  features: [age]
  ranges: {age: [0, 100], spend: [0, 200]}
  algorithm: regression.incremental
  target: spend
sink: {parquet: out/}
"""
TYPES = {"at": "string", "id": "string", "site": "string", "age": "float64", "spend": "float64"}


@pytest.fixture
def bars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a config and a file, and a package installed that adds the format."""
    told = tmp_path / "site" / "bars-1.0.dist-info"
    told.mkdir(parents=True)
    (tmp_path / "site" / "toy_bars.py").write_text(BARS)
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: bars\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text("[weir.formats]\nbars = toy_bars:Bars\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    installed.cache_clear()
    monkeypatch.delitem(sys.modules, "toy_bars", raising=False)
    (tmp_path / "lab.yaml").write_text(CONFIG)
    lines = []
    for batch in range(9):
        rows = range(40 * batch, 40 * batch + 40)
        columns = [
            [f"2025-01-0{batch + 1}T{i % 24:02}:00:00Z" for i in rows],
            [f"e{i}" for i in rows],
            [("east", "west")[i % 2] for i in rows],
            [i * 7 % 100 for i in rows],
            [2 * (i * 7 % 100) for i in rows],
        ]
        lines.append(json.dumps(columns))
    (tmp_path / "events.bars").write_text(
        "\n".join([f"|bars|{json.dumps(list(TYPES.items()))}", *lines, ""])
    )
    yield tmp_path
    installed.cache_clear()


@pytest.mark.slow
def test_an_artificial_format_goes_through_every_command(bars: Path, weir: Weir) -> None:  # noqa: F811
    def call(*words: object) -> str:
        result = weir(*words)
        assert result.exit_code == 0, (words, result.output)
        return result.stdout

    made = call("init", bars / "events.bars")
    assert "source: {bars: " in made and "time: at" in made and "age (number)" in made
    job, out = bars / "lab.yaml", bars / "out"
    call("plan", job)
    ran = json.loads(call("run", job, "--json"))
    assert ran["operator"]["events"] == 360
    data, to = bars / "events.bars", bars / "p.bars"
    done = json.loads(call("predict", out, data, "--out", to, "--json"))
    assert done["predicted"] == 360 and done["r2"]["spend"] > 0.9
    form = format_of(to)
    assert form is not None
    (first, *_) = form.tables(str(to))
    assert "predicted.spend" in first.schema.names
    call("report", out, "--holdout", bars / "events.bars", "--out", bars / "report.html")
    call("feed", job, "--to", bars / "fed.bars", "--events", 50, "--malformed", 0.1)
    call("feed", job, "--from", bars / "fed.bars", "--to", bars / "again.ndjson")
    assert len((bars / "again.ndjson").read_text().splitlines()) == 50
    data.rename(bars / "public.bars")
    call("rehearse", job, "--on", bars / "public.bars", "--json")


def test_sources_of_messages_take_it_by_name(bars: Path, weir: Weir) -> None:  # noqa: F811
    text = CONFIG.replace(
        '{bars: "events*.bars"}',
        "{kafka: {brokers: 'k:9092', topic: t, start: earliest, payload: bars}}",
    )
    (bars / "stream.yaml").write_text(text)
    result = weir("plan", bars / "stream.yaml")
    assert result.exit_code == 0, result.output
    (bars / "stream.yaml").write_text(text.replace("payload: bars", "payload: rods"))
    result = weir("plan", bars / "stream.yaml")
    assert result.exit_code == 2 and "payload = 'rods': must be one of json" in result.output
    assert "bars, confluent_avro, protobuf." in result.output


def test_a_message_can_hold_it(bars: Path) -> None:
    form = FORMATS["bars"]
    batch = pa.RecordBatch.from_pydict({"at": ["2025-01-01", "2025-01-02"], "x": [1.0, 2.0]})
    schema = EventSchema.build(Stamp("at"), where="x > 0")
    decoder = MessageDecoder("bars", schema, "s")
    payloads = [form.encode(batch), b"nothing of the sort", form.encode(batch, [True, False])]
    found = decoder.decode([Message(str(i), data, 0) for i, data in enumerate(payloads)])
    assert sum(one.events.num_rows for one in found if one.events is not None) == 3
    letters = [row for one in found if one.dead is not None for row in one.dead.to_pylist()]
    assert sorted((row["source"], row["reason"]) for row in letters) == [
        ("s#1", "malformed"),
        ("s#2", "missing_time"),
    ]


def test_a_broken_batch_costs_no_other(bars: Path) -> None:
    form, path = FORMATS["bars"], bars / "events.bars"
    lines = path.read_bytes().split(b"\n")
    lines[3] = b"[["
    schema = EventSchema(Stamp("at"))
    found = list(form.decode_bytes(b"\n".join(lines), schema, "f"))
    assert sum(one.events.num_rows for one in found if one.events is not None) == 320
    assert [one.dead.num_rows for one in found if one.dead is not None] == [1]
    assert form.check(str(path), "source.bars", schema)


def test_without_the_package_it_is_unknown() -> None:
    assert set(OWN) == set(message_formats())
    assert "bars" not in FORMATS and "bars" not in SOURCES and format_of("a.bars") is None


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_states_what_it_must(name: str) -> None:
    form = FORMATS[name]
    assert isinstance(form, Format) and form.name == name
    assert form.suffixes or form.in_messages
    if form.suffixes:
        assert SOURCES[name].kind == name and form.description and form.example
        assert all(format_of(f"a.{suffix}").name == name for suffix in form.suffixes)  # type: ignore[union-attr]
    for magic in form.magics:
        assert sniffed(magic + b"\0").name == name  # type: ignore[union-attr]


@pytest.mark.parametrize("name", dict.fromkeys((*file_formats(), *message_formats())))
def test_what_is_written_is_read_again(name: str, tmp_path: Path) -> None:
    form, path = FORMATS[name], tmp_path / "a"
    batch = pa.RecordBatch.from_pydict({"k": ["a", 'b"c', None], "x": [1.5, None, -2.0]})
    writer = form.writer(path.open("wb"))
    writer.write(batch)
    writer.write(batch, [False, True, False] if not form.is_text else ())
    writer.close()
    rows = [row for table in form.tables(str(path)) for row in table.to_pylist()]
    lost = [{"k": None, "x": None}] if not form.is_text else [batch.to_pylist()[1]]
    expected = batch.to_pylist() + [batch.to_pylist()[0], *lost, batch.to_pylist()[2]]
    if name == "csv":  # which cannot tell an absent text from an empty one
        expected = [{**row, "k": row["k"] or ""} for row in expected]
    assert rows == expected
