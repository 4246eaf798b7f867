"""The published table of private online Frank-Wolfe, made again: is Weir below it in every cell?

The data of github.com/liangzp/DP-Streaming-SCO (Han, Liang, Liang, Wang, Yao, Zhang, ICML 2022),
generated anew by its own recipe: rows x uniform in direction, divided by their lq norm; theta with
five equal entries of lp norm 1; y = <x, theta> + N(0, 0.05^2); epsilon = 1, delta = 1/T; relative
sub-optimality (F(w) - F(theta)) / (F(0) - F(theta)) of the squared loss, here in expectation over
fresh rows of the same law. Their figures are the best of several learning rates, chosen by the
test risk, over 10 seeds. Nothing here is chosen by data: set (radius 2, as theirs), ranges and
clips follow from the geometry.

Seven cells of eight are below. The other, p = 1.5, T = 1000, d = 5, is not (0.0085 +- 0.0018 in 10
seeds against 0.0060; a ball of radius 1 or a smaller ridge change it by a tenth): there the
published noise is drawn with ln d - 1 = 0.61 for the exponent of its norm, in place of q = 3, which
makes a coordinate 5.0 times smaller at the same stated scale (2.1 times at d = 10, 1.5 at d = 20),
and does not cost what is stated.

  python -m benchmarks.published_online [--seeds 10]

Which algorithm: ``regression.incremental``, sums of products, over one tick; beside it the one-pass
algorithms of the same data, each for one run of T records.
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
    print("p    T       d   published  regression.incremental   one pass (sfw_tree | phased_sgd)")
    for (p, records, d), published in TABLE.items():
        one_pass = "optimize.phased_sgd" if math.isinf(p) else "optimize.sfw_tree"
        plans = [plan(name, d, p, records) for name in ("regression.incremental", one_pass)]
        shares: list[list[float]] = [[], []]
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            x, y, theta = law(rng, records, d, p)
            second = np.zeros((d, d))
            fresh = law(rng, 200_000, d, p)[0]
            second = fresh.T @ fresh / len(fresh)
            for share, made in zip(shares, plans, strict=True):
                apart = fitted(made, x, y) - theta
                share.append(float(apart @ second @ apart / (theta @ second @ theta)))
        told = [f"{np.mean(one):.3g} +- {np.std(one):.2g}" for one in shares]
        below = "below" if np.mean(shares[0]) < published else "ABOVE"
        print(f"{p:<4} {records:<7} {d:<3} {published:<10g} {told[0]:<18} {below}  {told[1]}")


if __name__ == "__main__":
    main()
