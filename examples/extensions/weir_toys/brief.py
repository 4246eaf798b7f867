"""Projected gradient in few iterations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.models.solvers.noisy_gradient import NoisyGradient
from weir.dpcore.models.solvers.queries import Problem


@dataclass(frozen=True)
class Brief(NoisyGradient):
    """noisy_projected_gradient with five iterations unless more are asked for."""

    name: ClassVar[str] = "brief"
    title: ClassVar[str] = "five noisy gradient steps"
    source: ClassVar[str] = "an example"

    @classmethod
    def make(cls, problem: Problem, iterations: int | None, loss: PrivacyLoss) -> Self:
        """For a problem."""
        return super().make(problem, 5 if iterations is None else iterations, loss)
