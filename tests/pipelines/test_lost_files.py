"""Files that cannot be read, or not to their end: what is lost is weighed in bytes."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
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
from weir.pipelines.run import run as command
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.runtime import counters
from weir.transforms.runtime.prefetch import ahead
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
    assert "no limit allows damaged files" in result.stderr
    assert "Write the damaged files again, or leave them out of the source" in result.stderr
    assert not list((job.parent / "out").glob("ticks-*"))
    told = " ".join(weir("run", job, "--set", "sink.parquet=two").stdout.split())
    assert "(file) could not be read 3 unknown: 75 % of the bytes" in told
    let = ("--set", "limits.refused=1", "--set", "sink.parquet=three")
    assert weir("run", job, *let).exit_code == 1
    published = weir("run", job, *let, "--publish")
    assert published.exit_code == 0, published.output


@pytest.mark.slow
@pytest.mark.parametrize("limit", [0, 0.05, 1])
def test_one_file_of_four_holds_a_run_back_whatever_the_limit(
    weir: Weir, job: Path, limit: float
) -> None:
    damage(job, 2)
    lists = "dead_letters={csv: dead/}"
    result = weir("run", job, "--set", f"limits.refused={limit}", "--set", lists)
    assert result.exit_code == 1, result.output
    assert "1 of 4 files could not be read" in result.stderr and "dead" in result.stderr
    assert "1 files of which nothing could be read" in " ".join(result.stdout.split())
    assert not list((job.parent / "out").glob("ticks-*"))
    letters = "".join(path.read_text() for path in (job.parent / "dead").glob("*.csv"))
    assert "e2.csv.gz" in letters and "e1.csv.gz" not in letters


@pytest.mark.slow
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_half_of_a_compressed_file_is_not_published(
    weir: Weir, small: Path, pack: Callable[[bytes], bytes]
) -> None:
    ending = {gzip.compress: "gz", bz2.compress: "bz2", lzma.compress: "xz"}[pack]
    values = random.Random(1)
    rows = "".join(
        f"2024-01-01T{i % 24:02d}:00:00Z,e{i},north,{values.random()}\n" for i in range(40_000)
    )
    (small.parent / f"h.csv.{ending}").write_bytes(half(pack((HEAD + rows).encode())))
    path = f"source.csv=h.csv.{ending}"
    result = weir("run", small, "--set", path, "--set", "limits.refused=1")
    assert result.exit_code == 1, result.output
    assert "of the bytes of 1 file could not be read" in result.stderr
    assert not list((small.parent / "out").glob("ticks-*"))


@pytest.mark.slow
def test_a_table_on_the_screen_names_a_folder_as_the_way_out(weir: Weir, job: Path) -> None:
    damage(job, 2)
    result = weir("run", job, "--set", "sink={stdout: true}", "--set", "limits.refused=1")
    assert result.exit_code == 1 and "name a folder as the sink" in result.stderr
    assert "tick_start" not in result.output


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


@pytest.mark.parametrize("lost", [0, 1, 50, 100])
@pytest.mark.parametrize("limit", [0.0, 0.5, 1.0])
def test_bytes_of_a_jobs_metrics_hold_it_back(lost: int, limit: float) -> None:
    counts = {"ticks_released": 1, "events": 9, "source_files": 3, "bytes": 100, "lost_bytes": lost}
    found = judge(counts, limit)
    assert found.passes is (lost == 0)
    if lost:
        assert f"{lost} % of the bytes of 3 files could not be read" in str(found)
    large = judge({**counts, "bytes": 10**12}, limit)
    assert lost == 0 or "less than 0.01 % of the bytes" in str(large)
    assert not judge({**counts, "lost_bytes": 100, "lost_files": 3}, limit).passes


@pytest.mark.parametrize("form", ["csv", "ndjson", "parquet", "arrow", "avro"])
def test_a_file_that_is_removed_under_a_run_ends_it(
    weir: Weir, small: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is published without it: the run fails, as a stream does whose source is gone."""
    rows = [
        {"at": "2024-01-01T01:00:00Z", "id": f"e{i}", "store": "north", "amount": 2.0}
        for i in range(3)
    ]
    for i, row in enumerate(rows):
        written(small.parent / f"e{i}.{form}", row)
    small.write_text(small.read_text().replace("csv: events.csv", f"{form}: 'e*.{form}'"))
    execute = command._execute

    def gone(pipeline: Any, watch: Any) -> Any:
        (small.parent / f"e1.{form}").unlink()
        return execute(pipeline, watch)

    monkeypatch.setattr(command, "_execute", gone)
    result = weir("run", small)
    assert result.exit_code == 1 and "failed: " in result.output
    assert not list((small.parent / "out").glob("ticks-*"))


def written(path: Path, row: dict[str, Any]) -> None:
    """A file of one event."""
    table = pa.Table.from_pylist([row])
    if path.suffix == ".csv":
        path.write_text(",".join(row) + "\n" + ",".join(map(str, row.values())) + "\n")
    elif path.suffix == ".ndjson":
        path.write_text(json.dumps(row) + "\n")
    elif path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".arrow":
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    else:
        wire = record_of({"at": "string", "id": "string", "store": "string", "amount": "double"})
        path.write_bytes(container(wire, [encoded(row, wire)]))
