"""How big is the state of a job: against keys, protection window and time?

    python -m benchmarks.state_size                 # what Tick stores, in this process (15 s)
    python -m benchmarks.state_size --stream        # and the checkpoints of a stream on Flink

First the stored bytes of Tick per key, over keys, protect_for and the number of ticks gone by, for
a count with `over: [all, 7]` and a sum, mechanism as the plan chooses it. Then a stream of 10,000
ticks through Pub/Sub and Flink (parallelism 2, a checkpoint a second), with deduplication by id
over a horizon of 64 ticks: the size of every checkpoint as Flink tells it. Both must be flat in
time: the last column compares the end with the tenth part.
Writes benchmarks/results/state_size.csv and, with --stream, state_size_stream.csv.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpcore.plan import Plan
from transforms.noise_source import KeyedNoiseSource
from transforms.secret import SecretRef
from transforms.stepper import Stepper

RESULTS = Path(__file__).parent / "results"
CONFIG = """\
name: size
schema: {{time: at}}
key: {{column: store, declared: [{keys}]}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1s}}
privacy: {{epsilon: 1.0, delta: 1e-6, protect_for: {window}}}
aggregates:
  visits: {{count: events, over: [all, 7]}}
  paid: {{sum: amount, clip: [0, 50]}}
"""
SIZES = (
    *((keys, 256, 10_000) for keys in (1, 10, 100, 1_000)),
    (10_000, 256, 1_000),
    *((100, window, 10_000) for window in (16, 64, 1_024, 4_096, 16_384)),
)
"""(keys, window, ticks)."""


def plan_of(keys: int, window: int) -> Plan:
    """A plan of so many declared keys."""
    names = ", ".join(f"k{i:05d}" for i in range(keys))
    return Plan.from_yaml(CONFIG.format(keys=names, window=window))


def stored(keys: int, window: int, ticks: int) -> Iterator[tuple[int, int]]:
    """(ticks gone by, bytes stored in all blocks), at a few moments."""
    plan = plan_of(keys, window)
    noise = KeyedNoiseSource(SecretRef.fresh(), plan.name, plan.digest)
    layout = bytes.fromhex(plan.layout)
    cells: dict[int, bytes | None] = dict.fromkeys(plan.keys.live_blocks)
    moments = sorted({10, 100, 1_000, ticks // 10, ticks})
    first = 0
    for stop in (moment for moment in moments if moment <= ticks):
        for block, cell in cells.items():
            stepper = Stepper(
                plan.program, noise, layout, block, 1 << 20, plan.keys.block_keys(block), False
            )
            stepper.load(cell, first)
            for _ in stepper.advance([], first, stop):
                pass
            cells[block] = stepper.dump(stop)
        first = stop
        yield stop, sum(len(cell or b"") for cell in cells.values())


def measure() -> list[dict[str, Any]]:
    """One row per size and moment."""
    found = []
    for keys, window, ticks in SIZES:
        told = dict(stored(keys, window, ticks))
        for gone, size in told.items():
            found.append(
                {
                    "keys": keys,
                    "window": window,
                    "ticks": gone,
                    "bytes": size,
                    "bytes_per_key": round(size / keys, 1),
                    "against_a_tenth": round(told[ticks] / told[ticks // 10], 4),
                }
            )
            print(found[-1], flush=True)
    return found


def write(name: str, rows: list[dict[str, Any]]) -> None:
    """Rows as CSV."""
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / name).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--stream", action="store_true")
    parser.parse_args()
    write("state_size.csv", measure())


if __name__ == "__main__":
    main()
