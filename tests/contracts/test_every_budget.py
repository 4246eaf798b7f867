"""Whatever is registered is planned at every budget, or refused by field, value and remedy."""

from __future__ import annotations

import math
import re
from functools import cache
from itertools import product
from typing import Any

import pytest

from tests.contracts import versions
from weir.dpcore.config import yaml
from weir.dpcore.config.section_examples import field_names
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.registry import AGGREGATES, CONTINUAL_SUMS, MODELS, SOLVERS

CONFIGS = {
    name: text
    for name, text in versions.configs()
    if not name.endswith("/output") or "output_perturbation" in name  # schedules are tried above
    if not name.endswith(("/wide", "/expected", "/quiet"))  # budgets of the same algorithms
}
EPSILONS = (1e-3, 2000.0, 1e5)
DELTAS = (1e-15, 1e-6, 0.1)
CORNERS = [(1e-3, 1e-15), (1e-3, 0.1), (2000.0, 1e-6), (1e5, 1e-15), (1e5, 0.1)]
RELATIONS = ("add_remove", "replace_one", "replace_anywhere")
SECTIONS = field_names(PlanConfig)
RAISED = re.compile(r"(raise|set|take|be|remove|try|list|write) ", re.IGNORECASE)
"""A verb that says what to do."""


@cache
def sections(text: str) -> dict[str, Any]:
    """A config, read once: most of what a small plan takes is its YAML."""
    return yaml.parse_mapping(text)


def at(text: str, epsilon: float, delta: float, relation: str) -> PlanConfig:
    """A config at a budget; one of pure epsilon stays that."""
    written = sections(text)
    privacy = written["privacy"]
    assert privacy["delta"] in (0, 1e-5) and "relation" not in privacy
    own = {"epsilon": epsilon, "delta": delta if privacy["delta"] else 0, "relation": relation}
    return PlanConfig.from_dict({**written, "privacy": {**privacy, **own}})


def planned(config: PlanConfig) -> Plan | None:
    """The plan within its budget, or None where it is refused in words."""
    written = config.privacy
    try:
        plan = Plan.from_config(config)
    except ConfigError as error:
        section, _, name = error.field.partition(".")
        assert section in SECTIONS, error
        if section == "privacy" and "." not in name:
            assert error.value == getattr(written, name), error
        assert not re.search(r"Fraction|nan|inf\b", str(error)), error
        assert error.remedy.endswith(".") and RAISED.search(error.remedy), error
        return None
    promise = plan.guarantee
    assert 0 < promise.epsilon <= written.epsilon * (1 + 1e-9)
    assert promise.delta <= written.delta * (1 + 1e-9)
    assert all(not math.isinf(one.stddev_worst) for one in plan.outputs)
    plan.to_json()
    return plan


def test_everything_that_is_registered_is_tried() -> None:
    names = " ".join([*CONFIGS, *CONFIGS.values()])
    for registry in (AGGREGATES, CONTINUAL_SUMS, MODELS, SOLVERS):
        assert all(name in names for name in registry.own)


@pytest.mark.slow
@pytest.mark.parametrize("case", CONFIGS)
def test_it_is_planned_or_refused_in_words(case: str) -> None:
    users = case.startswith("users/")
    relations = RELATIONS[:2] if users else RELATIONS
    served = 0
    for relation, (epsilon, delta) in product(relations, CORNERS):
        served += planned(at(CONFIGS[case], epsilon, delta, relation)) is not None
    assert served, "no budget would be served"


@pytest.mark.parametrize(("epsilon", "delta"), list(product(EPSILONS, DELTAS)))
@pytest.mark.parametrize("sample", [1e-9, 0.5, 0.999])
def test_a_sample_of_rows_is_planned_at_every_budget(
    sample: float, epsilon: float, delta: float
) -> None:
    """e^epsilon is more than any double from 710 on."""
    text = CONFIGS["erm.sampled"] + f"  sample: {sample}\n"
    assert planned(at(text, epsilon, delta, "replace_one")) is not None
