"""Which releases an attack looks at where some are linear in noisy sums and others are not."""

from __future__ import annotations

import numpy as np
import pytest

from weir.dpcore.arrays import Ints
from weir.dpcore.audit.law import Law
from weir.dpcore.plan import Plan
from weir.pipelines.config.job import loads

TICKS = 12
CONFIG = """
name: law
source: {{csv: nowhere.csv}}
schema: {{time: t}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-01T12:00:00Z}}
privacy: {{epsilon: 2, delta: 1e-6, protect_for: 5 ticks, relation: add_remove}}
aggregates: {{{aggregates}}}
sink: {{parquet: nowhere}}
"""
SUMS = "n: {count: events, over: [all, 3]}, s: {sum: y, clip: [0, 10], over: [all, 3]}"
BINS = "h: {histogram: y, edges: [0, 4, 8]}"
MEAN = "m: {mean: y, clip: [0, 10], missing: 0}"


def law_of(*aggregates: str) -> Law:
    text = CONFIG.format(aggregates=", ".join(aggregates))
    return Law(Plan.from_config(loads(text).plan_config()).program, TICKS)


def streams(law: Law, value: float = 10.0, background: int = 200) -> tuple[list[Ints], list[Ints]]:
    """Leaves of one key, with an event at tick 2 and without; many others at tick 0."""
    program = law.program

    def leaf(values: list[float]) -> Ints:
        bound = program.bound({"y": np.array(values)}, len(values))
        return np.asarray(program.accumulate(bound.rows, np.zeros(len(values), int), 1)[0])

    there = np.zeros((TICKS, program.dimension), dtype=np.int64)
    there[0] = leaf([3.0] * background)
    here = there.copy()
    here[2] = leaf([value])
    return [here], [there]


@pytest.mark.parametrize("stop", [4, TICKS])
@pytest.mark.parametrize("aggregates", [(SUMS,), (SUMS, BINS), (SUMS, MEAN, BINS)])
def test_running_sums_tell_as_much_as_all_releases_together(
    aggregates: tuple[str, ...], stop: int
) -> None:
    law = law_of(*aggregates)
    here, there = streams(law)
    weights, mu, exact = law.strongest(here, there, 2, stop)
    _, dense = law.attack(here, there, 2, stop, law.exact)
    assert exact and law.sufficient
    assert mu == pytest.approx(dense, rel=1e-6)
    # The statistic is what it is said to be: apart by mu^2, and of variance mu^2.
    moved = law.solved(law.noisy(here[0])) - law.solved(law.noisy(there[0]))
    assert float((weights[0] * moved).sum()) == pytest.approx(mu**2, rel=1e-6)
    slope = law.slope(law.noisy(there[0]))
    noise = law.noise(slope, np.arange(TICKS)).reshape(TICKS * law.width, -1)
    assert np.linalg.norm(weights[0].ravel() @ noise) == pytest.approx(mu, rel=1e-6)
    assert not weights[0][stop:].any()
    others = np.setdiff1d(np.arange(law.width), law.exact)
    assert not weights[0][:, others].any()


def test_a_mean_without_its_count_is_linearised() -> None:
    law = law_of("s: {sum: y, clip: [0, 10]}", MEAN)
    assert not law.linear and not law.sufficient
    here, there = streams(law, 0.0)  # which adds nothing to the sum
    _, mu, exact = law.strongest(here, there, 2, TICKS)
    _, of_sum = law.attack(here, there, 2, TICKS, law.exact)
    assert not exact and mu > of_sum / 0.9


def test_a_sum_that_says_nearly_all_is_taken_alone() -> None:
    law = law_of("n: {count: events}", "s: {sum: y, clip: [-10, 10]}",
                 "v: {variance: y, clip: [-10, 10], weight: 0.0001}")  # fmt: skip
    assert not law.sufficient
    here, there = streams(law)
    _, mu, exact = law.strongest(here, there, 2, TICKS)
    assert exact and mu >= 0.9 * law.attack(here, there, 2, TICKS)[1]


def test_quantiles_are_not_linearised() -> None:
    quantile = "q: {quantile: y, at: [0.5], edges: [0, 5, 10]}"
    assert not len(law_of(quantile).smooth)
    law = law_of("n: {count: events}", quantile)
    assert law.smooth.tolist() == law.exact.tolist() == [0]


@pytest.mark.parametrize("columns", [[0], [1, 2]])
def test_of_named_releases_those_alone_are_looked_at(columns: list[int]) -> None:
    law = law_of(SUMS, MEAN)
    here, there = streams(law)
    weights, _, exact = law.strongest(here, there, 2, TICKS, np.array(columns))
    assert exact and weights[0][:, columns].any()
    assert not np.delete(weights[0], columns, axis=1).any()
