"""Streams: what a job without a folder of results says of its budget, and where it goes on."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.ledger.conftest import job_of, section
from tests.pipelines.ledger.test_run import entries
from weir.dpcore.config import durations
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import load
from weir.pipelines.graph.budget import Spent, entered, resumes
from weir.pipelines.graph.parts import Parts, parts_of
from weir.pipelines.ledger import adjustments as hand
from weir.pipelines.ledger.entries import plan_in
from weir.pipelines.run.run import run
from weir.pipelines.runners.options import FlinkTarget
from weir.pipelines.runners.state_folder import StateFolder
from weir.pipelines.show.status import budget_in, budget_of
from weir.transforms.runtime.secret import SecretRef

STREAM = "source={pubsub: {subscription: projects/acme-1/subscriptions/all, payload: ndjson}}"
HOUR = 3_600_000_000


def stream_of(tmp_path: Path, *sets: str, ledger: str = "") -> Parts:
    """A stream into a topic, whose clock runs since 2024."""
    place = ledger or section(("sqlite", str(tmp_path / "ledger.db")))
    job = job_of(tmp_path / "job", place)
    fixed = [
        STREAM,
        "sink={pubsub: projects/acme-1/topics/all}",
        "clock.end=null",
        "mechanism=null",
    ]
    return parts_of(load(job, [*fixed, *sets]), "flink")


@pytest.fixture
def stream(tmp_path: Path) -> Parts:
    return stream_of(tmp_path)


def begin(parts: Parts, resumed: bool = False) -> str:
    """Enters a run that begins; gives the id of its entry."""
    with entered(parts, runner="flink", resumed=resumed) as spent:
        spent.start()
    assert spent.spending is not None
    return spent.spending.entry


def rotated(at: int, file: str = "other.key") -> str:
    """A setting: another secret from the tick on that begins at a moment."""
    start = durations.show_timestamp(at)
    return f"secret={{file: secret.key, rotate: [{{from: '{start}', file: {file}}}]}}"


def this_hour() -> int:
    now = time.time_ns() // 1000
    return now - now % HOUR


def test_its_budget_is_kept_beside_its_state(stream: Parts, tmp_path: Path) -> None:
    StateFolder.of(stream.state).begin(stream.plan, stream.secrets)
    begin(stream)
    kept = budget_in(plan_in(stream.state) or {})
    assert kept["ledger"]["entry"] == entries(tmp_path / "job" / "shop.yaml")[0].id
    ((name, words),) = budget_of(kept)
    assert name == "budget of customers" and "1 is spent of epsilon 1.3" in words
    # It is still the state of that plan.
    assert StateFolder.of(stream.state).begin(stream.plan, stream.secrets)
    assert json.loads((Path(stream.state) / "_plan.json").read_text())["layout"]


def test_a_stream_goes_on_in_its_place_alone(stream: Parts, tmp_path: Path) -> None:
    """Which messages it has read nobody knows: elsewhere the same secret would show them."""
    first = begin(stream)
    assert begin(stream, resumed=True) == first
    (entry,) = entries(tmp_path / "job" / "shop.yaml")
    assert entry.state == "running" and entry.price.last is None and len(entry.began) == 2
    source = stream.source.model_copy(update={
        "pubsub": stream.source.pubsub.model_copy(  # type: ignore[attr-defined]
            update={"subscription": "projects/acme-1/subscriptions/other"})
    })  # fmt: skip
    for change in (
        {"sink": stream.sink.model_copy(update={"pubsub": "projects/acme-1/topics/other"})},
        {"state": str(tmp_path / "a copy of the state")},
        {"source": source},
    ):
        with pytest.raises(ConfigError, match="whether these are the same events cannot be known"):
            begin(dataclasses.replace(stream, **change), resumed=True)  # type: ignore[arg-type]
    assert len(entries(tmp_path / "job" / "shop.yaml")) == 1
    assert not budget_of({})


def test_a_stream_that_begins_again_is_refused(stream: Parts, tmp_path: Path) -> None:
    """Its subscription may be sought back, and its folders taken away: then it would release the
    same ticks of other messages."""
    begin(stream)
    with pytest.raises(ConfigError, match="a stream that begins again is another look"):
        begin(stream)
    job = tmp_path / "job" / "shop.yaml"
    assert len(entries(job)) == 1 and len(entries(job)[0].began) == 1


def test_before_its_first_tick_is_over_a_stream_may_begin_again(tmp_path: Path) -> None:
    """No noise was drawn yet: the public clock says so."""
    start = durations.show_timestamp(this_hour() + 2 * HOUR)
    stream = stream_of(tmp_path, f"clock.start={start}")
    assert begin(stream) == begin(stream)
    with pytest.raises(ConfigError, match="cannot be known"):  # elsewhere both would run
        begin(dataclasses.replace(stream, state=str(tmp_path / "other")))


def test_a_rotation_ahead_is_the_same_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = this_hour() + 3 * HOUR
    first = begin(stream_of(tmp_path))
    later = stream_of(tmp_path, rotated(ahead))
    assert begin(later, resumed=True) == first
    assert begin(stream_of(tmp_path), resumed=True) == first  # not drawn with yet: taken back
    assert begin(later, resumed=True) == first
    wall = time.time_ns
    monkeypatch.setattr(
        "weir.pipelines.ledger.rules.time.time_ns", lambda: wall() + 5 * HOUR * 1000
    )
    assert begin(later, resumed=True) == first
    for other in ((), (rotated(ahead, "secret.key"),), (rotated(ahead - HOUR),)):
        with pytest.raises(ConfigError, match=r"secret\.rotate.*may be released already"):
            begin(stream_of(tmp_path, *other), resumed=True)
    (entry,) = entries(tmp_path / "job" / "shop.yaml")
    assert entry.id == first and len(entry.began) == 5


@pytest.mark.parametrize("tick", [1, -1, 0])
def test_a_rotation_of_what_may_be_released_is_refused(tmp_path: Path, tick: int) -> None:
    """Tick 1, the last one that is over, and the one that runs, which may be over on a worker."""
    first = stream_of(tmp_path, "clock.period=1m")
    start = first.plan.clock.start
    minute = 60_000_000
    now = time.time_ns() // 1000
    moment = start + minute if tick == 1 else now - now % minute + tick * minute
    begin(first)
    with pytest.raises(ConfigError, match=r"secret\.rotate.*rotate from") as refused:
        begin(stream_of(tmp_path, "clock.period=1m", rotated(moment)), resumed=True)
    named = refused.value.remedy.rpartition("rotate from ")[2].partition(" or later")[0]
    rotated_later = stream_of(tmp_path, "clock.period=1m", rotated(durations.timestamp(named)))
    begin(rotated_later, resumed=True)


def test_a_clock_that_is_set_back_does_not_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger's own records say that it was later."""
    begin(stream_of(tmp_path))
    monkeypatch.setattr("weir.pipelines.ledger.rules.time.time_ns", lambda: 1_704_067_200 * 10**9)
    with pytest.raises(ConfigError, match=r"secret\.rotate"):
        begin(stream_of(tmp_path, rotated(this_hour() - 10 * HOUR)), resumed=True)


