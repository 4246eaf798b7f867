"""``regression.incremental`` in a config."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.fields import ALGORITHM, OverSpan
from weir.dpcore.models.regression.incremental import Incremental
from weir.dpcore.models.regression.price import choose_moments
from weir.dpcore.models.regression.rows import EventRows
from weir.dpcore.models.regression.solved import SolvedModel
from weir.dpcore.pricing.calibration import Alternative
from weir.dpcore.pricing.terms import Terms

SCORED = 1 / 8
"""Of the budget, for the noise that models are scored on: it makes theirs 7 % larger, and is 2.6
times as large."""


class IncrementalModel(SolvedModel):
    """Least squares of everything so far, from noisy moments."""

    algorithm: Literal["regression.incremental"] = Field(
        description=ALGORITHM, examples=["regression.incremental"]
    )
    error: bool = Field(
        default=False,
        description="Whether mean squared error and R^2 are released too. They need the sum of "
        "squared targets, and sums with noise of their own that no model has seen, for an eighth "
        "of the budget: the noise of everything is a little larger. While that noise is too large "
        "to tell them, they are null.",
        examples=[True],
    )
    over: OverSpan = Field(
        default="all",
        description="all: a model of everything since the start; N: of the last N ticks.",
        examples=["all"],
    )

    title: ClassVar[str] = "least squares of everything so far, from noisy moments"
    about: ClassVar[str] = (
        "Running sums of the products of features and targets, released jointly with noise; a "
        "model of everything so far is fitted to them at every tick, over the set."
    )
    source: ClassVar[str] = "Kasiviswanathan, Nissim & Jin 2017 (PrivIncReg1), joint release"
    event_only: ClassVar[str] = ""

    def compile(self, terms: Terms) -> tuple[Incremental, tuple[Alternative, ...]]:
        """Incremental regression over the best continual sum for it, and every alternative.

        Raises:
          ConfigError: nothing (or not what the user named) can serve the plan.
        """
        if self.error and not self.intercept:
            raise ConfigError(
                "model.error",
                True,
                "divides by the number of events, which the square of the constant counts; set "
                "model.intercept: true.",
            )
        moments = self.moments(self.error, typical=True)
        rows = EventRows.of(self, moments)
        convex_set, solver = self.projectable_set(), self.made_solver()

        def build(mechanism: ContinualSum, scores: ContinualSum | None = None) -> Incremental:
            return Incremental(
                rows,
                (mechanism,),
                convex_set,
                self.weight_of_ridge,
                solver,
                self.error,
                self.statistics,
                self.name,
                scores,
            )

        over = None if self.over == "all" else self.over
        scored = SCORED if self.error else 0.0
        return choose_moments(over, terms, moments, build, scored)
