"""``weir audit --runner flink``, as far as it goes without a server and a cluster."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from tests.audit.twins import config
from weir.dpcore.config import durations
from weir.dpcore.errors import ConfigError, WeirError
from weir.pipelines.audit import attack as attacking
from weir.pipelines.audit import pubsub_harness as post
from weir.pipelines.audit import trial as once
from weir.pipelines.audit.attack import attack
from weir.pipelines.audit.audit import Audited
from weir.pipelines.audit.choice import Choice
from weir.pipelines.audit.isolation import RecordFeed
from weir.pipelines.audit.malformed import container_forms, messages, payload_of, strays
from weir.pipelines.audit.pubsub_harness import PubSubHarness, refuse_missing, server
from weir.pipelines.audit.streams import EventMaker, StreamRows
from weir.pipelines.audit.trial import Restarts
from weir.pipelines.cli.main import main
from weir.pipelines.config.job import loads
from weir.pipelines.engines.processes import free_ports
from weir.pipelines.engines.tools import EngineMissing
from weir.pipelines.results.verdict import Result
from weir.pipelines.sinks.dead_letters import DeadNdjson
from weir.pipelines.sources.pubsub import PubSubSource
from weir.pipelines.sources.source import schema_of
from weir.transforms.beam.pubsub.messages import Message, MessageDecoder
from weir.transforms.runtime.pubsub_client import EMULATOR

BOM = b"\xef\xbb\xbf"
THEIRS = "projects/acme-1/subscriptions/purchases"
FORMS = ("json", "ndjson", "avro", "arrow", "csv", "parquet")


def over(form: str, **given: Any) -> str:
    """A config over messages of a payload, or over files of a format that messages do not hold."""
    if form in ("csv", "parquet"):
        return config(form=form, **given)
    source = f"{{pubsub: {{subscription: {THEIRS}, payload: {form}, timestamp: sent, readers: 7}}}}"
    return config(**given).replace("{ndjson: nowhere/events.ndjson}", source)


def maker_of(form: str, **given: Any) -> EventMaker:
    return Choice.of(Audited.of(loads(over(form, **given)))).maker


def decoded(maker: EventMaker, payloads: list[bytes]) -> tuple[pa.Table, list[Any]]:
    """Events and dead letters of messages, as the job's own decoder makes them."""
    payload, _ = payload_of(maker.audited.job)
    schema = schema_of(maker.audited.plan)
    decoder = MessageDecoder(payload, schema, "here")
    found = decoder.decode([Message(f"m{i}", data, 7) for i, data in enumerate(payloads)])
    events = [one.events.drop_columns(["@source"]) for one in found if one.events is not None]
    letters = [row for one in found if one.dead is not None for row in one.dead.to_pylist()]
    columns = ["@time", "@key", "v"]
    return pa.Table.from_batches([batch.select(columns) for batch in events]), letters


def rows_of(count: int, ticks: int = 6) -> StreamRows:
    numbers = np.arange(count)
    return StreamRows(numbers, (7 * numbers) % ticks, np.zeros(count, np.int64), numbers, numbers)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("stamp", ["at", '{column: at, format: "%Y%m%d"}'])
