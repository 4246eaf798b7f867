"""The published table of private online Frank-Wolfe, made again: is Weir below it in every cell?

The data of github.com/liangzp/DP-Streaming-SCO (Han, Liang, Liang, Wang, Yao, Zhang, ICML 2022),
generated anew by its own recipe: rows x uniform in direction, divided by their lq norm; theta with
five equal entries of lp norm 1; y = <x, theta> + N(0, 0.05^2); epsilon = 1, delta = 1/T; relative
sub-optimality (F(w) - F(theta)) / (F(0) - F(theta)) of the squared loss, here in expectation over
fresh rows of the same law. Their figures are the best of several learning rates, chosen by the
test risk, over 10 seeds. Nothing here is chosen by data: set (radius 2, as theirs), ranges and
clips follow from the geometry.

Measured, 10 seeds (``+-`` is the deviation of a run):

  p    T       d   published  regression.incremental     phased_sgd              sfw_tree
  1.5  1000    5   0.00597    0.0107 +- 0.0051 above     0.0176 +- 0.022 above   1.6 above
  1.5  1000    10  0.132      0.0839 +- 0.042            0.123 +- 0.11           1.6 above
  1.5  1000    20  0.697      0.39 +- 0.15               0.451 +- 0.19           2.0 above
  1.5  10000   5   0.000233   0.000181 +- 0.00013        0.00206 +- 0.00068 above  0.16 above
  1.5  10000   10  0.00431    0.00131 +- 0.00043         0.00414 +- 0.0015       1.6 above
  1.5  10000   20  0.0465     0.0096 +- 0.0035           0.00497 +- 0.002        1.4 above
  inf  10000   5   0.00353    0.000732 +- 0.00051        0.00118 +- 0.00095
  inf  10000   20  0.523      0.163 +- 0.036             0.0661 +- 0.025

One pass of phased SGD is below in six cells of eight, and below sums of products in two. What stood
in its way was the bound on a residual: that of the set, 3 to 9, where residuals are 0.05. Bounds
that are learned (``form: learned``, shaped on other data: p = 1.25, 1.4, 2, 3, inf, other laws)
make it 4 to 90 times better. ``sfw_tree`` steps towards corners of the set, and theta lies inside:
its error is that of few, long steps. It is for sets without a projection.

The cells at d = 5 rest on noise that does not cost what is stated: published noise is drawn with
ln d - 1 = 0.61 for the exponent of its norm, in place of q = 3, which makes a coordinate 5.0 times
smaller at the same scale (2.1 times at d = 10, 1.5 at d = 20). With noise 5.0 times smaller, which
is epsilon = 7.3 at T = 1000 and 6.6 at T = 10,000, both of ours are below: 0.00046 and 0.0010,
0.000017 and 0.00017.

  python -m benchmarks.published_online [--seeds 10]

Which algorithm: ``regression.incremental``, sums of products, over one tick; beside it the one-pass
algorithms on the same data, each for one run of T records.
"""

from __future__ import annotations

import argparse
import math
import os
from typing import Any

import numpy as np

from dpcore.models.optimize.one_pass_fit import fit
from dpcore.plan import Plan
from dpcore.simulate import Events, simulate

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


def plan(algorithm: str, d: int, p: float, records: int) -> Plan:
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
            more="" if moments else f"records: {records}",
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
    """Prints a line a cell."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    seeds = parser.parse_args().seeds
    print("p    T       d   published  regression.incremental       phased_sgd    sfw_tree")
    for (p, records, d), published in TABLE.items():
        names = ["regression.incremental", "optimize.phased_sgd"]
        names += [] if math.isinf(p) else ["optimize.sfw_tree"]
        plans = [plan(name, d, p, records) for name in names]
        shares: list[list[float]] = [[] for _ in names]
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            x, y, theta = law(rng, records, d, p)
            fresh = law(rng, 200_000, d, p)[0]
            second = fresh.T @ fresh / len(fresh)
            for share, made in zip(shares, plans, strict=True):
                apart = fitted(made, x, y) - theta
                share.append(float(apart @ second @ apart / (theta @ second @ theta)))
        told = [
            f"{np.mean(one):.3g} +- {np.std(one):.2g} "
            + ("below" if np.mean(one) < published else "ABOVE")
            for one in shares
        ]
        print(f"{p:<4} {records:<7} {d:<3} {published:<10g} " + "  ".join(f"{t:<25}" for t in told))


if __name__ == "__main__":
    main()
