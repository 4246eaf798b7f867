"""Windows of blocks: what a record pays, and the example's plan."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from weir.dpcore.models.blocks.schedule import spent
from weir.dpcore.models.optimize.program import WindowProgram, Windows
from weir.dpcore.plan import Plan
from weir.pipelines.config.job import load

EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "lasso" / "lasso.yaml"


@pytest.mark.parametrize("span", [1, 2, 3, 7])
def test_a_record_pays_for_every_window_that_it_is_in(span: int) -> None:
    made = Windows(span)
    assert spent(made, [Fraction(1, span)]) == 1
    assert made.fits(span - 1) == () and made.shown(span - 1) is None
    for complete in range(span, 4 * span):
        (fit,) = made.fits(complete)
        assert (fit.first, fit.last, fit.after) == (complete - span, complete - 1, None)
        assert made.oldest(complete) <= fit.first


def test_the_example_is_planned_within_its_budget() -> None:
    plan = Plan.from_config(load(EXAMPLE))
    assert isinstance(plan.program, WindowProgram)
    way = plan.program.way
    assert way.noise == "discrete_gaussian" and plan.program.total == 2 * way.cost
    assert 1.99 < plan.program.loss(None).epsilon(1e-6) <= 2.0
