"""What a stream keeps next to its checkpoints, in a bucket as on a disk."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.pipelines.conftest import SMALL
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import load
from weir.pipelines.graph.checks import plan_of
from weir.pipelines.runners import dataflow_template, flink
from weir.pipelines.runners.state_folder import LATEST, StateFolder
from weir.transforms.runtime import counters, fence, files
from weir.transforms.runtime import stored_counts as kept_counts
from weir.transforms.runtime.acked import Acknowledged, Outdated, ReadTurn

STREAM = SMALL.replace(
    "{csv: events.csv}", "{pubsub: {subscription: projects/acme-1/subscriptions/all}}"
)


def begin(config: Path, folder: str, *sets: str) -> StateFolder:
    job = load(config, [f"engine.checkpoints={folder}", *sets])
    plan, state = plan_of(job), StateFolder.of(job.state_folder)
    assert job.secret is not None
    assert state.begin(plan, job.secret.references(plan.clock))
    return state


@pytest.fixture
def config(small: Path) -> Path:
    for name, value in (("one.key", "ab"), ("two.key", "cd")):
        (small.parent / name).write_text(value * 32)
        (small.parent / name).chmod(0o600)
    small.write_text(f"{STREAM}secret: {{file: one.key}}\n")
    return small


def test_a_stream_goes_on_from_the_newest_whole_checkpoint(config: Path, folder: str) -> None:
    state = begin(config, folder)
    assert state.latest() is None
    with pytest.raises(ConfigError, match="finds no checkpoint or savepoint under"):
        state.resolve(LATEST)
    for name in ("checkpoints/j/chk-1", "savepoints/savepoint-2", "checkpoints/j/chk-3"):
        files.put(f"{folder}/{name}/_metadata", b"x")
        time.sleep(1.1)  # S3 knows seconds
    files.put(f"{folder}/checkpoints/j/chk-4/part", b"x")
    files.put(f"{folder}/checkpoints/j/shared/deep/_metadata", b"x")
    latest = state.latest()
    assert latest is not None and latest.endswith("checkpoints/j/chk-3")
    assert state.resolve(LATEST) == latest
    older = state.before(latest)
    assert older is not None and older.endswith("savepoints/savepoint-2")
    notes = Acknowledged(folder, "s", 0)
    notes.note(ReadTurn(7, 0))
    with pytest.raises(Outdated):
        Acknowledged(folder, "s", 0).check(7)
    with pytest.raises(ConfigError, match="is older than what was acknowledged"):
        state.refuse_outdated(older, older)
    state.refuse_outdated(LATEST, latest)
    state.forget()
    assert state.acknowledged() is None and state.latest() == latest


def test_another_plan_or_secret_is_refused(config: Path, folder: str) -> None:
    begin(config, folder)
    begin(config, folder)
    with pytest.raises(ConfigError, match="another plan"):
        begin(config, folder, "privacy.epsilon=2")
    with pytest.raises(ConfigError, match="is not the one that this state was made with"):
        begin(config, folder, "secret.file=two.key")


def test_counts_and_drains_are_kept(folder: str) -> None:
    counters.reset()
    first = fence.claim(folder, "a")
    around = fence.Fence(first)
    assert around.reachable == folder
    kept_counts.keep(around)
    counters.add("events", 3)
    kept_counts.flush(around)
    kept_counts.leave(around)
    assert kept_counts.kept(folder)["events"] == 3 and kept_counts.kept(folder, first.epoch) == {}
    assert fence.note_drain(first) and not fence.note_drain(first)
    assert list(fence.moments(folder, fence.DRAINED)) == [first.epoch]
    fence.forget_drain(first)
    assert fence.moments(folder, fence.DRAINED) == {}


def test_what_sources_left_undone_is_found_in_a_savepoint(folder: str) -> None:
    place = f"{folder}/savepoint-1"
    files.put(f"{place}/_metadata", b"nothing")
    assert flink.in_a_map(place) is None
    files.put(f"{place}/part", b"...sdf_checkpoint:1...")
    assert flink.in_a_map(place) is False
    files.put(f"{place}/other", flink.MAP_STATE.encode())
    assert flink.in_a_map(place) is True


def test_a_template_takes_its_config_from_a_bucket(bucket: str) -> None:
    files.put(f"{bucket}/job.yaml", SMALL.encode())
    assert dataflow_template.fetch(f"{bucket}/job.yaml").name == "shop"
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        dataflow_template.fetch(f"{bucket}/other.yaml")
