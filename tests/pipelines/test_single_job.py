"""A stream has one job on its output, whatever its runner, and one that differs ends with 1."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.conftest import SMALL, Weir
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import load
from weir.pipelines.graph.parts import Parts, parts_of
from weir.pipelines.results.verdict import Result
from weir.pipelines.run import run as command
from weir.pipelines.run.run import run
from weir.pipelines.runners.pipeline import alone
from weir.pipelines.runners.state_folder import StateFolder
from weir.transforms.runtime import fence
from weir.transforms.runtime import stored_counts as kept_counts
from weir.transforms.sinks import place

SOURCE = "source: {pubsub: {subscription: projects/acme-shop/subscriptions/purchases}}"
CONFIG = SMALL.replace("source: {csv: events.csv}", SOURCE) + "engine: {checkpoints: state}\n"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.key").write_text("11" * 32)
    (tmp_path / "one.key").chmod(0o600)
    path = tmp_path / "job.yaml"
    path.write_text(f"{CONFIG}secret: {{file: one.key}}\n")
    return path


def parts(config: Path, *sets: str) -> Parts:
    return parts_of(load(config, sets), "prism", look=False)


def release(job: Parts) -> None:
    """A file of releases is there."""
    assert job.sink.place is not None
    place.put(place.join(job.sink.place, place.file_name(0, 0, "parquet")), b"")


TOPIC = "sink={pubsub: projects/acme-1/topics/releases}"


@pytest.mark.parametrize("sets", [(), (TOPIC,)])
def test_a_second_job_is_refused_while_the_first_runs(config: Path, sets: tuple[str, ...]) -> None:
    job = parts(config, *sets)
    with alone(job, "prism", []) as around:
        around.check()
        with pytest.raises(ConfigError, match="has not ended") as refused, alone(job, "prism", []):
            pass
        assert refused.value.field == job.sink.field
        around.check()
    with alone(job, "prism", []):
        pass


def test_of_many_jobs_that_start_at_once_one_runs(config: Path) -> None:
    job, ready, over = parts(config), threading.Barrier(8), threading.Event()
    ran: list[int] = []
    refused: list[ConfigError] = []

    def start(number: int) -> None:
        ready.wait()
        try:
            with alone(job, "prism", []):
                ran.append(number)
                over.wait(30)
        except ConfigError as error:
            refused.append(error)

    threads = [threading.Thread(target=start, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    while len(ran) + len(refused) < 8:
        assert any(thread.is_alive() for thread in threads)
    over.set()
    for thread in threads:
        thread.join()
    assert len(ran) == 1 and len(refused) == 7


def test_a_job_that_was_killed_is_named_and_its_mark_can_be_removed(config: Path) -> None:
    job = parts(config)
    assert job.sink.place is not None
    fence.claim_first(job.sink.place, "killed")
    with (
        pytest.raises(ConfigError, match=r"if it was killed, remove .*/_epochs\.$") as refused,
        alone(job, "prism", []),
    ):
        pass
    named = str(refused.value).rpartition("remove ")[2].rstrip(".")
    for mark in Path(named).iterdir():
        mark.unlink()
    Path(named).rmdir()
    with alone(job, "prism", []):
        pass


@pytest.mark.parametrize("runner", ["prism", "dataflow"])
def test_a_stream_that_has_releases_does_not_begin_anew_in_them(config: Path, runner: str) -> None:
    job = parts(config)
    release(job)
    with (
        pytest.raises(ConfigError, match=f"there are releases in .*{runner} keeps nothing") as no,
        alone(job, runner, []),
    ):
        pass
    assert no.value.field == job.sink.field
    with alone(job, "dataflow", ["--update"]):
        pass


@pytest.mark.parametrize("runner", ["direct", "prism"])
def test_a_run_over_files_goes_on_in_its_folder(small: Path, runner: str) -> None:
    job = parts_of(load(small))
    release(job)
    with alone(job, runner, []) as one, alone(job, runner, []) as other:
        assert one == other == fence.OPEN


def test_a_job_on_flink_replaces_one_on_prism(config: Path) -> None:
    job = parts(config)
    assert job.sink.place is not None
    with alone(job, "prism", []) as around:
        fence.claim(job.sink.place, "on flink")
        with pytest.raises(fence.Fenced):
            around.check()
    with pytest.raises(ConfigError, match="has not ended"), alone(job, "prism", []):
        pass


def test_a_run_takes_its_fence_to_its_steps(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Sequence[fence.Claim]] = []

    def stop(*_: Any) -> None:
        seen.append(fence.current().claims)
        raise ConfigError("x", None, "is far enough.")

    monkeypatch.setattr("weir.pipelines.runners.pipeline.pipeline_for", stop)
    monkeypatch.setattr("weir.pipelines.sources.pubsub.PubSubSource.check", lambda _: iter(()))
    job = parts(config)
    with pytest.raises(ConfigError, match="far enough"):
        run(job, "prism")
    assert [claim.folder for (claim,) in seen] == [job.sink.place]
    with alone(job, "prism", []):
        pass


def result_of(job: Parts, divergent: int) -> Result:
    counted = {"divergent": divergent, "events": 9}
    return Result(job.plan, None, "out", counted, 1.0, False, divergent=divergent)


def test_releases_that_differ_make_the_exit_code(
    config: Path, weir: Weir, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = parts(config)
    monkeypatch.setattr(command, "run", lambda *_, **__: result_of(job, 3))
    ended = weir("run", config, "--runner", "prism", "--json")
    assert ended.exit_code == 1 and "3 releases came twice and differ" in ended.output
    assert json.loads(ended.stdout[: ended.stdout.rindex("}") + 1])["operator"]["divergent"] == 3
    monkeypatch.setattr(command, "run", lambda *_, **__: result_of(job, 0))
    assert weir("run", config, "--runner", "prism", "--json").exit_code == 0


def test_a_stream_whose_releases_differ_is_not_marked_as_complete(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, counted = parts(config), {"events": 1}
    monkeypatch.setattr("weir.pipelines.runners.pipeline.pipeline_for", lambda *_, **__: None)
    monkeypatch.setattr("weir.pipelines.sources.pubsub.PubSubSource.check", lambda _: iter(()))
    monkeypatch.setattr(command, "_execute", lambda *_: None)
    monkeypatch.setattr(command, "counters", lambda *_: dict(counted))
    monkeypatch.setattr(command, "refuse_short", lambda *_: None)
    monkeypatch.setattr(command, "is_complete", lambda *_: True)
    assert job.sink.place is not None
    counted["divergent"] = 2
    assert run(job, "prism").fails
    assert not place.exists(place.join(job.sink.place, place.COMPLETE_FILE))
    del counted["divergent"]
    assert not run(job, "prism").fails
    assert place.exists(place.join(job.sink.place, place.COMPLETE_FILE))


def test_releases_that_differed_in_an_earlier_job_are_its_own(config: Path) -> None:
    state = StateFolder.of(parts(config).state)
    for number, content in ((1, {"divergent": 2}), (2, {"events": 5}), (3, {"divergent": 1})):
        inside = Path(state.path) / kept_counts.FOLDER
        inside.mkdir(parents=True, exist_ok=True)
        (inside / f"{number:06d}-host-1.json").write_text(json.dumps(content))
    assert [state.divergent(epoch) for epoch in (1, 2, 3, 4)] == [3, 1, 1, 0]
