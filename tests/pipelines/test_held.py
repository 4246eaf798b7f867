"""A run over files is published if most of it could be read; else when its operator says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pipelines.conftest import Weir
from tests.transforms.bucket import Bucket
from weir.pipelines.config.job import load
from weir.pipelines.run.run import as_they_go
from weir.transforms.sinks import place as sinks_place
from weir.transforms.sinks.held import HeldWriter

HEAD = "at,id,store,amount"
GOOD = [f"2024-01-01T{i % 24:02d}:00:00Z,e{i},{('north', 'south')[i % 2]},{i}" for i in range(40)]
BAD = [f"2024-01-01T00:00:00Z,b{i},nowhere,1" for i in range(30)] + ["no,record"] * 12


def events(job: Path, *rows: str) -> None:
    (job.parent / "events.csv").write_text("\n".join([HEAD, *rows]) + "\n")


@pytest.fixture
def job(small: Path) -> Path:
    """A config whose events are good; two files of results."""
    events(small, *GOOD)
    for name, value in (("secret.key", "ab"), ("other.key", "cd")):
        (small.parent / name).write_text(value * 32)
        (small.parent / name).chmod(0o600)
    small.write_text(
        small.read_text().replace("out/", "out/, every: 12") + "secret: {file: secret.key}\n"
    )
    return small


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def released(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("ticks-*"))


def stop_in(monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    """Lets the run die when it would write this tick's file."""
    put = HeldWriter.put

    def failing(self: HeldWriter, at: int, last: int, content: bytes, divergent: int) -> int:
        if at >= first:
            raise OSError("gone")
        return put(self, at, last, content, divergent)

    monkeypatch.setattr(HeldWriter, "put", failing)


@pytest.mark.slow
def test_a_good_run_is_published_whole(weir: Weir, job: Path) -> None:
    result = weir("run", job)
    assert result.exit_code == 0, result.output
    out = job.parent / "out"
    assert len(released(out)) == 2 and not (out / "_held").exists()
    assert "what other plans release of the same events adds to it" in result.stdout
    again = weir("run", job, "--publish")
    assert again.exit_code == 2 and "is complete" in again.stderr


