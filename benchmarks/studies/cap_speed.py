"""What do contribution bounds cost an event, next to dropping copies of ids, and a user who is
remembered?

    python -m benchmarks.studies.cap_speed [--events 1000000]     # 2 minutes, 1 GB

First: events a second of this process from record batches with users and ids to those that count,
through ``ToUsers`` and ``CloseTicks``, and the same batches through ``ToShards`` and ``DropSeen``,
which they stand in place of: in bundles of 50,000, eight shards and ten ticks, 100,000 users of
50 keys. Then: bytes stored and in memory of 1 and of 10 million users with six keys each, and
seconds that a shard of them takes to close a tick with 1,000 events, and to read all again as after
a start. Of 64 shards one is filled, since all are alike. Without a runner, whose own cost for each
shard comes on top. Writes benchmarks/studies/results/cap_speed.csv.

Run on 2026-11-22 at 93d89da.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.timestamp import Timestamp

from benchmarks.harness import write_rows
from benchmarks.studies.cells import IdShard, UserShard
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.leaves.hash_sets import Entries, sort_hashes
from weir.dpcore.program import NOTHING
from weir.dpcore.users.cap import PAIR_NOTES, USER_NOTES, CappedCells
from weir.dpcore.users.unit import ContributionBounds, Periods, UserUnit
from weir.transforms.beam import heartbeat
from weir.transforms.beam.bound_users import CloseTicks, ToUsers
from weir.transforms.beam.deduplicate import DropSeen, ToShards
from weir.transforms.operators.user_cells import SpentCells, UserCaches
from weir.transforms.runtime.secret import SecretRef

RESULTS = Path(__file__).parent / "results"
CLOCK, LAYOUT = Clock(0, 1_000_000), "cd" * 32


class Program(NamedTuple):
    """What the step reads of a program."""

    columns: tuple[str, ...] = ("v",)
    leaf: str = "sums"
    reads_new: bool = True
    reads_gaps: int = 0
    texts: Mapping[str, Any] = NOTHING


class Plan(NamedTuple):
    """What the step reads of a plan."""

    person: UserUnit
    clock: Clock = CLOCK
    program: Any = Program()
    digest: str = "ab" * 32
    layout: str = LAYOUT


PLAN: Any = Plan(
    UserUnit(ContributionBounds(ticks=8, keys=3, events=5, ticks_per_key=4), Periods(CLOCK, None))
)
BUNDLE, TICKS, SHARDS, ONE_OF = 50_000, 10, 8, 64
USERS, KEYS, OF_A_USER = 100_000, 50, 6


class Row(NamedTuple):
    """What was measured. ``value``: of what ``unit`` says."""

    what: str
    users: int
    value: float
    unit: str


def batches(n: int, seed: int = 1) -> Iterator[pa.RecordBatch]:
    """Bundles in order of time; one event in a hundred is a copy of the one before it."""
    rng = np.random.default_rng(seed)
    for at in range(0, n, BUNDLE):
        size = min(BUNDLE, n - at)
        number = np.arange(at, at + size) - (rng.random(size) < 0.01)
        users = rng.integers(0, USERS, size)
        yield batch_of(users, number, rng.integers(0, KEYS, size), at * TICKS // n, at)


def batch_of(users: Any, ids: Any, keys: Any, tick: int, first: int = 0) -> pa.RecordBatch:
    """Events of one tick, of users, ids and keys by their numbers."""
    ticks = np.full(len(users), tick)
    times = pa.array(CLOCK.start + ticks * CLOCK.period).cast(pa.timestamp("us", tz="UTC"))
    names = pa.array([f"k{i}" for i in range(KEYS)])
    return pa.RecordBatch.from_pydict(
        {
            "@unit": pa.array([f"user-{i}" for i in users.tolist()]),
            "@id": pa.array([f"event-{i:012d}" for i in ids.tolist()]),
            "@key": names.take(pa.array(keys)).dictionary_encode(),
            "@time": times,
            "@tick": pa.array(ticks),
            "@position": pa.array(np.arange(first, first + len(users))),
            "v": pa.array(np.ones(len(users))),
        }
    )


def spread(dofn: Any, batch: pa.RecordBatch) -> Iterator[tuple[int, bytes]]:
    """A bundle of the step before the shards."""
    dofn.start_bundle()
    found = [*dofn.process(batch, Timestamp(0)), *dofn.finish_bundle()]
    for one in found:
        value = one.value if isinstance(one, TaggedOutput) else one
        if isinstance(value, tuple):
            yield value
        elif hasattr(value, "value"):
            yield value.value


def deduplicated(given: list[pa.RecordBatch]) -> int:
    """Events that count by their ids."""
    first = ToShards(SecretRef.fresh(), LAYOUT, SHARDS)
    second = DropSeen(CLOCK, None, LAYOUT, SHARDS, False)
    first.setup()
    second.setup()
    stored, kept = {shard: IdShard() for shard in range(SHARDS)}, 0
    for batch in given:
        for shard, data in spread(first, batch.drop_columns(["@unit"])):
            for out in second.process((shard, data), **stored[shard].cells()):
                kept += 0 if isinstance(out, TaggedOutput) else out.num_rows
    return kept


def capped(given: list[pa.RecordBatch]) -> int:
    """Events that count by the caps of their users."""
    first = ToUsers(SecretRef.fresh(), PLAN, SHARDS)
    second = CloseTicks(PLAN, SHARDS, bounded=False)
    first.setup()
    second.setup()
    stored, kept = {shard: UserShard() for shard in range(SHARDS)}, 0
    for tick, bundles in itertools.groupby(given, lambda batch: batch["@tick"][0].as_py()):
        for batch in bundles:
            for shard, data in spread(first, batch):
                list(second.process((shard, data), **stored[shard].waits()))
        for shard, cells in stored.items():
            list(second.process((shard, heartbeat.encode(tick)), **cells.waits()))
            end = Timestamp(micros=CLOCK.tick_start(tick + 1))
            kept += sum(out.num_rows for out in second.on_close(shard, end, **cells.cells()))
    return kept


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of this process, and the result."""
    began = time.process_time()
    found = work()
    return time.process_time() - began, found


