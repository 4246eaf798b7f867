"""The parts of the reader that need no server: frontier, leases, turns, stamps, failures."""

from __future__ import annotations

import pickle
from typing import Any

import grpc
import pytest

from tests.transforms.pulls import T0, Failure, S, Server, reader, wire
from weir.transforms.beam.pubsub.leases import CALL, Leases
from weir.transforms.beam.pubsub.messages import read_stamp
from weir.transforms.beam.pubsub.reader import LONGEST_PAUSE, PROBE
from weir.transforms.beam.pubsub.restriction import Turn, TurnProvider, TurnTracker
from weir.transforms.beam.pubsub.watermark import BACKLOG, Frontier
from weir.transforms.runtime.stream_time import PRESENT, StreamTime


def frontier(stream: StreamTime = PRESENT, hold: int = 10) -> Frontier:
    return Frontier(stream, S, hold * S, T0)


def test_nothing_is_known_for_one_ack_deadline_after_a_start() -> None:
    one = frontier()
    for second in range(1, 10):
        one.answered(T0 + second * S, T0 + second * S, False)
        assert one.is_held(T0 + second * S) and one.at(T0 + second * S) is None
    assert not one.is_held(T0 + 10 * S)
    assert one.at(T0 + 10 * S) == T0 + 9 * S


