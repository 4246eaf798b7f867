"""Work on another core while what it gave before is used: the same values in the same order.

Arrow, numpy and the kernels release the lock of the interpreter, so a thread that decodes the next
batch costs the one that adds up the last nothing but its core. What is counted on the way is
counted where it is used: a runner knows the metrics of its own threads only.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from transforms.runtime import counters

T = TypeVar("T")
R = TypeVar("R")

THREADS = 2
"""Values that ``in_turn`` makes at a time."""


class _Made(NamedTuple):
    values: tuple[object, ...]
    counts: dict[str, int]
    error: BaseException | None
    over: bool


def ahead(items: Iterable[T]) -> Iterator[T]:
    """The items, each made by a thread while the one before is used; two are held at most.

    What raises there raises here, behind the items before it. Who stops early leaves no thread.
    """
    made: queue.Queue[_Made] = queue.Queue(maxsize=1)
    stop = threading.Event()
    thread = threading.Thread(target=_make, args=(items, made, stop), daemon=True, name="ahead")
    thread.start()
    try:
        while True:
            found = made.get()
            for name, count in found.counts.items():
                counters.add(name, count)
            if found.error is not None:
                raise found.error
            if found.over:
                return
            yield from found.values  # type: ignore[misc]
            del found  # or it would live while the next is waited for
    finally:
        stop.set()
        while thread.is_alive():
            try:
                made.get(timeout=0.01)
            except queue.Empty:
                continue
        thread.join()


def _make(items: Iterable[object], made: queue.Queue[_Made], stop: threading.Event) -> None:
    with counters.aside() as counts:
        source = iter(items)
        while not stop.is_set():
            values: tuple[object, ...] = ()
            error, over = None, False
            try:
                values = (next(source),)
            except StopIteration:
                over = True
            except BaseException as found:
                error = found
            made.put(_Made(values, dict(counts), error, over))
            counts.clear()
            if error is not None or over:
                return
        close = getattr(source, "close", None)
        if close is not None:
            close()


def in_turn(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """As ``map``, but ``work`` runs in threads, on ``THREADS`` items at a time. It counts nothing.

    Results come in the order of the items, of which no more are taken than are worked on and one.
    """
    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="in-turn")
    waiting: deque[Future[R]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            del item
            if len(waiting) > THREADS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
        pool.shutdown(wait=True)