def test_messages_hold_every_event_in_the_order_of_ticks(form: str, stamp: str) -> None:
    maker = maker_of(form, schema=f"{{time: {stamp}}}")
    sent = list(messages(maker, rows_of(450), payload_of(maker.audited.job)[0]))
    assert len(sent) == (450 if form == "json" else 5)
    events, letters = decoded(maker, sent)
    assert not letters and events.num_rows == 450
    assert events["@key"].unique().sort().to_pylist() == sorted(maker.audited.key_texts(450))
    starts = np.asarray(maker.audited.plan.clock.starts(np.arange(6)))
    times = events["@time"].cast(pa.int64()).to_numpy()
    assert sorted(times) == sorted(starts[(7 * np.arange(450)) % 6])
    if form in ("json", "ndjson", "csv"):  # the others are put together by their columns
        assert (np.diff(times) >= 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_malformed_record_is_its_own_matter_and_strays_are_dead_letters(
    form: str, tmp_path: Path
) -> None:
    """Good events next to bad ones stay what they are; who is nobody's is refused."""
    maker = maker_of(form)
    way = RecordFeed.of(maker.audited, "flink")
    forms = way.forms(maker)
    names = [one.name for one in forms]
    assert ("a container cut short" in names) == (way.form in ("avro", "arrow"))
    bad, rows = len(forms), rows_of(3 * len(forms))
    places = list(range(0, 3 * bad, 3))
    sent = way.written(maker, rows, tmp_path, places, forms, with_them=True)
    without = way.written(maker, rows, tmp_path, places, forms, with_them=False)
    assert not list(tmp_path.iterdir())
    good = set(maker.audited.key_texts(3 * bad)) - {
        maker.audited.key_texts(3 * bad)[place] for place in places
    }
    events, _ = decoded(maker, without)
    assert sorted(events["@key"].to_pylist()) == sorted(good)
    events, letters = decoded(maker, sent)
    assert sorted(key for key in events["@key"].to_pylist() if key in good) == sorted(good)
    assert letters
    # Alone no stray is an event of anybody, and all are told of, but for a mark before no line.
    first, strange = without[0], list(strays())
    events, letters = decoded(maker, [first, *strange])
    assert events.num_rows == decoded(maker, [first])[0].num_rows
    told = {letter["source"] for letter in letters}
    assert {f"here#m{1 + i}" for i, data in enumerate(strange) if data != BOM} <= told


def test_a_container_is_spoilt_in_a_message_of_its_own(tmp_path: Path) -> None:
    maker = maker_of("arrow")
    forms, rows = list(container_forms()), rows_of(40)
    sent = RecordFeed.of(maker.audited, "flink").written(
        maker, rows, tmp_path, range(6), forms, True
    )
    assert decoded(maker, sent[:1])[0].num_rows == 40 - len(forms) == 34
    for at, data in enumerate(sent[1:7]):
        events, letters = decoded(maker, [sent[0], data])
        mine = set(events["@key"].to_pylist()) & set(maker.audited.key_texts(6))
        assert mine <= {maker.audited.key_texts(6)[at]} and (mine or letters)


def test_the_job_reads_a_topic_of_the_audit_and_nothing_of_the_operators(tmp_path: Path) -> None:
    text = over("avro").replace("clock: {", "clock: {delay: 2h, ")
    text += "dead_letters: {pubsub: projects/acme-1/topics/dead}\n"
    text += "engine: {checkpoints: gs://acme/state, parallelism: 64, checkpoint_every: 10m}\n"
    job = loads(text)
    mine = PubSubHarness("projects/p-audit/topics/all", "projects/p-audit/subscriptions/all", job)
    before = time.time()
    live = mine.over(Audited.of(job).at(tmp_path, 4), tmp_path)
    assert isinstance(live.source, PubSubSource)
    section = live.source.pubsub
    assert section.subscription == mine.subscription and section.payload == "avro"
    assert section.timestamp == "sent" and section.readers == post.READERS
    assert live.dead_letters == DeadNdjson(ndjson=str(tmp_path / "dead"))
    assert live.state_folder == str(tmp_path / "state") and live.engine.parallelism is None
    assert live.secret is None and "acme" not in live.model_dump_json()
    clock, stream = live.clock.to_clock(), section.to_stream()
    # What is published before the clock begins is late for nothing; then every tick passes.
    assert stream.wall(clock.start) / 1e6 == pytest.approx(before + post.LEAD, abs=5)
    assert stream.at(int(before * 1e6)) < clock.start
    seconds = (stream.wall(clock.tick_start(6) + clock.delay) - stream.wall(clock.start)) / 1e6
    assert seconds == pytest.approx(post.SHORTEST, abs=0.01)


def test_messages_say_that_they_came_when_the_clock_began(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[Any]] = []
    monkeypatch.setattr(post, "publisher", lambda host: None)
    monkeypatch.setattr(post, "publish", lambda client, topic, held: calls.append(held))
    job = loads(over("ndjson"))
    mine = PubSubHarness("projects/p-audit/topics/all", "projects/p-audit/subscriptions/all", job)
    assert mine.publish([b"x"] * 1500 + [b"y" * (5 << 20)] * 2) == 1502
    assert [len(held) for held in calls] == [1000, 501, 1]
    stamps = {one.attributes["sent"] for held in calls for one in held}
    assert stamps == {durations.show_timestamp(job.clock.to_clock().start)}


def test_a_format_that_messages_do_not_hold_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attacking, "refuse_missing", lambda: None)
    monkeypatch.setattr(attacking, "_run", lambda *given: [])
    with pytest.raises(ConfigError):  # nothing was run
        attack(loads(over("csv")), only="all releases", runner="flink", fuzz=False)
    assert attacking._fed(loads(over("csv"))) == (
        "the config reads csv, which messages do not hold; they were fed as ndjson.",
    )
    assert attacking._fed(loads(over("json"))) == ()


def missing(*_: object) -> Path:
    raise EngineMissing("pubsub is not installed: run make pubsub")


