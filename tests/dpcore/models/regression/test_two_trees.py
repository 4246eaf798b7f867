"""The baseline of the paper: its calibration, and that it spends no more than it may."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.dpcore.models.regression.least_squares import least_squares
from tests.dpcore.models.regression.test_incremental import config_of, lstsq, on_grid, run
from weir.dpcore.plan import Plan


def test_noise_is_that_of_the_printed_algorithm() -> None:
    program = Plan.from_config(config_of(algorithm="regression.two_trees")).program
    first, second = program.parts
    assert first.dimension == 6 and second.dimension == 3
    assert first.levels == 6  # 48 ticks
    reach = program.rows.moments.reach
    printed = 6 * math.sqrt(2 * math.log(2 / 5e-7)) * 2 * reach**2 / 0.5
    assert first.noise_scale == pytest.approx(printed, rel=1e-6)
    assert second.noise_scale == pytest.approx(printed / reach, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 8.0, 50.0])
@pytest.mark.parametrize("end", ["01-01T01:00", "01-01T02:00", "02-01T00:00"])
def test_the_budget_is_never_overspent(epsilon: float, end: str) -> None:
    config = config_of(
        algorithm="regression.two_trees", epsilon=epsilon, end=f", end: 2024-{end}:00Z"
    )
    plan = Plan.from_config(config)
    assert plan.program.loss(None).epsilon(1e-6) <= epsilon * (1 + 1e-9)


def test_one_joint_sum_has_less_than_half_of_the_noise() -> None:
    bound = {"model": "clip: {features: 1.0}\n  set: {l2_ball: 1}"}
    ours = Plan.from_config(config_of(**bound)).program
    paper = Plan.from_config(config_of(algorithm="regression.two_trees", **bound)).program
    ticks = np.arange(48)
    ratio = ours.stddev(ticks).max() / paper.stddev(ticks).max()
    assert ratio <= 0.45


def test_without_noise_it_is_least_squares() -> None:
    program = Plan.from_config(config_of(algorithm="regression.two_trees")).program
    rng = np.random.default_rng(0)
    columns, cells = on_grid(rng, 900), rng.integers(0, 9, 900)
    found, _ = run(program, columns, cells, (9, 1))
    for tick in (0, 4, 8):
        np.testing.assert_allclose(
            found["coefficients"].value[tick, 0], lstsq(columns, cells <= tick), atol=1e-9
        )


def test_plain_least_squares_is_numpy_s() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(500, 4)), rng.normal(size=(500, 2))
    ends = np.array([0, 10, 10, 499, 500])
    found = least_squares(x, y, ends)
    assert np.array_equal(found[0], np.zeros((2, 4))) and np.array_equal(found[1], found[2])
    for place in (1, 3, 4):
        expected = np.linalg.lstsq(x[: ends[place]], y[: ends[place]], rcond=None)[0].T
        np.testing.assert_allclose(found[place], expected, atol=1e-10)
    for ends in ([3, 2], [501], [-1]):
        with pytest.raises(ValueError, match="ends"):
            least_squares(x, y, np.array(ends))