@pytest.mark.slow
def test_a_killed_run_goes_on_from_what_is_held(
    weir: Weir, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert weir("run", job, "--set", "sink.parquet=whole").exit_code == 0
    with monkeypatch.context() as patched:
        stop_in(patched, 12)
        assert weir("run", job).exit_code == 1
    out = job.parent / "out"
    assert not released(out) and len(released(out / "_held")) == 1
    shown = weir("report", out)
    assert shown.exit_code == 2 and "not published" in shown.stderr
    early = weir("run", job, "--publish")
    assert early.exit_code == 2 and "1 of 2 files are missing" in early.stderr
    again = weir("run", job)
    assert again.exit_code == 0 and "Went on from" in again.stdout
    assert files(out) == files(job.parent / "whole")


@pytest.mark.slow
def test_another_secret_is_refused_before_anything_is_read(
    weir: Weir, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        stop_in(patched, 12)
        assert weir("run", job).exit_code == 1
    before = files(job.parent / "out")
    for words in (["--secret-file", str(job.parent / "other.key")], ["--set", "secret=null"]):
        result = weir("run", job, *words)
        assert result.exit_code == 2, result.output
        assert "secret" in result.stderr and "remove" in result.stderr
    assert files(job.parent / "out") == before


@pytest.mark.slow
@pytest.mark.parametrize("published", [False, True])
def test_other_events_end_a_run_that_goes_on(
    weir: Weir, job: Path, monkeypatch: pytest.MonkeyPatch, published: bool
) -> None:
    with monkeypatch.context() as patched:
        stop_in(patched, 12)
        assert weir("run", job).exit_code == 1
    out = job.parent / "out"
    if published:  # as a version did that held nothing back
        held = next((out / "_held").glob("ticks-*"))
        held.rename(out / held.name)
        (out / "_marks.json").unlink()
    before = files(out)
    events(job, *GOOD[1:])
    result = weir("run", job)
    assert result.exit_code == 1
    assert "holds other releases than this run computed" in result.stderr
    assert "epsilon 2, delta 2e-06 (one look: epsilon 1, delta 1e-06)" in result.stderr
    assert ("at no cost" in result.stderr) is not published
    assert files(out) == before
    events(job, *GOOD)
    assert weir("run", job).exit_code == 0


@pytest.mark.slow
def test_beyond_the_limit_nothing_is_published_until_it_is_said(weir: Weir, job: Path) -> None:
    assert weir("run", job, "--set", "sink.parquet=whole").exit_code == 0
    events(job, *GOOD, *BAD)
    result = weir("run", job)
    out = job.parent / "out"
    assert result.exit_code == 1, result.output
    assert "42 of 82 records were rejected (store: unknown key 30; malformed 12)" in result.stderr
    assert "limits.refused = 0.05 allows 4" in result.stderr
    assert "Declare these keys in key.declared" in result.stderr
    assert "no budget is spent as long as nobody sees" in result.stderr
    assert not released(out) and not (out / "_COMPLETE").exists()
    text = " ".join(result.stdout.split())
    assert "unknown key 30" in text and "malformed 12" in text
    assert "nothing as long as nobody sees it; published: epsilon 1" in text
    assert "2 files, not published" in weir("status", out).stdout
    assert "visits" not in text and "±" not in text, "no released value"
    assert weir("report", out).exit_code == weir("report", out / "_held").exit_code == 2
    assert "--publish" in weir("report", out).stderr
    (job.parent / "events.csv").unlink()
    (job.parent / "secret.key").unlink()
    moved = weir("run", job, "--publish")
    assert moved.exit_code == 0, moved.output
    assert "Held back until now, and published: 2 files." in moved.stdout
    assert "Last releases of shop" in moved.stdout
    assert files(out) == files(job.parent / "whole")
    assert weir("report", out, "--png-only").exit_code == 0


@pytest.mark.slow
def test_a_field_that_cannot_be_read_holds_a_run_back(weir: Weir, job: Path) -> None:
    events(job, *GOOD[30:], *(f"{row} EUR" for row in GOOD[:30]))
    result = weir("run", job)
    assert result.exit_code == 1, result.output
    assert "30 values of amount in 40 records could not be read" in result.stderr
    assert "amount not a number 30 kept" in " ".join(result.stdout.split())
    assert "EUR" not in result.output


@pytest.mark.slow
def test_json_of_a_run_that_is_held_back(weir: Weir, job: Path) -> None:
    events(job, *GOOD, *BAD)
    result = weir("run", job, "--json")
    assert result.exit_code == 1
    facts = json.loads(result.stdout)
    assert facts["state"] == "held" and facts["complete"] is False
    assert facts["refused"]["put_aside"] == 42 and facts["refused"]["records"] == 82
    assert {row["reason"] for row in facts["refused"]["reasons"]} == {"unknown_key", "malformed"}


@pytest.mark.slow
def test_the_same_command_again_holds_back_again_and_the_same(weir: Weir, job: Path) -> None:
    events(job, *GOOD, *BAD)
    assert weir("run", job).exit_code == 1
    before = files(job.parent / "out")
    assert weir("run", job).exit_code == 1
    assert files(job.parent / "out") == before
    assert weir("run", job, "--set", "limits.refused=1").exit_code == 0
    assert len(released(job.parent / "out")) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "limit", "code"),
    [
        ((), 0, 0),
        (GOOD[:1], 0, 0),
        (BAD[:1], 0.99, 1),
        (BAD[:1], 1, 0),
        ((*GOOD, BAD[0]), 0, 1),
        ((*GOOD, GOOD[0]), 0, 0),
    ],
    ids=["no event", "one", "one bad", "all may be bad", "one of many", "a duplicate"],
)
def test_limits(weir: Weir, job: Path, rows: tuple[str, ...], limit: float, code: int) -> None:
    events(job, *rows)
    result = weir("run", job, "--set", f"limits={{refused: {limit}, first_look: false}}")
    assert result.exit_code == code, result.output
    assert len(released(job.parent / "out")) == (0 if code else 2)


