"""A short audit of every registered algorithm through the real pipeline, then without noise.

With it, no more is proven than is claimed; without, every claim is broken, so each audit looks at
what its algorithm hides. The full audits are the table of benchmarks/results/audit.md (``python -m
tests.audit.tables``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.audit.cases import configs
from tests.audit.twins.twin import patched
from weir.dpcore.neighbours import family_of
from weir.dpcore.registry import AGGREGATES, CONTINUAL_SUMS, MODELS, SOLVERS
from weir.pipelines.audit.attack import Report, attack
from weir.pipelines.config.job import loads

CASES = {name: (text, trials) for name, text, trials in configs(short=True)}
FOUND = "keys that are found, gaussian"
LUCK = 1.15
"""A bound of 95 % is above the truth now and then, and claims of sums are the truth."""
DRAWS = (
    "gaussian", "k_norm", "discrete_gaussian", "gumbel", "laplace",
    "generalised_gaussian",
)  # fmt: skip


def registered() -> dict[str, Any]:
    """Name of an audit -> the class that it attacks, of all that is registered."""
    found = {
        f"{name}, {noise}": CONTINUAL_SUMS[name]
        for name in CONTINUAL_SUMS.own
        for noise in CONTINUAL_SUMS[name].kinds
    }
    found |= {name: AGGREGATES[name] for name in AGGREGATES.own}
    found |= {name: MODELS[name] for name in MODELS.own if name != "regression.erm"}
    return found | {f"regression.erm, {name}": SOLVERS[name] for name in SOLVERS.own}


def audited(name: str) -> Report:
    """What a short audit finds. Models are attacked as their family says first, without a search,
    which would cost two more runs."""
    assert name in CASES, f"{name} is registered, and tests/audit/cases.py has no audit of it"
    text, trials = CASES[name]
    with ExitStack() as held:
        if name.partition(",")[0] in MODELS.own:
            held.enter_context(
                patch("weir.pipelines.audit.attack.needs_search", lambda choice: False)
            )
        return attack(loads(text), trials, "all releases", fuzz=False, rounds=0)


@contextmanager
def without_noise() -> Iterator[None]:
    """Inside, every draw of noise is 0; secret samples are drawn as ever."""

    def hushed(right: Any) -> Any:
        return lambda *given: np.zeros_like(right(*given))

    def best(right: Any) -> Any:
        return lambda self, labels, digests, scores, scale: np.argmin(scores, axis=1)

    with ExitStack() as held:
        for draw in DRAWS:
            held.enter_context(patched(f"weir.dpcore.noise.prf.KeyedNoise.{draw}", hushed))
        held.enter_context(patched("weir.dpcore.noise.prf.KeyedNoise.select", best))
        yield


@pytest.mark.parametrize("name", [*registered(), FOUND])
def test_no_more_is_proven_than_claimed(name: str) -> None:
    report = audited(name)
    assert report.audits and report.broken == ()
    assert all(one.proven <= LUCK * one.claim.epsilon for one in report.audits)
    if name.partition(",")[0] in CONTINUAL_SUMS.own and report.audits[0].by == "likelihood ratio":
        assert min(one.tightness for one in report.audits if one.tightness is not None) > 0.6


@pytest.mark.parametrize("name", [*registered(), FOUND])
def test_without_noise_the_claim_is_broken(name: str) -> None:
    with without_noise():
        assert audited(name).broken


def test_whatever_is_registered_has_an_audit_and_a_family(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {*registered(), FOUND} == set(CASES)
    for algorithm in registered().values():
        assert family_of(algorithm).ticks(12, 2, 2)
    monkeypatch.setattr(CONTINUAL_SUMS, "own", (*CONTINUAL_SUMS.own, "new"))
    monkeypatch.setitem(CONTINUAL_SUMS._files, "new", "weir.dpcore.continual.blt:Blt")
    assert set(registered()) - set(CASES) == {"new, gaussian"}
    with pytest.raises(AssertionError, match="new, gaussian is registered"):
        audited("new, gaussian")
