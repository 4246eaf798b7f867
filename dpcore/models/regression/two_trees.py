"""The paper's own calibration, as a baseline: two trees that share the budget by halves."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.continual.tree import Tree
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.fields import ALGORITHM, OneTarget
from weir.dpcore.models.moments import Moments
from weir.dpcore.models.regression.incremental import Incremental
from weir.dpcore.models.regression.ridge import Ridge
from weir.dpcore.models.regression.rows import EventRows
from weir.dpcore.models.regression.solved import SolvedModel
from weir.dpcore.pricing.calibration import (
    Alternative,
    FixedLeaf,
    budget_of,
    calibrated,
    round_up,
    within_memory,
)
from weir.dpcore.pricing.terms import Terms


class TwoTreesModel(SolvedModel):
    """The same over two trees with half of the budget each."""

    algorithm: Literal["regression.two_trees"] = Field(
        description=ALGORITHM, examples=["regression.two_trees"]
    )
    target: OneTarget = Field(
        description="Numeric column that is predicted.", examples=["arrival_delay"]
    )

    title: ClassVar[str] = "the same over two trees with half of the budget each"
    about: ClassVar[str] = (
        "The baseline: the paper's own calibration, two full-history trees that must know the "
        "number of ticks."
    )
    source: ClassVar[str] = "Kasiviswanathan, Nissim & Jin 2017 (PrivIncReg1), as printed"
    noises: ClassVar[tuple[str, ...]] = ("gaussian",)
    event_only: ClassVar[str] = (
        "it is the paper's own calibration, to compare with, of one event; take "
        "regression.incremental"
    )

    @property
    def weight_of_ridge(self) -> Ridge:
        """The ridge; without a word on it there is none, as in the paper."""
        return super().weight_of_ridge or 0.0

    def compile(self, terms: Terms) -> tuple[Incremental, tuple[Alternative, ...]]:
        """Incremental regression over one tree for x x^T and another for x y; there is one way to
        run it.

        Formal guarantees:
          Each tree is (epsilon / 2, delta / 2)-private by the paper's Theorem, and the noise is
          never less than what Gaussian DP needs for half of mu^2; the plan states what both add up
          to. Sensitivity: 2 X^2 of x x^T and 2 X Y of x y, the paper's 2 at unit bounds, which also
          covers an event that moves to another cell.
          Source: Kasiviswanathan, Nissim, Jin (2017), Algorithm 2 with Algorithm 4.

        Raises:
          ConfigError: what it cannot serve: a clock without end, delta = 0, another continual sum
            or noise.
        """
        named, noise = terms.continual_sum, terms.noise
        if named not in (None, "tree"):
            raise ConfigError(
                "mechanism.continual_sum", named, f"{self.name} runs over tree; remove it."
            )
        if noise not in (None, "gaussian"):
            raise ConfigError("mechanism.noise", noise, f"is not for {self.name}: gaussian only.")
        if terms.delta == 0:
            raise ConfigError("privacy.delta", 0.0, f"must be above 0 for {self.name}; set 1e-6.")
        moments, convex_set = self.moments(), self.projectable_set()
        program = Incremental(
            EventRows.of(self, moments),
            trees(terms, moments),
            convex_set,
            self.weight_of_ridge,
            self.made_solver(),
            False,
            self.statistics,
            self.name,
        )
        state = program.state_bytes()
        within_memory("tree", state)
        after = program.loss(None).epsilon(terms.delta)
        worst = {"moments over=all": float(np.max(program.stddev(terms.ticks())))}
        return program, (Alternative("tree", "gaussian", True, 1.0, state, after, worst),)


def trees(terms: Terms, moments: Moments) -> tuple[Tree, Tree]:
    """The tree of x x^T and that of x y.

    Raises:
      ConfigError: a clock without end.
    """
    if terms.horizon is None:
        raise ConfigError(
            "clock.end",
            None,
            "is needed: regression.two_trees must know the number of ticks beforehand.",
        )
    epsilon, delta = terms.epsilon, terms.delta
    whole = budget_of("gaussian", epsilon, delta)
    half = PrivacyLoss(whole.kind, whole.value * math.sqrt(0.5) * (1 - 2.0**-40))
    size = moments.features * (moments.features + 1) // 2
    scales = tuple(map(round_up, moments.scales))
    for_ever = replace(terms, window=None, options=())
    made = []
    for part, sensitivity in (
        (scales[:size], 2 * moments.reach**2),
        (scales[size:], 2 * moments.reach * moments.height),
    ):
        change = round_up(sensitivity)
        tree = calibrated("tree", FixedLeaf(part, (None,), change, change), for_ever, half)
        assert isinstance(tree, Tree)
        # Algorithm 4: variance 2 log^2(T) Delta^2 ln(2 / delta) / epsilon^2; log T for the levels.
        printed = tree.levels * math.sqrt(2 * math.log(4 / delta)) * tree.sensitivity * 2 / epsilon
        made.append(replace(tree, noise_scale=round_up(max(tree.noise_scale, printed))))
    return made[0], made[1]
