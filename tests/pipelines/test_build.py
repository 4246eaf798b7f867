"""A whole job from its config: graph, folder, re-runs."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import pyarrow.parquet as pq
import pytest

from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import JobConfig, load
from weir.pipelines.graph import build
from weir.pipelines.graph.parts import parts_of
from weir.pipelines.run.run import told
from weir.transforms.runtime import counters
from weir.transforms.runtime.secret import SecretRef
from weir.transforms.sinks.held import Contradicted

CONFIG = """
name: shop
source: {csv: events.csv}
schema: {time: date, id: id}
where: v >= 0
key: {column: store, declared: [north, south]}
clock: {start: 2024-01-01T00:00:00Z, period: 1d, end: 2024-03-01T00:00:00Z}
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: all}
aggregates: {n: {count: events}, s: {sum: v, clip: [0, 10]}}
secret: {file: secret.key}
sink: {parquet: out, every: 16}
dead_letters: {csv: dead}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = ["date,store,v,id"]
    for i in range(300):
        day = i % 70
        date = f"2024-{1 + day // 31:02d}-{1 + day % 31:02d}"
        lines.append(f"{date},{['north', 'south', 'west'][i % 3]},{i % 13 - 1},e{i % 280}")
    (tmp_path / "events.csv").write_text("\n".join([*lines, "never,north,1,e"]) + "\n")
    (tmp_path / "secret.key").write_text("7e" * 32)
    (tmp_path / "secret.key").chmod(0o600)
    (tmp_path / "job.yaml").write_text(CONFIG)
    return tmp_path


def run(job: JobConfig) -> dict[str, int]:
    parts = parts_of(job)
    counters.reset()
    pipeline = beam.Pipeline(runner=build.in_process_runner())
    found = build.build(pipeline, parts)
    assert set(found) == {"events", "releases", "dead", "written"}
    parts.sink.prepare(parts.plan, parts.secrets, True)
    pipeline.run().wait_until_finish()
    return counters.snapshot()


def finish(job: JobConfig) -> None:
    parts = parts_of(job)
    parts.sink.finish(parts.plan, True)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_job_runs_and_its_folder_is_whole(folder: Path) -> None:
    job = load(folder / "job.yaml")
    counts = run(job)
    assert not list((folder / "out").glob("*.parquet")), "nothing is published before finish"
    finish(job)
    names = sorted(path.name for path in (folder / "out").iterdir())
    assert names == [
        "_COMPLETE",
        "_marks.json",
        "_plan.json",
        "_receipt.json",
        "ticks-000000000000-000000000015.parquet",
        "ticks-000000000016-000000000031.parquet",
        "ticks-000000000032-000000000047.parquet",
        "ticks-000000000048-000000000059.parquet",
    ]
    rows = [r for name in names[4:] for r in pq.read_table(folder / "out" / name).to_pylist()]
    assert len(rows) == 60 * 2 * 2 == counts["releases"]
    assert counts["events"] and counts["filtered"] and counts["duplicate"] and counts["unknown_key"]
    letters = "".join(path.read_text() for path in (folder / "dead").iterdir())
    assert (
        '"date","unreadable_time"' in letters and "duplicate" in letters and "never" not in letters
    )


@pytest.mark.slow
def test_running_again_goes_on_with_the_same_bytes(folder: Path) -> None:
    job = load(folder / "job.yaml")
    run(job)
    before = content(folder / "out")
    (folder / "out" / "_held" / "ticks-000000000016-000000000031.parquet").unlink()
    assert run(job).get("divergent", 0) == 0
    assert content(folder / "out") == before


@pytest.mark.slow
def test_other_events_end_the_run_and_the_first_releases_stay(folder: Path) -> None:
    job = load(folder / "job.yaml")
    run(job)
    before = content(folder / "out")
    events = folder / "events.csv"
    events.write_text(events.read_text().replace(",5,", ",6,"))
    with pytest.raises(Exception, match="holds other releases than this run computed") as caught:
        run(job)
    assert isinstance(told(caught.value), Contradicted)
    assert content(folder / "out") == before


def test_a_finished_or_foreign_folder_is_refused_before_anything_is_read(folder: Path) -> None:
    job = load(folder / "job.yaml")
    parts = parts_of(job)
    parts.sink.prepare(parts.plan, parts.secrets, True)
    other = parts_of(load(folder / "job.yaml", ["privacy.epsilon=0.5"]))
    with pytest.raises(ConfigError, match=r"sink\.parquet.*another plan"):
        other.sink.check(other.plan, other.secrets)
    finish(job)
    with pytest.raises(ConfigError, match=r"sink\.parquet.*complete"):
        parts.sink.check(parts.plan, parts.secrets)


def test_dead_letters_stay_out_of_the_folder_of_releases(folder: Path) -> None:
    job = load(folder / "job.yaml", ["dead_letters.csv=out"])
    with pytest.raises(ConfigError, match=r"dead_letters\.csv"):
        parts_of(job)


def test_references(folder: Path) -> None:
    job = load(folder / "job.yaml")
    assert parts_of(job).secrets == ((0, SecretRef(file=str(folder / "secret.key"))),)
    other = parts_of(job, secret_file="other.key")
    assert other.secret == SecretRef(file=str(Path("other.key").absolute()))
    plain = load(folder / "job.yaml", ["secret=null"])
    assert parts_of(plain).secret.is_fresh
    assert job.source is not None and job.source.bounded
