from __future__ import annotations

import math

import numpy as np
import pytest

from weir.transforms.beam.pubsub.drain import CUT, LOST, MOST_PATIENCE, PATIENCE, TEST, DrainWatch


class Wall:
    at = 100.0

    def __call__(self) -> float:
        return self.at


class Calls:
    """Calls an element as Flink does: whole seconds of a wait are kept, but in a drain."""

    def __init__(self, watching: bool = True) -> None:
        self.wall = Wall()
        self.watch = DrainWatch(watching, self.wall)
        self.tests = 0
        self._asked = 0.0

    def run(self, seconds: float, draining: bool = False, safe: float = math.inf) -> float:
        """Calls every 40 ms; a bundle is safe every ``safe`` s.

        Returns:
          After how many seconds the element ended; inf if it did not.
        """
        start = last = self.wall.at
        while self.wall.at < start + seconds:
            self.wall.at += 0.04 if draining else max(0.04, math.floor(self._asked))
            if self.watch.drains():
                return self.wall.at - start
            self._asked = self.watch.wait(0.9)
            self.tests += self._asked == TEST
            if self.wall.at - last >= safe:
                self.watch.safe()
                last = self.wall.at
        return math.inf


@pytest.mark.slow
def test_where_bundles_are_safe_in_time_there_are_few_tests_and_early_ones() -> None:
    calls = Calls()
    assert calls.run(60, safe=10) == math.inf
    assert calls.tests >= 2
    assert calls.run(100_000, safe=10) == math.inf
    assert calls.tests <= 3


@pytest.mark.slow
def test_a_drain_is_noticed_soon() -> None:
    for life, safe, limit in ((1, math.inf, 4), (100, 5, 9), (10_000, 10, 17), (10_000, 300, 513)):
        calls = Calls()
        assert calls.run(life, safe=safe) == math.inf
        assert calls.run(10_000, draining=True) < limit


@pytest.mark.slow
def test_where_nothing_is_ever_safe_tests_cost_little_and_end_nothing() -> None:
    calls = Calls()
    assert calls.run(100_000) == math.inf
    assert calls.tests < 10 + 100_000 / MOST_PATIENCE
    assert calls.run(10_000, draining=True) < MOST_PATIENCE + 1


def test_a_wall_clock_that_jumps_ends_nothing() -> None:
    calls = Calls()
    for _ in range(5):
        calls.run(2 * MOST_PATIENCE)
        while calls.watch.wait(0.0) != TEST:
            calls.wall.at += 0.04
            assert not calls.watch.drains()
        for _ in range(CUT - 1):  # cut by the jump, and tested again at once
            calls.wall.at += 0.04
            assert not calls.watch.drains()
            assert calls.watch.wait(0.0) == TEST
        for _ in range(CUT):
            calls.wall.at += 1.0
            assert not calls.watch.drains()
            calls.watch.wait(0.0)
        assert not calls.watch.suspects


@pytest.mark.slow
def test_a_drain_is_noticed_on_a_machine_that_calls_late() -> None:
    random = np.random.default_rng(5)
    for _ in range(100):
        calls = Calls()
        assert calls.run(20, safe=2) == math.inf
        start, noticed = calls.wall.at, math.inf
        while calls.wall.at < start + 100:
            calls.wall.at += random.choice([0.1, 0.1, 0.3, 0.6])
            drains = calls.watch.drains()
            assert drains or noticed == math.inf, "forgotten"
            noticed = min(noticed, calls.wall.at - start) if drains else noticed
            calls.watch.wait(0.0)
        assert noticed < 10


@pytest.mark.parametrize(("gap", "calls_until"), [(1.0, CUT), (LOST, 1)])
@pytest.mark.parametrize("more", [0, 20])
def test_a_drain_that_is_over_is_forgotten(gap: float, calls_until: int, more: int) -> None:
    """At once where the job went back to a checkpoint; else when as many waits were kept."""
    calls = Calls()
    assert calls.run(100, draining=True) < math.inf
    for _ in range(more):
        calls.watch.wait(0.0)
        calls.wall.at += 0.04
        assert calls.watch.drains()
    number = 0
    while calls.watch.drains():
        assert calls.watch.wait(0.0) == TEST
        calls.wall.at += gap
        number += 1
    assert number == calls_until * (2 if more and gap < LOST else 1)


def test_a_longer_wait_is_not_shortened_by_a_test() -> None:
    calls = Calls()
    calls.wall.at += PATIENCE
    assert calls.watch.wait(5.0) == 5.0
    calls.wall.at += 5.0
    assert not calls.watch.drains()


def test_nothing_is_watched_where_drains_are_told() -> None:
    calls = Calls(watching=False)
    assert calls.run(1000, draining=True) == math.inf
    assert calls.tests == 0


def test_where_short_waits_are_kept_one_that_is_cut_is_suspected_and_a_drain_noticed_at_once() -> (
    None
):
    calls = Calls()
    for _ in range(3):
        assert calls.watch.wait(0.9) == 0.9
        calls.wall.at += 0.9
        assert not calls.watch.drains() and not calls.watch.suspects
    calls.watch.wait(0.9)
    for number in range(CUT + 1):
        calls.wall.at += 0.04
        assert calls.watch.drains() == (number == CUT)
        assert calls.watch.suspects
        assert calls.watch.wait(0.001) == TEST


def test_what_was_suspected_is_over_when_a_wait_is_kept() -> None:
    calls = Calls()
    for kept in (True, False):
        calls.watch.wait(0.9)
        calls.wall.at += 0.9 if kept else 0.04
        assert not calls.watch.drains()
    assert calls.watch.suspects and calls.watch.wait(0.001) == TEST
    calls.wall.at += TEST
    assert not calls.watch.drains() and not calls.watch.suspects
    assert calls.watch.wait(0.5) == 0.5


def test_where_short_waits_are_never_kept_none_is_suspected() -> None:
    calls = Calls()
    for _ in range(50):
        calls.watch.wait(0.9)
        calls.wall.at += 0.04
        assert not calls.watch.drains() and not calls.watch.suspects
