"""Select and refit under the replay audit: sound as it is, and mutants of its traps are caught."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from tests.audit.cases import head
from weir.dpcore.models.optimize.refit import Refit, Refitting
from weir.pipelines.audit.replay import replay_audit
from weir.pipelines.config.job import loads

CONFIG = (
    head(1.0, 1e-3, "all", 4, "replace_one", "{time: t}")
    + "expect: {events: 2}\nmodel:\n  algorithm: optimize.frank_wolfe\n  features: [u, v]\n"
    "  target: y\n  ranges: {u: [0, 2], v: [-1, 3], y: [0, 16]}\n  set: {l1_ball: 2}\n"
    "  block: 2h\n  terms: 2\n"
)


@contextmanager
def one_sided() -> Iterator[None]:
    """Scores are paid for as if they moved one way alone."""
    right = Refit.sensitivity.fget  # type: ignore[attr-defined]
    with patch.object(Refit, "sensitivity", property(lambda self: right(self) / 2)):
        yield


@contextmanager
def long_rows() -> Iterator[None]:
    """Rows are twice as long as moments are paid for."""
    right = Refitting.moments

    def moments(self: Any, columns: Any) -> Any:
        return 2 * right(self, columns)

    with patch.object(Refitting, "moments", moments):
        yield


@pytest.mark.slow
def test_a_refit_is_sound_and_uses_its_claim() -> None:
    report = replay_audit(loads(CONFIG), trials=10)
    assert report.broken == ()
    assert 0.5 < report.audits[0].share <= 1 + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [one_sided, long_rows])
def test_a_mutant_of_a_refit_is_caught(mutant: Any) -> None:
    with mutant():
        report = replay_audit(loads(CONFIG), trials=150, until=lambda part: bool(part.broken))
    assert report.broken
