"""What does a bundle of events cost against the ids that are remembered already?

    python -m benchmarks.studies.remembered_ids [--most 50]     # millions of ids; 5 minutes, 5 GB

``DropSeen`` with its state in this process, horizon a day in ticks of a second, filled to so many
ids that the day is full: seconds of this process for a bundle of new ids, of which one in a hundred
is a copy; bytes that the bundle moves to and from the state; what is stored and what memory holds,
per id; and seconds to read everything again, as after a start. Next to it, in the same run, the
form
of the version before: one cell a shard, rewritten with every bundle (measured on one of its eight
shards, all of which a bundle touches). Without a runner, whose own cost for each shard that a
bundle touches comes on top. Writes benchmarks/studies/results/remembered_ids.csv.

Unit costs, on two cores that others kept busy, for who reckons with more ids than fit here:
0.25 ms a shard that a bundle touches; 1.0 us an event in bundles of 50,000, 2 to 5 us in those of
2,000 (in eight shards; of what grows with the ids that are remembered there is the logarithm, and
memory that no cache holds: twice from 1 to 50 million); 18 bytes an id stored, 24 in memory; 80 ns
an id to read all again. The form before: 40 ns an id that is remembered, with every bundle. So 10^9
ids, that is 9,000 to 11,000 events a second over a day, in 64 shards on 8 workers: of each, 3.0 GB
of memory, 2.3 GB of state, 10 s after a start, and with a bundle a second 2 ms for its shards and
7 ms for its events. The form before would take 40 s for each bundle, in eight shards at most.

Run on 2026-11-22 at 18bc576.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.harness import write_rows
from benchmarks.studies.cells import IdShard
from weir.dpcore.leaves.clock import Clock
from weir.transforms.beam.deduplicate import DropSeen, prepare
from weir.transforms.columns.names import HIGH, LOW
from weir.transforms.operators.seen_ids import sort_hashes
from weir.transforms.operators.state_cache import StateCache
from weir.transforms.runtime.codec import batch_from_bytes, batch_to_bytes, pack, unpack

RESULTS = Path(__file__).parent / "results"
CLOCK = Clock(start=1_600_000_000_000_000, period=1_000_000)
LAYOUT = "cd" * 32
DAY = 86_400
"""Ticks of a second."""
OLD_SHARDS = 8
SHARDS = (8, 64, 256)
BUNDLES = (500, 2_000, 50_000)
FILL = 1 << 19
"""Ids that are filled in at a time."""
COPIES = 100
"""One new event in so many is a copy of one that was seen."""
Words = NDArray[np.uint64]


def hashes(rng: np.random.Generator, n: int) -> Words:
    """(n, 2) random words."""
    return rng.integers(0, 1 << 64, (n, 2), dtype=np.uint64)


def elements(words: Words, tick: int, shards: int) -> list[tuple[int, bytes]]:
    """What ToShards sends of so many events."""
    n = len(words)
    names = ["@id", "@tick", "@position", "amount"]
    columns = [np.zeros(n), np.full(n, tick), np.arange(n), np.ones(n)]
    batch = prepare(pa.RecordBatch.from_arrays([pa.array(c) for c in columns], names), words)
    of = words[:, 1] % np.uint64(shards)
    spread = batch.take(pa.array(np.argsort(of, kind="stable")))
    edges = np.searchsorted(np.sort(of), np.arange(shards + 1)).tolist()
    parts = zip(edges, edges[1:], strict=False)
    return [
        (shard, batch_to_bytes(spread.slice(low, high - low)))
        for shard, (low, high) in enumerate(parts)
        if low < high
    ]


class Sliced:
    """The set in slices."""

    def __init__(self, shards: int) -> None:
        self.shards, self.stored = shards, [IdShard() for _ in range(shards)]
        self.dofn = DropSeen(CLOCK, DAY, LAYOUT, shards, False)
        self.dofn.setup()

    def take(self, sent: Sequence[tuple[int, bytes]]) -> None:
        """Runs what was sent."""
        for shard, data in sent:
            for _ in self.dofn.process((shard, data), **self.stored[shard].cells()):
                pass

    @property
    def moved(self) -> int:
        """Bytes to and from the state so far."""
        return sum(shard.head.moved + sum(bag.moved for bag in shard.ring) for shard in self.stored)

    @property
    def bytes_stored(self) -> int:
        """Bytes of the state."""
        return sum(shard.head.size + sum(bag.size for bag in shard.ring) for shard in self.stored)

    @property
    def bytes_in_memory(self) -> int:
        """Bytes at hand."""
        shelf = self.dofn._shelf
        assert shelf is not None
        return sum(kept.value.known.nbytes for kept in shelf._kept.values())

    def start_again(self) -> None:
        """As a worker that has just come."""
        self.dofn._shelf = StateCache()


class OneCell:
    """One of the shards of the version before: sorted arrays in one cell, rewritten each time."""

    def __init__(self, ids: int, rng: np.random.Generator) -> None:
        words = hashes(rng, ids)
        words = words[np.argsort(words[:, 0])]
        self.cell = pack(b"D", [words[:, 0], words[:, 1], rng.integers(0, DAY, ids)])

    def take(self, data: bytes) -> None:
        """One read, a merge, one write."""
        batch = batch_from_bytes(data)
        high, low = batch.column(HIGH).to_numpy(), batch.column(LOW).to_numpy()
        known = unpack(b"D", self.cell)
        order = sort_hashes(high, low)
        new = [high[order], low[order], batch.column("@tick").to_numpy()[order]]
        whole = [np.concatenate(pair) for pair in zip(known, new, strict=True)]
        merged = np.argsort(whole[0], kind="stable")
        twice = whole[0][merged[1:]] == whole[0][merged[:-1]]
        kept = merged[np.concatenate([[True], ~twice])] if twice.any() else merged
        self.cell = pack(b"D", [array[kept] for array in whole])


def bundles(rng: np.random.Generator, n: int, count: int, seen: Words) -> Iterator[Words]:
    """Hashes of new events, some of them copies."""
    for _ in range(count):
        words = hashes(rng, n)
        copies = n // COPIES
        words[:copies] = seen[rng.integers(0, len(seen), copies)]
        yield words


def measure(ids: int) -> Iterator[dict[str, Any]]:
    """One row a form and a size of bundles."""
    rng = np.random.default_rng(7)
    for shards in SHARDS:
        world, seen = Sliced(shards), hashes(rng, 1)
        for first in range(0, ids, FILL):
            n = min(FILL, ids - first)
            words = hashes(rng, n)
            seen = np.concatenate([seen, words[: 1 + n // 50]])
            world.take(elements(words, first * DAY // ids, shards))
        row = {
            "form": "slices",
            "shards": shards,
            "millions_remembered": ids // 1_000_000,
            "stored_bytes_per_id": round(world.bytes_stored / ids, 1),
            "memory_bytes_per_id": round(world.bytes_in_memory / ids, 1),
        }
        for n in BUNDLES:
            sent = [elements(words, DAY, shards) for words in bundles(rng, n, 12, seen)]
            world.take(sent[0])
            before, began = world.moved, time.process_time()
            for one in sent[1:]:
                world.take(one)
            spent = (time.process_time() - began) / (len(sent) - 1)
            moved = (world.moved - before) / (len(sent) - 1)
            yield row | told(n, spent, moved)
        world.start_again()
        again, began = elements(seen[:1000], DAY, shards), time.process_time()
        world.take(again)
        yield row | told(1000, time.process_time() - began, 0) | {"form": "slices, read again"}
    for n in BUNDLES:
        old = OneCell(ids // OLD_SHARDS, rng)
        (_, data), *_ = elements(hashes(rng, n // OLD_SHARDS), DAY, 1)
        began = time.process_time()
        for _ in range(3):
            old.take(data)
        spent = (time.process_time() - began) / 3 * OLD_SHARDS
        row = {"form": "one cell", "shards": OLD_SHARDS, "millions_remembered": ids // 1_000_000}
        row |= {"stored_bytes_per_id": 24.0, "memory_bytes_per_id": 0.0}
        yield row | told(n, spent, 2 * 24 * ids)


def told(n: int, spent: float, moved: float) -> dict[str, Any]:
    """What a bundle took."""
    return {
        "bundle": n,
        "ms_per_bundle": round(1e3 * spent, 2),
        "us_per_event": round(1e6 * spent / n, 3),
        "kb_moved_per_bundle": round(moved / 1e3, 1),
    }


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--most", type=int, default=50, help="millions of ids")
    most = parser.parse_args().most
    rows = []
    for millions in sorted({m for m in (1, 10, most) if m <= most}):
        for row in measure(millions * 1_000_000):
            rows.append(row)
            print(row, flush=True)
    write_rows(RESULTS / "remembered_ids.csv", rows)


if __name__ == "__main__":
    main()
