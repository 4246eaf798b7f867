"""What a job on Flink warns of, and how its end is brought about."""

from __future__ import annotations

import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import load
from weir.pipelines.engines import job_server
from weir.pipelines.engines.job_server import ResidualStorage
from weir.pipelines.engines.processes import EngineFailed
from weir.pipelines.graph.parts import parts_of
from weir.pipelines.run.run import run
from weir.pipelines.runners.ending import END_OF_TIME, End
from weir.pipelines.runners.flink import FlinkRun
from weir.pipelines.runners.options import FlinkTarget
from weir.pipelines.runners.state_folder import StateFolder


def job_server_of(folder: Path, kept: ResidualStorage) -> str:
    """A jar that keeps residuals in this way, as far as can be seen from outside."""
    code = {
        ResidualStorage.NEW_NAMES: "incrementingLongs",
        ResidualStorage.ONE_MAP: job_server.MAP_STATE,
    }
    path = folder / "server.jar"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(job_server.HANDLER, code.get(kept, ""))
    return str(path)


@pytest.mark.parametrize(
    ("streaming", "kept", "given", "warned"),
    [
        (True, ResidualStorage.NEW_NAMES, (), True),
        (False, ResidualStorage.NEW_NAMES, (), False),
        (True, ResidualStorage.FEW_NAMES, (), False),
        (True, ResidualStorage.ONE_MAP, (), False),
        (True, ResidualStorage.NEW_NAMES, ("--max_parallelism=4",), False),
    ],
)
def test_who_runs_a_stream_on_a_job_server_that_loses_memory_hears_it(
    small: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    streaming: bool,
    kept: ResidualStorage,
    given: tuple[str, ...],
    warned: bool,
) -> None:
    monkeypatch.setattr("weir.pipelines.runners.flink.need", lambda *_: "java")
    state = StateFolder(str(small.parent / "state"))
    jar = job_server_of(small.parent, kept)
    FlinkRun(parts_of(load(small)), FlinkTarget(jar=jar), state, streaming, given)
    found = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert found == ([job_server.FORGETFUL.format(jar=jar)] if warned else [])


@pytest.mark.parametrize(
    ("names", "kept", "refused"),
    [
        (b"\0\x18sdf_checkpoint_residuals sdf_checkpoint:7:0", ResidualStorage.FEW_NAMES, True),
        (b"\0\x18sdf_checkpoint_residuals sdf_checkpoint:7:0", ResidualStorage.NEW_NAMES, True),
        (b"\0\x18sdf_checkpoint_residuals sdf_checkpoint:7:0", ResidualStorage.ONE_MAP, False),
        (b"\0\x12sdf_checkpoint:7:0", ResidualStorage.ONE_MAP, True),
        (b"\0\x12sdf_checkpoint:7:0", ResidualStorage.FEW_NAMES, False),
        (b"\0\x12sdf_checkpoint:7:0", ResidualStorage.NEW_NAMES, False),
        (b"state of another kind", ResidualStorage.ONE_MAP, False),
    ],
)
def test_a_checkpoint_of_another_kind_of_job_server_is_refused(
    small: Path, monkeypatch: pytest.MonkeyPatch, names: bytes, kept: ResidualStorage, refused: bool
) -> None:
    """What lies in the other place would not be found, and every source would stand still."""
    monkeypatch.setattr("weir.pipelines.runners.flink.need", lambda *_: "java")
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


@pytest.mark.parametrize("resume", [None, "latest"])
def test_a_snapshot_goes_with_the_savepoint_that_it_belongs_to(
    small: Path, resume: str | None
) -> None:
    target = FlinkTarget(resume=resume, rewind="projects/acme-1/snapshots/s", jar="apache.jar")
    with pytest.raises(ConfigError, match=r"--rewind.*goes with --resume PLACE"):
        FlinkRun(parts_of(load(small)), target, StateFolder(str(small.parent / "state")), True, ())


class Beginning:
    """A Flink on which a job begins, looked at again and again: restarts, checkpoints."""

    def __init__(self, looks: list[tuple[int, int]], trace: str = "") -> None:
        self._looks, self._trace = looks, trace
        self.url, self.cancelled = "http://nowhere", False

    def checkpoints(self, job: str) -> Any:
        return {"counts": {"completed": self._looks[0][1]}}

    def get(self, path: str) -> Any:
        if "exceptions" in path:
            return {"root-exception": self._trace}
        restarts, _ = self._looks.pop(0)
        return [{"id": "numRestarts", "value": str(restarts)}]

    def cancel(self, job: str) -> None:
        self.cancelled = True


def left_alone(small: Path, monkeypatch: pytest.MonkeyPatch, flink: Beginning) -> FlinkRun:
    """A detached run that has waited for its job to begin."""
    monkeypatch.setattr("weir.pipelines.runners.flink.need", lambda *_: "java")
    target = FlinkTarget("localhost:1", detach=True, jar="apache.jar")
    run = FlinkRun(
        parts_of(load(small)), target, StateFolder(str(small.parent / "state")), True, ()
    )
    monkeypatch.setattr(run, "rest", flink)
    run._submitted().wait_for_begin(SimpleNamespace(join=lambda _: False), "j")  # type: ignore[arg-type]
    return run