@pytest.mark.slow
@pytest.mark.parametrize("command", [[], ["--publish"]])
def test_a_kill_while_it_is_published_is_made_good(
    weir: Weir, job: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    move, moved = sinks_place.move, []

    def stopped(source: str, target: str) -> bool:
        moved.append(target)
        if len(moved) == 2:
            raise KeyboardInterrupt
        return move(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(sinks_place, "move", stopped)
        assert weir("run", job).exit_code == 130
    out = job.parent / "out"
    assert len(released(out)) == len(released(out / "_held")) == 1
    assert weir("report", out, "--png-only", "--out", job.parent / "page").exit_code == 0
    assert weir("run", job, *command).exit_code == 0
    assert len(released(out)) == 2 and (out / "_COMPLETE").exists()


@pytest.mark.slow
def test_a_bucket_holds_back_and_publishes_too(weir: Weir, job: Path) -> None:
    Bucket.objects.clear()
    sink = ("--set", "sink.parquet=held://bucket/out/")
    place = "held://bucket/out/"
    events(job, *GOOD, *BAD)
    held = weir("run", job, *sink)
    assert held.exit_code == 1 and f"nobody sees {place}_held." in held.stderr
    before = {name.removeprefix(place) for name in Bucket.objects}
    assert {name for name in before if "ticks" not in name} == {"_marks.json", "_plan.json"}
    assert sum(name.startswith("_held/ticks-") for name in before) == 2
    other = weir("run", job, *sink, "--secret-file", job.parent / "other.key")
    assert other.exit_code == 2 and "is not the one" in other.stderr
    assert weir("run", job, *sink, "--publish").exit_code == 0
    assert not [name for name in Bucket.objects if "_held" in name]
    assert f"{place}_COMPLETE" in Bucket.objects and len(Bucket.objects) == 6
    noted = json.loads(weir("run", job, *sink, "--new", "--json").stdout)["notes"][0]
    assert noted.startswith("Writes to held://bucket/out-2, because") and "same bytes" in noted
    Bucket.objects.clear()


@pytest.mark.slow
def test_publish_has_nothing_to_do(weir: Weir, job: Path) -> None:
    def refused(*words: str) -> str:
        result = weir("run", job, "--publish", *words)
        assert result.exit_code == 2, result.output
        return result.stderr

    assert "finds nothing that is held back" in refused()
    assert not (job.parent / "out").exists()
    events(job, *GOOD, *BAD)
    assert weir("run", job).exit_code == 1
    before = files(job.parent / "out")
    assert "another plan (privacy.epsilon was" in refused("--set", "privacy.epsilon=2")
    assert "sink.stdout holds nothing back" in refused("--set", "sink={stdout: true}")
    stream = "source={pubsub: {subscription: projects/acme-1/subscriptions/all}}"
    assert "a stream publishes as it goes" in refused("--set", stream)
    assert "leave out the options of a run" in refused("--new")
    assert files(job.parent / "out") == before


@pytest.mark.slow
def test_a_table_on_the_screen_waits_too(weir: Weir, job: Path) -> None:
    events(job, *GOOD, *BAD)
    sink = ("--set", "sink={stdout: true}")
    held = weir("run", job, *sink)
    assert held.exit_code == 1 and "nothing is shown" in held.stderr
    assert "tick_start" not in held.output
    shown = weir("run", job, *sink, "--set", "limits.refused=1")
    assert shown.exit_code == 0 and "tick_start" in shown.stdout


@pytest.mark.parametrize(
    "sink", ["{bigquery: 'acme-data:shop.releases'}", "{pubsub: projects/acme-1/topics/all}"]
)
def test_the_plan_warns_of_sinks_that_hold_nothing_back(weir: Weir, job: Path, sink: str) -> None:
    words = ("--set", f"sink={sink}")
    assert "as they are made" in " ".join(weir("plan", job, *words).stdout.split())
    warned = json.loads(weir("plan", job, *words, "--json").stdout)["warnings"]
    assert sum("publishes releases as they are made" in line for line in warned) == 1
    assert "as they are made" not in weir("plan", job).stdout
    stream = "source={pubsub: {subscription: projects/acme-1/subscriptions/all}}"
    streamed = load(job, [f"sink={sink}", stream])
    assert as_they_go(streamed.source, streamed.sink) == ()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
def test_a_folder_of_packed_files_goes_on_packed_or_is_refused_by_name(
    weir: Weir, job: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """The version before wrote lists only, and nothing about layouts into ``_plan.json``."""
    sink = f"sink={{{form}: out, every: 12, layout: packed}}"
    out = job.parent / "out"
    with monkeypatch.context() as patched:
        stop_in(patched, 12)
        assert weir("run", job, "--set", sink).exit_code == 1
    plan = json.loads((out / "_plan.json").read_text())
    assert plan.pop("sink_layout") == "packed"
    (out / "_plan.json").write_text(json.dumps(plan))
    before = files(out)
    for words in ((), ("--publish",)):
        refused = weir("run", job, "--set", sink.replace(", layout: packed", ""), *words)
        assert refused.exit_code == 2
        said = " ".join(refused.stderr.split())
        assert "sink.layout = 'flat'" in said and "go on with sink.layout: packed" in said
        assert files(out) == before
    assert weir("run", job, "--set", sink).exit_code == 0
    whole = files(out)
    assert sorted(whole) == [
        "_COMPLETE",
        "_marks.json",
        "_plan.json",
        "_receipt.json",
        *released(out),
    ]
    (alone,) = (name for name in before if name.startswith("_held/"))
    assert whole[alone.removeprefix("_held/")] == before[alone]


@pytest.mark.slow
def test_a_begun_folder_keeps_its_layout(
    weir: Weir, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        stop_in(patched, 12)
        assert weir("run", job).exit_code == 1
    refused = weir("run", job, "--set", "sink.layout=packed")
    assert refused.exit_code == 2 and "sink.layout: flat" in " ".join(refused.stderr.split())
    assert weir("run", job).exit_code == 0
