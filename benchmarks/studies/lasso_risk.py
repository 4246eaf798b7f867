"""How far is a private LASSO from the best model, as n grows, next to other private learners?

    python -m benchmarks.studies.lasso_risk [--draws 5] [--site FOLDER] [--width 1000000]
    python -m benchmarks.studies.lasso_risk --features [--draws 5]

Rows of p = 100 signs, a model of 5 coefficients with ||theta||_1 = 0.9 in the l1 ball of radius 1,
targets with noise of 0.1, clipped to [-1, 1]; epsilon = 1, delta = 1e-6. Excess is that of half the
mean squared error over the best model of the ball (accelerated projected gradient). Next to it, on
the same ball with the same budget: noisy projected gradient descent (64 steps, noise for gradients
that lie within the l2 bound of any row), objective perturbation (objective.py), noise on the mean
gradient chosen by the width of the ball, columns that are selected and refitted (form: refit, by
rule and with terms: 5), and diffprivlib's linear regression (the functional mechanism, pure
epsilon) where the package is found in FOLDER. Noise on gradients reads all rows in each step, ten
minutes a draw at n = 1,000,000: --width is the most records it is asked with. No setting is chosen
on these rows: steps follow from the plan.

Writes results/lasso_risk.csv, and prints the line C n^(-2/3) whose constant
is the geometric mean over all n, and the lower rate (n ln n)^(-2/3) through its end. Made by
--draws 5 to n = 100,000, by --draws 3 --width 0 beyond. --features writes
results/lasso_features.csv: the same private LASSO of n = 31,623 records, from 10 features to 3,162,
with the line C (ln 2p)^(2/3).

Run on 2026-11-25 at 698af3e; refit and terms on 2026-11-26, five draws to n = 100,000, then three
and two.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.studies.objective import minimised, scales
from weir.dpcore.accounting.calibrate import gdp_mu
from weir.dpcore.geometry.balls import L1Ball
from weir.dpcore.models.optimize.fit import BatchPlan, fit

P, EPSILON, DELTA = 100, 1.0, 1e-6
SIZES = (1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000)
LEARNERS = (
    *("gumbel", "laplace", "gaussian", "descent", "objective"),
    *("refit", "terms", "theirs", "nothing"),
)
WIDTHS, RECORDS = (10, 32, 100, 316, 1_000, 3_162), 31_623
"""Numbers of features, and records of each."""
OUT = Path(__file__).parent / "results"
FIELDS = ("n", "steps", "bound", *LEARNERS, "stderr", "constant", "found")


def drawn(n: int, seed: int, p: int = P) -> tuple[Any, Any]:
    """Rows and targets."""
    rng = np.random.default_rng(seed)
    theta = np.zeros(p)
    theta[rng.choice(p, 5, replace=False)] = [0.3, -0.25, 0.2, -0.1, 0.05]
    x = rng.integers(0, 2, (n, p), dtype=np.int8) * np.int8(2) - np.int8(1)
    y = x.astype(np.float32) @ theta.astype(np.float32) + 0.1 * rng.standard_normal(n)
    return x, np.clip(y, -1, 1)


def moments(x: Any, y: Any) -> tuple[Any, Any, float]:
    """Means of x x^T, x y and y^2."""
    p = x.shape[1]
    square, against = np.zeros((p, p)), np.zeros(p)
    for start in range(0, len(x), 1 << 15):
        some = x[start : start + (1 << 15)].astype(np.float64)
        square += some.T @ some
        against += some.T @ y[start : start + (1 << 15)]
    return square / len(x), against / len(x), float(np.mean(y * y))


def risk(theta: Any, of: tuple[Any, Any, float]) -> float:
    """Half the mean squared error."""
    square, against, own = of
    return float(theta @ square @ theta / 2 - against @ theta + own / 2)


def best(of: tuple[Any, Any, float], ball: Any) -> float:
    """The least over the ball: accelerated projected gradient."""
    square, against, _ = of
    step, x = 1 / float(np.linalg.eigvalsh(square)[-1]), np.zeros(len(against))
    y, t = x, 1.0
    for _ in range(2_000):
        new = ball.project((y - step * (square @ y - against))[None])[0]
        following = (1 + math.sqrt(1 + 4 * t * t)) / 2
        y, x, t = new + (t - 1) / following * (new - x), new, following
    return risk(x, of)


def descent(of: tuple[Any, Any, float], n: int, ball: Any, rng: Any) -> Any:
    """Noisy projected gradient descent: 64 steps, sensitivity 2 slope sqrt(p) / n in l2."""
    square, against, _ = of
    steps, lipschitz = 64, 2.0 * math.sqrt(P)
    sigma = 2 * lipschitz / n * math.sqrt(steps) / gdp_mu(EPSILON, DELTA)
    eta = 2 / math.sqrt(steps * (lipschitz**2 + P * sigma**2))
    x, total = np.zeros(P), np.zeros(P)
    for t in range(steps):
        noisy = square @ x - against + sigma * rng.standard_normal(P)
        x = ball.project((x - eta * noisy)[None])[0]
        total += x * (t >= steps // 2)
    return total / (steps - steps // 2)


def perturbed(of: tuple[Any, Any, float], n: int, ball: Any, rng: Any) -> Any:
    """Objective perturbation."""
    square, against, _ = of
    ridge, sigma = scales(EPSILON, DELTA, 2.0, 1.0, math.sqrt(P))
    pull = sigma * rng.standard_normal(P)

    def gradient(x: Any) -> Any:
        return n * (square @ x - against) + ridge * x + pull

    return minimised(gradient, n * float(np.linalg.eigvalsh(square)[-1]) + ridge, ball)


def theirs(x: Any, y: Any, site: str, seed: int) -> Any:
    """diffprivlib's linear regression with bounds as public as ours."""
    sys.path.append(site)
    import sklearn.tree._tree as tree

    for name in (
        "DOUBLE",
        "DTYPE",
        "NODE_DTYPE",
    ):  # gone from scikit-learn; its forests alone need them
        if not hasattr(tree, name):
            setattr(tree, name, None)
    from diffprivlib.models import LinearRegression

    bounds = (-np.ones(P), np.ones(P))
    made = LinearRegression(
        epsilon=EPSILON, bounds_X=bounds, bounds_y=(-1, 1), fit_intercept=False, random_state=seed
    )
    return made.fit(x.astype(np.float64), y).coef_