def test_a_silent_stream_goes_on_behind_the_present() -> None:
    one = frontier(hold=0)
    one.silent(T0)
    one.silent(T0 + S // 2)
    assert not one.is_idle() and one.at(T0 + S // 2) is None
    for second in (1, 2, 100):
        one.silent(T0 + second * S)
        assert one.is_idle() and one.at(T0 + second * S) == T0 + (second - 1) * S
    assert one.at(T0 + 500 * S) == T0 + 99 * S, "what nobody answered is not known"
    one.silent(T0 + 50 * S)
    one.silent(T0 + 102 * S)
    assert one.at(T0 + 600 * S, T0 + 100 * S) == T0 + 100 * S
    assert one.at(T0 + 600 * S) == T0 + 101 * S


def test_the_earliest_of_the_latest_answers_counts_and_never_goes_back() -> None:
    one = frontier(hold=0)
    one.answered(T0, T0 - 3 * S, False)
    one.answered(T0 + S // 2, T0 - S, False)
    assert one.at(T0 + S // 2) == T0 - 3 * S
    one.answered(T0 + 3 * S // 2, T0, False)
    assert one.at(T0 + 3 * S // 2) == T0 - S
    one.answered(T0 + 2 * S, T0 - 900 * S, False)
    assert one.at(T0 + 2 * S) == T0 - S
    one.answered(T0 + 5 * S, T0 + 900 * S, False)
    assert one.at(T0 + 5 * S) == T0 + 4 * S, "what came in the slack may still be coming"


def test_silence_begins_with_the_last_message() -> None:
    """And a question of before it, in vain, says nothing of what came since."""
    one = frontier(hold=0)
    one.answered(T0 + S, T0, False)
    one.silent(T0)
    one.silent(T0 + 2 * S - 1)
    assert not one.is_idle() and one.at(T0 + 2 * S - 1) == T0
    one.silent(T0 + 2 * S + 1)
    assert one.is_idle() and one.at(T0 + 2 * S + 1) == T0 + S + 1


def test_full_answers_say_nothing_until_there_is_a_minute_of_them() -> None:
    one = frontier(hold=0)
    for second in range(60):
        one.answered(T0 + second * S, T0 - 100 * S + second * S, True)
        assert one.at(T0 + second * S) is None
    one.answered(T0 + BACKLOG, T0 - 5 * S, True)
    assert one.at(T0 + BACKLOG) == T0 - 100 * S
    one.answered(T0 + BACKLOG + S // 2, T0, False)
    assert one.at(T0 + BACKLOG + S // 2) == T0 - 99 * S, "full ones are not forgotten at once"
    one.answered(T0 + BACKLOG + 2 * S, T0, False)
    assert one.at(T0 + BACKLOG + 2 * S) == T0


def test_a_failed_call_holds_for_one_ack_deadline() -> None:
    one = frontier(hold=10)
    one.silent(T0)
    one.silent(T0 + 20 * S)
    assert one.at(T0 + 20 * S) == T0 + 19 * S
    one.failed(T0 + 21 * S)
    one.silent(T0 + 22 * S)
    one.silent(T0 + 30 * S)
    assert one.at(T0 + 30 * S) == T0 + 19 * S and not one.is_held(T0 + 31 * S)
    assert one.at(T0 + 31 * S) == T0 + 29 * S


def test_a_replay_is_followed_in_stream_time() -> None:
    stream = StreamTime(origin=5 * S, started=T0, speed=24)
    one = frontier(stream, hold=0)
    one.silent(T0)
    one.silent(T0 + 10 * S)
    assert one.at(T0 + 10 * S) == 5 * S + 24 * 9 * S


def test_leases_are_moved_on_until_they_are_acknowledged_or_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [100.0]
    monkeypatch.setattr("weir.transforms.beam.pubsub.leases.time.monotonic", lambda: clock[0])
    server = Server()
    leases = Leases(server, "s", 10)
    leases.close()
    ids = [f"a{i}" for i in range(CALL + 5)]
    leases.hold(ids)
    leases.extend()
    assert server.moved == [], "fresh ones need nothing"
    clock[0] += 3
    leases.extend()
    assert server.moved == [(ids[:CALL], 10), (ids[CALL:], 10)]
    server.moved.clear()
    leases.acknowledge(ids[5:])
    assert [one for call in server.acked for one in call] == ids[5:] and len(leases) == 5
    clock[0] += 3
    leases.extend()
    leases.give_back(ids[:1])
    leases.give_back()
    assert server.moved == [(ids[:5], 10), (ids[:1], 0), (ids[1:5], 0)] and len(leases) == 0


def test_a_bundle_that_nobody_declares_safe_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("weir.transforms.beam.pubsub.leases.time.monotonic", lambda: clock[0])
    server = Server()
    leases = Leases(server, "s", 10)
    leases.close()
    leases.hold(["a"])
    clock[0] = 1e5
    leases.hold(["b"])
    clock[0] += 5
    server.away = True
    leases.extend()
    server.away = False
    leases.extend()
    assert server.moved == [(["b"], 10)]


def test_an_answer_is_held_from_its_arrival_and_the_next_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = StreamTime(5 * S, T0, 10)
    one, _, _, asked = reader(
        monkeypatch, [[wire("a", at=T0 + S), wire("b", at=T0)]], stream=stream
    )
    pulled = one.take(0)
    assert pulled is not None and pulled.ids == ["a", "b"] and not pulled.full
    assert [m.arrival for m in pulled.messages] == [15 * S, 5 * S]
    assert [m.id for m in pulled.messages] == ["id-a", "id-b"]
    assert len(one.leases) == 2 and len(asked) == 2 and one.take(0) is None


def test_big_messages_are_asked_for_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [[wire("a", bytes(8 << 20))] for _ in range(6)]
    one, _, _, asked = reader(monkeypatch, answers)
    while one.take(0):
        pass
    assert asked[0] == 100 and asked[-1] <= 2
    assert asked == sorted(asked, reverse=True)


def test_small_messages_are_asked_for_a_thousand_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [[wire("a", bytes(100))] for _ in range(8)]
    one, _, _, asked = reader(monkeypatch, answers)
    while one.take(0):
        pass
    assert asked[0] == 100 and asked[-1] == 1_000
    assert asked == sorted(asked)


def test_an_answer_that_is_too_large_is_asked_for_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    large = [Failure(grpc.StatusCode.RESOURCE_EXHAUSTED) for _ in range(8)]
    one, _, clock, asked = reader(monkeypatch, [*large, [wire("a", bytes(8 << 20))]])
    for _ in large:
        assert one.take(0) is None
        clock[0] += one.pause
    assert one.take(0) is not None
    assert asked[:8] == [100, 50, 25, 12, 6, 3, 2, 1]


def test_an_attribute_may_say_when_a_message_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    stamps = [
        "1700000000123",
        "2023-11-14T22:13:20.5Z",
        "junk",
        "2023-11-14T22:13:20",
        "9" * 40,
        "",
    ]
    answer = [wire(str(i), at=T0, sent=stamp) for i, stamp in enumerate(stamps)] + [wire("no")]
    one, *_ = reader(monkeypatch, [answer], timestamp="sent", ahead=S)
    pulled = one.take(0)
    assert pulled is not None
    assert [m.arrival - T0 for m in pulled.messages] == [123_000, S // 2, 0, 0, 0, 0, 0]
    assert read_stamp("-1") == -1000


def test_a_server_that_is_away_is_asked_again_ever_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gone = [Failure(grpc.StatusCode.UNAVAILABLE) for _ in range(9)]
    one, _, clock, asked = reader(monkeypatch, [*gone, [wire("a")]])
    pauses = []
    for _ in gone:
        assert one.take(0) is None
        pauses.append(one.pause)
        clock[0] += one.pause
    assert pauses == sorted(pauses) and pauses[0] < 0.5 and pauses[-1] == LONGEST_PAUSE
    assert one.frontier.is_held(one.wall()) and one.frontier.is_held(one.wall() + 4 * S)
    assert one.take(0) is not None and one.pause < 0.1
    assert len(caplog.records) == 4, "the 1st, 2nd, 4th and 8th"


def test_a_question_that_waited_in_vain_says_nothing_but_answers_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = [Failure(grpc.StatusCode.DEADLINE_EXCEEDED), [], []]
    one, _, clock, _ = reader(monkeypatch, answers)
    clock[0] += 20
    assert one.take(0) is None and one.reached() is None and one.pause < 0.1
    for _ in range(2):
        clock[0] += 1
        assert one.take(0) is None
    assert one.frontier.is_idle() and one.reached() == T0 + 20 * S + S // 2


def test_a_slow_server_is_not_a_silent_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is answered at all; then the short questions are, and at last one brings messages."""
    one, _, clock, _ = reader(monkeypatch, [], probes=[None])
    for _ in range(100):
        clock[0] += 0.5
        assert one.take(0) is None and one.reached() is None
    one, _, clock, _ = reader(monkeypatch, [], probes=[[]] * 6 + [[wire("a")]])
    clock[0] += 20
    found = []
    for _ in range(40):
        clock[0] += PROBE / 2
        found.append(one.take(0))
        one.begin(len(found))
    (pulled,) = [one for one in found if one]
    assert pulled.ids == ["a"] and one.reached() is not None


def test_a_short_question_holds_the_frontier_until_it_is_known_to_bring_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, _, clock, _ = reader(monkeypatch, [], probes=[None])
    clock[0] += 20
    one.frontier.answered(one.wall(), T0 + 19 * S + 9 * S // 10, False)
    assert one.take(0) is None and one._probe is not None
    held = T0 + 20 * S - S // 2
    clock[0] += 0.3
    assert one.reached() == held, "what it may bring was published half a second ago"
    one._probe.call.answer = [wire("a")]
    assert one.reached() == held, "it brings something, and nobody has taken that yet"
    one._probe.call.answer = []
    assert one.reached() == held + 3 * S // 10


def test_an_open_answer_goes_before_the_silence_of_a_short_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, _, _, _ = reader(monkeypatch, [None], probes=[[]])
    assert one.take(0) is None and one._probe is not None and one._open is not None
    one._open.call.answer = [wire("a", at=T0)]
    pulled = one.take(0)
    assert pulled is not None and pulled.ids == ["a"]
    assert one.frontier._idle_since is None


def test_turns_in_a_row_go_on_and_any_other_is_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    one, server, clock, _ = reader(monkeypatch, [[wire("a")], [wire("b")]])
    assert one.take(0) and len(one.leases) >= 1
    clock[0] += 60
    one.begin(1)
    assert not one.frontier.is_held(one.wall()) and not server.moved
    one.begin(1)  # a checkpoint took it back
    assert one.frontier.is_held(one.wall())
    assert "a" in server.moved[0][0] and server.moved[0][1] == 0


def test_a_reader_that_closes_gives_back_what_nobody_took(monkeypatch: pytest.MonkeyPatch) -> None:
    one, server, *_ = reader(monkeypatch, [[wire("a")], [wire("b")]])
    assert one.take(0)
    one.close()
    assert server.moved == [(["b"], 0)]


def test_turns() -> None:
    provider = TurnProvider()
    tracker = provider.create_tracker(provider.initial_restriction(0))
    assert tracker.try_claim(0) and tracker.try_split(0.5) is None
    with pytest.raises(ValueError, match="neither"):
        tracker.check_done()
    done, rest = tracker.try_split(0) or (None, None)
    assert rest == Turn(1, False) and done == Turn(0, True) and tracker.check_done()
    assert not tracker.try_claim(0) and tracker.try_split(0) is None
    last = TurnTracker(Turn(7, False))
    assert last.try_claim(None) and last.check_done() and last.try_split(0) is None
    assert not last.is_bounded() and provider.truncate(0, Turn(3, False)) is None
    coder = provider.restriction_coder()
    for turn in (Turn(0, False), Turn(2**40, True)):
        assert coder.decode(coder.encode(turn)) == turn
    assert pickle.loads(pickle.dumps(coder)) == coder


def test_a_reader_that_is_closed_while_it_waits_says_nothing_and_asks_no_more(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """By another thread, when its job ends."""
    one, _, _, asked = reader(monkeypatch, [])
    assert one.take(0) is None and one._open is not None

    def result(timeout: float) -> Any:
        one.close()
        raise grpc.FutureCancelledError

    monkeypatch.setattr(one._open.call, "result", result)
    assert one.take(0) is None and one.take(0) is None
    assert len(asked) == 1 and not one.is_well and not caplog.records
