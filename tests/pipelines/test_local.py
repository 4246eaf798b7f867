"""``--runner local``: no Beam, the bytes of the direct runner, what it refuses, where it stops."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.conftest import Weir
from weir.pipelines.runners import local
from weir.transforms.local import engine as local_engine
from weir.transforms.local import memory
from weir.transforms.operators.solve import Solve

ROWS = "".join(
    f"2024-01-01T{i % 30 % 24:02d}:00:00Z,e{i % 90},{('north', 'south', 'east')[i % 3]},{i % 70}\n"
    for i in range(100)
)


@pytest.fixture
def job(small: Path) -> Path:
    """A config with a secret and dead letters, and its events."""
    (small.parent / "events.csv").write_text("at,id,store,amount\n" + ROWS + "x,y\n")
    (small.parent / "secret.key").write_text("ab" * 32)
    (small.parent / "secret.key").chmod(0o600)
    small.write_text(
        small.read_text()
        + "secret: {file: secret.key}\ndead_letters: {csv: dead/}\nlimits: {refused: 0.9}\n"
    )
    return small


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name[0] != "_"}


@pytest.mark.slow
def test_releases_and_dead_letters_are_those_of_the_direct_runner(weir: Weir, job: Path) -> None:
    counts = {}
    for runner in ("local", "direct"):
        sets = [f"sink.parquet={job.parent / runner}", f"dead_letters.csv={job.parent / 'dead'}"]
        words = [word for each in sets for word in ("--set", each)]
        result = weir("run", job, "--runner", runner, "--json", *words)
        assert result.exit_code == 0, result.output
        dead = job.parent / "dead"
        dead.rename(job.parent / f"dead-{runner}")
        counts[runner] = [line for line in result.stdout.splitlines() if "refused" in line]
    for name in ("", "dead-"):
        ours, theirs = (content(job.parent / f"{name}{one}") for one in ("local", "direct"))
        assert ours == theirs and ours
    assert counts["local"] == counts["direct"]


@pytest.mark.slow
def test_what_one_engine_began_the_other_goes_on_with(weir: Weir, job: Path) -> None:
    """A file that is missing is written again; one that is there is compared."""
    assert weir("run", job, "--set", "sink.every=6").exit_code == 0
    files = content(job.parent / "out")
    assert len(files) == 4
    for runner, lost in (("direct", sorted(files)[1]), ("local", sorted(files)[2])):
        (job.parent / "out" / lost).unlink()
        (job.parent / "out" / "_COMPLETE").unlink()
        result = weir("run", job, "--set", "sink.every=6", "--runner", runner)
        assert result.exit_code == 0 and "Went on" in result.output, result.output
        assert content(job.parent / "out") == files


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["blt", "tree", "sliding"])
def test_releases_are_the_same_however_ticks_are_cut(weir: Weir, job: Path, shape: str) -> None:
    """Into files, and so into strides: of fewer than the usual 128, of these and of more."""
    text = job.read_text().replace("continual_sum: tree", f"continual_sum: {shape}")
    if shape == "sliding":
        text = text.replace("visits: {count: events}", "visits: {count: events, over: 300}")
        text = text.replace("clip: [0, 50]", "clip: [0, 50], over: 300")
    job.write_text(text.replace("period: 1h", "period: 2m"))
    tables = []
    for every in (90, 128, 720):
        out = job.parent / f"out-{every}"
        sets = [f"sink.parquet={out}", f"sink.every={every}"]
        result = weir("run", job, *(word for each in sets for word in ("--set", each)))
        assert result.exit_code == 0, result.output
        table = pa.concat_tables(pq.read_table(file) for file in sorted(out.glob("*.parquet")))
        tables.append(table.to_pylist())
    assert len(tables[0]) >= 720 and tables[0] == tables[1] == tables[2]


@pytest.mark.slow
def test_beam_is_never_imported(job: Path) -> None:
    code = (
        "import sys; from weir.pipelines.cli.main import main\n"
        f"try: main(['run', {str(job)!r}])\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "import weir\n"
        "text = 'name: v\\nschema: {time: at}\\n'\n"
        "text += 'clock: {start: 2024-01-01T00:00:00Z, period: 1d, '\n"
        "text += 'end: 2024-01-03T00:00:00Z}\\n'\n"
        "text += 'privacy: {epsilon: 1, delta: 1e-6, protect_for: all}\\n'\n"
        "text += 'aggregates: {v: {count: events}}'\n"
        "weir.release([{'at': '2024-01-01T10:00:00Z'}], text)\n"
        "loaded = [name for name in sys.modules if name.startswith('apache_beam')]\n"
        "assert not loaded, loaded\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--direct_num_workers=2"], "is an option of Beam, which the local engine does without"),
        (["--secret-fiel=x"], "did you mean --secret-file"),
        (["--set", "sink={bigquery: 'some-project:shop.releases'}"], "Use --runner direct"),
        (["--set", "dead_letters={pubsub: projects/acme-data/topics/dead}"], "only Beam writes"),
    ],
)
def test_what_it_does_not_serve_is_refused(
    weir: Weir, job: Path, words: list[str], said: str
) -> None:
    result = weir("run", job, *words)
    assert result.exit_code == 2 and said in result.stderr, result.output
    assert not (job.parent / "out").exists()


def test_a_source_that_only_beam_reads_is_refused(
    weir: Weir, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weir.pipelines.sources.files.Files.read", lambda *_: None)
    result = weir("run", job)
    assert result.exit_code == 2 and "only Beam reads source.csv" in result.stderr


def test_a_failure_names_its_step_and_holds_no_event(
    weir: Weir, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Solve, stride: Any) -> Any:
        raise ValueError("north spent 66 dollars")

    monkeypatch.setattr(Solve, "process", broken)
    result = weir("run", job)
    assert result.exit_code == 1 and "ValueError in step Solve" in result.stderr
    assert "north" not in result.output


def test_a_run_ends_before_memory_does(
    weir: Weir, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available", lambda: memory.RESERVE - 1)
    result = weir("run", job)
    assert result.exit_code == 1 and "memory is nearly used up" in result.stderr
    assert not list((job.parent / "out").glob("ticks-*"))


def test_memory_that_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert memory.available() is None or memory.available() > 0  # type: ignore[operator]
    monkeypatch.setattr(memory, "_SYSTEM", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_GROUP", tmp_path)
    assert memory.available() is None
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    5 kB\n")
    assert memory.available() == 5 * 1024
    (tmp_path / "memory.max").write_text("4000\n")
    (tmp_path / "memory.current").write_text("3000\n")
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 500\n")
    assert memory.available() == 1500
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.available() == 5 * 1024


def test_blocks_are_stepped_side_by_side(
    weir: Weir, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever comes first, the bytes are the same."""
    assert weir("run", job).exit_code == 0
    first = content(job.parent / "out")
    in_turn = local_engine.in_turn
    monkeypatch.setattr(local_engine, "in_turn", lambda work, items: in_turn(work, items[::-1]))
    again = job.parent / "again"
    assert weir("run", job, "--set", f"sink.parquet={again}").exit_code == 0
    assert content(again) == first


def test_runners_of_this_process() -> None:
    assert local.HERE == ("local", "direct")
