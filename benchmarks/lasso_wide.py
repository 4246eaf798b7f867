"""What does a private LASSO of 100,000 features cost, beside the same steps without privacy?

    python -m benchmarks.lasso_wide [--features 100000] [--short]

n rows of p features, a hundredth of them not 0 (scipy.sparse), 10 of which make the target;
epsilon = 4, delta = 1e-6. The peer is plain Frank-Wolfe in numpy and scipy in the same run: the
same number of steps and the same vertices scored, by X^T (X theta - y), all rows of them. Runs
alternate; medians. A fit checks, scales and hashes its rows as well; that is in its time. Memory is
the largest resident size that a run adds to the rows.
"""

from __future__ import annotations

import argparse
import resource
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.beside import Ratio, beside, write
from weir.dpcore.models.optimize.fit import BatchPlan, fit


def drawn(n: int, p: int) -> tuple[Any, Any, Any]:
    """Rows, targets, and which features make them."""
    rng = np.random.default_rng(0)
    each = p // 100
    at = rng.integers(0, p, (n, each))
    own = rng.choice(p, 10, replace=False)
    at[:, :10] = own
    values = rng.choice([-1.0, 1.0], n * each)
    x = sparse.csr_array((values, (np.repeat(np.arange(n), each), at.ravel())), (n, p))
    x.data = np.sign(x.data)
    theta = np.zeros(p)
    theta[own] = rng.choice([-0.1, 0.1], 10)
    return x, np.clip(x @ theta + 0.05 * rng.standard_normal(n), -1, 1), own


def plain(x: Any, y: Any, steps: int) -> Any:
    """Frank-Wolfe over the l1 ball of radius 1, without privacy."""
    down, theta = x.T.tocsr(), np.zeros(x.shape[1])
    predicted = np.zeros(len(y))
    for t in range(steps):
        gradient = down @ (predicted - y) / len(y)
        j = int(np.argmax(np.abs(gradient)))
        sign, step = -np.sign(gradient[j]), 2 / (t + 2)
        theta *= 1 - step
        theta[j] += step * sign
        predicted = (1 - step) * predicted + step * sign * down[[j]].toarray()[0]
    return theta


def peak() -> float:
    """MiB, so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def keep(into: dict[str, Any], name: str, work: Callable[..., Any], *given: Any) -> None:
    """Does the work and keeps what it gives."""
    into[name] = work(*given)


def main() -> None:
    """Prints a line a size."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--features", type=int, default=100_000)
    asked.add_argument("--sizes", type=int, nargs="+", default=[1_000, 3_000, 10_000])
    asked.add_argument("--short", action="store_true", help="1,000 rows: what the guard holds")
    given = asked.parse_args()
    p = given.features
    rows = []
    for n in [1_000] if given.short else given.sizes:
        x, y, own = drawn(n, p)
        plan = BatchPlan.of(
            n=n,
            features=p,
            set={"l1_ball": 1.0},
            feature_range=(-1, 1),
            target_range=(-1, 1),
            epsilon=4.0,
            delta=1e-6,
        )
        steps, before = plan.way.steps, peak()
        kept: dict[str, Any] = {}
        ratio, own_took, bare_took = beside(
            partial(keep, kept, "model", fit, x, y, plan, bytes(32)),
            partial(keep, kept, "theta", plain, x, y, steps),
        )
        rows.append(Ratio(f"{n:,} records of {p:,} features", "plain Frank-Wolfe", ratio, 1 / 1.5))
        model, theta, mine = kept["model"], kept["theta"], own_took.wall
        found = len(set(model.sparse[0].tolist()) & set(own.tolist()))
        print(
            f"n {n:,}, p {p:,}: {steps} steps in {mine:.2f} s ({steps / mine:,.0f} a second), "
            f"plain {bare_took.wall:.2f} s, {1 / ratio:.2f} times as long; "
            f"+{peak() - before:,.0f} MiB; {found} of 10 found among {len(model.sparse[0])}, plain "
            f"{len(set(np.flatnonzero(theta).tolist()) & set(own.tolist()))}; mean loss "
            f"{np.mean((x @ model.theta - y) ** 2) / 2:.4f}, plain "
            f"{np.mean((x @ theta - y) ** 2) / 2:.4f}, nothing {np.mean(y * y) / 2:.4f}",
            flush=True,
        )
    write("lasso_wide", rows, given.short)


if __name__ == "__main__":
    main()
