"""Standard input, pipes, lists of paths and partitioned folders as a source of runs."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from tests.pipelines.conftest import Weir
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import load, loads
from weir.transforms.sources import spool

HEAD = "at,id,store,amount\n"
LINES = [
    f"2024-01-01T{i % 24:02d}:00:00Z,e{i},{('north', 'south')[i % 2]},{i}\n" for i in range(40)
]


@pytest.fixture
def job(small: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(spool, "_spooled", {})
    (small.parent / "secret.key").write_text("07" * 32)
    (small.parent / "secret.key").chmod(0o600)
    small.write_text(small.read_text() + "secret: {file: secret.key}\n")
    (small.parent / "events.csv").write_text(HEAD + "".join(LINES))
    return small


def releases(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.glob("ticks-*")}


@pytest.fixture
def expected(weir: Weir, job: Path) -> dict[str, bytes]:
    """Of the same events in one file."""
    result = weir("run", job, "--set", "source.csv=events.csv", "--set", "sink.parquet=whole")
    assert result.exit_code == 0, result.output
    return releases(job.parent / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("runner", ["local", "direct"])
def test_standard_input_is_read_as_a_file(
    job: Path, expected: dict[str, bytes], runner: str
) -> None:
    """And nothing of it is left."""
    tmp = job.parent / "tmp"
    tmp.mkdir()
    words = [sys.executable, "-m", "weir", "run", str(job), "--set", "source.csv=-"]
    result = subprocess.run(
        [*words, "--runner", runner],
        input=HEAD + "".join(LINES),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp)},
    )
    assert result.returncode == 0, result.stderr
    assert releases(job.parent / "out") == expected
    assert not [path for path in tmp.iterdir() if path.name.startswith("weir-")]


def test_a_named_pipe_is_read_as_a_file(weir: Weir, job: Path, expected: dict[str, bytes]) -> None:
    name = job.parent / "pipe.csv"
    os.mkfifo(name)
    writer = threading.Thread(target=name.write_text, args=(HEAD + "".join(LINES),))
    writer.start()
    result = weir("run", job, "--set", "source.csv=pipe.csv")
    writer.join()
    assert result.exit_code == 0, result.output
    assert releases(job.parent / "out") == expected


def test_a_copy_is_private(job: Path) -> None:
    out, into = os.pipe()
    os.write(into, HEAD.encode())
    os.close(into)
    copy = spool.spooled(f"/dev/fd/{out}", "source.csv")
    os.close(out)
    assert os.stat(copy).st_mode & 0o777 == 0o600
    assert spool.spooled(f"/dev/fd/{out}", "source.csv") == copy, "what a pipe holds comes once"
    assert Path(copy).read_text() == HEAD == Path(copy).read_text(), "each time from its beginning"


@pytest.mark.slow
def test_a_pipe_on_workers_elsewhere_is_refused(weir: Weir, job: Path) -> None:
    result = weir("run", job, "--set", "source.csv=-", "--runner", "prism")
    assert result.exit_code == 2, result.output
    assert "--runner = 'prism': cannot read source.csv = '-': a pipe is read" in " ".join(
        result.stderr.split()
    )
    assert "standard input" in weir("doctor", job, "--set", "source.csv=-").stdout


def test_pipes_that_cannot_be_read_are_refused(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(job.parent / "e.csv.gz")
    with pytest.raises(ConfigError, match="its name ends as that of a compressed file"):
        spool.spooled(str(job.parent / "e.csv.gz"), "source.csv")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ConfigError, match="nothing is piped into it"):
        spool.spooled("-", "source.csv")
    with pytest.raises(ConfigError, match="which is read alone"):
        load(job, ["source.csv=[a.csv, '-']"])


def test_several_paths_are_read_once_each(
    weir: Weir, job: Path, expected: dict[str, bytes]
) -> None:
    folder = job.parent
    (folder / "a").mkdir()
    for at in range(4):
        text = (HEAD + "".join(LINES[10 * at : 10 * at + 10])).encode()
        pack = [bytes, gzip.compress, zstandard.ZstdCompressor().compress][at % 3]
        (folder / "a" / f"{at}.csv{('', '.gz', '.zst')[at % 3]}").write_bytes(pack(text))
    (folder / "link.csv").symlink_to(folder / "a" / "0.csv")
    paths = "[a/0.csv, a/*.gz, link.csv, './a/*.csv', a/2.csv.zst]"
    result = weir("run", job, "--set", f"source.csv={paths}")
    assert result.exit_code == 0, result.output
    assert releases(folder / "out") == expected
    words = ("--set", "source.csv=[a/0.csv, none*.csv]", "--set", "sink.parquet=none")
    result = weir("run", job, *words)
    assert result.exit_code == 2 and "none*.csv': matches no file" in result.stderr


def partitioned(folder: Path) -> None:
    for name in ("north", "south"):
        rows: list[dict[str, Any]] = []
        for line in LINES:
            at, key, store, amount = line.strip().split(",")
            if store == name:
                rows.append({"at": at, "id": key, "amount": float(amount)})
        (folder / f"store={name}").mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), folder / f"store={name}" / "part.parquet")


DATASET = "source={parquet: {dataset: d, partitioning: hive}}"


@pytest.mark.parametrize("runner", ["local", pytest.param("direct", marks=pytest.mark.slow)])
def test_a_partitioned_folder_is_read_with_its_columns(
    weir: Weir, job: Path, expected: dict[str, bytes], runner: str
) -> None:
    partitioned(job.parent / "d")
    result = weir("run", job, "--set", DATASET, "--runner", runner)
    assert result.exit_code == 0, result.output
    assert releases(job.parent / "out") == expected


def test_folders_that_the_predicate_leaves_out_are_not_opened(weir: Weir, job: Path) -> None:
    partitioned(job.parent / "d")
    words = ("run", job, "--set", DATASET, "--set", "where=store == 'north'", "--set")
    assert weir(*words, "sink.parquet=before").exit_code == 0
    (job.parent / "d" / "store=south" / "part.parquet").write_bytes(b"not a file of Parquet")
    result = weir(*words, "sink.parquet=out")
    assert result.exit_code == 0, result.output
    assert releases(job.parent / "out") == releases(job.parent / "before") != {}
    result = weir("run", job, "--set", DATASET, "--set", "sink.parquet=whole")
    assert result.exit_code == 1, "held back: a damaged file"


def test_a_ledger_knows_a_dataset_by_its_folders_too(job: Path) -> None:
    partitioned(job.parent / "d")
    source = load(job, [DATASET]).source
    assert source is not None
    digest, _ = source.seal(b"k" * 32)
    (job.parent / "d" / "store=south").rename(job.parent / "d" / "store=west")
    assert source.seal(b"k" * 32)[0] not in (digest, None)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{parquet: {dataset: d, partitioning: dir}}", "source.parquet.partitioning = 'dir': "),
        ("{parquet: {folder: d}}", "source.parquet.folder = 'd': is not a field"),
        ("{parquet: []}", "source.parquet = []: must list at least one path"),
        ("{parquet: [a.parquet, 7]}", "must list at least one path"),
        ("{csv: [a.csv, ftp://b/c.csv]}", "source.csv = 'ftp://b/c.csv': "),
    ],
)
def test_bad_sources_are_refused_by_name(job: Path, source: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        loads(job.read_text(), [f"source={source}"])
    assert message in str(error.value)
