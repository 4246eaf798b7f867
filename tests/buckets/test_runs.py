"""Whole runs on real servers: events from a bucket, releases and dead letters into one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.pipelines.conftest import SMALL, Weir
from weir.transforms.runtime import files
from weir.transforms.sources.matching import match
from weir.transforms.sources.seal import Sealed, seal

HEAD = "at,id,store,amount"
GOOD = [f"2024-01-01T{i % 24:02d}:00:00Z,e{i},{('north', 'south')[i % 2]},{i}" for i in range(200)]
BAD = ["no,record"] * 150


def put(path: str, *rows: str) -> None:
    files.replace(path, ("\n".join([HEAD, *rows]) + "\n").encode())


def results(folder: str) -> dict[str, bytes | None]:
    """Relative path -> content of every file of releases."""
    found = (one.path for one in files.under(folder))
    return {
        path.removeprefix(folder).lstrip("/"): files.read(path) for path in found if "ticks" in path
    }


@pytest.fixture
def job(small: Path, bucket: str) -> Path:
    """A config whose events and releases lie in a bucket."""
    (small.parent / "secret.key").write_text("ab" * 32)
    (small.parent / "secret.key").chmod(0o600)
    put(f"{bucket}/events/a.csv", *GOOD[:100])
    put(f"{bucket}/events/b.csv", *GOOD[100:])
    put(f"{bucket}/events/_ignored.csv", *BAD)
    text = SMALL.replace("events.csv", f"'{bucket}/events/*.csv'")
    text = text.replace("{parquet: out/}", f"{{parquet: '{bucket}/out/', every: 12}}")
    small.write_text(
        f"{text}secret: {{file: secret.key}}\ndead_letters: {{ndjson: '{bucket}/dead'}}\n"
    )
    return small


def test_a_run_in_a_bucket_releases_the_bytes_of_a_run_on_a_disk(
    weir: Weir,
    job: Path,
    bucket: str,
) -> None:
    assert weir("plan", job).exit_code == 0
    done = weir("run", job)
    assert done.exit_code == 0, done.output
    there = results(f"{bucket}/out")
    assert len(there) == 2 and files.exists(f"{bucket}/out/_COMPLETE")
    local = job.parent / "events"
    local.mkdir()
    for name in ("a.csv", "b.csv"):
        (local / name).write_bytes(files.read(f"{bucket}/events/{name}") or b"")
    here = ("--set", "source.csv=events/*.csv", "--set", "sink.parquet=out/")
    assert weir("run", job, *here, "--set", "dead_letters.ndjson=dead").exit_code == 0
    assert results(str(job.parent / "out")) == there
    again = weir("run", job)
    assert again.exit_code == 2 and "is complete" in again.stderr
    noted = json.loads(weir("run", job, "--new", "--json").stdout)["notes"][0]
    assert noted.startswith(f"Writes to {bucket}/out-2") and results(f"{bucket}/out-2") == there
    shown = weir("report", f"{bucket}/out")
    assert shown.exit_code == 2 and "Copy it first" in shown.stderr


def test_a_bucket_holds_back_and_publishes(weir: Weir, job: Path, bucket: str) -> None:
    put(f"{bucket}/events/b.csv", *GOOD[100:], *BAD)
    held = weir("run", job, "--set", "limits.refused=0.05")
    assert held.exit_code == 1 and f"{bucket}/out/_held" in held.stderr
    assert {name.partition("/")[0] for name in results(f"{bucket}/out")} == {"_held"}
    assert [name for name in files.names(f"{bucket}/dead") if name.startswith("dead-")]
    assert weir("run", job, "--publish").exit_code == 0
    names = sorted(files.names(f"{bucket}/out"))
    assert names[:4] == ["_COMPLETE", "_marks.json", "_plan.json", "_receipt.json"]
    assert len(names) == 6


def test_a_run_goes_on_in_a_bucket(
    weir: Weir,
    job: Path,
    bucket: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stopped(source: str, target: str) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("weir.transforms.sinks.place.move", stopped)
        assert weir("run", job).exit_code == 130
    assert {name.partition("/")[0] for name in results(f"{bucket}/out")} == {"_held"}
    assert weir("run", job).exit_code == 0
    assert len(results(f"{bucket}/out")) == 2 and files.exists(f"{bucket}/out/_COMPLETE")


def test_an_unreachable_bucket_is_said_in_words(weir: Weir, job: Path, bucket: str) -> None:
    gone = bucket.replace("weir-test", "no-such-bucket")
    for field, place in (("source.csv", f"{gone}/*.csv"), ("sink.parquet", f"{gone}/out")):
        done = weir("run", job, "--set", f"{field}={place}")
        assert done.exit_code == 2 and "no such bucket" in done.stderr, done.output
        assert f"refused: {field} = '{gone}" in done.stderr


def test_the_digest_of_events_is_that_of_their_objects(bucket: str) -> None:
    key = b"k" * 32
    path = f"{bucket}/events/a.csv"
    put(path, *GOOD)

    def sealed(place: str) -> Sealed | None:
        return seal(lambda: match(place, "source.csv"), "source.csv", key)

    first = sealed(path)
    assert first is not None and sealed(path) == first
    put(f"{bucket}/other/b.csv", *GOOD)
    other = sealed(f"{bucket}/other/*")
    assert other is not None and other.digest != first.digest, "an object is known by its name"
    put(path, *GOOD[1:], GOOD[0])
    assert sealed(path) != first, "as many bytes, and others"
    assert [one.path for one in match(f"{bucket}/events/", "source.csv")] == [path]


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_large_text_is_read_in_parts(
    weir: Weir,
    job: Path,
    bucket: str,
    ending: str,
) -> None:
    rows = [f"2024-01-01T{i % 24:02d}:00:00Z,f{i},north,{i % 50}" for i in range(300_000)]
    content = ("\n".join([HEAD, *rows]) + "\n").encode()
    files.put(f"{bucket}/large/a.csv{ending}", gzip.compress(content) if ending else content)
    done = weir("run", job, "--set", f"source.csv={bucket}/large/*", "--json")
    assert done.exit_code == 0, done.output
    counts = json.loads(done.stdout)["operator"]
    assert counts["events"] == 300_000
