"""The ``stddev`` column is the standard deviation of the error; 10 % more or less is noticed."""

from __future__ import annotations

import numpy as np
import pytest

from tests.audit.verdict import tampered
from tests.audit.world import make
from tests.statistical.samples import SURE, background, ratio, released, truth
from weir.dpcore.noise.noise import is_pure
from weir.dpcore.registry import CONTINUAL_SUMS

LINEAR = """
  n: {count: events, over: %(over)s}
  s: {sum: a, clip: [-1, 3], over: %(over)s}
  t: {sum: b, clip: [2, 6], over: %(over)s}
  u: {mean: b, clip: [2, 6], over: %(over)s}
  h: {histogram: d, edges: [0, 1, 2], over: %(over)s}
"""
TICKS = (0, 1, 6, 7, 12, 19)
KEYS = 3000
CASES = [
    (name, noise)
    for name, cls in CONTINUAL_SUMS.items()
    for noise in cls.kinds
] + [("separate", "gaussian")]  # fmt: skip


def ratios(mechanism: str, noise: str, wrong: float) -> tuple[np.ndarray, np.ndarray]:
    """For each output, over, tick and component: measured over stated variance, standard error."""
    over = {"sliding": "3", "kary_window": "[7, 3, 1]"}.get(mechanism, "[all, 3, 1]")
    delta = 0.0 if is_pure(noise) else 1e-4
    plan = make(mechanism, noise, over=over, keys=KEYS, ticks=20, epsilon=3.0, delta=delta,
                aggregates=LINEAR)  # fmt: skip
    events = background(plan, 6)
    program = tampered(plan.program, noise_scale=lambda scale: wrong * scale)
    runs, exact = released(plan, events, program=program), truth(plan, events)
    found, errors = [], []
    for i, release in enumerate(exact.released):
        if release.name == "u":  # a ratio: see test_bands
            continue
        ticks = np.asarray(TICKS)
        drawn = np.stack([run.released[i].value[ticks, 0] for run in runs])
        assert release.stddev is not None
        value, error = ratio(drawn - release.value[ticks, 0], release.stddev[ticks, 0])
        found.append(value.ravel())
        errors.append(error.ravel())
    return np.concatenate(found), np.concatenate(errors)


@pytest.mark.parametrize(("mechanism", "noise"), CASES)
def test_stated_is_measured(mechanism: str, noise: str) -> None:
    found, error = ratios(mechanism, noise, 1.0)
    assert (abs(found - 1) < SURE * error).all()
    assert error.max() < (0.065 if noise == "laplace" else 0.04)  # heavier tails


@pytest.mark.parametrize(
    ("mechanism", "noise"),
    [("blt", "gaussian"), ("tree", "discrete_gaussian"), ("hybrid", "k_norm"), ("tree", "laplace")],
)
@pytest.mark.parametrize("wrong", [0.9, 1.1])
def test_a_wrong_scale_is_noticed(mechanism: str, noise: str, wrong: float) -> None:
    if noise == "laplace":  # heavier tails: squares spread more
        wrong += wrong - 1
    found, error = ratios(mechanism, noise, wrong)
    assert (abs(found - 1) > SURE * error).mean() > 0.8


@pytest.mark.parametrize("mechanism", ["tree", "independent", "window_tree", "merging_tree"])
@pytest.mark.parametrize("epsilon", [1.0, 20.0, 200.0])
def test_small_discrete_noise_is_stated_as_it_is(mechanism: str, epsilon: float) -> None:
    """Counts live on the integers: a variance below 1 becomes 1, and 1.2 becomes 2."""
    plan = make(mechanism, "discrete_gaussian", keys=KEYS, ticks=10, epsilon=epsilon, delta=1e-4,
                aggregates=" n: {count: events, over: [all, 2]}\n"
                           " h: {histogram: d, edges: [0, 1, 2]}")  # fmt: skip
    events = background(plan, 3)
    runs, exact = released(plan, events), truth(plan, events)
    for i, release in enumerate(runs[0].released):
        drawn = np.stack([run.released[i].value[:, 0] for run in runs])
        assert release.stddev is not None
        found, error = ratio(drawn - exact.released[i].value[:, 0], release.stddev[:, 0])
        assert (abs(found - 1) < SURE * error).all()


def test_many_events_stay_inside_the_band() -> None:
    """Rounding to the lattice pulls nowhere: a million events are off by far less than one."""
    plan = make(
        "blt", keys=1, aggregates=" s: {sum: a, clip: [0, 200]}\n v: {variance: b, clip: [0, 9]}"
    )
    rng = np.random.default_rng(1)
    n = 1 << 20
    columns = {"a": rng.uniform(0, 200, n), "b": rng.uniform(0, 9, n)}
    program = plan.program
    (leaf,) = program.accumulate(program.bound(columns, n).rows, np.zeros(n, dtype=np.int64), 1)
    steps = [channel.resolution for channel in program.channels]  # type: ignore[attr-defined]
    centred = columns["b"] - 4.5
    clean = {"a": columns["a"].sum(), "b": centred.sum(), "bb": (centred**2 - 4.5**2 / 2).sum()}
    values = [x for c, x in zip(program.channels, leaf * steps, strict=True) if c.kind != "count"]  # type: ignore[attr-defined]
    for found, exact, largest in zip(values, clean.values(), (200, 4.5, 4.5**2 / 2), strict=True):
        assert abs(found - exact) < 0.005 * largest
