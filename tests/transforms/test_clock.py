from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.utils.timestamp import Timestamp

from tests.transforms.doubles import MINUTE, START
from tests.transforms.running import KEPT, keep
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.clock import Clock
from weir.transforms.beam import heartbeat, heartbeats
from weir.transforms.beam.heartbeats import Follow, Heartbeats, TickProvider
from weir.transforms.beam.pubsub.drain import CUT, DRAIN_WATCHES, MOST_PATIENCE, TEST
from weir.transforms.runtime.stream_time import PRESENT, StreamTime

ENDLESS = Clock(START, MINUTE)
ENDING = Clock(START, MINUTE, START + 10 * MINUTE)


def test_bounded_input_is_announced_at_once_to_every_block() -> None:
    pipeline = beam.Pipeline(runner=FnApiRunner())
    token = keep(pipeline | Heartbeats((0, 3), ENDING, bounded=True), "beats")
    pipeline.run().wait_until_finish()
    assert {block: heartbeat.decode(data) for block, data in KEPT.pop(token)} == {0: 9, 3: 9}


def test_bounded_input_needs_an_end() -> None:
    with pytest.raises(ConfigError, match=r"clock\.end is needed"):
        Heartbeats((0,), ENDLESS, bounded=True)
    Heartbeats((0,), ENDLESS, bounded=False)


class View:
    """What a DoFn sees of its tracker; remembers whether the rest was put off."""

    def __init__(self, restriction: OffsetRange) -> None:
        self.tracker = OffsetRestrictionTracker(restriction)
        self.deferred: Any = None

    def current_restriction(self) -> OffsetRange:
        return self.tracker.current_restriction()

    def try_claim(self, position: int) -> bool:
        return self.tracker.try_claim(position)

    def defer_remainder(self, wait: Any) -> None:
        self.deferred = wait


class Watermark:
    at: Any = None

    def set_watermark(self, at: Any) -> None:
        self.at = at


class Finalizer:
    def register(self, callback: Callable[[], None]) -> None:
        assert callable(callback)


def look(follow: Follow, start: int, stop: int) -> tuple[list[Any], View, Watermark]:
    view, watermark = View(OffsetRange(start, stop)), Watermark()
    return list(follow.process(stop, Finalizer(), view, watermark)), view, watermark


def wall(tick: float, clock_: Clock = ENDLESS) -> Callable[[], float]:
    return lambda: (clock_.start + tick * clock_.period) / 1e6


def test_a_tick_is_announced_when_it_is_over_and_not_before() -> None:
    out, view, watermark = look(Follow((0, 1), ENDLESS, wall(0.5)), 0, heartbeats.FOREVER)
    assert out == [] and view.deferred is not None
    assert watermark.at == Timestamp(micros=START)
    out, view, watermark = look(Follow((0, 1), ENDLESS, wall(1.2)), 0, heartbeats.FOREVER)
    assert [(e.value[0], heartbeat.decode(e.value[1])) for e in out] == [(0, 0), (1, 0)]
    assert watermark.at == Timestamp(micros=START + MINUTE)
    for element in out:
        assert Timestamp(micros=START) <= element.timestamp < watermark.at


def test_the_delay_is_waited_for() -> None:
    late = Clock(START, MINUTE, None, MINUTE)
    assert look(Follow((0,), late, wall(1.5)), 0, heartbeats.FOREVER)[0] == []
    assert len(look(Follow((0,), late, wall(2.5)), 0, heartbeats.FOREVER)[0]) == 1


def test_a_job_that_starts_behind_catches_up_with_one_heartbeat() -> None:
    out, view, watermark = look(Follow((0,), ENDLESS, wall(525_600.5)), 0, heartbeats.FOREVER)
    assert [heartbeat.decode(e.value[1]) for e in out] == [525_599]
    assert watermark.at == Timestamp(micros=ENDLESS.tick_start(525_600))
    assert view.deferred is not None and view.tracker.try_claim(525_600)


def test_a_clock_that_ends_stops_and_is_done() -> None:
    out, view, watermark = look(Follow((0,), ENDING, wall(50, ENDING)), 4, 10)
    assert [heartbeat.decode(e.value[1]) for e in out] == [9]
    view.tracker.check_done()
    assert view.deferred is None
    assert watermark.at == Timestamp(micros=START + 10 * MINUTE)


def test_a_job_that_starts_before_its_clock_waits() -> None:
    out, view, watermark = look(Follow((0,), ENDLESS, wall(-3)), 0, heartbeats.FOREVER)
    assert out == [] and watermark.at == Timestamp(micros=START) and float(view.deferred) <= 1


def test_a_replay_runs_the_clock_at_its_speed() -> None:
    started = 1_700_000_000_000_000
    replay = StreamTime(origin=START, started=started, speed=60)
    late = Clock(START, MINUTE, None, MINUTE)
    for clock_, seconds, announced in ((ENDLESS, 2.5, 1), (late, 2.5, 0), (ENDLESS, 0.5, -1)):
        follow = Follow((0,), clock_, lambda s=seconds: started / 1e6 + s, replay)
        out, view, watermark = look(follow, 0, heartbeats.FOREVER)
        assert [heartbeat.decode(e.value[1]) for e in out] == [announced] * (announced >= 0)
        assert watermark.at == Timestamp(micros=clock_.tick_start(announced + 1))
        assert float(view.deferred) == pytest.approx(0.5, abs=1e-3)


def test_stream_time_maps_there_and_back() -> None:
    for one in (PRESENT, StreamTime(START, 5 * MINUTE, 24), StreamTime(START, 7, 1.0)):
        for wall_time in (0, 5 * MINUTE, 10**15):
            assert abs(one.wall(one.at(wall_time)) - wall_time) <= 1
    assert StreamTime(START, 10**15, 24).at(10**15 + 1_000_000) == START + 24_000_000
    assert PRESENT.at(123) == 123
    with pytest.raises(ConfigError, match="speed"):
        StreamTime(speed=0)


def test_a_drain_announces_nothing_more() -> None:
    assert TickProvider().truncate(10, OffsetRange(3, 10)) is None


def test_a_drain_that_nobody_tells_of_announces_nothing_more() -> None:
    follow = Follow((0,), ENDLESS, wall(0.5), hidden_drain=True)
    waits = []
    for round_ in range(CUT + 1):
        DRAIN_WATCHES.of(follow._run, True)._safe -= MOST_PATIENCE  # nothing was safe for long
        out, view, _ = look(follow, 0, heartbeats.FOREVER)
        assert out == []
        if round_ < CUT:
            waits.append(float(view.deferred))
    assert min(waits) >= TEST
    assert view.deferred is None
    view.tracker.check_done()


def test_on_flink_naps_are_whole_seconds_and_end_before_the_tick_does() -> None:
    for left, nap in ((59.5, 30.05), (20.9, 19.05), (3.0, 2.05), (2.9, 1.0), (0.4, 0.4)):
        follow = Follow((0,), ENDLESS, wall(1 - left / 60), hidden_drain=True)
        _, view, _ = look(follow, 0, heartbeats.FOREVER)
        assert float(view.deferred) == pytest.approx(nap, abs=1e-3)


def test_following_a_clock_that_is_over_on_a_runner() -> None:
    pipeline = beam.Pipeline(runner=FnApiRunner())
    token = keep(pipeline | Heartbeats((0, 1), ENDING, bounded=False), "beats")
    pipeline.run().wait_until_finish()
    assert sorted((b, heartbeat.decode(data)) for b, data in KEPT.pop(token)) == [(0, 9), (1, 9)]
