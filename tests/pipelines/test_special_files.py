"""What is no file is refused as a source; files without a record are told about, or refused."""

from __future__ import annotations

import gzip
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.conftest import Weir
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import load
from weir.pipelines.feed.feed import read_batches
from weir.transforms.formats.stored import File
from weir.transforms.sources.files import FileSource

HEAD = "at,id,store,amount\n"
ROWS = "".join(
    f"2024-01-01T{i % 24:02d}:00:00Z,e{i},{('north', 'south')[i % 2]},{i}\n" for i in range(40)
)


@pytest.fixture
def job(small: Path) -> Path:
    (small.parent / "events.csv").write_text(HEAD + ROWS)
    return small


@pytest.fixture(params=["a socket", "a device"])
def special(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A path that is there and is no file."""
    name = str(tmp_path / "special.csv")
    if request.param == "a socket":
        # Names of sockets are short.
        with socket.socket(socket.AF_UNIX) as one, pytest.MonkeyPatch.context() as patched:
            patched.chdir(tmp_path)
            one.bind("special.csv")
            yield name
    else:
        yield "/dev/null"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["plan", "run", "doctor"])
def test_what_is_no_file_is_refused(weir: Weir, job: Path, special: str, command: str) -> None:
    result = weir(command, job, "--set", f"source.csv={special}")
    assert result.exit_code == 2, result.output
    said = " ".join(result.stderr.split())
    assert f"source.csv = '{special}': is a " in said and "Write its data to a file first" in said
    assert not (job.parent / "out").exists()


def test_init_and_feed_refuse_it_too(weir: Weir, job: Path, special: str) -> None:
    result = weir("init", special)
    assert result.exit_code == 2 and "only files can be read" in result.stderr
    if special.endswith(".csv"):
        with pytest.raises(ConfigError, match="only files can be read"):
            next(read_batches(Path(special), load(job)))


def test_init_and_feed_refuse_a_pipe(weir: Weir, job: Path, tmp_path: Path) -> None:
    name = str(tmp_path / "pipe.csv")
    os.mkfifo(name)
    result = weir("init", name)
    assert result.exit_code == 2 and "is a pipe, and only files can be read here" in result.stderr
    with pytest.raises(ConfigError, match="is a pipe, and only files can be read here"):
        next(read_batches(Path(name), load(job)))


@pytest.mark.slow
@pytest.mark.parametrize("source", ["folder", "folder/", "folder/*.csv", "folder/**"])
def test_a_pipe_among_files_is_refused(weir: Weir, job: Path, source: str) -> None:
    folder = job.parent / "folder"
    folder.mkdir()
    (folder / "a.csv").write_text(HEAD + ROWS)
    words = (job, "--set", f"source.csv={source}")
    assert weir("run", *words, "--set", "sink.parquet=before").exit_code == 0
    os.mkfifo(folder / "b.csv")
    result = weir("run", *words)
    assert result.exit_code == 2, result.output
    assert "b.csv': is a pipe" in result.stderr
    assert not (job.parent / "out").exists()


def test_a_file_that_has_become_a_pipe_is_refused_where_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    os.mkfifo(path)
    with pytest.raises(ConfigError, match="is a pipe"):
        next(FileSource("csv", str(path)).splits(File(str(path), 100)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("csv: e.csv", "e.csv"),
        ("csv: e.csv.gz", "e.csv.gz"),
        ("ndjson: e.ndjson.bz2", "e.ndjson.bz2"),
        ("{csv: e.csv.xz, header: false, columns: [at, id, store, amount]}", "e.csv.xz"),
        ("parquet: e.parquet", "e.parquet"),
        ("arrow: e.arrow", "e.arrow"),
        ("avro: e.avro", "e.avro"),
    ],
)
def test_no_bytes_where_a_header_is_due_are_refused(
    weir: Weir, job: Path, source: str, name: str
) -> None:
    """That a header is missing is no record's doing, so it is public."""
    (job.parent / name).write_bytes(b"")
    words = ("--set", f"source={source if source.startswith('{') else f'{{{source}}}'}")
    result = weir("run", job, *words)
    assert result.exit_code == 2, result.output
    assert "has 0 bytes" in result.stderr and "Write it again, or leave it out" in result.stderr
    assert not (job.parent / "out").exists()


def test_an_empty_file_among_others_is_refused(weir: Weir, job: Path) -> None:
    (job.parent / "events2.csv").write_bytes(b"")
    result = weir("run", job, "--set", "source.csv=events*.csv")
    assert result.exit_code == 2 and "events2.csv': has 0 bytes" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "name", "content"),
    [
        ("{csv: f.csv}", "f.csv", HEAD.encode()),
        ("{csv: f.csv.gz}", "f.csv.gz", gzip.compress(HEAD.encode(), mtime=0)),
        ("{csv: f.csv, header: false, columns: [at, id, store, amount]}", "f.csv", b""),
        ("{ndjson: f.ndjson}", "f.ndjson", b""),
        ("{ndjson: f.ndjson.gz}", "f.ndjson.gz", gzip.compress(b"", mtime=0)),
        ("{parquet: f.parquet}", "f.parquet", None),
    ],
)
def test_no_record_is_said_and_published(
    weir: Weir, job: Path, source: str, name: str, content: bytes | None
) -> None:
    """Whether there is a record is private: one user more or less must not stop a release."""
    if content is None:
        kinds = {"at": pa.string(), "id": pa.string(), "store": pa.string(), "amount": pa.float64()}
        pq.write_table(pa.table({n: pa.array([], k) for n, k in kinds.items()}), job.parent / name)
    else:
        (job.parent / name).write_bytes(content)
    result = weir("run", job, "--set", f"source={source}", "--json")
    assert result.exit_code == 0, result.output
    assert "no record was read, so the releases are noise alone" in result.stderr
    assert list((job.parent / "out").glob("ticks-*"))


@pytest.mark.slow
def test_a_predicate_that_leaves_nothing_is_said(weir: Weir, job: Path) -> None:
    result = weir("run", job, "--set", "where=amount > 1000")
    assert result.exit_code == 0, result.output
    assert "`where` left out all of 40 records" in result.stderr


@pytest.mark.slow
def test_a_good_run_says_nothing_of_the_kind(weir: Weir, job: Path) -> None:
    result = weir("run", job)
    assert result.exit_code == 0 and "record" not in result.stderr


@pytest.mark.slow
def test_what_was_rejected_within_the_limit_is_said(weir: Weir, job: Path) -> None:
    (job.parent / "events.csv").write_text(HEAD + ROWS.replace(",7\n", ",XYZZY\n") + "no,record\n")
    result = weir("run", job, "--json")
    assert result.exit_code == 0, result.output
    assert "the run rejected 1 of 41 records and could not read 1 value (" in result.stderr
    assert "limits.refused = 0.05 allows that" in result.stderr
    assert "amount: not a number 1" in result.stderr and "malformed 1" in result.stderr
    assert "XYZZY" not in result.output
