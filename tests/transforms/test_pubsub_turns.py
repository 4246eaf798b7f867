"""One turn of a reader: how long it lasts, and what watermark it leaves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from apache_beam.utils.timestamp import Duration, Timestamp

from weir.dpcore.leaves.clock import Clock
from weir.transforms.beam.pubsub import source
from weir.transforms.beam.pubsub.drain import CUT, TEST, DrainWatch
from weir.transforms.beam.pubsub.leases import Confirmations
from weir.transforms.beam.pubsub.messages import MessageDecoder, Subscription
from weir.transforms.beam.pubsub.source import PullDoFn
from weir.transforms.beam.pubsub.watermark import BACKLOG
from weir.transforms.beam.turns import BEYOND, GIVE_UP, LEEWAY, LONG_TURN, STEP, TURN, WAIT
from weir.transforms.decode.schema import EventSchema, Stamp

S = 1_000_000
T0 = 1_700_000_000 * S


class Reader:
    """One that nothing comes to, and which gets worse after so many questions."""

    def __init__(self, at: int | None, well_for: int) -> None:
        self.at, self.asked, self._well_for = at, 0, well_for
        self.wall_seconds = 0.0
        self.pause = 0.05
        self.frontier = SimpleNamespace(is_held=lambda _: False, is_idle=lambda: True)
        self.confirmations = Confirmations(lambda *_: None, later=False)
        self.leases: list[str] = []

    def begin(self, turn: int) -> None:
        """Any is as good."""

    def take(self, wait: float) -> None:
        self.asked += 1
        self.wall_seconds += wait

    @property
    def is_well(self) -> bool:
        return self.asked < self._well_for

    def wall(self) -> int:
        return T0 + int(self.wall_seconds * S)

    def reached(self) -> int | None:
        return self.at


class Tracker:
    """What a turn calls of one."""

    def __init__(self) -> None:
        self.ended, self.waits = False, list[float]()

    def current_restriction(self) -> Any:
        return SimpleNamespace(number=0)

    def try_claim(self, position: object) -> bool:
        self.ended |= position is None
        return True

    def defer_remainder(self, wait: Duration) -> None:
        self.waits.append(wait.micros / 1e6)


class Watermark:
    """What a turn calls of one."""

    def __init__(self) -> None:
        self.at: Timestamp | None = None

    def current_watermark(self) -> Timestamp | None:
        return self.at

    def set_watermark(self, at: Timestamp) -> None:
        self.at = at


def turn(
    monkeypatch: pytest.MonkeyPatch,
    clock: Clock,
    at: int | None = None,
    well_for: int = 1 << 30,
    held: tuple[str, ...] = (),
) -> tuple[Reader, Tracker, Timestamp | None]:
    """One turn at which nothing comes. ``held``: what earlier turns pulled."""
    reader, tracker, watermark = Reader(at, well_for), Tracker(), Watermark()
    reader.leases += held
    seconds = SimpleNamespace(monotonic=lambda: reader.wall_seconds)
    monkeypatch.setattr(source, "time", seconds)
    monkeypatch.setattr(PullDoFn, "readers", SimpleNamespace(reader=lambda *_: reader))
    decoder = MessageDecoder("ndjson", EventSchema.build(Stamp("t")), "s", 1 << 20)
    finalizer = SimpleNamespace(register=lambda _: None)
    found = PullDoFn(Subscription("s"), decoder, clock).process("0", finalizer, tracker, watermark)
    assert not list(found)
    return reader, tracker, watermark.at


@pytest.mark.parametrize(
    ("period", "seconds"),
    [(S // 8, WAIT), (S, TURN), (50 * S, 1.0), (100 * S, LONG_TURN), (86_400 * S, LONG_TURN)],
)
def test_a_turn_at_which_nothing_comes_is_long_where_ticks_are(
    monkeypatch: pytest.MonkeyPatch, period: int, seconds: float
) -> None:
    """And the next begins at once, so that hardly a tick ends between two."""
    reader, tracker, _ = turn(monkeypatch, Clock(T0, period))
    assert reader.wall_seconds == pytest.approx(seconds, abs=0.06)
    assert tracker.waits == [0.0 if period >= S else 0.05]
    assert not tracker.ended and TURN < LONG_TURN


def test_a_turn_ends_with_a_tick_whose_release_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a tick that lasts a hundred seconds the end is told at once, not at the end of a turn."""

    def reached(self: Reader) -> int:
        return T0 + 99 * S + 500_000 + int(self.wall_seconds * 1e6)

    monkeypatch.setattr(Reader, "reached", reached)
    reader, _, watermark = turn(monkeypatch, Clock(T0, 100 * S))
    assert reader.wall_seconds == pytest.approx(0.5, abs=STEP + 1e-6) and LONG_TURN > 0.6
    assert watermark is not None and watermark >= Timestamp(micros=T0 + 100 * S + BEYOND)


