"""What a job on Flink warns of, and how its end is brought about."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.config.job import load
from pipelines.engines import job_server
from pipelines.engines.processes import EngineFailed
from pipelines.graph.parts import parts_of
from pipelines.runners.flink import END_OF_TIME, FlinkRun
from pipelines.runners.flink_target import FlinkTarget
from pipelines.runners.state_folder import StateFolder


@pytest.mark.parametrize(
    ("streaming", "jar", "given", "warned"),
    [
        (True, None, (), True),
        (False, None, (), False),
        (True, "apache.jar", (), False),
        (True, None, ("--max_parallelism=4",), False),
    ],
)
def test_who_runs_a_stream_on_our_own_job_server_hears_that_it_loses_memory(
    small: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    streaming: bool,
    jar: str | None,
    given: tuple[str, ...],
    warned: bool,
) -> None:
    monkeypatch.setattr(job_server, "jar", lambda: Path("ours.jar"))
    monkeypatch.setattr("pipelines.runners.flink.need", lambda *_: "java")
    state = StateFolder(str(small.parent / "state"))
    FlinkRun(parts_of(load(small)), FlinkTarget(jar=jar), state, streaming, given)
    found = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert found == ([job_server.FORGETFUL] if warned else [])


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