def test_no_server_is_refused_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(over("json"))
    monkeypatch.delenv(EMULATOR, raising=False)
    monkeypatch.setattr(post.servers, "pubsub_binary", missing)
    found = CliRunner().invoke(main, ["audit", str(path), "--runner", "flink"])
    assert found.exit_code == 2
    told = " ".join(found.output.split())
    assert "make pubsub" in told and EMULATOR in told and "--runner" in told
    monkeypatch.setenv(EMULATOR, f"localhost:{free_ports(1)[0]}")
    found = CliRunner().invoke(main, ["audit", str(path), "--runner", "flink"])
    assert found.exit_code == 2
    told = " ".join(found.output.split())
    assert EMULATOR in told and "does not answer" in told and "make pubsub" in told


def test_no_flink_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_jar() -> Path:
        raise EngineMissing("job-server is not installed: run make flink")

    monkeypatch.delenv(EMULATOR, raising=False)
    monkeypatch.setattr(post.servers, "pubsub_binary", Path)
    monkeypatch.setattr(post, "need", lambda *given: "")
    monkeypatch.setattr(post.job_server, "jar", no_jar)
    with pytest.raises(ConfigError, match="make flink"):
        refuse_missing()


def test_a_server_of_ones_own_is_named_while_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    class Own:
        host = "localhost:1"

        def __enter__(self) -> Own:
            return self

        def __exit__(self, *_: object) -> None:
            assert os.environ.get(EMULATOR) is None

    monkeypatch.setattr(post, "PubSubServer", Own)
    monkeypatch.delenv(EMULATOR, raising=False)
    with server() as host:
        assert host == os.environ[EMULATOR] == Own.host
    monkeypatch.setenv(EMULATOR, "localhost:2")
    with server() as host:
        assert host == "localhost:2"
    assert os.environ[EMULATOR] == "localhost:2"


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Callable[[Path], Any]]:
    """A live run that ends as a test says, without a server and a cluster."""

    def prepared(state: str, counters: dict[str, int]) -> Callable[[Path], Any]:
        @contextlib.contextmanager
        def opened(job: Any) -> Iterator[PubSubHarness]:
            yield PubSubHarness(
                "projects/p-audit/topics/all", "projects/p-audit/subscriptions/all", job
            )

        def ran(parts: Any, runner: str, **given: Any) -> Result:
            assert runner == "flink" and parts.streaming and parts.secret.file is not None
            assert Path(parts.secret.file).stat().st_mode & 0o777 == 0o600
            return Result(
                plan=parts.plan, folder=None, sink="", counters=counters, seconds=0.0,
                fresh_secret=False, dead_letters=None, state=state,
            )  # fmt: skip

        monkeypatch.setattr(PubSubHarness, "opened", opened)
        monkeypatch.setattr(PubSubHarness, "publish", lambda self, payloads: len(list(payloads)))
        monkeypatch.setattr(once, "run", ran)
        monkeypatch.setattr(once, "server", contextlib.nullcontext)
        monkeypatch.setattr(once, "transcripts", lambda *given: np.zeros((4, 6, 1)))
        maker = maker_of("ndjson")
        return lambda place: once.run_trials(maker, [rows_of(4)], 4, place, "flink")

    return prepared


def test_a_run_that_was_stopped_or_too_slow_proves_nothing(ended: Any, tmp_path: Path) -> None:
    assert ended("done", {"overdue": 0})(tmp_path).transcripts.shape == (4, 6, 1)
    with pytest.raises(WeirError, match="stopped"):
        ended("stopped", {})(tmp_path)
    with pytest.raises(WeirError, match=r"5 events came late, .* --trials"):
        ended("done", {"overdue": 3, "late": 2})(tmp_path)


def test_a_job_that_fails_again_and_again_is_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from weir.pipelines.audit import trial

    cancelled: list[str] = []
    counts = iter([0, 1, 2, 3, 4])
    rest = SimpleNamespace(cancel=cancelled.append)
    monkeypatch.setattr(trial, "LOOK", 0.01)
    monkeypatch.setattr(trial, "FlinkRest", lambda url, timeout: rest)
    monkeypatch.setattr(trial, "metrics_of", lambda *given: {"numRestarts": next(counts)})
    with Restarts(str(tmp_path)) as seen:
        time.sleep(0.1)  # no job is noted yet
        seen.refuse()
        seen._state.make()
        seen._state.remember("http://x", "job-1", "name", 0.5, 2, 1)
        deadline = time.monotonic() + 10
        while not cancelled and time.monotonic() < deadline:
            time.sleep(0.01)
    assert cancelled == ["job-1"] and next(counts) == 4
    with pytest.raises(WeirError, match="failed 3 times"):
        seen.refuse()


def test_rows_are_taken_together() -> None:
    rows = replace(rows_of(6), person=np.arange(6) * 10)
    some = rows.taken(np.array([4, 1]))
    assert some.key.tolist() == [4, 1] and some.person.tolist() == [40, 10]
    assert rows.taken(slice(2, 4)).serial.tolist() == [2, 3]
