"""Private continual ERM on a stream of people: who buys again?

    python -m benchmarks.studies.erm_people [--cache .cache] [--runs 4]

The 23,570 customers of a CD shop (CDNOW, in the wheel of ``lifetimes``; see examples/shop/data.py),
one record each: what a customer did in the 90 days after the first purchase, and whether there was
another within the 270 days after those. A record arrives when that is known, 360 days after the
first purchase; within a day customers are in the order of their numbers. Protecting a record
protects a person. Ranges are set beforehand: orders from 0 to 4, days until the last of them from 0
to 90, dollars from 0 to 120, CDs from 0 to 8. Logistic regression, lambda = 0.1, blocks of 512.

The model after each block is judged on the next block, before that is learned: the share of pairs
of a returning and a lost customer that it puts in the right order (AUC; 0.5 is chance). ``none``:
the same without noise. ``all before``: lambda = 0.001 on all earlier records, without noise.
Medians and quartiles over runs, which differ in noise. Writes results/erm_people.csv.

Run on 2026-11-22 at ae7fdf3.
"""

from __future__ import annotations

import argparse
import csv
import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from benchmarks.studies.blocks import Data, Setting, made_ready, models, points_of, with_noise
from examples.shop import data as shop
from weir.dpcore.plan import Plan

Floats = NDArray[np.float64]
RESULTS = Path(__file__).parent / "results"
BLOCK, SEEN, AHEAD = 512, 90, 270
ALGORITHMS = {
    "independent_batches": "algorithm: erm.independent_batches",
    "sliding_window": "algorithm: erm.sliding_window\nwindow: 7",
    "multi_resolution": "algorithm: erm.multi_resolution\ndoublings: 4",
    "continual": "algorithm: erm.continual\nbase: 8\ndoublings: 3",
}
NOISES = (("none", 1.0), ("gaussian", 1.0), ("pure", 1.0), ("gaussian", 0.1), ("pure", 0.1))
COLUMNS = ("algorithm", "noise", "epsilon", "t", "q25", "median", "q75", "runs")


def customers(cache: Path) -> Data:
    """A record a customer, in the order of the first purchase."""
    found = shop.purchases(shop.fetch(cache))
    n = int(found.customer.max()) + 1
    first = np.full(n, 1 << 40)
    np.minimum.at(first, found.customer, found.day)
    since = found.day - first[found.customer]
    early = since < SEEN
    late = (since >= SEEN) & (since < SEEN + AHEAD)

    def total(values: Floats) -> Floats:
        return np.bincount(found.customer[early], values[early], minlength=n)

    last = np.zeros(n)
    np.maximum.at(last, found.customer[early], since[early].astype(float))
    columns = (
        total(np.ones(len(since))),
        last,
        total(found.dollars),
        total(found.cds.astype(float)),
    )
    again = np.bincount(found.customer[late], minlength=n) > 0
    who = np.flatnonzero(first < 1 << 40)
    order = who[np.argsort(first[who], kind="stable")]
    return Data(np.stack(columns, axis=1)[order], again[order].astype(float))


def auc(plan: Plan, theta: Floats, data: Data) -> Floats:
    """(blocks - 1,) of each model on the block after it; NaN where there is none."""
    points = points_of(plan, data)
    found = np.full(len(theta) - 1, np.nan)
    for i, w in enumerate(theta[:-1]):
        here = slice((i + 1) * BLOCK, (i + 2) * BLOCK)
        rank, yes = rankdata(points[here] @ w), data.y[here] > 0
        if not np.isnan(w).any():
            least = yes.sum() * (yes.sum() + 1) / 2
            found[i] = (rank[yes].sum() - least) / (yes.sum() * (~yes).sum())
    return found


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, default=Path(".cache"))
    parser.add_argument("--runs", type=int, default=4)
    options = parser.parse_args()
    data = customers(options.cache)
    n = len(data.y) // BLOCK * BLOCK
    data = data.part(slice(n))
    print(f"{n:,} customers, {data.y.mean():.1%} of whom buy again")
    high = np.array([4.0, 90.0, 120.0, 8.0])
    setting = Setting(0.1, 0 * high, high, 2, BLOCK, intercept=True)
    bound = made_ready(setting.plan("algorithm: erm.independent_batches", 1.0), data, BLOCK)
    table: list[tuple[object, ...]] = []

    def add(algorithm: str, noise: str, epsilon: float, found: Floats) -> None:
        for i, row in enumerate(np.percentile(found, (25, 50, 75), axis=0).T):
            if not np.isnan(row[1]):
                shown = (f"{value:.4f}" for value in row)
                table.append((algorithm, noise, epsilon, BLOCK * (i + 1), *shown, len(found)))
        late = found[:, found.shape[1] // 2 :].mean(axis=1)
        print(f"{algorithm:22}{noise:10}{epsilon:<6g}{np.median(late):.3f}", flush=True)

    for (name, algorithm), (noise, epsilon) in itertools.product(ALGORITHMS.items(), NOISES):
        plan = setting.plan(algorithm, epsilon, noise == "pure")
        found = []
        for seed in range(1 if noise == "none" else options.runs):
            own = with_noise(plan, "none" if noise == "none" else "ours", epsilon, seed)
            found.append(auc(plan, models(own, bound, seed), data))
        add(name, noise, epsilon, np.array(found))
    whole = replace(setting, regularise=0.001)
    best = np.full(n // BLOCK, np.nan)[:, None] * np.ones(5)
    for blocks in range(1, n // BLOCK):
        made = replace(whole, block=blocks * BLOCK).plan("algorithm: erm.output_perturbation", 1.0)
        some = data.part(slice(blocks * BLOCK))
        best[blocks - 1] = models(
            with_noise(made, "none", 1.0, 0), made_ready(made, some, BLOCK), 0
        )[-1]
    add(
        "all before",
        "none",
        1.0,
        auc(setting.plan("algorithm: erm.continual", 1.0), best, data)[None],
    )
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / "erm_people.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *table])


if __name__ == "__main__":
    main()
