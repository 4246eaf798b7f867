"""Files that cannot be read, or not to their end: what is lost is weighed in bytes."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.conftest import Weir
from tests.transforms.avro_files import container, encoded, record_of
from weir.pipelines.results.verdict import judge
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.runtime import counters
from weir.transforms.runtime.ahead import ahead
from weir.transforms.sources.files import FileSource

HEAD = "at,id,store,amount\n"
FIELDS = {"at": "string", "x": "double"}
ROWS = [{"at": "2024-01-01T00:00:00Z", "x": float(i * i)} for i in range(400)]
SCHEMA = EventSchema.build(Stamp("at"), numbers=["x"])
TABLE = pa.Table.from_pylist(ROWS)


def spoilt(data: bytes, at: int) -> bytes:
    """The same with 40 bytes of rubbish inside."""
    return data[:at] + b"\xff" * 40 + data[at + 40 :]


@pytest.fixture
def job(small: Path) -> Path:
    """Four .gz files of ten events each."""
    for name in range(4):
        rows = "".join(
            f"2024-01-01T{i:02d}:00:00Z,e{name}{i},north,{i}\n" for i in range(10)
        ).encode()
        (small.parent / f"e{name}.csv.gz").write_bytes(gzip.compress(HEAD.encode() + rows))
    small.write_text(small.read_text().replace("events.csv", "e*.csv.gz"))
    return small


def damage(job: Path, *names: int) -> None:
    for name in names:
        path = job.parent / f"e{name}.csv.gz"
        path.write_bytes(spoilt(path.read_bytes(), 10))


@pytest.mark.slow
def test_most_files_lost_hold_a_run_back(weir: Weir, job: Path) -> None:
    damage(job, 1, 2, 3)
    result = weir("run", job, "--json")
    assert result.exit_code == 1, result.output
    facts = json.loads(result.stdout)
    refused = facts["refused"]
    assert facts["state"] == "held" and refused["records"] == 13 and refused["put_aside"] == 3
    assert (refused["files"], refused["lost_files"]) == (4, 3)
    assert 0.7 < refused["lost_bytes"] / refused["bytes"] < 0.8
    assert "3 of 4 files could not be read (75 % of the bytes of all)" in result.stderr
    assert "limits.refused = 0.5 allows 50 %" in result.stderr
    assert not list((job.parent / "out").glob("ticks-*"))
    told = " ".join(weir("run", job, "--set", "sink.parquet=two").stdout.split())
    assert "(file) could not be read 3 unknown: 75 % of the bytes" in told
    let = weir("run", job, "--set", "limits.refused=1", "--set", "sink.parquet=three")
    assert let.exit_code == 0, let.output


@pytest.mark.slow
def test_one_file_of_four_is_told_and_published(weir: Weir, job: Path) -> None:
    damage(job, 2)
    result = weir("run", job)
    assert result.exit_code == 0, result.output
    assert "1 files of which nothing could be read" in " ".join(result.stdout.split())
    strict = weir("run", job, "--set", "limits.refused=0.2", "--set", "sink.parquet=other")
    assert strict.exit_code == 1 and "1 of 4 files could not be read" in strict.stderr


def _parquet(path: Path) -> None:
    pq.write_table(TABLE, path, row_group_size=100, compression="NONE", use_dictionary=False)


def _arrow(path: Path) -> None:
    with pa.ipc.new_file(str(path), TABLE.schema) as writer:
        writer.write_table(TABLE, 100)


def _stream(path: Path) -> None:
    with pa.ipc.new_stream(str(path), TABLE.schema) as writer:
        writer.write_table(TABLE, 100)


def _avro(path: Path) -> None:
    wire = record_of(FIELDS)
    path.write_bytes(container(wire, [encoded(row, wire) for row in ROWS]))


def _gz(path: Path) -> None:
    values = random.Random(1)
    text = "".join(json.dumps({**row, "x": values.random()}) + "\n" for row in ROWS * 20)
    path.write_bytes(gzip.compress(text.encode()))


def half(data: bytes) -> bytes:
    return data[: len(data) // 2]


@pytest.mark.slow
@pytest.mark.parametrize("made", [iter, ahead])
@pytest.mark.parametrize(
    ("form", "write", "harm", "least", "most", "files"),
    [
        ("parquet", _parquet, half, 1, 1, 1),
        ("parquet", _parquet, lambda data: spoilt(data, 4), 0.25, 0.25, 0),
        ("arrow", _arrow, half, 1, 1, 1),
        ("arrow", _stream, half, 0.4, 0.5, 0),
        ("arrow", _stream, lambda data: data[:40], 1, 1, 1),
        ("avro", _avro, half, 0.25, 0.75, 0),
        ("avro", _avro, lambda data: data[:40], 1, 1, 1),
        ("avro", _avro, lambda data: spoilt(data, len(data) // 2), 0.2, 0.3, 0),
        ("ndjson", _gz, half, 0.01, 0.35, 0),
        ("ndjson", _gz, lambda data: data[:12], 1, 1, 1),
        ("ndjson", _gz, lambda data: data, 0, 0, 0),
        ("parquet", _parquet, lambda data: data, 0, 0, 0),
        ("arrow", _stream, lambda data: data, 0, 0, 0),
        ("avro", _avro, lambda data: data, 0, 0, 0),
    ],
)
def test_what_is_lost_of_a_file(
    tmp_path: Path,
    form: str,
    write: Callable[[Path], None],
    harm: Callable[[bytes], bytes],
    least: float,
    most: float,
    files: int,
    made: Callable[[Any], Any],
) -> None:
    path = tmp_path / ("events.ndjson.gz" if form == "ndjson" else "events")
    write(path)
    path.write_bytes(harm(path.read_bytes()))
    source, size = FileSource(form, str(path)), path.stat().st_size
    counters.reset()
    for file in source.match():
        for split in source.splits(file):
            list(source.decode(split, SCHEMA, made))
    counted = counters.snapshot()
    assert counted["bytes"] == size
    assert least * size <= counted.get("lost_bytes", 0) <= most * size + 1
    assert counted.get("lost_files", 0) == files


@pytest.mark.parametrize(("lost", "passes"), [(0, True), (50, True), (51, False), (100, False)])
def test_bytes_of_a_jobs_metrics_are_held_against_the_limit(lost: int, passes: bool) -> None:
    counts = {"ticks_released": 1, "events": 9, "source_files": 3, "bytes": 100, "lost_bytes": lost}
    found = judge(counts, 0.5)
    assert found.passes is passes
    if not passes:
        assert f"{lost} % of the bytes of 3 files could not be read" in str(found)
    assert judge({**counts, "lost_bytes": 100, "lost_files": 3}, 1.0).passes
