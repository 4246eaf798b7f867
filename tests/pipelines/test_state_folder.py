"""What is kept next to checkpoints: who may go on, from where, and that no secret is in it."""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from weir.dpcore.errors import ConfigError, WeirError
from weir.pipelines.config.job import JobConfig, load
from weir.pipelines.graph.checks import plan_of
from weir.pipelines.graph.parts import parts_of
from weir.pipelines.run.run import state_before
from weir.pipelines.runners.options import FlinkTarget
from weir.pipelines.runners.pipeline import refuse_restart
from weir.pipelines.runners.state_folder import LATEST, StateFolder
from weir.pipelines.runners.submitted import UnreadableCheckpoint
from weir.transforms.runtime import acked, fence

ONE, TWO = "ab" * 32, "cd" * 32


@pytest.fixture
def config(small: Path) -> Path:
    for name, value in (("one.key", ONE), ("two.key", TWO)):
        (small.parent / name).write_text(value)
        (small.parent / name).chmod(0o600)
    text = small.read_text() + "secret: {file: one.key}\nengine: {checkpoints: state}\n"
    small.write_text(
        text.replace(
            "{csv: events.csv}", "{pubsub: {subscription: projects/acme-1/subscriptions/all}}"
        )
    )
    return small


def begin(config: Path, *sets: str) -> tuple[StateFolder, JobConfig]:
    job = load(config, sets)
    plan, state = plan_of(job), StateFolder.of(job.state_folder)
    assert job.secret is not None
    state.begin(plan, job.secret.references(plan.clock))
    return state, job


def checkpoint(state: StateFolder, name: str, age: float) -> Path:
    file = Path(state.path) / name / "_metadata"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"x")
    os.utime(file, (1e9 - age, 1e9 - age))
    return file.parent


def test_it_is_made_for_its_owner_and_holds_no_secret(config: Path) -> None:
    state, job = begin(config)
    assert state.path == str(config.parent / "state") == job.state_folder
    assert stat.S_IMODE(os.stat(state.path).st_mode) == 0o700
    stored = b"".join(path.read_bytes() for path in Path(state.path).rglob("*") if path.is_file())
    assert ONE.encode() not in stored and bytes.fromhex(ONE) not in stored
    assert json.loads((Path(state.path) / "_plan.json").read_text())["config"]["name"] == "shop"
    begin(config)


def test_without_a_place_it_is_beside_the_config(config: Path) -> None:
    assert load(config, ["engine=null"]).state_folder == str(config.parent / ".weir" / "shop")


@pytest.mark.parametrize(
    ("change", "field", "before", "now"),
    [
        ("privacy.epsilon=0.5", "privacy.epsilon", "1.0", "0.5"),
        ("privacy.protect_for=16 ticks", "privacy.protect_for", "8", "16"),
        ("aggregates.paid.clip=[0, 60]", "aggregates.paid.clip", "50", "60"),
        ("where=amount > 1", "where", "absent", "amount > 1"),
        ("key.declared=[north, south, west]", "key.declared", "north", "west"),
    ],
)
def test_a_changed_plan_is_refused_by_the_field_that_changed(
    config: Path, change: str, field: str, before: str, now: str
) -> None:
    begin(config)
    with pytest.raises(ConfigError) as caught:
        begin(config, change)
    assert caught.value.field == field
    assert before in str(caught.value) and now in str(caught.value)


def test_what_shapes_no_release_may_change(config: Path) -> None:
    begin(config)
    begin(config, "sink={pubsub: projects/acme-1/topics/all}", "engine.parallelism=4")


def test_another_secret_is_refused_and_not_shown(config: Path) -> None:
    begin(config)
    with pytest.raises(ConfigError, match="secret.*not the one") as caught:
        begin(config, "secret.file=two.key")
    assert ONE not in str(caught.value) and TWO not in str(caught.value)


def test_a_rotation_may_be_added_and_then_stays(config: Path) -> None:
    begin(config)
    rotate = "secret.rotate=[{from: 2024-01-01T05:00:00Z, file: two.key}]"
    begin(config, rotate)
    with pytest.raises(ConfigError, match="not the one"):
        begin(config, rotate.replace("two", "one"))


def test_a_secret_that_only_workers_can_read_is_left_to_them(config: Path) -> None:
    job = load(config, ["secret={env: WEIR_NOT_HERE}"])
    plan = plan_of(job)
    assert job.secret is not None
    secrets = job.secret.references(plan.clock)
    assert StateFolder.of(job.state_folder).begin(plan, secrets) is False


def test_latest_is_the_newest_whole_checkpoint_or_savepoint(config: Path) -> None:
    state, job = begin(config)
    with pytest.raises(ConfigError, match="finds no checkpoint"):
        state.resolve(LATEST)
    refuse_restart(job.sink, state, None)
    checkpoint(state, "checkpoints/1a/chk-9", 30)
    newer = checkpoint(state, "checkpoints/1a/chk-10", 20)
    (Path(state.path) / "checkpoints/1a/chk-11").mkdir()
    assert state.resolve(LATEST) == newer.as_uri()
    saved = checkpoint(state, "savepoints/savepoint-1", 10)
    assert state.resolve(LATEST) == saved.as_uri() == state.resolve(saved.as_uri())
    assert state.resolve(str(newer)) == newer.as_uri()
    assert state.resolve("s3://b/savepoint-2") == "s3://b/savepoint-2"
    with pytest.raises(ConfigError, match="_metadata"):
        state.resolve(str(config.parent))
    with pytest.raises(ConfigError, match="Add --resume"):
        refuse_restart(job.sink, state, None)
    refuse_restart(job.sink, state, saved.as_uri())