def constant(table: list[dict[str, str]]) -> float:
    """C of the line C n^(-2/3): the geometric mean over all n."""
    return math.exp(float(np.mean([math.log(float(row["constant"])) for row in table])))


def wide(p: int, draws: int) -> dict[str, str]:
    """A row of the table of features."""
    ball, rows = L1Ball(1.0, p), {"gumbel": [], "laplace": [], "nothing": []}  # type: ignore[var-annotated]
    for seed in range(draws):
        x, y = drawn(RECORDS, seed, p)
        of, rng = moments(x, y), np.random.default_rng(seed)
        least = best(of, ball)
        for noise in ("laplace", "gumbel"):
            plan = planned(RECORDS, noise, p)
            rows[noise].append(risk(fit(x, y, plan, rng.bytes(32)).theta, of) - least)
        rows["nothing"].append(risk(np.zeros(p), of) - least)
    error = float(np.std(rows["gumbel"])) / math.sqrt(draws)
    return {
        "p": str(p),
        "steps": str(plan.way.steps),
        "bound": f"{plan.way.error:.4g}",
        **{name: f"{np.mean(some):.4g}" for name, some in rows.items()},
        "stderr": f"{error:.2g}",
    }


def planned(n: int, noise: str | None, p: int = P, **more: Any) -> BatchPlan:
    """Public numbers alone."""
    return BatchPlan.of(
        n=n,
        features=p,
        set={"l1_ball": 1.0},
        feature_range=(-1, 1),
        noise=noise,
        target_range=(-1, 1),
        epsilon=EPSILON,
        delta=DELTA,
        **more,
    )


