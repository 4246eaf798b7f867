"""What do keys cost that are not discovered? Time and memory against their number.

    python -m benchmarks.studies.undiscovered_keys          # 2 minutes

A stream of 128 ticks in 16 blocks with a user each of up to a million junk keys, at uniform ticks
of one period. ``min_users: 1`` steps every one of them with noise from the period's start on;
``min_users: 20`` keeps names and leaves alone. In strides as files are read (128 ticks) and as a
stream releases (one). Next to each, in the same process, what cannot be spared of the first:
drawing
a keyed normal for every key and tick; and numpy's own normals, which nothing names. Each row is
a process of its own. Writes benchmarks/studies/results/undiscovered_keys.csv.

Run on 2026-11-22 at 256bd9a.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from weir.dpcore.aggregates.private_keys import found_by
from weir.dpcore.discovery.step import step
from weir.dpcore.discovery.waiting import Block, KeyCells
from weir.dpcore.noise.key_ring import KeyRing
from weir.dpcore.noise.noise import label
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.simulate import RingNoises
from weir.transforms.operators.discovered_cells import size_of

RESULTS = Path(__file__).parent / "results"
TICKS, BLOCKS = 128, 16
CONFIG = """
name: junk
schema: {{time: at, unit: user}}
key: {{column: page, discover: {{min_users: {users}}}}}
clock: {{start: 2025-01-01T00:00:00Z, period: 1m, end: 2025-01-01T02:08:00Z}}
privacy: {{epsilon: 6, delta: 1e-9, unit: user, per: all, protect_for: all,
  contributions: {{ticks: 32, keys: 32, events: 1, period_keys: 32, total: 32}}}}
aggregates: {{users: {{count: users, per: period}}}}
"""
SIZES = (62_500, 250_000, 1_000_000)


def measured(keys: int, users: int, stride: int) -> dict[str, Any]:
    """One row: seconds of this process, and its memory."""
    config = PlanConfig.from_yaml(CONFIG.format(users=users))
    terms = config.terms()
    program = config.algorithm.compile(terms).program
    rule = found_by(program, terms)  # type: ignore[arg-type]
    assert rule is not None
    noises = RingNoises(KeyRing.derive(bytes(32), "junk", bytes(32)))
    first = np.sort(np.random.default_rng(1).integers(0, TICKS, keys // BLOCKS))
    names = [[b"junk %d %d" % (block, i) for i in range(len(first))] for block in range(BLOCKS)]
    blocks = [Block.empty(program.dimension) for _ in range(BLOCKS)]
    values = np.full((len(first), program.dimension), rule.step)
    before, began = memory(), time.process_time()
    for low in range(0, TICKS, stride):
        a, b = np.searchsorted(first, [low, low + stride])
        cells = KeyCells(first[a:b], np.arange(b - a), values[a:b])
        for at, block in enumerate(blocks):
            blocks[at], _ = step(
                program, rule, noises, block, names[at][a:b], cells, low, low + stride
            )
    stepped, after = time.process_time() - began, memory()
    return {
        "keys": keys,
        "min_users": users,
        "stride": stride,
        "found": sum(len(block.live) for block in blocks),
        "seconds": round(stepped, 2),
        "keyed_draws": round(draws(keys, noises), 2),
        "numpy_draws": round(numpy_draws(keys), 2),
        "bytes_per_key": round(sum(size_of(block) for block in blocks) / keys),
        "grown_mb": round(after - before),
    }


def draws(keys: int, noises: RingNoises) -> float:
    """Seconds for a keyed normal each key and tick, a group of keys at a time."""
    group = 4096
    noise = noises.noise_of([b"%d" % i for i in range(group)], 0)(0)
    labels, digests = label(0, np.arange(TICKS)), np.zeros((TICKS, group, 2), np.uint64)
    began = time.process_time()
    rounds = max(1, keys // group)
    for _ in range(rounds):
        noise.gaussian(labels, digests, 1)
    return (time.process_time() - began) * keys / (rounds * group)


def numpy_draws(keys: int) -> float:
    """Seconds for as many of numpy's normals."""
    rng, began = np.random.default_rng(2), time.process_time()
    for _ in range(TICKS):
        rng.standard_normal(keys)
    return time.process_time() - began


def memory() -> float:
    """Largest resident size so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=3, type=int, metavar=("KEYS", "USERS", "STRIDE"))
    given = parser.parse_args().one
    if given is not None:
        print(json.dumps(measured(*given)))
        return
    rows = []
    for users, stride in ((1, 128), (1, 1), (20, 128), (20, 1)):
        for keys in SIZES:
            command = [sys.executable, "-m", "benchmarks.studies.undiscovered_keys", "--one"]
            numbers = [str(number) for number in (keys, users, stride)]
            out = subprocess.run([*command, *numbers], check=True, capture_output=True, text=True)
            rows.append(json.loads(out.stdout))
            print(rows[-1], flush=True)
    with (RESULTS / "undiscovered_keys.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
