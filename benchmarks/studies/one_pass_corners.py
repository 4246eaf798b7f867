"""Do losses with a corner come nearer in one pass as they are, or smoothed?

Rows x uniform in [-1, 1]^d over sqrt(d), y = <x, w> + Laplace noise of 0.2 (clipped to [-1, 1]), w
of length 0.8 in the l2 ball of radius 1.5; one run of n records, (1, 1e-6). Excess of the expected
loss over that of w on 100,000 fresh rows, mean of ``--seeds``. ``halving`` steps along the Moreau
envelope, whose width eta A^2 / 8 keeps steps private; ``erm`` goes over each phase 1, 2 or 8 times
by proximal steps, with the corner. Seconds are those of all records.

  python -m benchmarks.studies.one_pass_corners [--seeds 10]

Measured, 10 seeds; ``start`` is the excess of the model 0:

  n        d   start   halving           erm, 1            erm, 2            erm, 8
  2,000    5   0.0690  0.0089, 0.05 s    0.010, 0.07 s     0.0092, 0.13 s    0.0052, 0.46 s
  20,000   5   0.0690  0.00030, 0.23 s   0.00031, 0.27 s   0.00037, 0.48 s   0.00023, 1.6 s
  20,000   40  0.0112  0.0020, 0.25 s    0.0031, 0.30 s    0.0029, 0.52 s    0.0024, 1.8 s
  100,000  5   0.0690  0.000034, 0.75 s  0.000049, 1.0 s   0.000028, 1.8 s   0.000023, 7.4 s

So what is kept is paid back by a third where features are few; smoothing costs nothing that can be
seen, and wins where there are many.

Run on 2026-11-23 at a63c01c.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from typing import Any

import numpy as np

from benchmarks.studies.one_pass_arrays import fit
from weir.dpcore.plan import Plan

CONFIG = """
name: corners
schema: {{time: t, id: i}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-01T01:00:00Z}}
privacy: {{epsilon: 1.0, delta: 1e-6, protect_for: all, relation: replace_one}}
model:
  algorithm: optimize.phased_sgd
  features: [{features}]
  intercept: false
  target: y
  loss: {loss}
  records: {records}
  ranges: {{{ranges}}}
  set: {{l2_ball: 1.5}}
  {form}
"""
FORMS = {
    "halving": "form: halving",
    "erm, 1": "form: erm\n  passes: 1",
    "erm, 2": "form: erm\n  passes: 2\n  keep: 100000",
    "erm, 8": "form: erm\n  passes: 8\n  keep: 100000",
}
CELLS = ((2_000, 5), (20_000, 5), (20_000, 40), (100_000, 5))


def program(loss: str, n: int, d: int, form: str) -> Any:
    """A course of n records."""
    names = [f"x{j}" for j in range(d)]
    ranges = ", ".join(f"{name}: [-1, 1]" for name in [*names, "y"])
    text = CONFIG.format(
        features=", ".join(names), loss=loss, records=n, ranges=ranges, form=FORMS[form]
    )
    return Plan.from_yaml(text).program


def rows(rng: np.random.Generator, n: int, d: int) -> tuple[Any, Any, Any]:
    """Rows, targets, and the model."""
    w = np.random.default_rng(d).normal(size=d)
    w *= 0.8 / np.linalg.norm(w)
    x = rng.uniform(-1, 1, (n, d)) / math.sqrt(d)
    return x, np.clip(x @ w + rng.laplace(0, 0.2, n), -1, 1), w


def main() -> None:
    """Prints a line a cell."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    seeds = parser.parse_args().seeds
    print("n        d    start     " + "  ".join(f"{name:<27}" for name in FORMS))
    for n, d in CELLS:
        made = {name: program("absolute", n, d, name) for name in FORMS}
        fx, fy, w = rows(np.random.default_rng(12345), 100_000, d)
        least = np.abs(fy - fx @ w).mean()
        lost: dict[str, list[float]] = {name: [] for name in FORMS}
        took = dict.fromkeys(FORMS, 0.0)
        for seed in range(seeds):
            x, y, _ = rows(np.random.default_rng(seed), n, d)
            for name, one in made.items():
                begun = time.perf_counter()
                found = fit(one.course, x, y, one.norm, one.dual, os.urandom(32)).coef
                took[name] += time.perf_counter() - begun
                lost[name].append(float(np.abs(fy - fx @ found).mean() - least))
        told = []
        for name, some in lost.items():
            error = np.std(some) / math.sqrt(seeds)
            told.append(f"{np.mean(some):.2g} +- {error:.1g}, {took[name] / seeds:.2f} s")
        start = np.abs(fy).mean() - least
        print(f"{n:<8} {d:<4} {start:.4f}   " + "  ".join(f"{t:<27}" for t in told), flush=True)


if __name__ == "__main__":
    main()