def test_a_job_is_left_alone_when_it_has_a_checkpoint(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = left_alone(small, monkeypatch, Beginning([(0, 0), (1, 0), (1, 1)]))
    noted = StateFolder(str(small.parent / "state")).running()
    assert noted is not None and noted["job"] == "j" and noted["name"] == run.name


def test_a_job_that_fails_again_and_again_is_cancelled_with_its_cause(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flink = Beginning([(n, 0) for n in range(9)], "java.io.IOException: No space left on device")
    with pytest.raises(EngineFailed, match="IOException: No space left on device"):
        left_alone(small, monkeypatch, flink)
    assert flink.cancelled and StateFolder(str(small.parent / "state")).running() is None


@pytest.mark.parametrize(
    ("given", "job", "said"),
    [
        ({"jar": "apache.jar"}, "j", "failed on Flink"),
        ({"jar": "apache.jar"}, "", "did not start on Flink"),
        ({"jar": "apache.jar", "master": "localhost:1"}, "j", "is FAILED on Flink"),
    ],
)
def test_who_runs_a_job_that_failed_hears_its_state_and_where_to_look_and_no_content(
    small: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], job: str, said: str
) -> None:
    monkeypatch.setattr("weir.pipelines.runners.flink.need", lambda *_: "java")
    state, target = StateFolder(str(small.parent / "state")), FlinkTarget(**given)  # type: ignore[arg-type]
    run = FlinkRun(parts_of(load(small)), target, state, True, ())
    trace = "java.lang.RuntimeException: Python: ValueError: 'ann@example.org'"
    flink = Beginning([], trace)
    monkeypatch.setattr(flink, "state", lambda _: "FAILED", raising=False)
    monkeypatch.setattr(run, "rest", flink)
    error = run._submitted().ended(job)
    assert said in str(error) and "weir --debug run" in str(error) and "ann" not in str(error)
    assert ("http://nowhere/#/job/j/exceptions" in str(error)) == ("master" in given)


def test_a_job_that_fails_between_two_looks_has_a_cause(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weir.pipelines.runners.flink.need", lambda *_: "java")
    run = FlinkRun(
        parts_of(load(small)),
        FlinkTarget(jar="apache.jar"),
        StateFolder(str(small.parent / "state")),
        True,
        (),
    )
    there: list[dict[str, str]] = []
    monkeypatch.setattr(run, "rest", SimpleNamespace(jobs=lambda: list(there)))

    def join(seconds: float) -> bool:
        if seconds:  # it is submitted, and fails, while one waits
            there.append({"name": run.name, "jid": "j"})
        return bool(there)

    waiter = SimpleNamespace(join=join, error=RuntimeError("failed"))
    assert run._submitted().running(waiter) == "j"  # type: ignore[arg-type]


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

    def checkpoints(self, job: str) -> Any:
        return {"counts": {"completed": 1}}

    def stop(self, job: str, folder: str, drain: bool) -> str:
        assert drain
        self.asked += 1
        if self.asked <= self._failures:
            raise EngineFailed("the savepoint failed.")
        return "file:///s"


def test_a_drain_that_fails_is_asked_for_again_and_one_that_does_not_only_once(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weir.pipelines.runners.flink.need", lambda *_: "java")
    target = FlinkTarget(jar="apache.jar")
    run = FlinkRun(
        parts_of(load(small)), target, StateFolder(str(small.parent / "state")), True, ()
    )
    flink = Over(failures=2)
    monkeypatch.setattr(run, "rest", flink)
    monkeypatch.setattr(run, "_end", End(4, lambda: True))
    looks = iter([False] * 6 + [True])
    run._submitted().wait(SimpleNamespace(join=lambda _: next(looks)), "j")  # type: ignore[arg-type]
    assert flink.asked == 3


def test_the_job_server_ends_with_a_job_that_cannot_be_built(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes up while the job is built, so that it is there before the job is refused."""
    (small.parent / "events.csv").write_text("at,id,store,amount\n")
    stopped: list[float] = []
    built: list[bool] = []

    def refuse(*_: Any) -> None:
        built.append(not stopped)
        raise ConfigError("options", None, "are refused.")

    monkeypatch.setattr("weir.pipelines.runners.flink.need", lambda *_: "java")
    server = SimpleNamespace(stop=stopped.append)
    monkeypatch.setattr("weir.pipelines.runners.submitted.Process", lambda *_: server)
    monkeypatch.setattr("weir.pipelines.runners.pipeline.pipeline_for", refuse)
    with pytest.raises(ConfigError, match="are refused"):
        run(parts_of(load(small)), "flink", (), FlinkTarget(jar="apache.jar"))
    assert built == [True] and len(stopped) == 1
