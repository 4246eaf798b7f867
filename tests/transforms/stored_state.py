"""Jobs whose stored state is kept as files: every later version of the code must read it.

``python -m tests.transforms.stored_state`` writes what is missing.
"""

from __future__ import annotations

import hashlib
import json
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.transforms.blocks import Block, bytes_of
from tests.transforms.cells import Bag, One
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.plan import Plan
from weir.transforms.operators import partial_rows as row_leaf
from weir.transforms.operators import partial_sums as partial
from weir.transforms.operators.block_cells import Cells
from weir.transforms.operators.partial_sums import PartialLeaf

FOLDER = Path(__file__).parent / "stored"
STOPPED, END = 40, 60
SECRET = bytes(range(32))

PLANS = {
    "sums": """
name: stored
version: 1
schema: {time: t, id: i}
key: {column: k, declared: [a, b, c]}
clock: {start: 2024-01-01T00:00:00Z, period: 1m, end: 2024-01-01T01:00:00Z}
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: 16 ticks}
aggregates:
  visits: {count: events, over: [all, 5]}
  paid: {sum: v, clip: [0, 10]}
mechanism: {continual_sum: %s}
""",
    "learner": """
name: stored
version: 1
schema: {time: t}
key: {column: k, observed_keys_are_public: true}
clock: {start: 2024-01-01T00:00:00Z, period: 1m, end: 2024-01-01T01:00:00Z}
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: all}
model: {algorithm: online.pocg, features: [x], target: y, ranges: {x: [0, 1], y: [0, 1]}, cap: 3}
""",
}
JOBS = {
    **{f"sums-{name}": PLANS["sums"] % name for name in ("tree", "window_tree", "blt")},
    "sums-past": (PLANS["sums"] % "blt").replace("over: [all, 5]", "over: [all, 20]"),
    "learner": PLANS["learner"],
}


def plan_of(name: str) -> Plan:
    """The plan of a stored job."""
    return Plan.from_yaml(JOBS[name])


def leaves_of(plan: Any) -> list[bytes]:
    """What bundles gathered for block 0: a cell a tick, but for two stretches of empty ones."""
    ticks = [t for t in range(END) if t % 5 != 3 and not 20 <= t < 27]
    rng = np.random.default_rng(3)
    n = len(ticks)
    if plan.program.leaf == "rows":
        columns = {name: rng.random(n) for name in plan.program.columns}
        rows = plan.program.bound(columns, n).rows
        times = np.array([plan.clock.tick_start(tick) for tick in ticks])
        hashes = rng.integers(0, 1 << 62, (n, 2)).astype(np.uint64)
        one = np.zeros(1, dtype=np.int64)
        return [
            row_leaf.encode(
                tick,
                RowLeaf.from_events(one, rows[i : i + 1], times[i : i + 1], hashes[i : i + 1], 1),
                (b"k%d" % (tick % 2),),
            )
            for i, tick in enumerate(ticks)
        ]
    values = rng.integers(0, 1 << 20, (n, plan.program.dimension))
    at, zeros, ones = np.array(ticks), np.zeros(n, dtype=np.int64), np.ones(n, dtype=np.int64)
    leaf = PartialLeaf(at, zeros, ones, values, ())
    return [partial.encode(leaf.take(slice(i, i + 8))) for i in range(0, n, 8)]


def pieces(path: Path) -> list[bytes]:
    """What was stored, each behind its length."""
    data, found = path.read_bytes(), []
    while data:
        (size,) = struct.unpack_from("<q", data)
        found.append(data[8 : 8 + size])
        data = data[8 + size :]
    return found


def split_cells(name: str) -> tuple[Cells, list[bytes]]:
    """What Tick had stored: how many of each, then machine, names, past, and the bag."""
    counts, *rest = pieces(FOLDER / f"{name}.cells.bin")
    found = []
    for count in counts:
        found.append(rest[:count])
        rest = rest[count:]
    machine, names, past0, past1, bag = found
    return Cells(One(*machine), One(*names), (Bag(*past0), Bag(*past1))), bag


def write_split(name: str, cells: Cells, bag: list[bytes]) -> None:
    """Keeps what a job stored as a file."""
    parts = [*bytes_of(cells).values(), bag]
    data = [bytes(map(len, parts)), *(one for part in parts for one in part)]
    path = FOLDER / f"{name}.cells.bin"
    path.write_bytes(b"".join(struct.pack("<q", len(one)) + one for one in data))


def digest_of(strides: Any) -> dict[str, str]:
    """Tick -> hash of what was released for every key, whatever the strides."""
    found: dict[str, Any] = {}
    for stride in strides:
        for i in range(stride.ticks):
            state = found.setdefault(str(stride.first_tick + i), hashlib.sha256())
            for row, key in enumerate(stride.keys):
                state.update(key + b"".join(array[i, row].tobytes() for array in stride.arrays))
    return {tick: state.hexdigest()[:16] for tick, state in found.items()}


def write() -> None:
    """Writes what is missing: a new job. What is there stays, so that later builds must read it."""
    from weir.transforms.operators.noise_source import KeyedNoiseSource
    from weir.transforms.runtime.secret import SecretRef

    with tempfile.NamedTemporaryFile("w") as key:
        key.write(SECRET.hex())
        key.flush()
        for name in JOBS:
            if (FOLDER / f"{name}.json").exists():
                continue
            plan = plan_of(name)
            noise = KeyedNoiseSource(SecretRef(file=key.name), plan.name, plan.digest)
            whole = digest_of(Block(plan, noise).advance(leaves_of(plan), 0, END))
            (FOLDER / f"{name}.json").write_text(json.dumps(whole, indent=0) + "\n")
            stopped = Block(plan, noise)
            left = list(stopped.advance(leaves_of(plan), 0, STOPPED))
            bag = [item for item in left if isinstance(item, bytes)]
            write_split(name, stopped.cells, bag)


if __name__ == "__main__":
    write()
