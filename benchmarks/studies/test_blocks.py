"""Benchmarks of models of blocks measure what a plan releases, and the paper's noise as printed."""

from __future__ import annotations

import numpy as np

from benchmarks.studies.blocks import (
    HOUR,
    START,
    Data,
    Setting,
    made_ready,
    models,
    printed,
    with_noise,
)
from weir.dpcore.bounded_events import Events
from weir.dpcore.models.blocks.program import BlockProgram
from weir.dpcore.simulate import simulate

BLOCK = 20


def _case() -> tuple[Setting, Data]:
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, 9 * BLOCK).astype(float)
    x = np.clip(np.eye(3)[y.astype(int)] + 0.2 * rng.normal(size=(len(y), 3)), -1, 1)
    return Setting(0.5, -np.ones(3), np.ones(3), 3, BLOCK), Data(x, y)


def test_models_are_those_of_simulate() -> None:
    setting, data = _case()
    plan = setting.plan("algorithm: erm.sliding_window\nwindow: 3", 1.0)
    place = np.arange(len(data.y))
    times = START + place // BLOCK * HOUR + place % BLOCK
    events = Events(times, None, data.columns, [str(i) for i in place])
    (whole,) = simulate(plan, events, (5).to_bytes(32, "big"), ticks=9)
    found = models(plan, made_ready(plan, data, BLOCK), 4)
    np.testing.assert_array_equal(found, whole.released[0].value[:, 0].reshape(9, -1))


def test_models_without_noise_learn_and_do_not_depend_on_the_seed() -> None:
    setting, data = _case()
    plan = setting.plan("algorithm: erm.continual\nbase: 2\ndoublings: 1", 1.0)
    bound = made_ready(plan, data, BLOCK)
    one, other = (models(with_noise(plan, "none", 1.0, seed), bound, seed) for seed in (0, 1))
    np.testing.assert_allclose(one, other, atol=1e-12)
    scores = data.x @ one[-1].reshape(3, 3).T
    assert np.mean(scores.argmax(axis=1) == data.y) > 0.9


def test_printed_scales_are_the_papers() -> None:
    setting, _ = _case()
    lipschitz, block = np.sqrt(2.0), setting.regularise * BLOCK
    sliding = setting.plan("algorithm: erm.sliding_window\nwindow: 7", 2.0).program
    assert isinstance(sliding, BlockProgram)
    found = [printed(sliding, level, 2.0) * 2.0 * block / lipschitz for level in range(3)]
    np.testing.assert_allclose(found, [4.0, 4.0, 6.0 / 4])
    alone = setting.plan("algorithm: erm.independent_batches", 2.0).program
    assert isinstance(alone, BlockProgram)
    np.testing.assert_allclose(printed(alone, 0, 2.0) * 2.0 * block / lipschitz, 2.0)
