"""``weir feed``: the same seed the same events, every target, every spoiled share, every pace."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.conftest import SMALL, Weir
from weir.dpcore.config import yaml
from weir.dpcore.errors import ConfigError, WeirError
from weir.pipelines.config.job import JobConfig, loads
from weir.pipelines.feed.feed import Clockwork, Pace, feed, first_moment, notes, setting
from weir.pipelines.feed.synthetic import Shares, batches, uniforms
from weir.pipelines.feed.targets import TopicTarget, open_target
from weir.pipelines.graph.checks import plan_of
from weir.pipelines.sources.pubsub import Replay
from weir.transforms.beam.pubsub.messages import Message, MessageDecoder
from weir.transforms.decode.schema import EventSchema
from weir.transforms.runtime.stream_time import StreamTime

ARRIVAL = SMALL.replace("schema: {time: at, id: id}", "schema: {time: at, id: id, arrival: got}")


class Kept:
    """A target that remembers."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.broken: list[bool] = []
        self.closed = False

    def write(self, batch: pa.RecordBatch, broken: Sequence[bool]) -> None:
        self.rows.extend(batch.to_pylist())
        self.broken.extend(broken)

    def close(self) -> None:
        self.closed = True


class FakeTime:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.moment = 0.0
        self.slept = 0.0

    def sleep(self, seconds: float) -> None:
        self.moment += seconds
        self.slept += seconds

    def clockwork(self) -> Clockwork:
        return Clockwork(lambda: self.moment, lambda: 1.7e9 + self.moment, self.sleep)


def sent(job: JobConfig, events: int = 1000, **options: Any) -> Kept:
    kept = Kept()
    settings: dict[str, Any] = {"seed": 1, "shares": Shares(), "pace": Pace()}
    settings.update(options)
    feed(job, kept, events=events, **settings)
    assert kept.closed
    return kept


def test_it_fits_the_schema() -> None:
    rows = sent(loads(SMALL)).rows
    assert len(rows) == 1000
    assert set(rows[0]) == {"at", "id", "store", "amount"}
    assert len({row["id"] for row in rows}) == 1000
    assert {row["store"] for row in rows} == {"north", "south"}
    hours = [row["at"].hour for row in rows]
    assert hours == sorted(hours) and hours[0] == 0 and hours[-1] == 23
    amounts = np.array([row["amount"] for row in rows])
    assert amounts.min() >= 0 and 0.85 < np.mean(amounts <= 50) < 1


def test_the_same_seed_makes_the_same_events() -> None:
    job = loads(SMALL)
    assert sent(job).rows == sent(job).rows
    assert sent(job).rows != sent(job, seed=2).rows


def test_uniforms_are_uniform_and_independent() -> None:
    rows = np.arange(50_000, dtype=np.uint64)
    a, b, c = uniforms(1, "a", rows), uniforms(1, "b", rows), uniforms(2, "a", rows)
    for u in (a, b, c):
        assert np.all(np.histogram(u, 20, (0, 1))[0] > 2300)
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.02
    assert abs(np.corrcoef(a, c)[0, 1]) < 0.02
    assert abs(np.corrcoef(a[1:], a[:-1])[0, 1]) < 0.02


def test_shares_are_spoiled() -> None:
    job = loads(ARRIVAL)
    kept = sent(job, 5000, shares=Shares(late=0.1, duplicate=0.2, malformed=0.05))
    assert 5850 < len(kept.rows) < 6150
    assert len({row["id"] for row in kept.rows}) == 5000
    late = np.mean([row["got"] > row["at"] for row in kept.rows])
    assert 0.08 < late < 0.12
    assert 0.04 < np.mean(kept.broken) < 0.06


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_is_a_share(share: float) -> None:
    with pytest.raises(ConfigError, match="--late"):
        Shares(late=share)


def test_where_columns_are_made_too() -> None:
    text = SMALL + 'where: country == "NL" and size > 3 and member\n'
    rows = sent(loads(text)).rows
    assert {row["country"] for row in rows} == {"NL", "other"}
    assert {row["member"] for row in rows} == {True, False}
    assert max(row["size"] for row in rows) > 3


