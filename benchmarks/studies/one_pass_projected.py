"""What do projected, capped steps keep over an l1 ball, next to steps to vertices that noise chose?

R^2 of one run of ``optimize.sfw_polyhedral`` over all rows, radius 2, delta = 1e-6: ``projected``
(the default of at most 16 features) and ``tree``; and that of the best model of the ball without
privacy, of the rows as ``projected`` shortens them. Tables: bikes (11 features; a folder with
bike-sharing/hour.csv), randhie (statsmodels), three synthetic laws, of which the last has features
that are off their middle and was never looked at before. Medians of three draws at epsilon 1, one
at 1e4.

    python -m benchmarks.studies.one_pass_projected --data FOLDER

Run on 2026-11-26:

  table                  best  projected, 1 / 1e4     tree, 1 / 1e4
  bikes                 0.460       0.34 /   0.46    -0.20 /   0.25
  randhie               0.078      -0.04 /   0.06    -0.54 /  -1.11
  synthetic, 20,000     0.458       0.41 /   0.46    -0.79 /  -0.14
  synthetic, 8,000      0.655       0.53 /   0.64    -0.82 /   0.65
  synthetic, 12,000     0.537       0.28 /   0.53    -0.75 /  -0.13

Of 32 features, four of which matter, ``tree`` has more at both (0.57 / 0.87 to 0.53 / 0.78), of 16
less (0.50 / 0.86 to 0.78 / 0.89): shortened rows of many features reach less of the ball.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.default_sets import scaled, table
from weir.dpcore.bounded_events import Events
from weir.dpcore.models.optimize.least_squares import solved
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate

Floats = NDArray[np.float64]
RADIUS, START = 2.0, 1_704_067_200_000_000
CONFIG = """
name: projected
schema: {{time: t, id: i}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-01T01:00:00Z}}
privacy: {{epsilon: {epsilon}, delta: 1e-6, protect_for: all}}
model:
  algorithm: optimize.sfw_polyhedral
  form: {form}
  features: [{features}]
  target: y
  ranges: {{{ranges}}}
  records: {rows}
"""


def synthetic(n: int, d: int, condition: float, seed: int, middle: float) -> tuple[Floats, Floats]:
    """Normal features of a condition number, turned; a model that all of them are in."""
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.normal(size=(d, d)))
    x = (rng.normal(size=(n, d)) * np.geomspace(1, condition**-0.5, d)) @ turn
    x = x / np.abs(x).max() * (1 - abs(middle)) + middle
    w = turn.T @ (np.geomspace(1, condition**0.5, d) * rng.choice([-1, 1], d))
    score = (x - x.mean(axis=0)) @ w
    return x, np.clip(0.35 * score / score.std() + rng.normal(0, 0.15, n), -1, 1)


def bikes(folder: Path) -> tuple[Floats, Floats]:
    """Rentals of an hour from weather, kind of day, and three waves of the hour."""
    with (folder / "bike-sharing" / "hour.csv").open() as file:
        rows = list(csv.DictReader(file))

    def of(name: str) -> Floats:
        return np.array([float(row[name]) for row in rows])

    ends = (("temp", 0, 1), ("hum", 0, 1), ("windspeed", 0, 1), ("workingday", 0, 1))
    columns = [scaled(of(name), low, high) for name, low, high in (*ends, ("weathersit", 1, 4))]
    turns = 2 * np.pi * of("hr") / 24
    columns += [wave(k * turns) for k in (1, 2, 3) for wave in (np.sin, np.cos)]
    return np.stack(columns, axis=1), scaled(of("cnt"), 0, 1000)


def tables(folder: Path) -> dict[str, tuple[Floats, Floats]]:
    """Name -> features and target in [-1, 1]."""
    health = table("randhie")
    return {
        "bikes": bikes(folder),
        "randhie": (health.x, health.y),
        "synthetic, 20,000": synthetic(20_000, 8, 5, 31, 0.1),
        "synthetic, 8,000": synthetic(8_000, 6, 3, 32, 0.0),
        "synthetic, 12,000": synthetic(12_000, 10, 10, 77, 0.2),
    }


def explained(points: Floats, y: Floats, theta: Floats) -> float:
    """R^2."""
    return 1 - float(np.mean((y - points @ theta) ** 2)) / float(y.var())


def shortened(x: Floats, whole: bool) -> Floats:
    """(x, 1), in l2 where ``whole``, else in the largest entry."""
    size = np.linalg.norm(x, axis=1) if whole else np.abs(x).max(axis=1)
    return np.concatenate([x / np.maximum(size, 1.0)[:, None], np.ones((len(x), 1))], axis=1)


def learned(x: Floats, y: Floats, form: str, epsilon: float, draws: int) -> float:
    """Median R^2 of the model of one run."""
    n, d = x.shape
    names = [f"x{j}" for j in range(d)]
    ranges = ", ".join(f"{name}: [-1, 1]" for name in (*names, "y"))
    shape: dict[str, Any] = {"features": ", ".join(names), "ranges": ranges, "rows": n}
    plan = Plan.from_yaml(CONFIG.format(epsilon=epsilon, form=form, **shape))
    columns = {**dict(zip(names, x.T, strict=True)), "y": y}
    events = Events(np.full(n, START), None, columns, [f"e{i}" for i in range(n)])
    points = shortened(x, form == "projected")
    results = []
    for seed in range(draws):
        (run,) = simulate(plan, events, bytes([seed]) * 32)
        value = run.released[0].value
        assert value is not None
        results.append(explained(points, y, np.asarray(value[-1, 0])))
    return float(np.median(results))


def main() -> None:
    """Prints a row a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    print(f"{'table':20} {'best':>6} {'projected, 1 / 1e4':>19} {'tree, 1 / 1e4':>17}")
    for name, (x, y) in tables(parser.parse_args().data).items():
        order = np.random.default_rng(0).permutation(len(y))
        x, y = x[order], y[order]
        points = shortened(x, True)
        best = solved(points.T @ points / len(y), points.T @ y / len(y), 0.0, RADIUS)
        cells = [
            [learned(x, y, form, epsilon, 3 if epsilon == 1 else 1) for epsilon in (1, 1e4)]
            for form in ("projected", "tree")
        ]
        shown = [f"{a:6.2f} / {b:6.2f}" for a, b in cells]
        print(f"{name:20} {explained(points, y, best):6.3f} {shown[0]:>19} {shown[1]:>17}")


if __name__ == "__main__":
    main()
