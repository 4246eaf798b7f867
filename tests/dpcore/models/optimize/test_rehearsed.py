"""How many phases a tree has: by what each comes to on a public problem."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.dpcore.models.optimize.instances import noise_of, program, read
from weir.dpcore.models.optimize.rehearsed import rehearsed
from weir.dpcore.models.optimize.sfw import REHEARSED_PHASES, REHEARSED_RUNS


@pytest.mark.parametrize("case", ["gaussian", "generalised", "tree"])
def test_rehearsals_are_what_runs_come_to_on_the_public_problem(case: str) -> None:
    """Rows of +-a and slopes spread evenly, where the dry run is not a guess."""
    made = program(case, d=4, records=4_000, loss="squared", more="intercept: false\n  phases: 2")
    run = made.course.runs[0]
    told = rehearsed(run, made.course.set)
    assert told == rehearsed(run, made.course.set)
    assert case == "tree" or told == run.guess
    rng = np.random.default_rng(0)
    q = run.glm.dual
    a = 1.0 if math.isinf(q) else 4 ** (-1 / q)
    lost = []
    for seed in range(16):
        far = (seed + 0.5) / 16
        best = far * made.course.set.linear_oracle(rng.standard_normal((1, 4)))[0]
        x = a * rng.choice([-1.0, 1.0], (4_000, 4))
        y = x @ best + rng.uniform(-1, 1, 4_000) * max(0.0, 1 - np.abs(x @ best).max())
        columns = {f"x{j}": x[:, j] for j in range(4)}
        rows = np.asarray(made.bound({**columns, "y": y}, 4_000).rows)
        (found,) = read(made, rows, noise_of(seed))[0]
        lost.append(a * a / 2 * float(np.sum((found.model - best) ** 2)))
    assert 0.2 < told / float(np.mean(lost)) < 5


def test_phases_follow_from_rehearsals_from_version_4_on() -> None:
    newer = program("gaussian", d=4, records=4_000)
    assert [run.guess for run in newer.course.runs[:1]] == [
        rehearsed(newer.course.runs[0], newer.course.set)
    ]
    counts = [run.phases for run in newer.course.runs]
    assert max(counts) <= REHEARSED_PHASES and counts[0] < counts[-1]
    assert len(set(counts[REHEARSED_RUNS:])) == 1
