"""What this process has at hand, so that a bundle need not read what is remembered.

Stored state is the truth: what is kept here is taken only under the very bytes that stand in a
small cell of the state and name the rest of it (``operators.timed_cells``). Anyone who lost a
bundle, a worker or a race finds other bytes and reads the state again.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakValueDictionary

IDLE = 900.0
"""Seconds after which what nobody asked for is let go: its shard is another worker's now."""
T = TypeVar("T")


class _Kept(NamedTuple, Generic[T]):
    name: bytes
    value: T
    used: float
    size: int


class StateCache(Generic[T]):
    """Values of one step of one job, by shard. Threads share it: a value is never changed.

    Args:
      now: seconds, of a clock that never goes back.
      room: bytes of values, as their sizes say; one that no room is left for is not kept. Anyone
      who
        is in stays in: with the oldest put out, a round of all shards would find none.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic, room: float = math.inf) -> None:
        self._now, self._room, self._taken = now, room, 0
        self._lock = threading.RLock()
        self._kept: dict[int, _Kept[T]] = {}
        self._swept = now()

    @classmethod
    def of(cls, run: str, room: float = math.inf) -> StateCache[T]:
        """The shelf of a run in this process, for as long as somebody holds it."""
        return _SHELVES.setdefault(run, cls(room=room))

    def get(self, shard: int, name: bytes) -> T | None:
        """What is kept of a shard, if it is of that name."""
        with self._lock:
            retained = self._kept.get(shard)
            if retained is None or retained.name != name:
                return None
            self._kept[shard] = retained._replace(used=self._now())
            return retained.value

    def put(self, shard: int, name: bytes, value: T, size: int = 0) -> None:
        """Keeps a value in place of the one that was there, if there is room for it."""
        now = self._now()
        with self._lock:
            self.drop(shard)
            if self._taken + size <= self._room:
                self._kept[shard] = _Kept(name, value, now, size)
                self._taken += size
            if now - self._swept > IDLE:
                self._swept = now
                for place, item in list(self._kept.items()):
                    if now - item.used > IDLE:
                        self.drop(place)

    def drop(self, shard: int) -> None:
        """Lets a value go."""
        with self._lock:
            retained = self._kept.pop(shard, None)
            self._taken -= 0 if retained is None else retained.size

    def __len__(self) -> int:
        """Shards of which something is kept."""
        return len(self._kept)


_SHELVES: WeakValueDictionary[str, StateCache[Any]] = WeakValueDictionary()
