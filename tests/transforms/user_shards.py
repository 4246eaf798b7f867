"""Events of users before ``CloseTicks`` itself, with cells, timers, crashes and no runner."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.timestamp import Timestamp

from tests.dpcore.users.cap_rule import CLOCK, Case, Cell, Event, Found
from tests.transforms.cells import Bag, One
from tests.transforms.doubles import CountSum
from weir.dpcore.users.cells import CapKeys, user_hashes
from weir.dpcore.users.unit import ContributionBounds, Periods, UserUnit
from weir.transforms.beam import heartbeat
from weir.transforms.beam.bound_users import CloseTicks
from weir.transforms.columns.names import UNIT_HIGH, UNIT_LOW
from weir.transforms.operators import closed_rows
from weir.transforms.operators.hash_partition import hashed
from weir.transforms.operators.user_cells import BAGS, UserCaches
from weir.transforms.operators.users import encode, prepared

LAYOUT = "cd" * 32


class Plan(NamedTuple):
    """What Cap reads of a plan."""

    person: UserUnit
    clock: Any = CLOCK
    program: Any = CountSum()
    digest: str = "ab" * 32
    layout: str = LAYOUT


@dataclass(frozen=True)
class Active(CountSum):
    """As CountSum; how long ago each user came is remembered for ``gaps`` ticks."""

    gaps: int = 0

    @property
    def reads_gaps(self) -> int:
        return self.gaps


def plan_of(caps: ContributionBounds, ticks: int, gaps: int = 0) -> Plan:
    return Plan(UserUnit(caps, Periods(CLOCK, ticks * CLOCK.period)), program=Active(gaps=gaps))


def batch_of(events: Sequence[Event], plan: Plan, keys: CapKeys) -> pa.RecordBatch:
    """As ToUsers makes it; the position of an event is its place."""
    ticks = np.array([event.tick for event in events], dtype=np.int64)
    times = pa.array(CLOCK.start + ticks * CLOCK.period).cast(pa.timestamp("us", tz="UTC"))
    users = [event.user for event in events]
    batch = pa.RecordBatch.from_pydict(
        {
            "@unit": pa.array(users),
            "@key": pa.array([event.key for event in events]).dictionary_encode(),
            "@id": pa.array([event.id for event in events], pa.string()),
            "@time": times,
            "@tick": pa.array(ticks),
            "@position": pa.array(np.arange(len(events))),
            "v": pa.array([event.payload for event in events], pa.float64()),
        }
    )
    named = hashed(batch, "@unit", (UNIT_HIGH, UNIT_LOW), user_hashes(users, keys).hashes)
    return prepared(
        named.append_column("who", batch.column("@unit")),
        plan,
        keys,
    )


class Timer:
    """One timer without a tag, as Beam's."""

    def __init__(self) -> None:
        self.time: Timestamp | None = None

    def set(self, time: Timestamp) -> None:
        self.time = time


class Shard:
    """What a runner stores of one shard."""

    def __init__(self) -> None:
        self.closed, self.users, self.pairs, self.seen = One(), One(), One(), One()
        self.users_log, self.pairs_log, self.seen_log = Bag(), Bag(), Bag()
        self.waiting = [Bag() for _ in range(BAGS)]
        self.gone = [Bag() for _ in range(closed_rows.BAGS)]
        self.timer = Timer()

    def waits(self) -> dict[str, Any]:
        bags = {f"waiting_{place}": bag for place, bag in enumerate(self.waiting)}
        bags |= {f"gone_{place}": bag for place, bag in enumerate(self.gone)}
        return {"closed": self.closed, **bags, "timer": self.timer}

    def cells(self) -> dict[str, Any]:
        spent = {"users": self.users, "users_log": self.users_log}
        spent |= {"pairs": self.pairs, "pairs_log": self.pairs_log}
        return {**self.waits(), **spent, "seen": self.seen, "seen_log": self.seen_log}

    @property
    def is_clear(self) -> bool:
        """Whether nothing of any user is remembered."""
        logs = [*self.users_log.values, *self.pairs_log.values]
        return not (self.users.values or self.pairs.values or logs)


class UserShards:
    """``CloseTicks`` over so many shards. Time is what ``advance`` says."""

    def __init__(
        self, case: Case, shards: int, bounded: bool = False, early: int = 0, gaps: int = 0
    ) -> None:
        self.plan, self.keys = plan_of(case.caps, case.ticks, gaps), case.keys
        self.dofn = CloseTicks(self.plan, shards, bounded, early)  # type: ignore[arg-type]
        self.dofn.setup()
        self.stored = {shard: Shard() for shard in range(shards)}
        self.found: Found = {}
        self.gaps: dict[Cell, int] = {}
        self.overdue: list[int] = []

    def bundle(self, events: Sequence[Event]) -> None:
        """Events that come together."""
        if not events:
            return
        whole = batch_of(events, self.plan, self.keys)
        of = whole.column(UNIT_LOW).to_numpy() % len(self.stored)
        for number in np.unique(of).tolist():
            data = encode(whole.filter(pa.array(of == number)), bytes.fromhex(LAYOUT))
            for out in self.dofn.process((number, data), **self.stored[number].waits()):
                assert isinstance(out, TaggedOutput)
                self.overdue += out.value.column("position").to_pylist()

    def announce(self, last: int) -> None:
        """A heartbeat to every shard."""
        for number, shard in self.stored.items():
            assert not list(self.dofn.process((number, heartbeat.encode(last)), **shard.waits()))

    def advance(self, tick: int) -> None:
        """The watermark reaches the start of a tick; timers fire until none is due."""
        now = Timestamp(micros=CLOCK.tick_start(tick))
        for number, shard in self.stored.items():
            while shard.timer.time is not None and shard.timer.time <= now:
                fired, shard.timer.time = shard.timer.time, None
                for batch in self.dofn.on_close(number, fired, **shard.cells()):
                    self.take(batch)

    def take(self, batch: pa.RecordBatch) -> None:
        cells: dict[int, list[dict[str, Any]]] = {}
        for row in batch.to_pylist():
            assert not cells or row["@cell"] in (max(cells), max(cells) + 1)
            cells.setdefault(row["@cell"], []).append(row)
        for rows in cells.values():
            (where,) = {(row["who"], row["@tick"], row["@key"]) for row in rows}
            (new,) = {row["@new"] for row in rows}
            if "@gap" in rows[0]:
                (self.gaps[where],) = {row["@gap"] for row in rows}
            assert where not in self.found
            payloads = sorted((row["v"] for row in rows), key=repr)
            self.found[where] = (new, tuple((None, v) for v in payloads))

    def restart(self, same_process: bool) -> None:
        """As after a crash: state comes from a checkpoint."""
        self.stored = copy.deepcopy(self.stored)
        if not same_process:
            self.dofn._shelves = UserCaches.of(f"another {id(self)} {random.random()}")


def without_ids(found: Found) -> Found:
    """Ids leave the stage: payloads tell events apart."""
    return {
        cell: (new, tuple((None, v) for v in sorted((v for _, v in said), key=repr)))
        for cell, (new, said) in found.items()
    }
