"""What a job on Flink takes when it starts, and takes along to its workers."""

from __future__ import annotations

import json
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2 as model

from tests.pipelines.conftest import SMALL
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import loads
from weir.pipelines.graph.parts import Parts, parts_of
from weir.pipelines.run.run import run
from weir.pipelines.runners import flink, flink_options
from weir.pipelines.runners import flink as runs
from weir.pipelines.runners.flink import FlinkRun
from weir.pipelines.runners.options import STOPPED, Ended, FlinkTarget
from weir.pipelines.runners.pipeline import pipeline_for
from weir.pipelines.runners.state_folder import StateFolder
from weir.pipelines.runners.submitted import UnreadableCheckpoint
from weir.pipelines.sources.pubsub import PubSubSource
from weir.transforms.runtime import acked, fence
from weir.transforms.runtime import stored_counts as kept_counts
from weir.transforms.runtime.fence import Fence, Fenced


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Parts:
    monkeypatch.setattr(runs, "need", lambda *_: "java")
    (tmp_path / "secret.key").write_text("ab" * 32)
    (tmp_path / "secret.key").chmod(0o600)
    stream = SMALL.replace(
        "{csv: events.csv}",
        "{pubsub: {subscription: projects/acme-1/subscriptions/all, readers: 2}}",
    )
    sets = [
        f"secret.file={tmp_path}/secret.key",
        f"sink={{parquet: {tmp_path}/out}}",
        f"engine.checkpoints={tmp_path}/state",
    ]
    return parts_of(loads(stream, sets))


def started(parts: Parts, **target: Any) -> FlinkRun:
    """A run that has taken what it needs."""
    where = FlinkTarget(jar="apache.jar", **target)
    taken = FlinkRun(parts, where, StateFolder(parts.state), True, ())
    sink, plan = parts.sink, parts.plan
    taken.take_over(
        plan.clock.ticks,
        (str(sink.place),),
        partial(sink.is_written, plan),
        partial(sink.finish, plan, False),
    )
    return taken


def taken_along(parts: Parts, taken: FlinkRun) -> list[Any]:
    """The DoFns of the job, as its workers unpickle them, which have a fence."""
    from apache_beam.internal import pickler

    with fence.standing(taken.fence):
        pipeline = pipeline_for(parts, "flink", taken.flags)
    found = []
    for transform in pipeline.to_runner_api().components.transforms.values():
        if transform.spec.urn == common_urns.primitives.PAR_DO.urn:
            payload = model.ParDoPayload.FromString(transform.spec.payload)
            info: Any = pickler.loads(payload.do_fn.payload)
            if hasattr(info[0], "_fence"):
                found.append(info[0])
    return found


def test_readers_and_sinks_have_the_fence_and_readers_look_for_the_end(parts: Parts) -> None:
    first = started(parts)
    found = {type(one).__name__: one._fence for one in taken_along(parts, first)}
    assert set(found) == {"PullDoFn", "ToRange", "RangeDoFn"}
    for around in found.values():
        assert isinstance(around, Fence) and around.claims == first.fence.claims
        around.check()
    warden = found["PullDoFn"].over.__self__
    assert warden.name == first.name and warden.ticks == parts.plan.clock.ticks
    assert not warden.written() and warden.draining() and not warden.draining()
    assert found["ToRange"].over is None, "it does not carry the plan about"
    second = started(parts)
    with pytest.raises(Fenced):
        found["RangeDoFn"].check()
    second.fence.check()


class Busy:
    """A Flink on which the job runs that was noted here, until it was told to end."""

    def __init__(self, url: str, timeout: float = 0.0) -> None:
        self.url = url
        self._ends = time.monotonic() + 0.5

    def jobs(self, live: bool) -> list[dict[str, str]]:
        return [{"jid": "older"}] if live else []

    def state(self, job: str) -> str:
        assert job == "older"
        return "RUNNING" if time.monotonic() < self._ends else "CANCELED"


@pytest.mark.slow
def test_a_resume_waits_for_the_end_of_the_older_job_and_looks_again(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = StateFolder(parts.state)
    state.make()
    state.remember("http://host:9", "older", "weir-x", 0.5, 2, 1)
    saved = Path(parts.state) / "savepoints" / "s" / "_metadata"
    saved.parent.mkdir(parents=True)
    saved.write_bytes(b"x")
    looked: list[str] = []
    for module in (runs, flink):
        monkeypatch.setattr(module, "FlinkRest", Busy)
    monkeypatch.setattr(flink_options, "_free_slots", lambda _: 0)
    resolve = StateFolder.resolve

    def look(self: StateFolder, resume: str, rewound: bool = False) -> str:
        looked.append(resume)
        return resolve(self, resume, rewound)

    monkeypatch.setattr(StateFolder, "resolve", look)
    began = time.monotonic()
    resumed = started(parts, resume="latest", master="host:9")
    assert looked == ["latest", "latest"] and time.monotonic() - began >= 0.5
    assert (
        f"--savepoint_path={saved.parent.as_uri()}" in resumed.flags
        and "--parallelism=2" in resumed.flags
    )


def test_a_stream_that_begins_anew_forgets_what_starts_before_it_noted(parts: Parts) -> None:
    noted = Path(parts.state) / acked.FOLDER / "s-0.json"
    noted.parent.mkdir(parents=True)
    noted.write_text("{}")
    started(parts)
    assert not noted.exists()


def test_what_was_outdated_while_the_older_job_ended_is_refused_then(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = iter([True, False])

    def resolve(self: StateFolder, resume: str, rewound: bool = False) -> str:
        if next(calls):
            return "file:///s"
        raise ConfigError("--resume", resume, "is older than what was acknowledged")

    monkeypatch.setattr(StateFolder, "resolve", resolve)
    monkeypatch.setattr(runs, "refuse_foreign", lambda *_: None)
    with pytest.raises(ConfigError, match="older than what was acknowledged"):
        started(parts, resume="file:///s")


def test_a_run_that_is_stopped_tells_the_counts_of_all_jobs_and_falls_back_where_it_may(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = StateFolder(parts.state)
    places = []
    for number, age in ((1, 20), (2, 10)):
        file = Path(parts.state) / "checkpoints" / "1a" / f"chk-{number}" / "_metadata"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"x")
        os.utime(file, (1e9 - age, 1e9 - age))
        places.append(file.parent.as_uri())
    tried: list[str | None] = []

    def ends(self: FlinkRun, submit: Any, tell: Any, follow: Any) -> Ended:
        tried.append(self.resumed)
        counts = Path(parts.state) / kept_counts.FOLDER / f"{len(tried):06d}-host-1.json"
        counts.parent.mkdir(exist_ok=True)
        counts.write_text(json.dumps({"events": 10}))
        if len(tried) == 1:
            raise UnreadableCheckpoint(str(self.resumed), "EOFException")
        return Ended(STOPPED, "j", "http://u", "file:///s")

    monkeypatch.setattr(FlinkRun, "run", ends)
    monkeypatch.setattr(PubSubSource, "check", lambda _: iter(()))
    result = run(parts, "flink", (), FlinkTarget(jar="apache.jar", resume="latest"))
    assert tried == [places[1], places[0]], "nothing was acknowledged since the older one"
    assert result.state == STOPPED and result.counters == {"events": 20}
    assert len(fence.moments(state.path, fence.FOLDER)) == 2
