"""The replay audit: sound plans use what they claim, and faults of every class are caught."""

from __future__ import annotations

import pytest

from tests.audit.replay_mutants import MUTANTS, Mutant
from weir.pipelines.audit.replay import replay_audit
from weir.pipelines.config.job import loads

PAIRS = 40


@pytest.mark.slow
@pytest.mark.parametrize("one", MUTANTS, ids=lambda one: one.name)
def test_a_mutant_is_caught(one: Mutant) -> None:
    with one.change():
        report = replay_audit(loads(one.config), trials=PAIRS)
    assert any(one.catches in words for words in report.broken), report.broken


@pytest.mark.parametrize("text", sorted({one.config for one in MUTANTS}))
def test_the_original_is_sound_and_uses_its_claim(text: str) -> None:
    report = replay_audit(loads(text), trials=PAIRS)
    assert report.broken == ()
    assert 0.95 < report.audits[0].share <= 1 + 1e-6
