"""How well do private models find what tells men's names from women's, among 131,072 features?

    pip install 'weir-dp[bench]'
    python -m benchmarks.studies.wide_names [--draws 3] [--peers 1024]

Data: first names of 54 countries with their gender, in the package gender-guesser (nothing of it is
copied here). A name's features are the hashes of its runs of one to four letters, with marks at
both ends: 1 where one is there. Names are cut at random, a fifth is kept for the score. Settings
were fixed before these data were looked at: an l1 ball of radius 4, delta = 1e-6, the plan's own
number of steps. All learners see the same rows at the same epsilon:

- ours: private Frank-Wolfe, logistic loss, at p = 2^17 sparse features and at ``--peers``;
- descent: noisy projected gradient descent on the same ball, 64 steps, rows within sqrt(32);
- objective: objective perturbation (objective.py) on the same ball, rows within sqrt(32);
- theirs: diffprivlib's logistic regression (objective perturbation, pure epsilon), where it is
  installed next to a scikit-learn that it knows, on dense rows at ``--peers``, rows within
  sqrt(32) in l2;
- bare: Frank-Wolfe without noise, 200 steps.

Recovery: how many of the ten largest features of the bare model (four or five of which are not 0)
are among the ten of each; not_0: coefficients that are not 0. Writes results/wide_names.csv.

Run on 2026-11-24 at 045b51d.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import math
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import svds

from benchmarks.studies.objective import minimised, scales
from weir.dpcore.accounting.calibrate import gdp_mu
from weir.dpcore.geometry.balls import L1Ball
from weir.dpcore.models.optimize.fit import BatchPlan, fit

RADIUS, DELTA, LONGEST, WIDE = 4.0, 1e-6, 32, 1 << 17
EPSILONS = (0.5, 1.0, 4.0)
OUT = Path(__file__).parent / "results" / "wide_names.csv"
FIELDS = ("p", "epsilon", "learner", "right", "sd", "features_of_10", "not_0", "seconds")


def names() -> tuple[list[str], Any]:
    """First names, and +1 for a woman's or -1 for a man's; those of both are left out."""
    text = (files("gender_guesser") / "data" / "nam_dict.txt").read_text("utf-8", "replace")
    found: dict[str, set[float]] = {}
    for line in text.splitlines():
        kind, name = line[:2].strip(), line[3:29].strip().lower()
        if line.startswith(("#", "=")) or not name or kind not in ("M", "F"):
            continue
        found.setdefault(name, set()).add(1.0 if kind == "F" else -1.0)
    sure = sorted(name for name, kinds in found.items() if len(kinds) == 1)
    return sure, np.array([next(iter(found[name])) for name in sure])


def rows_of(some: list[str], size: int) -> Any:
    """(n, size) of 0 and 1."""
    at, row = [], []
    for i, name in enumerate(some):
        text = f"^{name}$"
        grams = {text[a : a + k] for k in range(1, 5) for a in range(len(text) - k + 1)}
        hashed = sorted(
            {
                int.from_bytes(hashlib.blake2b(one.encode(), digest_size=8).digest(), "little")
                % size
                for one in grams
            }
        )[:LONGEST]
        at += hashed
        row += [i] * len(hashed)
    return sparse.csr_array((np.ones(len(at)), (row, at)), (len(some), size))


def bare(x: Any, y: Any, steps: int = 200) -> Any:
    """Frank-Wolfe without noise, logistic loss."""
    down, theta, said = x.T.tocsr(), np.zeros(x.shape[1]), np.zeros(len(y))
    for t in range(steps):
        gradient = down @ (-y / (1 + np.exp(y * said)))
        j, step = int(np.argmax(np.abs(gradient))), 2 / (t + 2)
        sign = -np.sign(gradient[j]) * RADIUS
        theta *= 1 - step
        theta[j] += step * sign
        said = (1 - step) * said + step * sign * down[[j]].toarray()[0]
    return theta


def ours(x: Any, y: Any, epsilon: float, seed: int) -> Any:
    """Private Frank-Wolfe; steps by the plan."""
    plan = BatchPlan.of(
        n=x.shape[0],
        features=x.shape[1],
        set={"l1_ball": RADIUS},
        feature_range=(-1, 1),
        target_range=(-1, 1),
        epsilon=epsilon,
        delta=DELTA,
        loss="logistic",
        norm=math.sqrt(LONGEST),
    )
    return fit(x, y, plan, bytes([seed]) * 32).theta


def descent(x: Any, y: Any, epsilon: float, seed: int) -> Any:
    """Noisy projected gradient descent, the mean of the later half."""
    (n, p), steps, rng = x.shape, 64, np.random.default_rng(seed)
    length = math.sqrt(LONGEST)
    sigma = 2 * length / n * math.sqrt(steps) / gdp_mu(epsilon, DELTA)
    eta = 2 * RADIUS / math.sqrt(steps * (length**2 + p * sigma**2))
    ball, down = L1Ball(RADIUS, p), x.T.tocsr()
    theta, total = np.zeros(p), np.zeros(p)
    for t in range(steps):
        gradient = down @ (-y / (1 + np.exp(y * (x @ theta)))) / n
        theta = ball.project((theta - eta * (gradient + sigma * rng.standard_normal(p)))[None])[0]
        total += theta * (t >= steps // 2)
    return total / (steps - steps // 2)


def perturbed(x: Any, y: Any, epsilon: float, seed: int) -> Any:
    """Objective perturbation: a slope of 1 and a curvature of 1/4 at most."""
    p, length = x.shape[1], math.sqrt(LONGEST)
    ridge, sigma = scales(epsilon, DELTA, 1.0, 0.25, length)
    pull, down = sigma * np.random.default_rng(seed).standard_normal(p), x.T.tocsr()

    def gradient(theta: Any) -> Any:
        return down @ (-y / (1 + np.exp(y * (x @ theta)))) + ridge * theta + pull

    (largest,) = svds(x, 1, return_singular_vectors=False, random_state=0)
    return minimised(gradient, 1.01 * float(largest) ** 2 / 4 + ridge, L1Ball(RADIUS, p))


def theirs(x: Any, y: Any, epsilon: float, seed: int) -> Any:
    """diffprivlib's, by objective perturbation."""
    import sklearn.tree._tree as tree

    for name in ("DOUBLE", "DTYPE", "NODE_DTYPE"):  # gone from scikit-learn; forests need them
        if not hasattr(tree, name):
            setattr(tree, name, None)
    from diffprivlib.models import LogisticRegression

    made = LogisticRegression(
        epsilon=epsilon, data_norm=math.sqrt(LONGEST), fit_intercept=False, random_state=seed
    )
    return made.fit(x.toarray(), y).coef_[0]


