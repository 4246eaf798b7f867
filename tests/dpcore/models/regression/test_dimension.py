"""The rule that says how many dimensions are enough."""

from __future__ import annotations

import math

import pytest

from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.balls import L1Ball, L2Ball
from weir.dpcore.geometry.boxes import Box, Simplex
from weir.dpcore.geometry.convex_set import largest_size_of, sparse_bound
from weir.dpcore.models.regression.projection import Everything, Sparse, dimension_for, width_of


def test_the_rule_of_the_paper() -> None:
    inputs, ball, horizon = Sparse(10, 2000), L1Ball(3.0, 2000), 5000
    width = sparse_bound(2000, 10) + largest_size_of(2000)
    gamma = (width / horizon) ** (1 / 3)
    wanted = width**2 / gamma**2
    assert dimension_for(inputs, ball, horizon) == pytest.approx(wanted, rel=1e-3)
    assert dimension_for(inputs, ball, horizon, 0.1) == pytest.approx(wanted / 10, rel=1e-2)
    # T^(2/3) W^(4/3)
    eight = dimension_for(inputs, ball, 8 * horizon) / dimension_for(inputs, ball, horizon)
    assert eight == pytest.approx(4, rel=1e-3)


def test_few_directions_need_the_logarithm() -> None:
    inputs, point = Sparse(1, 1), L1Ball(1.0, 1)
    width = 2 * math.sqrt(2 / math.pi)
    horizon = 10**6
    wanted = math.log(horizon / 0.05) * (horizon / width) ** (2 / 3)
    assert dimension_for(inputs, point, horizon) == pytest.approx(wanted, rel=1e-3)


def test_it_is_about_directions() -> None:
    inputs = Everything(30)
    for small, large in ((L1Ball(0.1, 30), L1Ball(90.0, 30)), (L2Ball(0.1, 30), L2Ball(7.0, 30))):
        assert dimension_for(inputs, small, 1000) == dimension_for(inputs, large, 1000)
    assert width_of(Simplex(2.0, 30)) == pytest.approx(Simplex(1.0, 30).gaussian_width())
    assert width_of(Box.uniform(0, 0, 3)) == 0


def test_what_is_refused() -> None:
    with pytest.raises(ConfigError, match="constant"):
        dimension_for(Everything(3), L1Ball(1.0, 3), 10, 0.0)
    with pytest.raises(ConfigError, match="horizon"):
        dimension_for(Everything(3), L1Ball(1.0, 3), 0)
