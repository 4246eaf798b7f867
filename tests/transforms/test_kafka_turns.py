"""One turn of a reader of Kafka: what it claims, when it ends, and what watermark it leaves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from apache_beam.utils.timestamp import Timestamp

from tests.transforms.kafka_double import T0, Cluster, S, Tracker, Watermark
from weir.dpcore.leaves.clock import Clock
from weir.transforms.beam.kafka import source
from weir.transforms.beam.kafka.position import TopicPosition
from weir.transforms.beam.pubsub.messages import MessageDecoder
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.sources.kafka.properties import ClientProperties
from weir.transforms.sources.kafka.topic import KafkaTopic

SCHEMA = EventSchema.build(Stamp("at", "epoch_us"), id="id", numbers=["x"])
LINE = b'{"at": 1, "id": "a", "x": 1.0}'


class Turns:
    """Turns of one reader, one after the other, as a runner makes them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, clock: Clock, **topic: Any) -> None:
        self.cluster = Cluster()
        self.tracker, self.watermark = Tracker(TopicPosition()), Watermark()
        self.safe: list[Any] = []
        options = {"slack": 0, **topic}
        reader = self.cluster.reader(**options)
        monkeypatch.setattr(
            source.ReadRecords, "readers", SimpleNamespace(reader=lambda *_: reader)
        )
        named = KafkaTopic("t", ClientProperties("b:1"), **options)
        self._read = source.ReadRecords(named, MessageDecoder("ndjson", SCHEMA, "t"), clock)

    def turn(self) -> list[Any]:
        """Outputs of the next turn."""
        finalizer = SimpleNamespace(register=self.safe.append)
        outputs = list(self._read.process("0", finalizer, self.tracker, self.watermark))
        left = self.tracker.current_restriction()
        self.tracker = Tracker(TopicPosition(left.topic, left.offsets))
        return outputs


def test_a_reader_ends_after_a_turn_has_reported_that_the_clock_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = Turns(monkeypatch, Clock(T0, S // 2, end=T0 + S))
    turns.cluster.append(LINE)
    assert len(turns.turn()) == 1
    turns.cluster.now += 5 * S
    waited = []
    for _ in range(4):
        tracker = turns.tracker
        turns.turn()
        waited.append(bool(tracker.waits))
        if not tracker.waits:
            break
    assert waited[-1] is False and len(waited) >= 2
    assert turns.watermark.at > Timestamp(micros=T0 + S)


def test_a_turn_whose_claim_fails_sends_nothing_and_the_next_reads_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = Turns(monkeypatch, Clock(T0, S // 2))
    turns.turn()
    turns.cluster.append(LINE)
    turns.tracker.try_split(0)  # the runner took the rest while the turn was beginning
    assert turns.turn() == []
    assert len(turns.turn()) == 1 and turns.turn() == []


def test_what_a_turn_sends_is_not_behind_the_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(monkeypatch, Clock(T0 - 100 * S, S // 2))
    for _ in range(3):
        turns.turn()
    before = turns.watermark.at
    assert before > Timestamp(micros=T0 - 100 * S)
    turns.cluster.append(LINE)
    (output,) = turns.turn()
    assert output.timestamp == before


@pytest.mark.slow
@pytest.mark.parametrize("slack", [0, S // 2])
def test_the_brokers_are_asked_as_soon_as_the_answer_ends_a_tick(
    monkeypatch: pytest.MonkeyPatch, slack: int
) -> None:
    turns = Turns(monkeypatch, Clock(T0, S, delay=S // 4), slack=slack)
    end = Timestamp(micros=T0 + S)
    due = S + S // 4 + slack
    for moment in (0, due - S // 20, due + S // 500):  # less than ASK_EVERY before the last
        turns.cluster.now = T0 + moment
        turns.turn()
        assert turns.watermark.at < end
    turns.cluster.now = T0 + due + S // 250
    for _ in range(2):  # a turn is real time: that of a busy machine may end before the answer
        turns.turn()
    assert turns.watermark.at > end


def test_a_declared_arrival_is_bounded_on_both_sides_of_the_stamp() -> None:
    topic = KafkaTopic("t", ClientProperties("b:1"), stamps_behind=2 * S, stamps_ahead=3 * S)
    assert topic.times(T0) == (T0, T0 - 2 * S, T0 + 3 * S)


def test_offsets_are_committed_when_the_runner_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(monkeypatch, Clock(T0, S // 2), group="monitors")
    turns.cluster.append(LINE)
    turns.turn()
    assert turns.cluster.committed == {}
    for call in turns.safe:
        call()
    assert turns.cluster.committed == {0: 1}


def test_the_watermark_stays_behind_the_frontier_by_the_delay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = Turns(monkeypatch, Clock(T0 - 100 * S, S // 2, delay=3 * S))
    turns.cluster.append(LINE)
    turns.turn()
    turns.cluster.now += S // 4
    turns.turn()
    turns.turn()
    assert turns.watermark.at == Timestamp(micros=T0 + S // 4 - 3 * S)
