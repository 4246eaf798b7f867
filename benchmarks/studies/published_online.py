"""The published table of private online Frank-Wolfe, made again: is Weir below it in every cell?

The data of github.com/liangzp/DP-Streaming-SCO (Han, Liang, Liang, Wang, Yao, Zhang, ICML 2022),
generated again by its own recipe: rows x uniform in direction, divided by their lq norm; theta with
five equal entries of lp norm 1; y = <x, theta> + N(0, 0.05^2); epsilon = 1, delta = 1/T; relative
sub-optimality (F(w) - F(theta)) / (F(0) - F(theta)) of the squared loss, here in expectation over
fresh rows of the same law. Their figures are the best of several learning rates, chosen by the
test risk, over 10 seeds. Nothing here is chosen by data: set (radius 2, as theirs), ranges and
clips follow from the geometry.

Measured, 10 seeds (``+-`` is the deviation of a run; results/published_online.csv). ``halving`` is
the paper's form, which knows the bound of the set alone:

  p    T      d   published  regression.incremental  phased_sgd          halving           sfw_tree
  1.5  1000   5   0.00597    0.0134 +- 0.0073        0.0146 +- 0.015     0.696 +- 0.35     1.1
  1.5  1000   10  0.132      0.0805 +- 0.033         0.17 +- 0.14        1.01 +- 0.25      2.2
  1.5  1000   20  0.697      0.382 +- 0.11           0.47 +- 0.23        1.19 +- 0.34      2
  1.5  10000  5   0.000233   0.000188 +- 0.00011     0.00188 +- 0.00079  0.0716 +- 0.021   0.3
  1.5  10000  10  0.00431    0.00136 +- 0.001        0.00431 +- 0.0019   0.239 +- 0.093    0.56
  1.5  10000  20  0.0465     0.00894 +- 0.0021       0.00551 +- 0.0017   0.631 +- 0.14     0.89
  inf  10000  5   0.00353    0.000706 +- 0.00039     0.00156 +- 0.00084  0.113 +- 0.038
  inf  10000  20  0.523      0.16 +- 0.025           0.0889 +- 0.059     1.65 +- 0.29

One pass of phased SGD is below in five cells of eight, above in two (p = 1.5, d = 5) and level in
one: with p = 1.5, d = 10, where ten seeds say little, 40 of them (``--cells 1 4 --seeds 40``) give
0.131 +- 0.017 against 0.132 and 0.0031 +- 0.0002 against 0.00431, ``+-`` of the mean. Sums of
products are below in seven. What stood in its way was the bound on a residual: that of the set, 3
to 9, where residuals are 0.05. That was found on fresh draws of the published law, not on the
judged data: no judged record is behind it, the law is. Bounds that are learned (``form: learned``,
shaped on other data: p = 1.25, 1.4, 2, 3, inf, other laws) make it 2.5 to 110 times better than
``halving``: least where T is small compared with d, 2.5, 5.9 and 48 times at T = 1000.
``sfw_tree`` steps towards corners of the set, and theta lies inside: its error is that of few, long
steps. It is for sets without a projection.

The cells at d = 5 rest on noise that does not cost what is stated: published noise is drawn with
ln d - 1 = 0.61 for the exponent of its norm, in place of q = 3, which makes a coordinate 5.0 times
smaller at the same scale (2.1 times at d = 10, 1.5 at d = 20). With noise 5.0 times smaller, which
is epsilon = 7.3 at T = 1000 and 6.6 at T = 10,000, both of ours are below: 0.00046 and 0.0010,
0.000017 and 0.00017.

  python -m benchmarks.studies.published_online [--seeds 10]

Which algorithm: ``regression.incremental``, sums of products, over one tick; next to it the
one-pass
algorithms on the same data, each for one run of T records.

Run on 2026-11-24 at 045b51d.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.studies.one_pass_arrays import fit
from weir.dpcore.bounded_events import Events
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate

START = 1_704_067_200_000_000
TABLE: dict[tuple[float, int, int], float] = {
    (1.5, 1000, 5): 0.00597,
    (1.5, 1000, 10): 0.132,
    (1.5, 1000, 20): 0.697,
    (1.5, 10_000, 5): 0.000233,
    (1.5, 10_000, 10): 0.00431,
    (1.5, 10_000, 20): 0.0465,
    (math.inf, 10_000, 5): 0.00353,
    (math.inf, 10_000, 20): 0.523,
}
"""(p, T, d) -> relative sub-optimality as published."""

OUT = Path(__file__).parent / "results" / "published_online.csv"
FIELDS = (
    *("p", "T", "d", "published"),
    *("incremental", "incremental_sd", "phased_sgd", "phased_sgd_sd"),
    *("phased_sgd_halving", "phased_sgd_halving_sd", "sfw_tree", "sfw_tree_sd", "times_better"),
)

CONFIG = """
name: published
schema: {{time: t, id: i}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-01T01:00:00Z}}
privacy: {{epsilon: 1.0, delta: {delta}, protect_for: all, relation: replace_one}}
model:
  algorithm: {algorithm}
  features: [{features}]
  intercept: false
  target: y
  ranges: {{{ranges}}}
  set: {set}
  clip: {{features: {clip}{target}}}
  {more}
