"""A script of what one-pass models release."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dpcore.models.optimize.script import Script
from weir.dpcore.models.optimize.phased import Phased
from weir.dpcore.models.optimize.tree import NodeNoise
from weir.dpcore.models.optimize.vertices import MANY, VertexChoice


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    made = Script()
    mean, choose, noisy = NodeNoise.mean, VertexChoice.choose, Phased._noisy
    chosen = VertexChoice.chosen

    def node(self: Any, total: Any, *rest: Any) -> Any:
        return made.answer(total, lambda: mean(self, total, *rest), self)

    def vertex(self: Any, gradient: Any, scale: float, *rest: Any) -> Any:
        scores = self.scores(gradient)
        return made.answer(scores, lambda: choose(self, gradient, scale, *rest), scale)

    def among_many(self: Any, gradient: Any, scale: float, *rest: Any) -> Any:
        if self.count < MANY:
            return chosen(self, gradient, scale, *rest)
        scores = self.scores(gradient)
        return made.answer(scores, lambda: chosen(self, gradient, scale, *rest), scale)

    def point(self: Any, phase: Any, clean: Any, *rest: Any) -> Any:
        make = lambda: noisy(self, phase, clean, *rest)  # noqa: E731
        return made.answer(clean, make, phase)

    monkeypatch.setattr(NodeNoise, "mean", node)
    monkeypatch.setattr(VertexChoice, "choose", vertex)
    monkeypatch.setattr(VertexChoice, "chosen", among_many)
    monkeypatch.setattr(Phased, "_noisy", point)
    return made
