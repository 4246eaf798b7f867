"""Train and Assemble in the stream: slices, order, the watermark, replays, secrets that change."""

from __future__ import annotations

from typing import Any

import pytest

from dpcore.models.erm import training as erm_training
from tests.transforms.running import cut, run, shuffled
from tests.transforms.test_erm_pipeline import plan
from tests.transforms.test_model_pipeline import (
    DECLARED,
    OBSERVED,
    cells,
    flights,
    secret,
    simulated,
)
from transforms.runtime.secret import SecretRef
from transforms.train.lane import Lane

__all__ = ["secret"]


@pytest.fixture
def slices(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Slices of one iteration, and how many timers went on with a job."""
    monkeypatch.setattr(erm_training, "WORK", 1)
    found: list[int] = []
    real = Lane.advance

    def counting(self: Lane, slices: int) -> Any:
        found.append(slices)
        return real(self, slices)

    monkeypatch.setattr(Lane, "advance", counting)
    return found


@pytest.mark.parametrize("key", [DECLARED, OBSERVED], ids=["declared", "observed"])
@pytest.mark.parametrize(
    "more", ["every: 40\n  iterations: 20", "every: 60\n  iterations: 2\n  solver: noisy_sgd"]
)
def test_slices_change_no_bit(key: str, more: str, slices: list[int], secret: SecretRef) -> None:
    one, batch = plan(key, more=more), flights(1_000)
    ran = run(one, cut(shuffled(batch), 3), secret=secret, bounded=False)
    assert cells(ran) == simulated(one, batch)
    print(len(slices), slices[:20])
    assert len(slices) > 100