def test_a_turn_ends_when_the_server_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, tracker, _ = turn(monkeypatch, Clock(T0, 86_400 * S), well_for=3)
    assert reader.asked == 3 and tracker.waits == [0.05]


@pytest.mark.parametrize(
    ("past", "told"),
    [
        (5 * S, 5 * S),
        (6 * S - 2001, 6 * S - 3000),
        (6 * S - 2000, 6 * S - 4000),
        (6 * S - 1, 6 * S - 3000),
        (6 * S, 6 * S),
        (7 * S // 2 + 999, 7 * S // 2),
        (-S, 0),
        (999, 0),
    ],
)
def test_no_watermark_lies_within_the_last_two_milliseconds_of_a_tick(
    monkeypatch: pytest.MonkeyPatch, past: int, told: int
) -> None:
    """A timer that is set a millisecond early must not fire before its tick is over."""
    clock = Clock(T0, S, delay=3 * S)
    _, _, watermark = turn(monkeypatch, clock, T0 + 3 * S + past)
    assert watermark == Timestamp(micros=T0 + told)


def test_of_a_reader_that_knows_nothing_the_watermark_is_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert turn(monkeypatch, Clock(T0, S))[2] == Timestamp(micros=T0)


def test_a_reader_ends_only_after_a_turn_has_told_that_the_clock_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(T0, S, end=T0 + 3 * S)
    _, tracker, watermark = turn(monkeypatch, clock, T0 + 60 * S)
    assert watermark == Timestamp(micros=T0 + 60 * S) and tracker.waits and not tracker.ended
    monkeypatch.setattr(Watermark, "current_watermark", lambda self: Timestamp(micros=T0 + 60 * S))
    _, tracker, _ = turn(monkeypatch, clock, T0 + 60 * S)
    assert tracker.ended and not tracker.waits
    _, tracker, _ = turn(monkeypatch, clock, T0 + 60 * S, held=("a",))
    assert not tracker.ended, "what it has read is not acknowledged yet"
    _, tracker, _ = turn(monkeypatch, clock, T0 + 3 * S + BACKLOG, held=("a",))
    assert tracker.ended, "a minute is enough"


class Drain:
    """A job that is being drained, and a reader that is ``behind`` at its begin."""

    def __init__(self, behind: int, well_for: int = 1 << 30) -> None:
        self.reader = Reader(T0 - behind, well_for)
        self.watch = DrainWatch(True, lambda: self.reader.wall_seconds)
        decoder = MessageDecoder("ndjson", EventSchema.build(Stamp("t")), "s", 1 << 20)
        self._pull = PullDoFn(Subscription("s"), decoder, Clock(T0 - 100 * S, S), flink=True)
        while self.watch._cut < CUT:
            self.watch.drains()
            self.watch.wait(TEST)

    def is_over(self, seconds: float, reads: int = 0) -> bool:
        """Whether the next turn is the last, after so many seconds with ``reads`` more read."""
        self.reader.wall_seconds += seconds
        self.watch._ended = self.reader.wall_seconds
        assert self.reader.at is not None
        self.reader.at += reads
        over = self._pull._is_drained(self.watch, self.reader)
        self.watch.wait(TEST)
        return over


def test_a_drain_reads_what_had_come_when_it_was_noticed() -> None:
    """Else the last announced tick would be released without the events of a backlog."""
    drain = Drain(behind=20 * S)
    assert not drain.is_over(0.1) and not drain.is_over(30.0, 10 * S)
    assert not drain.is_over(0.1, LEEWAY + 10 * S - 1) and drain.is_over(0.1, 1 + S // 10)


def test_a_drain_gives_up_a_server_that_stays_away() -> None:
    well, away = Drain(behind=20 * S), Drain(behind=20 * S, well_for=0)
    for drain in (well, away):
        assert not drain.is_over(0.1) and not drain.is_over(GIVE_UP / S - 1)
    assert not well.is_over(2.0) and away.is_over(2.0)


def test_a_reader_goes_on_where_a_wait_is_kept_after_all() -> None:
    drain = Drain(behind=0)
    assert not drain.is_over(0.1)
    drain.reader.wall_seconds += 2 * TEST
    assert not drain._pull._is_drained(drain.watch, drain.reader) and drain.watch.began is None
