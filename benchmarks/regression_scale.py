"""Does a regression's cost double with its keys and with its ticks, and does its state stay?

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.regression_scale [--keys 400] [--ticks 1024]

Processor time of everything between the decoder and the sink: bounding, exact sums or rows, noise,
models; four events a key and tick, in memory. Once with a half, once, twice and four times the
keys, and the same of ticks. One plan serves all lengths: its clock has no end and its protection
ends after 256 ticks, so that noise and state are the same ones. State is what lies in the arrays
at the end, per key, beside what the plan says. ``regression.erm`` keeps rows, as its plan says: up
to 2,048 a key here, after which its state stays too; a run costs as much as the key has rows, so
until then twice the ticks cost up to four times as much. Writes
benchmarks/results/regression_scale.csv.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path
from typing import Any

import numpy as np

from weir.dpcore.arrays import arrays_of
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.plan import Plan

RESULTS = Path(__file__).parent / "results"
FEATURES, EVENTS, STRIDE = 8, 4, 32
LIMIT = 2_048
TIMES = (0.5, 1, 2, 4)
ALGORITHMS = {
    "regression.incremental": "",
    "regression.projected": "projection: {dimension: 4}",
    "regression.erm": f"every: 32\nrows: {LIMIT}\niterations: 16\nclip: {{gradient: 1}}",
}

CONFIG = """
name: scale
schema: {{time: t}}
key: {{column: k, observed_keys_are_public: true}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1m}}
privacy: {{epsilon: 1.0, delta: 1e-6, protect_for: 256}}
model:
  algorithm: {algorithm}
  features: [{features}]
  target: y
  ranges: {{{ranges}}}
{settings}
"""


def plan_of(algorithm: str) -> Plan:
    """The one plan of an algorithm."""
    names = [f"x{i}" for i in range(FEATURES)]
    return Plan.from_yaml(
        CONFIG.format(
            algorithm=algorithm,
            features=", ".join(names),
            ranges=", ".join(f"{name}: [-1, 1]" for name in (*names, "y")),
            settings="\n".join(f"  {line}" for line in ALGORITHMS[algorithm].splitlines()),
        )
    )


def columns_of(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """n events of one model."""
    x = rng.random((FEATURES, n)) * 2 - 1
    y = np.clip(np.linspace(-0.4, 0.4, FEATURES) @ x + rng.normal(size=n) * 0.1, -1, 1)
    return {**{f"x{i}": column for i, column in enumerate(x)}, "y": y}


def leaves_of(program: Any, rng: np.random.Generator, ticks: int, keys: int) -> Any:
    """A stride's leaves, EVENTS a key and tick; its cost is measured too."""
    n = ticks * keys * EVENTS
    rows = program.bound(columns_of(rng, n), n).rows
    cells = np.repeat(np.arange(ticks * keys), EVENTS)
    if program.leaf == "sum":
        sums = program.accumulate(rows, cells, ticks * keys)
        return sums.reshape(ticks, keys, program.dimension)
    hashes = rng.integers(0, 2**63, (n, 2)).astype(np.uint64)
    own, zeros = np.repeat(np.arange(keys), EVENTS), np.zeros(keys * EVENTS, dtype=np.int64)
    each = [slice(t * keys * EVENTS, (t + 1) * keys * EVENTS) for t in range(ticks)]
    return tuple(RowLeaf.from_events(own, rows[at], zeros, hashes[at], keys) for at in each)


def run(plan: Plan, keys: int, ticks: int) -> tuple[float, float]:
    """Seconds of processor time, and bytes of state per key at the end."""
    program, rng = plan.program, np.random.default_rng(4)
    root = RootKey.derive(bytes(range(32)), plan.name, bytes.fromhex(plan.digest))
    names = tuple(f"key {i}".encode() for i in range(keys))
    began, state = time.process_time(), program.init(keys)
    for first in range(0, ticks, STRIDE):
        n = min(STRIDE, ticks - first)
        leaves = leaves_of(program, rng, n, keys)
        state, noisy = program.step(
            state, leaves, lambda part, first=first: KeyedNoise(root, part, names, first)
        )
        program.solve(noisy, np.arange(first, first + n))
    took = time.process_time() - began
    return took, sum(array.nbytes for array in arrays_of(state)) / keys


def main() -> None:
    """Measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=400)
    parser.add_argument("--ticks", type=int, default=1_024)
    args = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    with open(RESULTS / "regression_scale.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        head = ["algorithm", "varied", "keys", "ticks", "cpu_seconds", "times", "state_per_key"]
        writer.writerow([*head, "state_in_the_plan"])
        for algorithm in ALGORITHMS:
            plan = plan_of(algorithm)
            run(plan, 8, STRIDE)
            for varied in ("keys", "ticks"):
                before = float("nan")
                for factor in TIMES:
                    keys = round(args.keys * factor) if varied == "keys" else args.keys // 8
                    ticks = round(args.ticks * factor) if varied == "ticks" else args.ticks // 8
                    took, size = run(plan, keys, ticks)
                    said = plan.program.state_bytes()
                    print(
                        f"{algorithm:23} {keys:6,} keys {ticks:6,} ticks {took:8.2f} s, "
                        f"{took / before:5.2f} times the line above; "
                        f"state {size:9,.0f} bytes a key, {said:9,} in the plan",
                        flush=True,
                    )
                    row = [algorithm, varied, keys, ticks, f"{took:.3f}", f"{took / before:.3f}"]
                    writer.writerow([*row, f"{size:.0f}", said])
                    before = took


if __name__ == "__main__":
    main()
