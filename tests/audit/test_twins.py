"""Each broken twin is caught by an audit of the default number of trials; the real thing is not."""

from __future__ import annotations

import pytest

from pipelines.audit.attack import attack
from pipelines.config.job import loads
from tests.audit.twins import TWINS, Twin

CONFIGS = list(dict.fromkeys((one.config, one.only) for one in TWINS))


@pytest.mark.parametrize("one", TWINS, ids=lambda one: one.name)
def test_a_broken_twin_is_caught(one: Twin) -> None:
    with one.sabotage():
        found = attack(one.job, only=one.only).broken
    assert any((one.catches or one.only) in words for words in found), found


@pytest.mark.parametrize(("text", "only"), CONFIGS, ids=range(len(CONFIGS)))
def test_the_real_thing_is_not(text: str, only: str) -> None:
    """Audited as its twins are."""
    report = attack(loads(text), only=only)
    assert report.broken == ()
    assert report.alone is not None if only == "bytes" else report.audits
    # A bound of 95 % is above the truth now and then, and claims are the truth: hence no <= here.
    assert all(one.proven <= 1.3 * one.claim.epsilon for one in report.audits)
