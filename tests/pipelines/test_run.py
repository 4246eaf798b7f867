"""``weir run``, end to end on the direct runner: results, summary, counters, secrets, failures."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.conftest import Weir
from tests.pipelines.result_rows import result_rows
from weir.dpcore.plan import Plan
from weir.pipelines.config.job import load
from weir.pipelines.graph.checks import plan_of
from weir.pipelines.results.files import ResultFile, is_flat
from weir.pipelines.results.run import ResultFolder
from weir.pipelines.run.owed import owed
from weir.pipelines.run.run import RunFailed, refuse_short
from weir.pipelines.sinks.folder import CsvSink
from weir.transforms.operators.solve import Solve
from weir.transforms.operators.stride import NoisyStride
from weir.transforms.runtime.reasons import by_field
from weir.transforms.sinks.held import HeldWriter

ROWS = [
    "at,id,store,amount",
    *(
        f"2024-01-01T{hour:02d}:{i % 60:02d}:00Z,e{hour}-{i},{('north', 'south')[i % 2]},{i * 2}"
        for hour in range(24)
        for i in range(40)
    ),
]


@pytest.fixture
def job(small: Path) -> Path:
    """The small config with events and a secret."""
    (small.parent / "events.csv").write_text("\n".join(ROWS) + "\n")
    (small.parent / "secret.key").write_text("ab" * 32)
    (small.parent / "secret.key").chmod(0o600)
    small.write_text(small.read_text() + "secret: {file: secret.key}\n")
    return small


@pytest.mark.slow
def test_it_releases_and_sums_up(weir: Weir, job: Path) -> None:
    result = weir("run", job)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    rows = result_rows(job.parent / "out")
    assert len(rows) == 2 * 24 * 2
    last = {(r["key"], r["name"]): r["value"][0] for r in rows if r["tick"] == 23}
    assert abs(last["north", "visits"] - 480) < 300
    text = " ".join(result.stdout.split())
    for part in (
        "Last releases of shop", "95 % margin", "visits since the start", "2024-01-01 23:00",
        "For the operator only", "960 events read", "values moved by a clip",
        "epsilon 1, delta 1e-06, per event, protection horizon 8h", "weir report",
    ):  # fmt: skip
        assert part in text, part


@pytest.mark.slow
def test_a_finished_folder_is_refused_by_run_and_not_by_plan(weir: Weir, job: Path) -> None:
    assert weir("run", job).exit_code == 0
    before = {path.name: path.read_bytes() for path in (job.parent / "out").iterdir()}
    result = weir("run", job)
    assert result.exit_code == 2
    assert "is complete" in result.stderr
    assert weir("plan", job).exit_code == 0
    result = weir("run", job, "--set", "privacy.epsilon=2")
    assert result.exit_code == 2 and "another plan" in result.stderr
    assert before == {path.name: path.read_bytes() for path in (job.parent / "out").iterdir()}


@pytest.mark.slow
def test_one_secret_gives_one_set_of_bytes_and_another_gives_others(weir: Weir, job: Path) -> None:
    for folder in ("a", "b"):
        assert weir("run", job, "--set", f"sink.parquet={folder}").exit_code == 0
    other = job.parent / "other.key"
    other.write_text("cd" * 32)
    other.chmod(0o600)
    words = ("--secret-file", other, "--set", "sink.parquet=c")
    assert weir("run", job, *words).exit_code == 0
    names = sorted(path.name for path in (job.parent / "a").iterdir())
    assert "_COMPLETE" in names and "_plan.json" in names
    for name in names:
        assert (job.parent / "a" / name).read_bytes() == (job.parent / "b" / name).read_bytes()
    assert result_rows(job.parent / "a") != result_rows(job.parent / "c")


@pytest.mark.slow
def test_without_a_secret_it_says_what_that_means(weir: Weir, job: Path) -> None:
    result = weir("run", job, "--set", "secret=null")
    assert result.exit_code == 0
    assert "draws a fresh one" in result.stderr
    assert "costs as much again" in " ".join(result.stdout.split())


@pytest.mark.slow
def test_a_folder_that_cannot_be_made_is_refused(weir: Weir, job: Path) -> None:
    (job.parent / "file").write_text("x")
    result = weir("run", job, "--set", "sink.parquet=file/out", "--set", "secret=null")
    assert result.exit_code == 2 and "fresh" not in result.stderr
    assert "sink.parquet = " in result.stderr and "cannot be written to (Not a dir" in result.stderr


@pytest.mark.slow
def test_no_events_are_told(weir: Weir, job: Path) -> None:
    header = (job.parent / "events.csv").read_text().split("\n")[0]
    (job.parent / "events.csv").write_text(header + "\n")
    result = weir("run", job)
    assert result.exit_code == 0 and re.search(r" 0 +events read", result.stdout)


@pytest.mark.slow
def test_json(weir: Weir, job: Path) -> None:
    facts = json.loads(weir("run", job, "--json").stdout)
    assert set(facts) == {
        "name", "digest", "sink", "complete", "epsilon", "delta", "window", "seconds",
        "fresh_secret", "dead_letters", "operator", "notes", "state", "refused",
    }  # fmt: skip
    assert facts["complete"] is True and facts["fresh_secret"] is False
    assert facts["operator"]["events"] == 960
    plan = json.loads((job.parent / "out" / "_plan.json").read_text())
    assert plan["digest"] == facts["digest"]


@pytest.mark.slow
def test_wide_has_a_column_for_each_release(weir: Weir, job: Path) -> None:
    result = weir("run", job, "--wide")
    head = next(line for line in result.stdout.splitlines() if "visits" in line)
    assert "paid" in head and "tick" in head


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_other_folders(weir: Weir, job: Path, kind: str) -> None:
    result = weir("run", job, "--set", f"sink={{{kind}: out, every: 10}}")
    assert result.exit_code == 0, result.output
    assert len(list((job.parent / "out").glob(f"*.{kind}"))) == 3
    assert "Last releases of shop" in result.stdout


@pytest.mark.slow
def test_a_table_on_stdout(weir: Weir, job: Path) -> None:
    result = weir("run", job, "--set", "sink={stdout: true}")
    assert result.exit_code == 0, result.output
    assert "Where stdout" in " ".join(result.stdout.split())


@pytest.mark.slow
def test_a_run_that_lost_a_file_fails_is_not_complete_and_goes_on(
    weir: Weir, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def losing(self: HeldWriter, first: int, last: int, content: bytes, divergent: int) -> int:
        return 0 if first == 10 else put(self, first, last, content, divergent)

    put = HeldWriter.put
    monkeypatch.setattr(HeldWriter, "put", losing)
    small = ("--set", "sink={csv: out, every: 10}")
    result = weir("run", job, *small)
    text = " ".join(result.stderr.split())
    assert result.exit_code == 1 and "1 file of releases is not in" in text
    assert "ticks-000000000010-000000000019.csv" in text and "gives the rest" in text
    assert not (job.parent / "out" / "_COMPLETE").exists()
    monkeypatch.undo()
    assert weir("run", job, *small).exit_code == 0
    assert len(list((job.parent / "out").glob("*.csv"))) == 3


def test_a_run_of_many_keys_to_a_sink_without_files_ends_well(weir: Weir, job: Path) -> None:
    """Keys lie in more blocks than are stepped."""
    names = ", ".join(f"key{i}" for i in range(60))
    keys = f"key.declared=[north, south, {names}]"
    result = weir("run", job, "--set", "sink={stdout: true, every: 12}", "--set", keys)
    assert result.exit_code == 0, result.stderr
    assert "key59" in result.stdout


@pytest.mark.slow
def test_a_run_that_lost_ticks_on_the_way_to_a_sink_without_files_fails(
    weir: Weir, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def losing(self: Solve, stride: NoisyStride) -> Any:
        return () if stride.first_tick == 12 else solve(self, stride)

    solve = Solve.process
    monkeypatch.setattr(Solve, "process", losing)
    result = weir("run", job, "--set", "sink={stdout: true, every: 12}")
    assert result.exit_code == 1
    assert "of 48 ticks (of 2 blocks of keys) 24 never came" in " ".join(result.stderr.split())


def test_a_stream_owes_every_file_of_a_clock_that_ends_and_none_of_one_that_does_not(
    weir: Weir, job: Path
) -> None:
    assert weir("run", job, "--set", "sink={csv: out, every: 10}").exit_code == 0
    plan = plan_of(load(job))
    assert owed(CsvSink(csv=str(job.parent / "out"), every=10), plan, {}) is None
    other = CsvSink(csv=str(job.parent / "out"), every=8)
    assert "3 files of releases are not in" in str(owed(other, plan, {}))
    with pytest.raises(RunFailed, match="drained before the end of its clock"):
        refuse_short(other, plan, {}, bounded=False)
    lines = job.read_text().replace(", end: 2024-01-02T00:00:00Z", "").splitlines()
    elsewhere = ("source", "sink", "secret")
    endless = Plan.from_yaml("\n".join(one for one in lines if not one.startswith(elsewhere)))
    assert owed(other, endless, {"ticks_released": 1}) is None


@pytest.mark.slow
def test_refused_records_are_counted_and_listed_without_their_content(
    weir: Weir, job: Path
) -> None:
    events = job.parent / "events.csv"
    bad = [
        "PRIVATE-TIME,x1,north,5",
        "2024-01-01T05:00:00Z,x2,PRIVATE-STORE,5",
        "2024-01-01T05:00:00Z,e5-0,north,5",
        "2023-01-01T05:00:00Z,x3,north,5",
        "2025-01-01T05:00:00Z,x4,north,5",
        "PRIVATE,too,many,fields,here",
    ]
    events.write_text("\n".join([*ROWS, *bad]) + "\n")
    result = weir("run", job, "--set", "dead_letters={ndjson: dead}", "--json")
    assert result.exit_code == 0, result.output
    counted = json.loads(result.stdout)["operator"]
    assert counted["unknown_key"] == counted["duplicate"] == 1
    assert by_field(counted)["at", "unreadable_time"] == 1
    assert counted["before_start"] == counted["after_end"] == 1
    assert counted["malformed"] == counted["unreadable_time"] == 1
    listed = "".join(p.read_text() for p in (job.parent / "dead").rglob("*") if p.is_file())
    assert listed.count("\n") == 6
    assert "PRIVATE" not in listed + result.output


@pytest.mark.slow
def test_a_failure_is_told_without_content_and_the_next_run_goes_on(
    weir: Weir, job: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    put = HeldWriter.put

    def failing(self: HeldWriter, first: int, last: int, content: bytes, divergent: int) -> int:
        if first >= 10:
            raise ValueError("PRIVATE content")
        return put(self, first, last, content, divergent)

    monkeypatch.setattr(HeldWriter, "put", failing)
    result = weir("run", job, "--set", "sink.every=10")
    assert result.exit_code == 1
    assert "ValueError in step" in result.stderr
    caught = capfd.readouterr()
    assert "PRIVATE" not in result.output + caught.out + caught.err
    assert not (job.parent / "out" / "_COMPLETE").exists()
    monkeypatch.undo()
    again = weir("run", job, "--set", "sink.every=10")
    assert again.exit_code == 0, again.output
    assert "Went on from" in again.stdout
    assert (job.parent / "out" / "_COMPLETE").exists()
    assert len(result_rows(job.parent / "out")) == 96


@pytest.mark.parametrize(
    ("sets", "field"),
    [
        ("source.csv=none.csv", "source.csv"),
        ("aggregates.paid.sum=nothing", "aggregates"),
        ("schema.id=nothing", "schema.id"),
        ("secret.file=none.key", "secret.file"),
    ],
)
def test_what_the_files_themselves_refuse(weir: Weir, job: Path, sets: str, field: str) -> None:
    result = weir("run", job, "--set", sets)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith(f"weir: refused: {field}")
    assert not (job.parent / "out").exists()


@pytest.mark.slow
def test_an_empty_file_gives_releases_all_the_same(weir: Weir, job: Path) -> None:
    (job.parent / "events.csv").write_text("at,id,store,amount\n")
    assert weir("run", job).exit_code == 0
    assert len(result_rows(job.parent / "out")) == 96


@pytest.mark.slow
def test_the_report_follows(weir: Weir, job: Path) -> None:
    assert weir("run", job).exit_code == 0
    result = weir("report", job.parent / "out", "--out", job.parent / "page")
    assert result.exit_code == 0, result.output
    assert (job.parent / "page" / "report.html").exists()
    assert "report.png" in result.stdout
    assert weir("report", job.parent / "nowhere").exit_code == 2


@pytest.mark.slow
def test_a_fed_rehearsal_runs(weir: Weir, job: Path) -> None:
    events = job.parent / "fed.ndjson"
    shares = ("--duplicate", 0.1, "--malformed", 0.05)
    assert weir("feed", job, "--events", 2000, "--to", events, *shares).exit_code == 0
    source = ("--set", "source={ndjson: fed.ndjson}")
    result = weir("run", job, *source, "--json", "--set", "limits.refused=0.5")
    assert result.exit_code == 0, result.output
    counted = json.loads(result.stdout)["operator"]
    assert 60 < counted["malformed"] < 160
    assert 120 < counted["duplicate"] < 280
    sent = sum(1 for _ in events.open())
    assert counted["events"] + counted["malformed"] == sent


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "csv", "ndjson"])
def test_reports_and_summaries_are_the_same_in_either_layout(
    weir: Weir, job: Path, kind: str
) -> None:
    job.write_text(
        job.read_text().replace(
            "mechanism:", "  sizes: {histogram: amount, edges: [0, 10, 20, 40]}\nmechanism:"
        )
    )
    shown, pages, tables = [], [], []
    for layout in ("flat", "packed"):
        sink = f"sink={{{kind}: out, every: 10, layout: {layout}}}"
        result = weir("run", job, "--set", sink)
        assert result.exit_code == 0, result.output
        shown.append(result.stdout.partition("For the operator only")[0])
        out = job.parent / "out"
        assert weir("report", out).exit_code == 0
        pages.append((out / "report.html").read_bytes())
        tables.append(ResultFolder.open(out).table())
        out.rename(job.parent / layout)
    assert "[10, 20)" in shown[0] and shown[0] == shown[1]
    assert pages[0] == pages[1] and tables[0].equals(tables[1])
    flat = (job.parent / "flat").glob(f"ticks-*.{kind}")
    assert all(is_flat(ResultFile(path, 0, 0)) for path in flat)
