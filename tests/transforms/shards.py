"""A stream of ids before ``DropSeen`` itself, with cells, timers, crashes and no runner."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from weir.dpcore.leaves.clock import Clock
from weir.transforms.beam.deduplicate import DropSeen, prepare
from weir.transforms.beam.elements import to_timestamp
from weir.transforms.columns.names import LOW
from weir.transforms.operators.state_cache import StateCache
from weir.transforms.operators.timed_cells import RING, width_of
from weir.transforms.runtime.codec import batch_to_bytes

CLOCK = Clock(start=1_600_000_000_000_000, period=1_000_000)
LAYOUT = "cd" * 32
Event = tuple[int, int]
"""(id, tick)."""


class Value:
    """A cell of one value, which counts the bytes that it moves."""

    def __init__(self) -> None:
        self.value: bytes | None = None
        self.moved = 0

    def read(self) -> bytes | None:
        self.moved += len(self.value or b"")
        return self.value

    def write(self, value: bytes) -> None:
        self.moved += len(value)
        self.value = value

    def clear(self) -> None:
        self.value = None


class Bag:
    """A cell that is appended to, which counts the bytes that it moves, and its readings."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.moved = self.readings = 0

    def read(self) -> list[bytes]:
        self.moved += sum(map(len, self.values))
        self.readings += 1
        return list(self.values)

    def add(self, value: bytes) -> None:
        self.moved += len(value)
        self.values.append(value)

    def clear(self) -> None:
        self.values = []


class Shard:
    """What a runner stores of one shard."""

    def __init__(self) -> None:
        self.head = Value()
        self.ring = [Bag() for _ in range(RING)]
        self.timers: dict[str, Any] = {}

    def set(self, time: Any, dynamic_timer_tag: str = "") -> None:
        """As the timer of Beam's."""
        self.timers[dynamic_timer_tag] = time

    def cells(self) -> dict[str, Any]:
        slices = {f"slice_{place}": bag for place, bag in enumerate(self.ring)}
        return {"head": self.head, **slices, "timer": self}


class Shards:
    """``DropSeen`` over so many shards. Time is what ``advance`` says."""

    def __init__(self, shards: int, horizon: int | None) -> None:
        self.dofn = DropSeen(CLOCK, horizon, LAYOUT, shards, False)
        self.dofn.setup()
        self.count = shards
        self.stored: dict[int, Shard] = {}

    def bundle(self, events: Sequence[Event], first: int = 0) -> list[int]:
        """Positions that count of a bundle; that of its first event is ``first``."""
        whole = batch_of(events, first)
        of = whole.column(LOW).to_numpy() % self.count
        counted: list[int] = []
        for number in np.unique(of).tolist():
            data = batch_to_bytes(whole.filter(pa.array(of == number)))
            shard = self.stored.setdefault(number, Shard())
            for found in self.dofn.process((number, data), **shard.cells()):
                if not isinstance(found, TaggedOutput):
                    counted += found.column("@position").to_pylist()
        return sorted(counted)

    def advance(self, tick: int) -> None:
        """The watermark reaches the start of a tick."""
        now = to_timestamp(CLOCK.tick_start(tick))
        for number, shard in self.stored.items():
            while due := [tag for tag, time in shard.timers.items() if time <= now]:
                tag = min(due, key=lambda tag: shard.timers[tag])
                time = shard.timers.pop(tag)
                self.dofn.on_forget(number, time, **shard.cells())

    def checkpoint(self) -> dict[int, Shard]:
        return copy.deepcopy(self.stored)

    def restore(self, stored: dict[int, Shard], same_process: bool) -> None:
        """As after a crash, in this process or in another."""
        self.stored = copy.deepcopy(stored)
        if not same_process:
            self.dofn._shelf = StateCache()

    def bags(self) -> Iterable[Bag]:
        return (bag for shard in self.stored.values() for bag in shard.ring)

    @property
    def moved(self) -> int:
        """Bytes that went to and from the state."""
        values = sum(shard.head.moved for shard in self.stored.values())
        return values + sum(bag.moved for bag in self.bags())


def hashes_of(ids: Any) -> np.ndarray:
    """(n, 2) words that look like keyed hashes, the same for each id."""
    words = np.zeros((len(ids), 2), dtype=np.uint64)
    for place, seed in enumerate((0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)):
        mixed = (np.asarray(ids, dtype=np.uint64) + np.uint64(1)) * np.uint64(seed)
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        words[:, place] = mixed ^ (mixed >> np.uint64(32))
    return words


def batch_of(events: Sequence[Event], first: int = 0) -> pa.RecordBatch:
    """A batch as ToShards makes it."""
    ids, ticks = zip(*events, strict=True)
    columns = [
        pa.array(ids),
        pa.array(ticks, pa.int64()),
        pa.array(np.arange(first, first + len(ids))),
    ]
    batch = pa.RecordBatch.from_arrays(columns, ["@id", "@tick", "@position"])
    return prepare(batch, hashes_of(ids))


class OneId:
    """The rule, spelt out for one id alone: nothing in it knows of other ids or of shards."""

    def __init__(self, horizon: int | None) -> None:
        self.horizon, self.width = horizon, width_of(horizon)
        self.last: int | None = None

    def bundle(self, ticks: Sequence[int]) -> int | None:
        """Which of the copies in a bundle counts."""
        first = int(np.argmin(ticks))
        if self.last is not None and (
            self.horizon is None or ticks[first] <= self.last + self.horizon
        ):
            return None
        self.last = ticks[first]
        return first

    def advance(self, tick: int) -> None:
        """Forgets by the public clock and its own tick."""
        if self.horizon is not None and self.last is not None:
            end = (self.last // self.width + 1) * self.width
            if tick >= end + self.horizon:
                self.last = None


class Alone:
    """Ids of a stream, each decided by itself."""

    def __init__(self, horizon: int | None) -> None:
        self.horizon = horizon
        self.ids: dict[int, OneId] = {}

    def bundle(self, events: Sequence[Event], first: int = 0) -> list[int]:
        places: dict[int, list[int]] = {}
        for place, (name, _) in enumerate(events):
            places.setdefault(name, []).append(place)
        counted = []
        for name, mine in places.items():
            one = self.ids.setdefault(name, OneId(self.horizon))
            chosen = one.bundle([events[place][1] for place in mine])
            if chosen is not None:
                counted.append(first + mine[chosen])
        return sorted(counted)

    def advance(self, tick: int) -> None:
        for one in self.ids.values():
            one.advance(tick)
