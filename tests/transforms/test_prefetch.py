"""Work on other cores: the same values in the same order, and nothing left behind."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from weir.transforms.runtime import counters
from weir.transforms.runtime.prefetch import THREADS, _idle, ahead, in_turn


def _ours() -> list[str]:
    """Threads that work, or that nobody can give work to."""
    deadline = time.monotonic() + 5  # one is free a little later than its last value is here
    while True:
        found = [t.name for t in threading.enumerate() if t.name.startswith(("ahead", "in-turn"))]
        if len(found) == len(_idle) or time.monotonic() > deadline:
            return found[len(_idle) :]
        time.sleep(0.001)


def test_gives_what_it_was_given_in_order() -> None:
    assert list(ahead(range(50))) == list(range(50))
    assert list(ahead([])) == []
    assert _ours() == []


def test_makes_one_while_another_is_used_and_no_more() -> None:
    made: list[int] = []

    def source() -> Iterator[int]:
        for i in range(10):
            made.append(i)
            yield i

    found = ahead(source())
    assert next(found) == 0
    deadline = time.monotonic() + 5
    while len(made) < 3 and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.02)
    assert made == [0, 1, 2]
    assert list(found) == list(range(1, 10))


def test_raises_behind_the_items_before() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise KeyError("a")

    found = ahead(source())
    assert next(found) == 1
    with pytest.raises(KeyError):
        next(found)
    assert _ours() == []


def test_leaves_no_work_where_the_user_stops_and_closes_the_source() -> None:
    closed: list[bool] = []

    def source() -> Iterator[int]:
        try:
            yield from range(1000)
        finally:
            closed.append(True)

    found = ahead(source())
    assert next(found) == 0
    found.close()  # type: ignore[attr-defined]
    assert _ours() == [] and closed == [True]


def test_uses_the_threads_that_are_there() -> None:
    names = set()

    def source() -> Iterator[int]:
        names.add(threading.get_ident())
        yield from range(3)

    assert list(ahead(source())) == [0, 1, 2]
    assert _ours() == []
    there = len(_idle)
    for _ in range(20):
        assert list(ahead(source())) == [0, 1, 2]
        assert _ours() == []
    assert len(_idle) == there > 0
    at_once = [ahead(source()) for _ in range(5)]
    assert [next(found) for found in at_once] == [0] * 5
    assert [list(found) for found in at_once] == [[1, 2]] * 5
    assert _ours() == [] and len(names) <= len(_idle) <= there + 4


@pytest.mark.slow
def test_a_child_process_has_threads_of_its_own() -> None:
    program = (
        "import os, signal; from weir.transforms.runtime.prefetch import _idle, ahead\n"
        "assert list(ahead(range(3))) == [0, 1, 2]\n"
        "while not _idle: pass\n"
        "signal.alarm(30)\n"
        "child = os.fork()\n"
        "if not child: os._exit(list(ahead(range(3))) != [0, 1, 2])\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_counts_where_it_is_used() -> None:
    threads: list[str] = []

    def source() -> Iterator[int]:
        counters.add("bytes", 3)
        threads.append(threading.current_thread().name)
        yield 1
        counters.add("bytes", 4)

    counters.reset()
    found = ahead(source())
    time.sleep(0.05)
    assert counters.snapshot() == {}  # held, until this thread asks
    assert list(found) == [1]
    assert counters.snapshot() == {"bytes": 7}
    assert threads == ["ahead"]
    counters.reset()


def test_works_in_turn() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for i in range(20):
            taken.append(i)
            yield i

    def work(i: int) -> int:
        time.sleep(0.002 * (i % 3))
        return i * i

    found = in_turn(work, items())
    assert next(found) == 0
    assert len(taken) == THREADS + 1
    assert list(found) == [i * i for i in range(1, 20)]
    stopped = in_turn(work, range(20))
    next(stopped)
    stopped.close()  # type: ignore[attr-defined]
    assert _ours() == []


def test_what_works_in_turn_raises_in_its_place() -> None:
    def work(i: int) -> int:
        return 1 // (2 - i)

    found = in_turn(work, range(5))
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        next(found)
    assert _ours() == []