def refitted(x: Any, y: Any, seed: int) -> tuple[Any, Any]:
    """Models of form: refit, by rule and of five terms."""
    rng = np.random.default_rng(2000 + seed)
    by_rule, named = planned(len(x), None, form="refit"), planned(len(x), None, terms=5)
    return fit(x, y, by_rule, rng.bytes(32)).theta, fit(x, y, named, rng.bytes(32)).theta


def measured(n: int, given: argparse.Namespace) -> dict[str, str]:
    """A row of the table."""
    ball, found = L1Ball(1.0, P), []
    rows: dict[str, list[float]] = {name: [] for name in LEARNERS}
    for seed in range(given.draws):
        x, y = drawn(n, seed)
        of = moments(x, y)
        least, rng = best(of, ball), np.random.default_rng(seed)
        for noise in ("gumbel", "laplace", "gaussian")[: 3 if n <= given.width else 2]:
            plan = planned(n, noise)
            theta = fit(x, y, plan, rng.bytes(32)).theta
            rows[noise].append(risk(theta, of) - least)
            if noise == "gumbel":
                bound, steps = plan.way.error, plan.way.steps
                true = set(np.argsort(-np.abs(of[1]))[:4].tolist())
                own = set(np.argsort(-np.abs(theta))[:4].tolist())
                found.append(len(true & own))
        rows["descent"].append(risk(descent(of, n, ball, rng), of) - least)
        own_rng = np.random.default_rng(1000 + seed)
        rows["objective"].append(risk(perturbed(of, n, ball, own_rng), of) - least)
        for name, theta in zip(("refit", "terms"), refitted(x, y, seed), strict=True):
            rows[name].append(risk(theta, of) - least)
        rows["nothing"].append(risk(np.zeros(P), of) - least)
        if given.site and n <= 100_000:
            rows["theirs"].append(risk(theirs(x, y, given.site, seed), of) - least)
    mean = {name: float(np.mean(some)) for name, some in rows.items() if some}
    told = {name: f"{mean[name]:.4g}" if name in mean else "" for name in LEARNERS}
    error = float(np.std(rows["gumbel"])) / math.sqrt(given.draws)
    return {
        "n": str(n),
        "steps": str(steps),
        "bound": f"{bound:.4g}",
        **told,
        "stderr": f"{error:.2g}",
        "constant": f"{mean['gumbel'] * n ** (2 / 3):.3g}",
        "found": f"{np.mean(found):.2g}",
    }


def main() -> None:
    """Prints and writes a row a size."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--draws", type=int, default=5)
    asked.add_argument("--site", default="")
    asked.add_argument("--least", type=int, default=1_000)
    asked.add_argument("--most", type=int, default=1_000_000)
    asked.add_argument("--width", type=int, default=1_000_000)
    asked.add_argument("--features", action="store_true")
    asked.add_argument("--out", type=Path, default=OUT / "lasso_risk.csv")
    given = asked.parse_args()
    if given.features:
        with given.out.with_name("lasso_features.csv").open("w", newline="") as file:
            rows = [wide(p, given.draws) for p in WIDTHS]
            made = csv.DictWriter(file, list(rows[0]))
            made.writeheader()
            made.writerows(rows)
        print(*(" ".join(row.values()) for row in rows), sep="\n")
        return
    table = []
    print(*FIELDS, sep="\t", flush=True)
    with given.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        for n in (one for one in SIZES if given.least <= one <= given.most):
            table.append(measured(n, given))
            writer.writerow(table[-1])
            file.flush()
            print(*table[-1].values(), sep="\t", flush=True)
    print(f"{constant(table):.2f} n^(-2/3)")


if __name__ == "__main__":
    main()