"""


def law(rng: np.random.Generator, n: int, d: int, p: float) -> tuple[Any, Any, Any]:
    """Rows, targets and theta."""
    q = 1.0 if math.isinf(p) else p / (p - 1)
    theta = np.zeros(d)
    theta[:5] = 1.0
    theta /= np.linalg.norm(theta, p)
    x = rng.normal(0, 0.05, (n, d))
    x /= np.linalg.norm(x, q, axis=1, keepdims=True)
    return x, x @ theta + rng.normal(0, 0.05, n), theta


def plan(algorithm: str, d: int, p: float, records: int, more: str = "") -> Plan:
    """Public numbers alone: |<x, theta>| <= 1, and rows of lq norm 1."""
    names = [f"x{j}" for j in range(d)]
    moments = algorithm == "regression.incremental"
    convex = "{box: [-2, 2]}" if math.isinf(p) else f"{{lp_ball: {{radius: 2, p: {p}}}}}"
    q = 1.0 if math.isinf(p) else p / (p - 1)
    length = max(1.0, d ** (0.5 - 1 / q))  # most that an l2 norm is
    if algorithm == "optimize.sfw_tree":
        length = 1.0
    return Plan.from_yaml(
        CONFIG.format(
            delta=1 / records,
            algorithm=algorithm,
            features=", ".join(names),
            ranges=", ".join(f"{name}: [-1, 1]" for name in [*names, "y"]),
            set=convex,
            clip=length,
            target=", target: 1.0" if moments else "",
            more="" if moments else f"records: {records}\n  {more}",
        )
    )


def fitted(made: Plan, x: Any, y: Any) -> Any:
    """One private model of all rows."""
    program: Any = made.program
    if made.config is not None and made.config.model.algorithm != "regression.incremental":
        found = fit(program.course, x, y, program.norm, program.dual, os.urandom(32))
        return found.coef
    columns = {f"x{j}": x[:, j] for j in range(x.shape[1])}
    events = Events(
        np.full(len(x), START), [""] * len(x), {**columns, "y": y}, [f"{i}" for i in range(len(x))]
    )
    (one,) = simulate(made, events, os.urandom(32))
    return next(r.value[0, 0] for r in one.released if r.name == "theta")


def main() -> None:
    """Prints and writes a line a cell."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="first seed of the data")
    parser.add_argument("--cells", type=int, nargs="+", default=range(len(TABLE)), help="from 0")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    print(*FIELDS, sep="\t")
    with given.out.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        for (p, records, d), published in (list(TABLE.items())[i] for i in given.cells):
            names = ["regression.incremental", "optimize.phased_sgd"]
            plans = [plan(name, d, p, records) for name in names]
            plans.append(
                plan("optimize.phased_sgd", d, p, records, "form: halving\n  loss: {huber: 100}")
            )
            if not math.isinf(p):
                plans.append(plan("optimize.sfw_tree", d, p, records))
            shares: list[list[float]] = [[] for _ in plans]
            for seed in range(given.first, given.first + given.seeds):
                rng = np.random.default_rng(seed)
                x, y, theta = law(rng, records, d, p)
                fresh = law(rng, 200_000, d, p)[0]
                second = fresh.T @ fresh / len(fresh)
                for share, made in zip(shares, plans, strict=True):
                    apart = fitted(made, x, y) - theta
                    share.append(float(apart @ second @ apart / (theta @ second @ theta)))
            told = [f"{f(one):.3g}" for one in shares for f in (np.mean, np.std)]
            row = [p, records, d, published, *told]
            row += [""] * (len(FIELDS) - 1 - len(row))
            row.append(f"{np.mean(shares[2]) / np.mean(shares[1]):.2g}")
            writer.writerow(row)
            file.flush()
            print(*row, sep="\t", flush=True)


if __name__ == "__main__":
    main()
