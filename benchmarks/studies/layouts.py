"""What does a row a coordinate cost next to a row a vector?

    python -m benchmarks.studies.layouts [--rows 1000000] [--repeat 5]

The writers of both layouts take the same sorted table in turn, in one process: running counts (one
number a vector) and histograms of 20 bins, as Parquet, CSV and NDJSON. Writes
benchmarks/studies/results/layouts.csv.

Run on 2026-11-22 at 161c73f.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from weir.dpcore.plan import Plan
from weir.dpcore.program import Released
from weir.transforms.release.flat import Flat
from weir.transforms.release.table import ReleaseWriter
from weir.transforms.sinks import formats
from weir.transforms.sinks.sorted_table import sorted_table

RESULTS = Path(__file__).parent / "results"
TICKS = 128

CONFIG = """
name: many
schema: {time: t}
key: {column: k, observed_keys_are_public: true}
clock: {start: 2024-01-01T00:00:00Z, period: 1m, end: 2024-01-02T00:00:00Z}
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: 256 ticks}
aggregates: {events: {count: events}}
"""


class Found(NamedTuple):
    """One line of the table. Rates are numbers written a second."""

    what: str
    form: str
    packed: float
    flat: float
    packed_bytes: int
    flat_bytes: int


def measure(width: int, rows: int, form: str, repeat: int) -> Found:
    """Both layouts in turn; medians."""
    plan = Plan.from_yaml(CONFIG)
    keys = [b"k%06d" % i for i in range(max(1, rows // TICKS // width))]
    values = np.random.default_rng(1).normal(size=(TICKS, len(keys), width))
    errors = np.full((TICKS, 1, width), 14.0)
    released = [Released("events", None, values, errors)]
    table = sorted_table([ReleaseWriter(plan).batch(0, 0, TICKS, keys, released)]).table
    labels = tuple(f"[{i}, {i + 1})" for i in range(width)) if width > 1 else ("",)
    ways = {"packed": None, "flat": Flat((("events", None, labels),), plan.band)}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    sizes = {}
    for _ in range(repeat):
        for name, flat in ways.items():
            began = time.process_time()
            sizes[name] = len(formats.encode(table, form, flat))
            seconds[name].append(time.process_time() - began)
    rate = {name: values.size / median(times) for name, times in seconds.items()}
    what = "counts" if width == 1 else f"histograms of {width}"
    return Found(what, form, rate["packed"], rate["flat"], sizes["packed"], sizes["flat"])


def main() -> None:
    """Prints and writes numbers a second of CPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    found = []
    for width in (1, 20):
        for form in formats.FORMATS:
            one = measure(
                width, args.rows if form == "parquet" else args.rows // 4, form, args.repeat
            )
            found.append(one)
            print(
                f"{one.what:16} {form:8} packed {one.packed / 1e6:6.2f} M/s, flat "
                f"{one.flat / 1e6:6.2f} M/s ({one.flat / one.packed:.2f}x), bytes "
                f"{one.flat_bytes / one.packed_bytes:.2f}x"
            )
    RESULTS.mkdir(exist_ok=True)
    with open(RESULTS / "layouts.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(Found._fields)
        for line in found:
            writer.writerow([f"{x:.0f}" if isinstance(x, float) else x for x in line])


if __name__ == "__main__":
    main()
