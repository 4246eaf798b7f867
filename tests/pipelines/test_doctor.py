"""``weir doctor``: what is lacking is named with a remedy, and nothing is read or written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.conftest import Weir
from weir.pipelines.config.job import load
from weir.pipelines.show import doctor

Found = dict[str, dict[str, Any]]


@pytest.fixture
def look(weir: Weir, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
    """(exit code, findings by name) of a machine without any engine."""
    monkeypatch.setenv("WEIR_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PUBSUB_EMULATOR_HOST", raising=False)

    def run(*words: object) -> tuple[int, Found]:
        result = weir("doctor", *words, "--json")
        found = json.loads(result.stdout)
        assert found["healthy"] == (result.exit_code == 0)
        return result.exit_code, {one["what"]: one for one in found["findings"]}

    return run


@pytest.mark.slow
def test_what_nobody_asked_for_may_be_absent(look: Callable[..., Any], tmp_path: Path) -> None:
    code, found = look()
    assert code == 0
    assert found["prism"]["state"] == "absent" and found["prism"]["remedy"] == "make prism"
    assert found["apache-beam"]["state"] == "good" == found["apache-beam[gcp]"]["state"]
    assert not (tmp_path / "cache").exists(), "looking made something"


@pytest.mark.parametrize(("runner", "engine"), [("prism", "prism"), ("flink", "job-server")])
def test_what_a_runner_needs_is_wrong_where_it_is_absent(
    runner: str, engine: str, look: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool: None)
    code, found = look("--runner", runner)
    assert code == 1 and found[engine]["state"] == "wrong"
    lacking = {"prism": {"go"}, "flink": {"mvn", "java"}}[runner]
    wrong = {name for name in ("go", "mvn", "java") if found[name]["state"] == "wrong"}
    assert wrong == lacking
    assert all(found[name]["remedy"].startswith("install ") for name in lacking)


@pytest.mark.parametrize(
    ("tool", "told", "version"),
    [
        ("java", 'openjdk version "17.0.15" 2025-04-15', "17.0.15"),
        ("mvn", "\x1b[1mApache Maven 3.8.7\x1b[m", "3.8.7"),
        ("go", "go version go1.26.8 linux/amd64", "go1.26.8"),
        ("java", 'openjdk version "11.0.2"', None),
        ("java", "no such thing", None),
    ],
)
def test_versions_of_tools(
    tool: str, told: str, version: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = subprocess.CompletedProcess([], 0, stdout=told, stderr="")
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)
    found = doctor._tool(tool, needed=True)
    assert (found.state == "good") == (version is not None), found
    assert version is None or found.found.startswith(version)


def events_of(config: Path) -> None:
    """Puts a file where the config's source is."""
    source = load(config).source
    assert source is not None and source.path is not None
    Path(source.path).write_text("never read")


@pytest.mark.slow
def test_a_job_and_who_can_read_its_secret(
    look: Callable[..., Any], small: Path, tmp_path: Path
) -> None:
    key = tmp_path / "secret.key"
    events_of(small)
    words = (small, "--set", f"secret={{file: {key}}}")
    code, found = look(*words)
    assert code == 1 and "openssl rand" in found["secret.file"]["remedy"]
    key.write_text("not a secret at all: nobody reads it".ljust(64, "!"))
    key.chmod(0o644)
    code, found = look(*words)
    assert code == 1 and found["secret.file"]["remedy"].endswith(f"chmod 600 {key}")
    key.chmod(0o600)
    code, found = look(*words)
    assert code == 0 and found["plan"]["state"] == "good"
    key.write_text("too short")
    code, found = look(*words)
    assert code == 1 and "64 hexadecimal digits" in found["secret.file"]["remedy"]


@pytest.mark.slow
def test_what_a_job_reads_and_writes(
    look: Callable[..., Any], small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = f"sqlite: {tmp_path / 'books' / 'l.db'}, scope: x"
    ledger = f"ledger={{{book}, budget: {{epsilon: 1, delta: 1e-6}}}}"
    events_of(small)
    words = (small, "--set", f"dead_letters={{csv: {tmp_path / 'dead'}}}", "--set", ledger)
    code, found = look(*words)
    assert code == 0 and "1 file" in found["source.csv"]["found"]
    assert "fresh" in found["secret"]["found"]
    assert found["dead letters"]["state"] == found["ledger"]["state"] == "good"
    assert not (tmp_path / "dead").exists() and not (tmp_path / "books").exists()
    closed = {str(tmp_path)}
    access = os.access
    monkeypatch.setattr(os, "access", lambda at, mode: str(at) not in closed and access(at, mode))
    code, found = look(*words)
    assert code == 1 and found["dead letters"]["remedy"] == f"chmod u+w {tmp_path}"
    code, found = look(small, "--runner", "prism")
    assert code == 1 and "openssl rand" in found["secret"]["remedy"]
    code, found = look(small, "--set", f"source={{csv: {tmp_path / 'none.csv'}}}")
    assert code == 1 and "no such file" in found["source.csv"]["found"]


@pytest.mark.slow
def test_extras_that_a_job_needs(
    look: Callable[..., Any], small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = metadata.version

    def without(name: str) -> str:
        if name in ("google-cloud-pubsub", "psycopg"):
            raise metadata.PackageNotFoundError
        return version(name)

    monkeypatch.setattr(metadata, "version", without)
    assert look(small)[1]["google-cloud-pubsub"]["state"] == "absent"
    code, found = look(small, "--set", "sink={pubsub: projects/acme-1/topics/all}")
    assert code == 1 and found["google-cloud-pubsub"]["remedy"] == "pip install 'weir-dp[pubsub]'"
    ledger = "ledger={postgresql: 'postgresql://h/d', scope: x, budget: {epsilon: 1, delta: 1e-6}}"
    code, found = look(small, "--set", ledger)
    assert code == 1 and found["psycopg[binary]"]["remedy"] == "pip install 'weir-dp[postgresql]'"


@pytest.mark.slow
def test_a_cluster_that_does_not_answer(look: Callable[..., Any]) -> None:
    code, found = look("--flink-master", "127.0.0.1:1")
    assert code == 1 and "does not answer" in found["Flink cluster"]["found"]


@pytest.mark.parametrize(
    ("version", "free", "state"),
    [("1.19.1", 2, "good"), ("1.19.1", 0, "wrong"), ("2.0", 2, "wrong")],
)
def test_a_cluster_of_the_right_version_with_a_slot(
    version: str, free: int, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {"flink-version": version, "slots-available": free, "slots-total": 4}
    monkeypatch.setattr(doctor.FlinkRest, "get", lambda self, path: seen)
    assert doctor._cluster("h:1").state == state


def test_the_page_says_what_to_mend(weir: Weir, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        doctor.Finding("Python", "numpy[x]", "good", "2", package=True),
        doctor.Finding("Python", "scipy", "wrong", "0.1", "pip install scipy", True),
    ]
    monkeypatch.setattr(doctor, "examine", lambda *_: found)
    result = weir("doctor")
    assert result.exit_code == 1
    words = " ".join(result.stdout.split())
    assert "wrong scipy 0.1 pip install scipy" in words and "packages 1 as needed" in words
    assert "1 to fix" in words and "numpy" not in words
