"""A run goes on under the version of the plan that began it; what says another one is refused.

There is one version so far. These tests make a second one, as a later build would have it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.conftest import Weir
from weir.dpcore.config import schema as versions
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import load
from weir.pipelines.graph.checks import plan_of
from weir.pipelines.graph.parts import under_version
from weir.pipelines.results.plan_file import changes
from weir.pipelines.runners.state_folder import StateFolder

EVENTS = "at,id,store,amount\n" + "\n".join(
    f"2024-01-01T{i % 24:02d}:00:00Z,e{i},{('north', 'south')[i % 2]},{i}" for i in range(60)
)
GOES_ON = "was begun under version 1 of the plan, and this run goes on under it"


PLAN_VERSION = 2


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build with a second version of the plan."""
    monkeypatch.setattr(versions, "PLAN_VERSION", PLAN_VERSION)


@pytest.fixture
def job(small: Path) -> Path:
    (small.parent / "events.csv").write_text(EVENTS + "\n")
    (small.parent / "secret.key").write_text("ab" * 32)
    (small.parent / "secret.key").chmod(0o600)
    small.write_text(small.read_text() + "secret: {file: secret.key}\n")
    return small


def plan_in(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "_plan.json").read_text())
    return found


def stopped(folder: Path) -> None:
    """Makes a run's folder one that was stopped."""
    (folder / "_COMPLETE").unlink()


@pytest.mark.slow
def test_a_folder_of_version_1_goes_on_under_it_and_says_so(weir: Weir, job: Path) -> None:
    out, whole = job.parent / "out", job.parent / "whole"
    assert weir("run", job, "--set", "version=1", "--set", "sink.parquet=whole").exit_code == 0
    assert weir("run", job, "--set", "version=1").stderr == ""
    stopped(out)
    for file in out.glob("ticks-*"):
        file.unlink()
    result = weir("run", job)
    assert result.exit_code == 0, result.output
    (line,) = result.stderr.splitlines()
    assert GOES_ON in line and str(out) in line and "version: 1" in line
    assert "Went on from the files" in result.stdout
    files = sorted(path.name for path in whole.glob("ticks-*"))
    assert files and files == sorted(path.name for path in out.glob("ticks-*"))
    for name in files:
        assert (out / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.slow
def test_what_says_another_version_is_refused_by_name(weir: Weir, job: Path) -> None:
    assert weir("run", job, "--set", "version=1").exit_code == 0
    stopped(job.parent / "out")
    result = weir("run", job, "--set", f"version={PLAN_VERSION}")
    assert result.exit_code == 2
    assert f"version was 1 and is {PLAN_VERSION}" in result.stderr
    assert "put it back, or give another folder" in result.stderr
    result = weir("run", job, "--set", "privacy.epsilon=2")
    assert result.exit_code == 2 and "version was" not in result.stderr
    assert "privacy.epsilon was 1.0 and is 2.0" in result.stderr


@pytest.mark.slow
def test_a_new_folder_begins_under_the_newest(weir: Weir, job: Path) -> None:
    assert weir("run", job).stderr == ""
    stored = plan_in(job.parent / "out")
    assert stored["version"] == stored["canonical"]["version"] == PLAN_VERSION
    assert stored["config"]["version"] == PLAN_VERSION
    assert changes(stored, plan_of(load(job))) == []


@pytest.mark.slow
def test_what_is_held_is_published_under_its_version(weir: Weir, job: Path) -> None:
    job.write_text(job.read_text() + "limits: {refused: 0}\n")
    with (job.parent / "events.csv").open("a") as file:
        file.write("never,e,north,1\n")
    assert weir("run", job, "--set", "version=1").exit_code == 1
    result = weir("run", job, "--publish")
    assert result.exit_code == 0, result.output
    assert GOES_ON in result.stderr
    assert (job.parent / "out" / "_COMPLETE").exists()


@pytest.mark.slow
def test_beside_a_folder_of_version_1_a_run_releases_the_same(weir: Weir, job: Path) -> None:
    assert weir("run", job, "--set", "version=1").exit_code == 0
    result = weir("run", job, "--new")
    assert result.exit_code == 0 and GOES_ON in result.stderr
    assert "costs nothing more" in " ".join(result.stdout.split())
    assert weir("run", job, "--new", "--set", f"version={PLAN_VERSION}").exit_code == 0
    assert plan_in(job.parent / "out-3")["version"] == PLAN_VERSION


def test_a_streams_state_says_its_version_before_its_sink(
    job: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = job.read_text() + "engine: {checkpoints: state}\n"
    job.write_text(
        text.replace(
            "{csv: events.csv}", "{pubsub: {subscription: projects/acme-1/subscriptions/all}}"
        )
    )
    one, unsaid = load(job, ["version=1"]), load(job)
    state = StateFolder.of(one.state_folder)
    assert under_version(unsaid, "flink").version is None
    state.begin(plan_of(one), [])
    assert under_version(unsaid, "flink").version == 1
    assert GOES_ON in caplog.text and str(job.parent / "state") in caplog.text
    assert under_version(unsaid, "prism").version is None  # which keeps no state
    state.begin(plan_of(under_version(unsaid, "flink")), [])
    with pytest.raises(ConfigError, match=f"version was 1 and is {PLAN_VERSION}") as caught:
        state.begin(plan_of(load(job, [f"version={PLAN_VERSION}"])), [])
    assert caught.value.field == "version"


@pytest.mark.slow
def test_what_a_newer_build_began_is_refused(weir: Weir, job: Path) -> None:
    assert weir("run", job).exit_code == 0
    out = job.parent / "out"
    stored, newer = plan_in(out), PLAN_VERSION + 1
    stored["canonical"]["version"] = stored["config"]["version"] = newer
    stored["layout"] = "0" * 64
    (out / "_plan.json").write_text(json.dumps(stored))
    (out / "_COMPLETE").unlink()
    result = weir("run", job)
    assert result.exit_code == 2
    assert f"version was {newer} and is {PLAN_VERSION}" in result.stderr


def test_diff_shows_the_versions(weir: Weir, small: Path) -> None:
    one = small.parent / "one.yaml"
    one.write_text(f"version: 1\n{small.read_text()}")
    found = json.loads(weir("diff", one, small, "--json").stdout)
    assert found["version"] == [1, PLAN_VERSION]
    assert found["fields"] == [{"field": "version", "a": 1, "b": PLAN_VERSION}]
    assert not found["same_plan"]
    assert "version of the plan" in weir("diff", one, small).stdout