@pytest.mark.parametrize(
    ("time", "example"),
    [
        ("{column: at, format: '%Y%m%d', zone: UTC}", "20240101"),
        ("{column: at, format: '%Y-%m-%d %H:%M:%S.%f'}", "2024-01-01 00:00:"),
        ("{column: at, zone: Europe/Berlin}", "2024-01-01T01:00:"),
        ("{column: at, format: epoch_s}", 1704067200.0),
    ],
)
def test_times_are_written_as_the_config_says(time: str, example: Any) -> None:
    job = loads(SMALL.replace("time: at", f"time: {time}"))
    first = sent(job).rows[0]["at"]
    if isinstance(example, float):
        assert abs(first - example) < 120
    else:
        assert first.startswith(example)


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet", "arrow", "avro"])
def test_files_of_every_format_go_round(suffix: str, tmp_path: Path) -> None:
    job = loads(SMALL)
    path = tmp_path / f"events.{suffix}"
    feed(job, open_target(str(path), None), events=300, seed=1, shares=Shares(), pace=Pace())
    kept = sent(job, None, recorded=str(path))  # type: ignore[arg-type]
    assert [row["id"] for row in kept.rows] == [row["id"] for row in sent(job, 300).rows]
    assert [float(row["amount"]) for row in kept.rows] == [
        row["amount"] for row in sent(job, 300).rows
    ]
    assert len(sent(job, 10, recorded=str(path)).rows) == 10


def test_broken_records_of_every_kind(tmp_path: Path) -> None:
    job = loads(SMALL)
    for suffix in ("csv", "ndjson", "parquet", "avro"):
        path = tmp_path / f"bad.{suffix}"
        target = open_target(str(path), None)
        feed(job, target, events=500, seed=1, shares=Shares(malformed=0.1), pace=Pace())
        if suffix == "parquet":
            bad = pq.read_table(path)["at"].null_count
        elif suffix == "avro":
            with path.open("rb") as handle:
                bad = sum(row["at"] is None for row in fastavro.reader(handle))  # type: ignore
        else:
            bad = sum("broken" in line for line in path.read_text().splitlines())
        assert 25 < bad < 80


def test_rates_are_kept() -> None:
    fake = FakeTime()
    sent(loads(SMALL), 1000, pace=Pace(rate=100), clockwork=fake.clockwork())
    assert 9 < fake.slept < 10.1