def entries(rng: np.random.Generator, n: int, notes: int) -> Entries:
    """So many of random hashes, sorted."""
    words = rng.integers(0, 1 << 64, (n, 2), dtype=np.uint64)
    words = words[sort_hashes(words[:, 0], words[:, 1])]
    noted = np.ones((n, notes), dtype=np.uint32)
    return Entries(words[:, 0], words[:, 1], np.zeros(n, dtype=np.int64), noted)


def remembered(users: int) -> Iterator[Row]:
    """A shard of ``ONE_OF`` with its part of so many users."""
    rng, mine = np.random.default_rng(2), users // ONE_OF
    dofn = CloseTicks(PLAN, ONE_OF, bounded=False)
    dofn.setup()
    shard, layout = UserShard(), bytes.fromhex(LAYOUT)
    assert dofn._shelves is not None
    logs = (
        (shard.users, shard.users_log),
        (shard.pairs, shard.pairs_log),
        (shard.seen, shard.seen_log),
    )
    spent = SpentCells(0, ONE_OF, layout, *logs, dofn._shelves)
    nothing = np.zeros(0, dtype=np.int8), np.zeros(0, dtype=bool), 0
    people, pairs = entries(rng, mine, USER_NOTES), entries(rng, OF_A_USER * mine, PAIR_NOTES)
    spent.write(CappedCells(*nothing, people, pairs), 0)
    held = spent.spent(0)
    yield Row("in memory", users, (held.users.nbytes + held.pairs.nbytes) / mine, "bytes a user")
    stored = [cell.values for cell in (shard.users_log, shard.pairs_log)]
    bytes_ = sum(len(data) for values in stored for data in values)
    yield Row("stored", users, bytes_ / mine, "bytes a user")
    sent = ToUsers(SecretRef.fresh(), PLAN, 1)
    sent.setup()
    for what in ("close of 1,000 events", "the same, with all read again"):
        if "again" in what:
            dofn._shelves = UserCaches.of("another")
        tick = 1 if what.startswith("close") else 2
        numbers = np.arange(1000)
        for element in spread(sent, batch_of(numbers, numbers, numbers * 0, tick)):
            list(dofn.process(element, **shard.waits()))
        list(dofn.process((0, heartbeat.encode(tick)), **shard.waits()))
        end = Timestamp(micros=CLOCK.tick_start(tick + 1))
        seconds, _ = timed(lambda end=end: list(dofn.on_close(0, end, **shard.cells())))
        yield Row(what, users, seconds * 1e3, "ms a shard")


def main() -> None:
    """Prints and writes what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    n = parser.parse_args().events
    given = list(batches(n))
    rows = []
    for what, work in (("Deduplicate", deduplicated), ("Cap", capped)):
        seconds, kept = timed(lambda work=work: work(given))
        rows.append(Row(what, USERS, n / seconds, "events a second"))
        print(f"{what}: {n / seconds:,.0f} events/s, {kept:,} of {n:,} count")
    rows.append(Row("Cap / Deduplicate", USERS, rows[0].value / rows[1].value, "times as long"))
    for users in (1_000_000, 10_000_000):
        rows += remembered(users)
    for row in rows:
        print(f"{row.what:32} {row.users:>12,} users {row.value:>14,.2f} {row.unit}")
    write_rows(RESULTS / "cap_speed.csv", [row._asdict() for row in rows])


if __name__ == "__main__":
    main()
