"""Work on another core while what it gave before is used: the same values in the same order.

Arrow, numpy and the kernels release the lock of the interpreter, so a thread that decodes the next
batch costs the one that adds up the last nothing but its core. What is counted on the way is
counted where it is used: a runner knows the metrics of its own threads only.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import NamedTuple, TypeVar

from weir.transforms.runtime import counters

T = TypeVar("T")
R = TypeVar("R")

THREADS = 2
"""Values that ``in_turn`` makes at a time."""
HELD = 2
"""Values that ``ahead`` holds, next to the one that is used."""

_Work = Callable[[], None]
_idle: list[SimpleQueue[tuple[str, _Work]]] = []
"""Where threads that have nothing to do wait for some. A thread that ends gives memory
back that the system has to clear for the next one: a part of a file is read in 50 ms."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)


class _Made(NamedTuple):
    """A value; none behind the last one."""

    values: tuple[object, ...]
    counts: dict[str, int]
    error: BaseException | None = None


def ahead(items: Iterable[T]) -> Iterator[T]:
    """The items, each made by a thread while the one before is used; two are held at most.

    What raises there raises here, behind the items before it. Who stops early leaves no work.
    """
    queue: SimpleQueue[_Made] = SimpleQueue()
    room: SimpleQueue[None] = SimpleQueue()  # one for each that may be made
    for _ in range(HELD):
        room.put(None)
    stop, over = threading.Event(), False
    _in_thread("ahead", lambda: _make(items, queue, room, stop))
    try:
        while True:
            result = queue.get()
            over = not result.values
            for name, count in result.counts.items():
                counters.add(name, count)
            if result.error is not None:
                raise result.error
            if over:
                return
            room.put(None)
            yield from result.values  # type: ignore[misc]
            del result  # or it would live while the next is waited for
    finally:
        stop.set()
        room.put(None)
        while not over:
            over = not queue.get().values


def _in_thread(name: str, work: _Work) -> None:
    """Does work in a thread that has its name meanwhile."""
    try:
        waiting = _idle.pop()
    except IndexError:
        waiting = SimpleQueue()
        threading.Thread(target=_serve, args=(waiting,), daemon=True).start()
    waiting.put((name, work))


def _serve(waiting: SimpleQueue[tuple[str, _Work]]) -> None:
    while True:
        threading.current_thread().name, work = waiting.get()
        work()
        del work  # or it would live while the next is waited for
        _idle.append(waiting)


def _make(
    items: Iterable[object],
    built: SimpleQueue[_Made],
    room: SimpleQueue[None],
    stop: threading.Event,
) -> None:
    error: BaseException | None = None
    with counters.aside() as counts:
        try:
            source = iter(items)
            try:
                while not (room.get() or stop.is_set()):
                    values = (next(source),)
                    built.put(_Made(values, dict(counts)))
                    del values
                    counts.clear()
            except StopIteration:
                pass
            finally:
                close = getattr(source, "close", None)
                if close is not None:
                    close()
        except BaseException as found:
            error = found
        built.put(_Made((), dict(counts), error))


def in_turn(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """As ``map``, but ``work`` runs in threads, on ``THREADS`` items at a time.

    Results come in the order of the items, of which no more are taken than are worked on and one.
    What it counts is counted in those threads: only where no runner of Beam listens.
    """
    tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
    waiting: deque[Future[R]] = deque()
    workers = [Future[None]() for _ in range(THREADS)]
    for worker in workers:
        _in_thread("in-turn", partial(_work_off, tasks, worker))
    try:
        for item in items:
            waiting.append(Future())
            tasks.put(partial(_fulfil, waiting[-1], work, item))
            del item
            if len(waiting) > THREADS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
        for _ in workers:
            tasks.put(None)
        for worker in workers:
            worker.result()


def _work_off(tasks: SimpleQueue[Callable[[], None] | None], over: Future[None]) -> None:
    """Does tasks until there is None."""
    while (task := tasks.get()) is not None:
        task()
        del task  # or it would live while the next is waited for
    over.set_result(None)


def _fulfil(future: Future[R], work: Callable[[T], R], item: T) -> None:
    """Makes what is promised, unless nobody waits for it."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work(item))
    except BaseException as error:
        future.set_exception(error)
