"""What does a tick write, and what does it cost, against keys and the longest window?

    python -m benchmarks.state_written      # in this process (1 min)

Ticks one by one, an event for each key in each, a count and a sum over everything so far and over a
window, mechanism as the plan chooses it. Per key and tick: bytes that Tick writes into its cells,
and the processor time of reading, stepping and storing a block, of which the stepping alone stands
beside it. The peer, in the same run, is a build that keeps a block in one cell and rewrites it:
the same state packed whole, and read back. Then the same with nothing at hand, as in a worker whose
memory is full. Writes benchmarks/results/state_written.csv.
"""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Any

import numpy as np

from tests.transforms.blocks import Block, bytes_of
from weir.dpcore.arrays import arrays_of
from weir.dpcore.plan import Plan
from weir.transforms.leaves import partial
from weir.transforms.leaves.partial import PartialLeaf
from weir.transforms.runtime.coders import pack, pack_names, restore, unpack
from weir.transforms.runtime.secret import SecretRef
from weir.transforms.tick import cells
from weir.transforms.tick.noise_source import KeyedNoiseSource

RESULTS = Path(__file__).parent / "results"
CONFIG = """\
name: written
schema: {{time: at}}
key: {{column: store, declared: [{keys}]}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1s}}
privacy: {{epsilon: 1.0, delta: 1e-6, protect_for: 3600}}
aggregates:
  visits: {{count: events, over: [all{window}]}}
  paid: {{sum: amount, clip: [0, 50]}}
blocks: {blocks}
"""
SIZES = ((24, 4, 60), (1_000, 4, 60), (1_000, 4, 0), (1_000, 4, 600), (10_000, 16, 60))
"""(keys, blocks, longest window in ticks or 0)."""
WARM, TICKS = 70, 200


def leaf_of(plan: Plan, keys: int, tick: int) -> bytes:
    """An event for each key."""
    rows = np.arange(keys)
    ones = np.ones(keys, dtype=np.int64)
    values = np.tile(np.arange(1, plan.program.dimension + 1), (keys, 1))
    return partial.encode(PartialLeaf(tick * ones, rows, ones, values, ()))


class Peer:
    """A block in one cell, rewritten at every tick."""

    def __init__(self, block: Block) -> None:
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
    names = ", ".join(f"k{i:05d}" for i in range(keys))
    more = f", {window}" if window else ""
    plan = Plan.from_yaml(CONFIG.format(keys=names, window=more, blocks=blocks))
    noise = KeyedNoiseSource(SecretRef.fresh(), plan.name, plan.digest)
    every = [Block(plan, noise, block=i, forgets=forgets) for i in plan.keys.live_blocks]
    peers = [Peer(block) for block in every]
    written = rewritten = 0
    spent = stepping = peer = 0.0
    for tick in range(WARM + TICKS):
        measured = tick >= WARM
        for number, block in enumerate(every):
            leaf = leaf_of(plan, len(plan.keys.block_keys(plan.keys.live_blocks[number])), tick)
            before = {data for cell in bytes_of(block.cells).values() for data in cell}
            began = time.process_time()
            strides = block.advance([leaf], tick, tick + 1)
            next(strides)
            stepped = time.process_time()
            for _ in strides:
                pass
            ended = time.process_time()
            peers[number].again()
            if measured:
                after = [data for cell in bytes_of(block.cells).values() for data in cell]
                written += sum(len(data) for data in after if data not in before)
                rewritten += len(peers[number].cell)
                spent += ended - began
                stepping += stepped - began
                peer += time.process_time() - ended
    steps = keys * TICKS
    stored = sum(len(x) for block in every for cell in bytes_of(block.cells).values() for x in cell)
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
    rows = [measure(*size, forgets) for size in SIZES for forgets in (False, True)]
    for row in rows:
        print(row)
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / "state_written.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
