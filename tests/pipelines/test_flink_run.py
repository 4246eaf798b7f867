"""What a job on Flink warns of, and how its end is brought about."""

from __future__ import annotations

import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dpcore.errors import ConfigError
from pipelines.config.job import load
from pipelines.engines import job_server
from pipelines.engines.job_server import Kept
from pipelines.engines.processes import EngineFailed
from pipelines.graph.parts import parts_of
from pipelines.runners.flink import END_OF_TIME, FlinkRun
from pipelines.runners.flink_target import FlinkTarget
from pipelines.runners.state_folder import StateFolder


def job_server_of(folder: Path, kept: Kept) -> str:
    """A jar that keeps residuals in this way, as far as can be seen from outside."""
    code = {Kept.NEW_NAMES: "incrementingLongs", Kept.ONE_MAP: job_server.MAP_STATE}
    path = folder / "server.jar"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(job_server.HANDLER, code.get(kept, ""))
    return str(path)


@pytest.mark.parametrize(
    ("streaming", "kept", "given", "warned"),
    [
        (True, Kept.NEW_NAMES, (), True),
        (False, Kept.NEW_NAMES, (), False),
        (True, Kept.FEW_NAMES, (), False),
        (True, Kept.ONE_MAP, (), False),
        (True, Kept.NEW_NAMES, ("--max_parallelism=4",), False),
    ],
)
def test_who_runs_a_stream_on_a_job_server_that_loses_memory_hears_it(
    small: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    streaming: bool,
    kept: Kept,
    given: tuple[str, ...],
    warned: bool,
) -> None:
    monkeypatch.setattr("pipelines.runners.flink.need", lambda *_: "java")
    state = StateFolder(str(small.parent / "state"))
    jar = job_server_of(small.parent, kept)
    FlinkRun(parts_of(load(small)), FlinkTarget(jar=jar), state, streaming, given)
    found = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert found == ([job_server.FORGETFUL.format(jar=jar)] if warned else [])


@pytest.mark.parametrize(
    ("names", "kept", "refused"),
    [
        (b"\0\x18sdf_checkpoint_residuals sdf_checkpoint:7:0", Kept.FEW_NAMES, True),
        (b"\0\x18sdf_checkpoint_residuals sdf_checkpoint:7:0", Kept.NEW_NAMES, True),
        (b"\0\x18sdf_checkpoint_residuals sdf_checkpoint:7:0", Kept.ONE_MAP, False),
        (b"\0\x12sdf_checkpoint:7:0", Kept.ONE_MAP, True),
        (b"\0\x12sdf_checkpoint:7:0", Kept.FEW_NAMES, False),
        (b"\0\x12sdf_checkpoint:7:0", Kept.NEW_NAMES, False),
        (b"state of another kind", Kept.ONE_MAP, False),
    ],
)
def test_a_checkpoint_of_another_kind_of_job_server_is_refused(
    small: Path, monkeypatch: pytest.MonkeyPatch, names: bytes, kept: Kept, refused: bool
) -> None:
    """What lies in the other place would not be found, and every source would stand still."""
    monkeypatch.setattr("pipelines.runners.flink.need", lambda *_: "java")
    timers = b"a timer sdf_checkpoint:7:0" if b"sdf" in names else b"none"
    savepoint = small.parent / "a savepoint"
    savepoint.mkdir()
    (savepoint / "_metadata").write_bytes(timers)
    (savepoint / "1a2b").write_bytes(names)
    target = FlinkTarget(jar=job_server_of(small.parent, kept), resume=str(savepoint))
    state = StateFolder(str(small.parent / "state"))
    if not refused:
        FlinkRun(parts_of(load(small)), target, state, True, ())
        return
    with pytest.raises(ConfigError, match="another job server") as error:
        FlinkRun(parts_of(load(small)), target, state, True, ())
    assert "--flink-job-server-jar" in str(error.value) and "a%20savepoint" in str(error.value)


class Over:
    """A Flink on which a stream is over, and whose first drains fail."""

    def __init__(self, failures: int) -> None:
        self.asked, self._failures = 0, failures
        self.url = "http://nowhere"

    def get(self, path: str) -> Any:
        if path.endswith("watermarks"):
            return [{"id": "0", "value": str(END_OF_TIME)}]
        return {"vertices": [{"id": "v", "name": "Tick"}]}

    def state(self, job: str) -> str:
        return "RUNNING"

    def stop(self, job: str, folder: str, drain: bool) -> str:
        assert drain
        self.asked += 1
        if self.asked <= self._failures:
            raise EngineFailed("the savepoint failed.")
        return "file:///s"


def test_a_drain_that_fails_is_asked_for_again_and_one_that_does_not_only_once(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.runners.flink.need", lambda *_: "java")
    target = FlinkTarget(jar="apache.jar")
    run = FlinkRun(
        parts_of(load(small)), target, StateFolder(str(small.parent / "state")), True, ()
    )
    flink = Over(failures=2)
    monkeypatch.setattr(run, "rest", flink)
    monkeypatch.setattr(run, "_written", lambda: True)
    looks = iter([False] * 6 + [True])
    run._wait(SimpleNamespace(join=lambda _: next(looks)), "j")  # type: ignore[arg-type]
    assert flink.asked == 3
