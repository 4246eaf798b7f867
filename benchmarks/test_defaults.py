"""The pages on learners have the tables of default settings that were measured."""

from __future__ import annotations

import numpy as np
import pytest
import yaml

from benchmarks import defaults
from benchmarks.default_peers import Aim
from benchmarks.default_sets import NEW, TABLES, Table
from benchmarks.harness import RESULTS, rows_of
from weir.dpcore.plan import Plan

ROWS = list(rows_of(RESULTS / "defaults.csv"))


def test_the_tables_of_the_pages_are_those_of_the_measurement() -> None:
    assert {row["set"] for row in ROWS} == set(TABLES) and 2 * len(NEW) == len(TABLES)
    page = defaults.PAGE.read_text()
    assert defaults.with_table(page, defaults.markdown(ROWS, 1.0)) == page
    assert defaults.WHOLE.read_text() == defaults.whole(ROWS)


def test_the_defaults_of_one_fit_keep_what_they_kept() -> None:
    own = [row for row in ROWS if row["family"] == defaults.ERM]
    at_one = {row["set"]: float(row["ratio"]) for row in own if float(row["epsilon"]) == 1}
    assert set(at_one) == set(TABLES)
    assert sum(ratio <= 1.15 for ratio in at_one.values()) >= 7
    without_noise = [float(row["share"]) for row in own if float(row["epsilon"]) == 1e4]
    assert len(without_noise) == len(TABLES) and sum(share >= 0.999 for share in without_noise) >= 6


def test_a_share_is_one_at_the_best_model_and_zero_at_a_constant() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (500, 2))
    for squared in (False, True):
        aim = Aim(Table(x, np.clip(0.3 + 0.5 * x[:, 0], -1, 1), 0), squared)
        assert aim.best < 1e-6 < aim.constant
        assert aim(np.array([0.0, 0.0, 0.3 + 0.5 * x[:, 0].mean()])) <= aim.constant * 1.01
    two = Aim(Table(x, (x[:, 0] > 0).astype(float), 2))
    assert two.constant <= np.log(2) and two(np.array([9.0, 0, 0])) < 0.5 * two.constant


@pytest.mark.slow
def test_every_family_is_planned_as_its_defaults_have_it() -> None:
    own = Table(np.zeros((3000, 2)), np.zeros(3000), 0)
    for name in defaults.FAMILIES:
        plan = Plan.from_yaml(yaml.safe_dump(defaults.config_of(own, 1.0, name, {})))
        assert plan.algorithm == name and plan.guarantee.epsilon == 1.0
