"""How much state does a tick store and write, against keys, protection window and time?

    python -m benchmarks.studies.state      # in this process (75 s)

``state_size``: the stored bytes of Tick per key, over keys, protect_for and the number of ticks
gone by, for a count with `over: [all, 7]` and a sum, mechanism as the plan chooses it. They must be
flat in time: `against_a_tenth` compares the end with the tenth part.

``state_written``: ticks one by one, an event for each key in each, a count and a sum over
everything so far and over a window. Per key and tick: bytes that Tick writes into its cells, and
the processor time of reading, stepping and storing a block, of which the stepping alone stands next
to it. The peer is a build that keeps a block in one cell and rewrites it: the same state packed
whole, and read back. Then the same with nothing at hand, as in a worker whose memory is full.

Run on 2026-11-22: sizes at 39abb4c, what is written at c864dbb.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import write_rows
from benchmarks.studies.cells import TickBlock
from weir.dpcore.arrays import arrays_of
from weir.dpcore.plan import Plan
from weir.transforms.operators import block_cells as cells
from weir.transforms.operators import partial_sums as partial
from weir.transforms.operators.noise_source import KeyedNoiseSource
from weir.transforms.operators.partial_sums import PartialLeaf
from weir.transforms.runtime.codec import pack, pack_names, restore, unpack
from weir.transforms.runtime.secret import SecretRef

RESULTS = Path(__file__).parent / "results"
CONFIG = """\
name: state
schema: {{time: at}}
key: {{column: store, declared: [{keys}]}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1s}}
privacy: {{epsilon: 1.0, delta: 1e-6, protect_for: {protected} ticks}}
aggregates:
  visits: {{count: events, over: [all{window}]}}
  paid: {{sum: amount, clip: [0, 50]}}
{more}
"""
STORED = (
    *((keys, 256, 10_000) for keys in (1, 10, 100, 1_000)),
    (10_000, 256, 1_000),
    *((100, protected, 10_000) for protected in (16, 64, 1_024, 4_096, 16_384)),
)
"""(keys, protect_for, ticks)."""
WRITTEN = ((24, 4, 60), (1_000, 4, 60), (1_000, 4, 0), (1_000, 4, 600), (10_000, 16, 60))
"""(keys, blocks, longest window in ticks or 0)."""
WARM, TICKS = 70, 200


def plan_of(keys: int, protected: int, window: int, more: str = "") -> Plan:
    """A plan of so many declared keys."""
    names, spans = ", ".join(f"k{i:05d}" for i in range(keys)), f", {window}" if window else ""
    return Plan.from_yaml(CONFIG.format(keys=names, protected=protected, window=spans, more=more))


def blocks_of(plan: Plan, every: int, forgets: bool = False) -> list[TickBlock]:
    """All blocks that have keys."""
    noise = KeyedNoiseSource(SecretRef.fresh(), plan.name, plan.digest)
    return [TickBlock(plan, noise, block, every, forgets) for block in plan.keys.live_blocks]


def sizes(keys: int, protected: int, ticks: int) -> Iterator[dict[str, Any]]:
    """Bytes stored in all blocks, at a few moments."""
    blocks, first, found = blocks_of(plan_of(keys, protected, 7), 1 << 20), 0, {}
    moments = sorted({10, 100, 1_000, ticks // 10, ticks})
    for stop in (moment for moment in moments if moment <= ticks):
        for block in blocks:
            for _ in block.advance([], first, stop):
                pass
        first = stop
        found[stop] = sum(len(data) for block in blocks for data in block.stored())
    for gone, size in found.items():
        yield {
            "keys": keys,
            "window": protected,
            "ticks": gone,
            "bytes": size,
            "bytes_per_key": round(size / keys, 1),
            "against_a_tenth": round(found[ticks] / found[ticks // 10], 4),
        }


def leaf_of(plan: Plan, keys: int, tick: int) -> bytes:
    """An event for each key."""
    rows = np.arange(keys)
    ones = np.ones(keys, dtype=np.int64)
    values = np.tile(np.arange(1, plan.program.dimension + 1), (keys, 1))
    return partial.encode(PartialLeaf(tick * ones, rows, ones, values, ()))


class Peer:
    """A block in one cell, rewritten at every tick."""

    def __init__(self, block: TickBlock) -> None:
        self._block, self.cell = block, b""

    def again(self) -> None:
        """What storing and reading the state of a block costs."""
        content = self._block.state.content
        template = cells.init(self._block.plan.program, 1)
        arrays = [*pack_names(content.keys), *arrays_of(content.state)]
        self.cell = pack(b"M", arrays)
        restore(template, unpack(b"M", self.cell)[2:])


def measure(keys: int, blocks: int, window: int, forgets: bool) -> dict[str, Any]:
    """One size."""
    plan = plan_of(keys, 3600, window, f"blocks: {blocks}")
    every = blocks_of(plan, 128, forgets)
    peers = [Peer(block) for block in every]
    written = rewritten = 0
    spent = stepping = peer = 0.0
    for tick in range(WARM + TICKS):
        measured = tick >= WARM
        for number, block in enumerate(every):
            leaf = leaf_of(plan, len(plan.keys.block_keys(plan.keys.live_blocks[number])), tick)
            before = set(block.stored())
            began = time.process_time()
            strides = block.advance([leaf], tick, tick + 1)
            next(strides)
            stepped = time.process_time()
            for _ in strides:
                pass
            ended = time.process_time()
            peers[number].again()
            if measured:
                written += sum(len(data) for data in block.stored() if data not in before)
                rewritten += len(peers[number].cell)
                spent += ended - began
                stepping += stepped - began
                peer += time.process_time() - ended
    steps = keys * TICKS
    stored = sum(len(data) for block in every for data in block.stored())
    return {
        "keys": keys,
        "blocks": blocks,
        "window": window,
        "at_hand": not forgets,
        "written_bytes": round(written / steps, 1),
        "peer_written_bytes": round(rewritten / steps, 1),
        "stored_bytes": round(stored / keys, 1),
        "read_and_step_us": round(stepping / steps * 1e6, 3),
        "store_us": round((spent - stepping) / steps * 1e6, 3),
        "peer_store_and_read_us": round(peer / steps * 1e6, 3),
    }


def main() -> None:
    """Measures and writes."""
    for name, rows in (
        ("state_size", (row for size in STORED for row in sizes(*size))),
        ("state_written", (measure(*size, how) for size in WRITTEN for how in (False, True))),
    ):
        found = []
        for row in rows:
            found.append(row)
            print(row, flush=True)
            write_rows(RESULTS / f"{name}.csv", found)


if __name__ == "__main__":
    main()
