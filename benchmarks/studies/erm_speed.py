"""How fast models of blocks are fitted, next to scikit-learn on the same windows in the same run.

    pip install -e ".[bench]"; python -m benchmarks.studies.erm_speed

``erm.sliding_window`` over synthetic rows of length 1, blocks of 256 records, lambda 0.1 and 1: the
program's own step (gathering, every fit of the chain that is new, certificate and noise), in
seconds a block. Next to it ``LogisticRegression`` (lbfgs), without noise, fitted afresh on the
whole
window at every block, with the same lambda: to its default tolerance, and to the tolerance that
ours is certified to, which privacy needs. ``sgd``: ours with ``solver: sgd``, whose fits have the
same noise and no certificate. ``rows`` are rows that the new fits of a block read, on average: what
a window costs more than linearly would show against it. Seconds are of the processor, on one thread
(OPENBLAS_NUM_THREADS=1). Writes benchmarks/studies/results/erm_speed.csv.

Run on 2026-11-22 at 3bddfe1.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.studies.blocks import HOUR, START, Data, Setting
from weir.dpcore.bounded_events import Events, bounded
from weir.dpcore.models.blocks.program import BlockProgram
from weir.dpcore.noise.key_ring import KeyRing
from weir.dpcore.noise.prf import KeyedNoise
from weir.dpcore.simulate import leaves_for

RESULTS = Path(__file__).parent / "results"
BLOCK = 256
SIZES = ((50, 2), (784, 10))
WINDOWS = (3, 7, 15)
LAMBDAS = (0.1, 1.0)
COLUMNS = (
    *("features", "classes", "lambda", "window", "rows", "steps", "ours_s", "models_per_s"),
    *("sklearn_s", "ratio", "sklearn_same_tau_s", "ratio_same_tau", "sgd_s", "ratio_sgd"),
)


def made_up(n: int, features: int, classes: int) -> Data:
    """Rows around a centre a class, shortened to length 1 by the plan."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, classes, n)
    centres = rng.normal(size=(classes, features))
    x = np.clip(0.3 * centres[y] + rng.normal(size=(n, features)), -4, 4)
    return Data(x, y.astype(float))


def ours(
    setting: Setting, data: Data, window: int, after: int, more: str = ""
) -> tuple[float, float, int, Any]:
    """(seconds a block, rows a block, steps of the base, program), over blocks after the first
    window."""
    plan = setting.plan(f"algorithm: erm.sliding_window\nwindow: {window}{more}", 1.0)
    program = plan.program
    assert isinstance(program, BlockProgram)
    place = np.arange(len(data.y))
    times = START + place // BLOCK * HOUR + place % BLOCK
    ticks, secret = len(data.y) // BLOCK, bytes(32)
    events = Events(times, None, data.columns, [str(i) for i in place])
    bound = bounded(plan, events, ticks, secret)
    leaves = leaves_for(plan, bound, ticks, secret)([0])
    ring = KeyRing.derive(secret, plan.name, bytes.fromhex(plan.digest), ())
    state, spent, rows = program.init(1), 0.0, 0
    for tick in range(ticks):
        began = time.process_time()
        state, _ = program.step(
            state,
            leaves(tick, tick + 1),
            lambda part, t=tick: KeyedNoise(ring.at(t), part, [b""], t),
        )
        if tick >= after:
            spent += time.process_time() - began
            fits = program.schedule.fits(tick + 1)
            rows += BLOCK * sum(fit.last - fit.first + 1 for fit in fits)
    return (
        spent / (ticks - after),
        rows / (ticks - after),
        program.fitters[-1].steps,
        program,
    )


def theirs(data: Data, program: BlockProgram, window: int, count: int, tol: float) -> float:
    """Seconds a fit of scikit-learn on a whole window, on average of some windows."""
    bound = np.asarray(program.bound(data.columns, len(data.y)).rows)
    rows, n = np.ascontiguousarray(bound[:, :-1]), window * BLOCK
    model = LogisticRegression(
        C=1 / (2 * program.objective.strength * n), fit_intercept=False, tol=tol, max_iter=10_000
    )
    model.fit(rows[:n], data.y[:n])
    began = time.process_time()
    for i in range(count):
        here = slice(i * BLOCK, i * BLOCK + n)
        model.fit(rows[here], data.y[here])
    return (time.process_time() - began) / count


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--windows", type=int, nargs="*", default=list(WINDOWS))
    options = parser.parse_args()
    table: list[tuple[Any, ...]] = []
    print(*COLUMNS, sep="\t")
    for (features, classes), strength, window in itertools.product(SIZES, LAMBDAS, options.windows):
        count = (window + 1) // 2  # a whole period of the schedule
        data = made_up(BLOCK * (window + count), features, classes)
        edge = np.full(features, 4.0)
        setting = Setting(strength, -edge, edge, classes, BLOCK)
        spent, rows, steps, program = ours(setting, data, window, window)
        steps_s, *_ = ours(setting, data, window, window, "\nsolver: sgd")
        tau = program.levels[-1].tau
        loose, tight = (theirs(data, program, window, min(count, 4), t) for t in (1e-4, tau))
        found = (spent, 1 / spent, loose, spent / loose, tight, spent / tight)
        found = (*found, steps_s, steps_s / loose)
        head = (features, classes, strength, window, round(rows), steps)
        table.append((*head, *(f"{value:.4g}" for value in found)))
        print(*table[-1], sep="\t", flush=True)
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / "erm_speed.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *table])


if __name__ == "__main__":
    main()
