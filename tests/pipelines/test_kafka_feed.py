"""A feed into Kafka, over clients in memory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from examples.stack.stack import CONFIG, Stack
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import load
from weir.pipelines.feed import kafka
from weir.pipelines.feed.targets import create, open_target
from weir.pipelines.sources.kafka import KafkaSource

WHERE = "kafka://b:1/t"


class KafkaError(Exception):
    """As the library's."""


class Library:
    """What a feed calls of the library."""

    KafkaException = KafkaError

    def __init__(
        self, refuses: str | None = None, full: int = 0, left: int = 0, lost: str = ""
    ) -> None:
        self.sent: list[tuple[str, bytes]] = []
        self.properties: dict[str, Any] = {}
        self.new: list[Any] = []
        self._refuses, self._full, self._left, self._lost = refuses, full, left, lost
        self.admin = SimpleNamespace(AdminClient=lambda _: self, NewTopic=self._new)

    def Producer(self, properties: dict[str, Any]) -> Library:
        self.properties = properties
        return self

    def produce(self, topic: str, value: bytes, on_delivery: Any) -> None:
        if self._full:
            self._full -= 1
            raise BufferError
        self.sent.append((topic, value))
        on_delivery(SimpleNamespace(name=lambda: self._lost) if self._lost else None, None)

    def poll(self, seconds: float) -> None:
        """Nothing waits."""

    def flush(self, seconds: float) -> int:
        return self._left

    def _new(self, name: str, partitions: int, config: dict[str, str]) -> Any:
        return SimpleNamespace(name=name, partitions=partitions, config=config)

    def create_topics(self, topics: list[Any], request_timeout: float) -> dict[str, Any]:
        self.new += topics
        return {topics[0].name: SimpleNamespace(result=self._result)}

    def _result(self) -> None:
        if self._refuses is not None:
            raise KafkaError(SimpleNamespace(name=lambda: self._refuses))


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    clients = Library(full=1)
    monkeypatch.setattr(kafka, "library", lambda: clients)
    return clients


def test_events_are_sent_several_a_record_by_the_options_of_the_source(library: Library) -> None:
    section = {"brokers": "other:9", "topic": "t", "start": "latest"}
    options = {"security.protocol": "SSL", "fetch.min.bytes": 1}
    source = KafkaSource.model_validate({"kafka": {**section, "options": options}})
    target = open_target(WHERE, "ndjson", 2, source=source)
    target.write(pa.record_batch({"id": ["a", "b", "c"]}), [False, True, False])
    target.close()
    assert [topic for topic, _ in library.sent] == ["t", "t"]
    first, second = (value for _, value in library.sent)
    assert first.startswith(b'{"id":"a"}') and b'"b"' not in first and b'"c"' in second
    assert library.properties["bootstrap.servers"] == "b:1"
    assert library.properties["security.protocol"] == "SSL"
    assert not [name for name in library.properties if name.startswith("fetch.")]


def test_a_topic_is_made_with_the_stamps_of_its_broker(library: Library) -> None:
    assert create(WHERE, None) == ["made the topic t"]
    assert [new.config for new in library.new] == [{"message.timestamp.type": "LogAppendTime"}]


@pytest.mark.parametrize(("code", "made"), [("TOPIC_ALREADY_EXISTS", []), ("POLICY", None)])
def test_a_topic_that_is_not_made(
    monkeypatch: pytest.MonkeyPatch, code: str, made: list[str] | None
) -> None:
    monkeypatch.setattr(kafka, "library", lambda: Library(code))
    if made is None:
        with pytest.raises(ConfigError, match=rf"cannot be made \({code}\)"):
            create(WHERE, None)
    else:
        assert create(WHERE, None) == made


@pytest.mark.parametrize(
    ("clients", "words"),
    [
        (Library(left=1), "no answer for 60 s"),
        (Library(lost="TOPIC_AUTHORIZATION_FAILED"), "TOPIC_AUTHORIZATION_FAILED"),
    ],
)
def test_what_brokers_do_not_take_ends_the_feed(
    monkeypatch: pytest.MonkeyPatch, clients: Library, words: str
) -> None:
    monkeypatch.setattr(kafka, "library", lambda: clients)
    with pytest.raises(ConfigError, match=rf"does not take what is sent \({words}\)"):
        open_target(WHERE, "json").write(pa.record_batch({"id": ["a"]}), [False])


def test_a_stack_reads_and_feeds_the_topic_of_its_broker(tmp_path: Path) -> None:
    stack = Stack(CONFIG, tmp_path / "live", kind="kafka")
    job = load(CONFIG, stack._settings()[1::2])
    stack.stop()
    assert isinstance(job.source, KafkaSource) and job.clock.end is None
    assert job.source.kafka.readers == 2
    section = job.source.kafka
    assert stack.stream.target == f"kafka://{section.brokers}/{section.topic}"
    assert stack.stream.counts() == {"messages": 0}