def test_a_stream_that_is_replayed_never_rotates_under_its_entry(tmp_path: Path) -> None:
    """What its time is follows from the config: nobody knows which of its ticks are released."""
    replay = (
        "source={pubsub: {subscription: projects/acme-1/subscriptions/all, payload: ndjson, "
        "replay: {origin: 2024-01-01T00:00:00Z, started: 2025-01-01T00:00:00Z, speed: 0.001}}}"
    )
    first = begin(stream_of(tmp_path, replay))
    assert begin(stream_of(tmp_path, replay), resumed=True) == first
    far = durations.timestamp("2100-01-01T00:00:00Z")
    with pytest.raises(ConfigError, match=r"secret\.rotate"):
        begin(stream_of(tmp_path, replay, rotated(far)), resumed=True)


@pytest.mark.slow
def test_of_two_resumes_at_once_one_begins(tmp_path: Path, where: tuple[str, str]) -> None:
    """Each with another secret ahead: the ledger must know which of them draws."""
    ledger = section(where)
    begin(stream_of(tmp_path, ledger=ledger))
    ahead = this_hour() + 3 * HOUR
    one = stream_of(tmp_path, rotated(ahead), ledger=ledger)
    two = stream_of(tmp_path, rotated(ahead + HOUR), ledger=ledger)
    with entered(one, resumed=True) as first, entered(two, resumed=True) as second:
        first.start()
        with pytest.raises(ConfigError, match="another run that began"):
            second.start()
    (entry,) = entries(tmp_path / "job" / "shop.yaml")
    assert len(entry.began) == 2


def test_a_run_says_whether_it_goes_on(stream: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the command line starts it."""
    began: list[str] = []

    def started(runner: str, *words: Any) -> None:
        next(word for word in words if isinstance(word, Spent)).start()
        began.append(runner)

    monkeypatch.setattr("weir.pipelines.run.run._started", started)
    run(stream, "prism")
    with pytest.raises(ConfigError, match="a stream that begins again"):
        run(stream, "prism")
    with pytest.raises(ConfigError, match="a stream that begins again"):
        run(stream, "flink", flink=FlinkTarget())
    run(stream, "flink", flink=FlinkTarget(resume="latest"))
    assert began == ["prism", "flink"]


def test_a_subscription_belongs_to_one_scope(stream: Parts, tmp_path: Path) -> None:
    begin(stream)
    assert stream.ledger is not None
    staff = stream.ledger.model_copy(update={"scope": "staff"})
    hand.open_scope(staff, stream.plan)
    other = dataclasses.replace(
        stream, ledger=staff, secrets=((0, SecretRef(file=str(tmp_path / "job" / "other.key"))),)
    )
    with pytest.raises(ConfigError, match="under the scope 'customers'"):
        begin(other)


def test_an_update_on_dataflow_goes_on() -> None:
    assert resumes("dataflow", ["--project=p", "--update"], None)
    assert not resumes("dataflow", ["--project=p", "--update_x"], None)
    assert not resumes("prism", ["--update"], "latest") and resumes("flink", [], "latest")


def test_a_later_secret_must_be_readable(tmp_path: Path) -> None:
    """Which one it is could not be said in the ledger."""
    stream = stream_of(tmp_path, rotated(this_hour() + 3 * HOUR, "nowhere.key"))
    with pytest.raises(ConfigError, match="every secret of it can be read"):
        begin(stream)
