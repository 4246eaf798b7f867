"""Each broken twin is caught, in a short audit where that is enough; the real thing is not.

At the default number of trials: ``python -m tests.audit.tables --mutants``.
"""

from __future__ import annotations

import pytest

from tests.audit.twins import TWINS, Twin

FEWER = 6_000
"""Trials of the real thing: what is broken is told by a bound, whatever they are."""
SOUND = list({(one.config, one.only, one.aim): one for one in TWINS}.values())


@pytest.mark.parametrize("one", TWINS, ids=lambda one: one.name)
def test_a_broken_twin_is_caught(one: Twin) -> None:
    report = one.attacked(trials=one.short)
    assert one.caught(report), report.broken


@pytest.mark.parametrize("one", SOUND, ids=lambda one: one.name)
def test_the_real_thing_is_not(one: Twin) -> None:
    """Audited as its twin is."""
    report = one.attacked(sound=True, trials=min(one.short or FEWER, FEWER))
    assert report.broken == ()
    assert report.isolation is not None if one.only == "bytes" else report.audits
    # A bound of 95 % is above the truth now and then, and claims are the truth: hence no <= here.
    assert all(audit.proven <= 1.3 * audit.claim.epsilon for audit in report.audits)
