"""How far is a private LASSO from the best model, as n grows, beside other private learners?

    python -m benchmarks.lasso_risk [--draws 5] [--site FOLDER] [--quick]

Rows of p = 100 signs, a model of 5 coefficients with ||theta||_1 = 0.9 in the l1 ball of radius 1,
targets with noise of 0.1, clipped to [-1, 1]; epsilon = 1, delta = 1e-6. Excess is that of half the
mean squared error over the best model of the ball (accelerated projected gradient). Beside it, on
the same ball with the same budget: noisy projected gradient descent (64 steps, noise for gradients
that lie within the l2 bound of any row), objective perturbation (objective.py), noise on the mean
gradient chosen by the width of the ball, and diffprivlib's linear regression (the functional
mechanism, pure epsilon) where the package is found in FOLDER. Noise on gradients reads all rows in
each step, ten minutes a draw at n = 1,000,000: --quick leaves it out. No setting is chosen on these
rows: steps follow from the plan.
"""

from __future__ import annotations

import argparse
import math
import sys
from typing import Any

import numpy as np

from benchmarks.objective import minimised, scales
from dpcore.accounting.calibrate import gdp_mu
from dpcore.geometry.balls import L1Ball
from dpcore.models.optimize.fit import BatchPlan, fit

P, EPSILON, DELTA = 100, 1.0, 1e-6
SIZES = (1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000)


def drawn(n: int, seed: int) -> tuple[Any, Any]:
    """Rows and targets."""
    rng = np.random.default_rng(seed)
    theta = np.zeros(P)
    theta[rng.choice(P, 5, replace=False)] = [0.3, -0.25, 0.2, -0.1, 0.05]
    x = rng.integers(0, 2, (n, P), dtype=np.int8) * np.int8(2) - np.int8(1)
    y = x.astype(np.float32) @ theta.astype(np.float32) + 0.1 * rng.standard_normal(n)
    return x, np.clip(y, -1, 1)


def moments(x: Any, y: Any) -> tuple[Any, Any, float]:
    """Means of x x^T, x y and y^2."""
    square, against = np.zeros((P, P)), np.zeros(P)
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
    step, x = 1 / float(np.linalg.eigvalsh(square)[-1]), np.zeros(P)
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


def main() -> None:
    """Prints a table."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--draws", type=int, default=5)
    asked.add_argument("--site", default="")
    asked.add_argument("--least", type=int, default=1_000)
    asked.add_argument("--most", type=int, default=1_000_000)
    asked.add_argument("--quick", action="store_true")
    given = asked.parse_args()
    ball = L1Ball(1.0, P)
    print(
        f"{'n':>9} {'T':>5} {'bound':>8} {'gumbel':>8} {'n^2/3 x':>8} {'laplace':>8} "
        f"{'width':>8} {'descent':>8} {'object.':>8} {'theirs':>8} {'nothing':>8} {'found':>6}"
    )
    for n in (one for one in SIZES if given.least <= one <= given.most):
        rows: dict[str, list[float]] = {}
        for seed in range(given.draws):
            x, y = drawn(n, seed)
            of = moments(x, y)
            least, rng = best(of, ball), np.random.default_rng(seed)
            for noise in ("gumbel", "laplace", "gaussian")[: 2 if given.quick else 3]:
                plan = BatchPlan.of(
                    n=n,
                    features=P,
                    set={"l1_ball": 1.0},
                    feature_range=(-1, 1),
                    noise=noise,
                    target_range=(-1, 1),
                    epsilon=EPSILON,
                    delta=DELTA,
                )
                theta = fit(x, y, plan, rng.bytes(32)).theta
                rows.setdefault(noise, []).append(risk(theta, of) - least)
                if noise == "gumbel":
                    bound, steps = plan.way.error, plan.way.steps
                    true = set(np.argsort(-np.abs(of[1]))[:4].tolist())
                    own = set(np.argsort(-np.abs(theta))[:4].tolist())
                    rows.setdefault("found", []).append(len(true & own))
            rows.setdefault("descent", []).append(risk(descent(of, n, ball, rng), of) - least)
            own_rng = np.random.default_rng(1000 + seed)
            rows.setdefault("objective", []).append(
                risk(perturbed(of, n, ball, own_rng), of) - least
            )
            rows.setdefault("nothing", []).append(risk(np.zeros(P), of) - least)
            if given.site and n <= 100_000:
                rows.setdefault("theirs", []).append(
                    risk(theirs(x, y, given.site, seed), of) - least
                )
        mean = {name: float(np.mean(some)) for name, some in rows.items()}
        told = ("laplace", "gaussian", "descent", "objective", "theirs", "nothing")
        beside = " ".join(f"{mean.get(name, math.nan):8.4f}" for name in told)
        print(
            f"{n:9,} {steps:5} {bound:8.4f} {mean['gumbel']:8.4f} "
            f"{mean['gumbel'] * n ** (2 / 3):8.2f} {beside} {mean['found']:4.1f}/4",
            flush=True,
        )


if __name__ == "__main__":
    main()
