"""What does a private LASSO of 100,000 features cost, compared with the same steps without privacy?

n rows of p features, a hundredth of them not 0 (scipy.sparse), 10 of which make the target;
epsilon = 4, delta = 1e-6. The peer is plain Frank-Wolfe in numpy and scipy: the same number of
steps and the same vertices scored, by X^T (X theta - y), all rows of them. A fit checks, scales and
hashes its rows as well; that is in its time. Memory is the largest resident size that a run adds to
the rows. Short: 1,000 rows.
"""

from __future__ import annotations

import resource
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.harness import Bench, main
from weir.dpcore.models.optimize.fit import BatchPlan, fit


def drawn(n: int, p: int, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Rows, targets, and which features make them."""
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


def measure(bench: Bench) -> None:
    """A row a size."""
    p = bench.args.features
    for n in [1_000] if bench.short else bench.args.sizes:
        x, y, own = drawn(n, p, bench.rng())
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
        found: dict[str, Any] = {}
        compared = bench.compare(
            f"{n:,} records of {p:,} features",
            "plain Frank-Wolfe",
            lambda: found.update(model=fit(x, y, plan, bytes(32))),
            lambda: found.update(theta=plain(x, y, steps)),
            2 / 3,
        )
        model, theta, mine = found["model"], found["theta"], compared.ours.wall
        chosen = model.sparse[0].tolist()
        bench.row(
            records=n,
            features=p,
            steps=steps,
            seconds=mine,
            steps_per_second=steps / mine,
            plain_seconds=compared.peer.wall,
            added_mib=peak() - before,
            found_of_10=len(set(chosen) & set(own.tolist())),
            chosen=len(chosen),
            plain_found_of_10=len(set(np.flatnonzero(theta).tolist()) & set(own.tolist())),
            mean_loss=float(np.mean((x @ model.theta - y) ** 2) / 2),
            plain_mean_loss=float(np.mean((x @ theta - y) ** 2) / 2),
            mean_loss_of_0=float(np.mean(y * y) / 2),
        )


if __name__ == "__main__":
    sizes = {"type": int, "nargs": "+", "default": [1_000, 3_000, 10_000]}
    main(measure, features=100_000, sizes=sizes)
