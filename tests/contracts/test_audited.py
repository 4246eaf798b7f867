"""Every registered algorithm can be attacked: there is a change, a background, and a claim."""

from __future__ import annotations

import pytest

from tests.audit.cases import configs
from weir.dpcore.registry import AGGREGATES, CONTINUAL_SUMS, MODELS, SOLVERS
from weir.pipelines.audit.attack import spans
from weir.pipelines.audit.audit import Audited, PrivacyClaim
from weir.pipelines.audit.choice import Choice
from weir.pipelines.config.job import loads

CASES = {name: text for name, text, _ in configs()}


def test_everything_that_is_registered_is_audited() -> None:
    names = {part for name in CASES for part in name.split(", ")}
    for registry in (CONTINUAL_SUMS, AGGREGATES, MODELS, SOLVERS):
        assert set(registry.own) <= names


@pytest.mark.parametrize("name", [name for name in CASES if name.partition(",")[0] in MODELS.own])
def test_a_model_has_a_change_that_its_relation_allows(name: str) -> None:
    choice = Choice.of(Audited.of(loads(CASES[name])))
    for words, span, epsilon, delta in spans(choice):
        (change,) = choice.worst([span])
        assert len(change.here) == len(change.there) == 1 and words
        assert change.here[0].tick == change.there[0].tick
        assert PrivacyClaim.of(choice.plan, span, epsilon, delta).epsilon == epsilon
    assert choice.background and choice.others(change)