def test_a_recorded_stream_keeps_its_gaps(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text(
        "at,id,store,amount\n2024-01-01T00:00:00Z,a,north,1\n2024-01-01T01:00:00Z,b,north,2\n"
    )
    fake = FakeTime()
    job = loads(SMALL)
    sent(job, None, recorded=str(path), pace=Pace(speed=60), clockwork=fake.clockwork())  # type: ignore
    assert fake.slept == pytest.approx(60)


def test_live_events_happen_now() -> None:
    fake = FakeTime()
    kept = sent(
        loads(SMALL), 200, live=True, pace=Pace(rate=100), clockwork=fake.clockwork(),
        shares=Shares(late=0.3),
    )  # fmt: skip
    moments = [row["at"].timestamp() - 1.7e9 for row in kept.rows]
    assert len({row["id"] for row in kept.rows}) == 200
    assert max(moments) == pytest.approx(1.95, abs=0.1)
    assert 0.2 < np.mean(np.array(moments) < -1e-5) < 0.4


@pytest.mark.parametrize("pace", [{"rate": 0.0}, {"speed": -1.0}, {"rate": 1.0, "speed": 1.0}])
def test_a_pace_is_a_pace(pace: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        Pace(**pace)


class Client:
    """A Pub/Sub publisher that fails on demand."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls: list[list[bytes]] = []
        self.error = error

    @property
    def messages(self) -> list[bytes]:
        return [data for call in self.calls for data in call]

    def publish(self, topic: str, messages: list[Any], **_: Any) -> None:
        if self.error is not None:
            raise self.error
        self.calls.append([message.data for message in messages])


@pytest.mark.parametrize("payload", ["json", "ndjson", "avro", "arrow"])
def test_topics_take_what_a_job_can_read(payload: str) -> None:
    client = Client()
    target = TopicTarget(
        "projects/acme-1/topics/all", payload, None if payload == "json" else 20, client
    )
    job = loads(SMALL)
    feed(job, target, events=50, seed=1, shares=Shares(malformed=0.1), pace=Pace())
    assert len(client.calls) == 1 and len(client.messages) == (50 if payload == "json" else 3)
    schema = EventSchema.from_config(job, ("amount",))
    messages = [Message(str(i), data, 0) for i, data in enumerate(client.messages)]
    found = MessageDecoder(payload, schema, "s").decode(messages)
    events = sum(batch.num_rows for batch, _, _ in found if batch is not None)
    dead = sum(letters.num_rows for _, letters, _ in found if letters is not None)
    assert events + dead == 50 and 0 < dead < 15


def test_big_writes_are_several_calls() -> None:
    client = Client()
    feed(
        loads(SMALL), TopicTarget("projects/acme-1/topics/all", "json", 1, client),
        events=2500, seed=1, shares=Shares(), pace=Pace(),
    )  # fmt: skip
    assert [len(call) for call in client.calls] == [1000, 1000, 500]


def test_what_a_topic_does_not_take() -> None:
    with pytest.raises(ConfigError, match="ndjson"):
        TopicTarget("projects/acme-1/topics/all", "csv", None, Client())
    with pytest.raises(ConfigError, match="per-message"):
        TopicTarget("projects/acme-1/topics/all", "json", 5, Client())


def test_a_failed_publish_is_told_without_its_text() -> None:
    target = TopicTarget(
        "projects/acme-1/topics/all", "ndjson", 1, Client(ValueError("secret content"))
    )
    with pytest.raises(WeirError, match="ValueError") as failed:
        feed(loads(SMALL), target, events=5, seed=1, shares=Shares(), pace=Pace())
    assert "secret content" not in str(failed.value)


def test_a_replay_follows_the_stream_time_of_its_job(tmp_path: Path) -> None:
    """Each slice leaves when stream time reaches its last arrival, wherever the file starts."""
    path = tmp_path / "r.csv"
    hours = [0, 0, 2, 1, 4]
    path.write_text(
        "at,got,id,store,amount\n"
        + "".join(
            f"2024-01-01T00:00:00Z,2024-01-01T0{hour}:00:00Z,e{i},north,1\n"
            for i, hour in enumerate(hours)
        )
    )
    fake = FakeTime()
    stream = StreamTime(1_704_067_200_000_000, int((1.7e9 + 5) * 1e6), 3600)
    seen: list[tuple[float, int]] = []

    class Timed(Kept):
        def write(self, batch: pa.RecordBatch, broken: Sequence[bool]) -> None:
            seen.append((round(fake.moment, 3), batch.num_rows))

    feed(
        loads(ARRIVAL), Timed(), events=None, seed=1, shares=Shares(), pace=Pace(speed=3600),
        recorded=str(path), stream=stream, clockwork=fake.clockwork(),
    )  # fmt: skip
    assert seen == [(5.0, 2), (7.0, 2), (9.0, 1)]
    text = setting(stream).partition("=")[2]
    assert Replay.model_validate(yaml.parse(text, {})).to_stream() == stream
    assert first_moment(str(path), loads(ARRIVAL)) == stream.origin


def test_notes_say_what_a_rehearsal_cannot_show() -> None:
    job = loads(SMALL)
    assert "arrival" in notes(job, Shares(late=0.1), live=False, recorded=False)[0]
    assert notes(loads(ARRIVAL), Shares(late=0.1), live=False, recorded=False) == []
    bare = loads(SMALL.replace(", id: id", ""))
    assert "schema.id" in notes(bare, Shares(duplicate=0.1), live=False, recorded=False)[0]


def test_the_command_writes_to_stdout_and_files(weir: Weir, small: Path) -> None:
    result = weir("feed", small, "--events", 20)
    assert result.exit_code == 0
    assert len(list(csv.DictReader(result.stdout.splitlines()))) == 20
    result = weir("feed", small, "--events", 20, "--format", "ndjson")
    assert len([json.loads(line) for line in result.stdout.splitlines()]) == 20
    path = small.parent / "e.parquet"
    result = weir("feed", small, "--events", 20, "--to", path)
    assert result.exit_code == 0 and pq.read_table(path).num_rows == 20
    assert "sent 20 events" in result.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--to", "x.unknown"], "projects/P/topics/T"),
        (["--to", "/no/such/folder/x.csv"], "cannot be written"),
        (["--speed", "2"], "recorded stream"),
        (["--from", "none.csv"], "is no file"),
        (["--from", "none.xls"], "must end in"),
        (["--late", "2"], "share from 0 to 1"),
        (["--rate", "0"], "above 0"),
        (["--format", "parquet"], "csv or ndjson"),
    ],
)
def test_refusals(weir: Weir, small: Path, words: list[str], says: str) -> None:
    result = weir("feed", small, *words)
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_broken_recording_is_not_quoted(weir: Weir, small: Path) -> None:
    path = small.parent / "r.ndjson"
    path.write_text('{"at": "2024-01-01T00:00:00Z", "id": "PRIVATE"\n')
    result = weir("feed", small, "--from", path)
    assert result.exit_code == 2
    assert "PRIVATE" not in result.output


def test_large_streams_come_in_batches() -> None:
    sizes = [b.num_rows for b in batches(loads(SMALL), 150_000, 1, Shares())]
    assert sum(sizes) == 150_000 and max(sizes) <= 1 << 16


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16"])
@pytest.mark.parametrize("header", [True, False])
def test_csv_is_written_and_read_back_as_the_config_says(
    weir: Weir, tmp_path: Path, encoding: str, header: bool
) -> None:
    names = "" if header else "header: false, columns: [amount, id, note, store, at], "
    source = f'source: {{csv: events.csv, delimiter: ";", {names}encoding: {encoding}}}'
    config = tmp_path / "c.yaml"
    config.write_text(
        SMALL.replace("source: {csv: events.csv}", source).replace("north, ", "'süd;ost', ")
    )
    path = tmp_path / "events.csv"
    fed = weir("feed", config, "--events", 200, "--to", path)
    assert fed.exit_code == 0, fed.stderr
    rows = list(csv.reader(path.read_text(encoding).splitlines(), delimiter=";"))
    assert len(rows) == 200 + header
    columns = ["at", "id", "store", "amount"] if header else ["amount", "id", "note", "store", "at"]
    assert rows[0] == columns if header else len(rows[0]) == 5
    assert any(row[columns.index("store")] == "süd;ost" for row in rows)
    again = tmp_path / "again.csv"
    replayed = weir("feed", config, "--from", path, "--to", again)
    assert replayed.exit_code == 0, replayed.stderr
    assert list(csv.reader(again.read_text(encoding).splitlines(), delimiter=";")) == rows
    job = loads(config.read_text(), folder=tmp_path)
    plan = plan_of(job)
    assert job.source is not None
    read = job.source.read(plan, job.limits)
    assert read is not None
    assert [
        (events.num_rows, letters)
        for split in read.splits()
        for events, letters, _ in read.decode(split)
    ] == [(200, None)]


def test_letters_that_an_encoding_lacks(weir: Weir, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(
        SMALL.replace("{csv: events.csv}", "{csv: events.csv, encoding: latin-1}").replace(
            "north", "北"
        )
    )
    fed = weir("feed", config, "--events", 50, "--to", tmp_path / "events.csv")
    assert fed.exit_code == 2 and "source.encoding = 'iso8859-1'" in fed.stderr


def test_json_tells_what_was_sent_and_leaves_stdout_to_one_of_both(
    weir: Weir, tmp_path: Path
) -> None:
    (tmp_path / "shop.yaml").write_text(SMALL)
    to = tmp_path / "events.csv"
    told = json.loads(
        weir("feed", tmp_path / "shop.yaml", "--events", 3, "--to", to, "--json").stdout
    )
    assert told["sent"] == 3 and told["to"] == str(to) and told["notes"] == []
    refused = weir("feed", tmp_path / "shop.yaml", "--json")
    assert refused.exit_code == 2 and "name --to" in refused.output