def acknowledge(state: StateFolder, age: float, read: float = 100) -> None:
    """What a reader leaves that acknowledged so long before checkpoints of age 0 what it had read
    so long before."""
    noted = Path(state.path) / acked.FOLDER / "s-0.json"
    noted.parent.mkdir(exist_ok=True)
    began, at = (datetime.fromtimestamp(1e9 - moment, UTC).isoformat() for moment in (read, age))
    noted.write_text(json.dumps({"turn": 7, "began": began, "at": at}))


def test_older_than_what_was_acknowledged_is_refused_with_the_newest_that_has_it(
    config: Path,
) -> None:
    state, _ = begin(config)
    old, kept, new = (
        checkpoint(state, f"checkpoints/1a/chk-{n}", age)
        for n, age in ((16, 30), (17, 20), (18, 9))
    )
    assert state.resolve(str(old)) == old.as_uri(), "nothing was acknowledged"
    acknowledge(state, 10)
    assert state.resolve(str(kept)) == kept.as_uri(), "the newest of that time"
    with pytest.raises(ConfigError, match=r"chk-18 and not in it.*--rewind SNAPSHOT"):
        state.resolve(str(old))
    acknowledge(state, 8)
    with pytest.raises(ConfigError, match="chk-18 and not in it"):
        state.resolve(str(kept))
    assert state.resolve(LATEST) == new.as_uri()
    assert state.resolve(str(old), rewound=True) == old.as_uri()
    state.forget_acknowledged()
    assert state.resolve(str(old)) == old.as_uri()


def test_older_is_refused_where_no_checkpoint_of_the_acknowledgement_is_kept(config: Path) -> None:
    """Flink keeps three: those that were complete when messages were acknowledged are gone soon."""
    state, _ = begin(config)
    saved = checkpoint(state, "savepoints/savepoint-1", 30)
    checkpoint(state, "checkpoints/1a/chk-18", 5)
    acknowledge(state, 10, read=31)
    assert state.resolve(str(saved)) == saved.as_uri(), "read before it, so it may hold them"
    acknowledge(state, 10, read=29)
    with pytest.raises(ConfigError, match="chk-18 and not in it"):
        state.resolve(str(saved))
    assert state.resolve(str(saved), rewound=True) == saved.as_uri()


def test_what_cannot_be_read_is_fallen_back_from_only_where_that_loses_nothing(
    config: Path,
) -> None:
    state, _ = begin(config)
    kept, new = (
        checkpoint(state, f"checkpoints/1a/chk-{n}", age) for n, age in ((17, 20), (18, 9))
    )
    broken = UnreadableCheckpoint(new.as_uri(), "EOFException")
    latest = FlinkTarget(resume=LATEST)
    assert state_before(state, latest, broken) == kept.as_uri()
    with pytest.raises(WeirError, match="Bring that folder back from a copy, or name another"):
        state_before(state, FlinkTarget(resume=str(new)), broken)
    acknowledge(state, 8)
    with pytest.raises(WeirError, match=r"cannot be read: EOF.* lacks messages that were ackn"):
        state_before(state, latest, broken)
    acknowledge(state, 15)
    shutil.rmtree(new)
    assert state_before(state, latest, broken) == kept.as_uri(), (
        "it was gone, a newer one replaced it"
    )


def test_the_savepoint_of_a_drain_is_never_the_latest(config: Path) -> None:
    state, _ = begin(config)
    first = fence.claim(state.path, "one")
    kept = checkpoint(state, "checkpoints/1a/chk-4", 1e9 - time.time() + 5)
    fence.note_drain(first)
    drained = checkpoint(state, "savepoints/savepoint-1", 1e9 - time.time() - 5)
    assert state.resolve(LATEST) == kept.as_uri()
    assert state.resolve(str(drained)) == drained.as_uri(), "who names it gets it"
    fence.forget_drain(first)
    assert state.resolve(LATEST) == drained.as_uri(), "the drain failed, the job went on"


@pytest.mark.parametrize(
    ("rotate", "says"),
    [
        ("[{from: 2024-01-01T05:30:00Z, file: b}]", "not the start of a tick"),
        ("[{from: 2024-01-01T00:00:00Z, file: b}]", "must be after"),
        ("[{from: 2024-01-02T00:00:00Z, file: b}]", "before the clock's end"),
        (
            "[{from: 2024-01-01T05:00:00Z, file: b}, {from: 2024-01-01T05:00:00Z, file: c}]",
            "must be after",
        ),
    ],
)
def test_rotations_begin_at_ticks_in_order(config: Path, rotate: str, says: str) -> None:
    job = load(config, [f"secret.rotate={rotate}"])
    with pytest.raises(ConfigError, match=says):
        parts_of(job)
    ok = load(config, ["secret.rotate=[{from: 2024-01-01T05:00:00Z, kubernetes: weir/key}]"])
    _, (tick, secret) = parts_of(ok).secrets
    assert tick == 5 and secret.kubernetes == "weir/key"


def test_a_cut_note_of_acknowledgements_is_rejected_in_words(tmp_path: Path) -> None:
    notes = tmp_path / acked.FOLDER
    notes.mkdir()
    (notes / "reader-0.json").write_text('{"turn": 3, "a')
    with pytest.raises(WeirError, match="cannot be read"):
        StateFolder(str(tmp_path)).acknowledged()