def main() -> None:
    """Prints a line a learner and size."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--draws", type=int, default=3)
    asked.add_argument("--peers", type=int, default=1024)
    given = asked.parse_args()
    some, y = names()
    order = np.random.default_rng(0).permutation(len(some))
    some, y = [some[i] for i in order], y[order]
    cut = len(some) * 4 // 5
    usual = max(np.mean(y[cut:] > 0), np.mean(y[cut:] < 0))
    table = [FIELDS]
    print(f"{len(some):,} names, {cut:,} to learn from; the usual answer is right on {usual:.3f}")
    for size in (given.peers, WIDE):
        x = rows_of(some, size)
        first, last, told, held = x[:cut], x[cut:], y[:cut], y[cut:]
        best = bare(first, told)
        top = set(np.argsort(-np.abs(best))[:10].tolist())
        score = float(np.mean((last @ best > 0) == (held > 0)))
        table.append((f"{size}", "", "bare", f"{score:.4f}", "", "", f"{(best != 0).sum()}", ""))
        print(*table[-1], sep="\t", flush=True)
        learners = {"ours": ours, "descent": descent, "objective": perturbed}
        if size == given.peers:
            learners["theirs"] = theirs
        for epsilon in EPSILONS:
            for name, learn in learners.items():
                right, kept, size_of, start = [], [], [], time.process_time()
                for seed in range(given.draws):
                    try:
                        theta = learn(first, told, epsilon, seed)
                    except (ImportError, TypeError):  # none, or one for another scikit-learn
                        break
                    right.append(np.mean((last @ theta > 0) == (held > 0)))
                    own = np.argsort(-np.abs(theta))[:10]
                    kept.append(len(top & set(own[theta[own] != 0].tolist())))
                    size_of.append(np.count_nonzero(theta))
                if not right:
                    print(f"  epsilon {epsilon:g}: {name} cannot be run here")
                    continue
                took = (time.process_time() - start) / len(right)
                row = (
                    f"{size}",
                    f"{epsilon:g}",
                    name,
                    f"{np.mean(right):.4f}",
                    f"{np.std(right):.4f}",
                    f"{np.mean(kept):.1f}",
                    f"{np.mean(size_of):.0f}",
                    f"{took:.2f}",
                )
                table.append(row)
                print(*row, sep="\t", flush=True)
    with OUT.open("w", newline="") as file:
        csv.writer(file).writerows(table)


if __name__ == "__main__":
    main()
