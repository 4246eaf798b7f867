"""Regressions that are solved from released moments: over the best sum, and over two trees."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Self, cast

import numpy as np
from pydantic import Field, model_validator

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.algorithm import Compiled
from weir.dpcore.config.section import Pair, Says, refusal
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.continual.tree import Tree
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.fields import OneTarget, OverSpan, algorithm_field, span_field
from weir.dpcore.models.moments import SLACK, Moments
from weir.dpcore.models.regression.incremental import Incremental
from weir.dpcore.models.regression.quadratic import Ridge
from weir.dpcore.models.regression.rows import EventRows
from weir.dpcore.models.regression.section import MomentsModel, choose_moments
from weir.dpcore.models.regression.solver import Solver
from weir.dpcore.pricing.calibration import (
    Alternative,
    FixedLeaf,
    budget_of,
    calibrated,
    round_up,
    within_memory,
)
from weir.dpcore.pricing.terms import Terms

SolverName = Annotated[
    Literal["accelerated", "noisy_projected_gradient"],
    Says("must be one of accelerated, noisy_projected_gradient."),
]


WIDEST = 256
"""Times that a range may be as wide as what is usual in it."""


class SolvedModel(MomentsModel):
    """A regression in all dimensions of its features."""

    usual: Mapping[str, Pair] = Field(
        default={},
        description="Where values of a feature usually lie, within its range: scaled units are of "
        "that, and an event beyond is shortened as a whole, not moved. It equalises noise where "
        "some ranges are far wider than what fills them. Public: never from the data. Without it: "
        "the range.",
        examples=["{dep_delay: [-20, 40]}"],
    )
    solver: SolverName = Field(
        default="accelerated",
        description="How the private objective is minimised: accelerated, to the tolerance, or "
        "noisy_projected_gradient, the paper's constant steps and averaged iterate.",
        examples=["accelerated"],
    )

    @model_validator(mode="after")
    def _usual_fits(self) -> Self:
        for name, (low, high) in self.usual.items():
            field = f"usual.{name}"
            if name not in self.features or name not in self.public_ranges:
                raise refusal(
                    field, name, f"is of no feature; those are {', '.join(self.features)}."
                )
            least, most = self.public_ranges.get(name, (low, high))
            wide = (most - least) / (high - low) if high > low else math.inf
            if not (least <= low < high <= most and wide <= WIDEST):
                raise refusal(
                    field,
                    [low, high],
                    f"must lie in model.ranges.{name}: [{least:g}, {most:g}], low < high, and be "
                    f"at least a {WIDEST}th of it.",
                )
        return self

    def moments(self, squares: bool = False, typical: bool = False) -> Moments:
        """See MomentsModel; a coordinate may pass 1 where ranges are wider than what is usual."""
        if not self.usual:
            return super().moments(squares, typical)
        result = super().moments(squares, typical)
        reach = result.reach if self.clip.features is None else float(self.clip.features)
        reach = min(reach, math.sqrt(self.longest**2 + self.intercept) * SLACK)
        return replace(result, reach=reach, entry=max(1.0, reach))

    @property
    def longest(self) -> float:
        """Largest l2 norm of features within their ranges, scaled units."""
        square = 0.0
        for name, (low, high) in self.usual.items():
            middle, half = (low + high) / 2, (high - low) / 2
            square += max(abs(end - middle) / half for end in self.public_ranges[name]) ** 2
        return math.sqrt(square + len(self.features) - len(self.usual))

    def made_solver(self) -> Solver:
        """How models are found.

        Raises:
          ConfigError: a tolerance for the solver that has none.
        """
        if self.solver != "accelerated" and "tolerance" in self.model_fields_set:
            raise ConfigError(
                "model.tolerance", self.tolerance, f"is not for {self.solver}; set model.steps."
            )
        return Solver(self.solver, float(self.tolerance), self.steps)

    def solver_words(self) -> str:
        """How far, or by what."""
        if self.solver == "accelerated":
            return super().solver_words()
        return f"by {self.solver.replace('_', ' ')}"

    def warnings(self, program: Incremental) -> Iterator[str]:
        yield from super().warnings(program)
        if not self.usual:
            yield from self.length_notes(program.rows.moments)


SCORED = 1 / 8
"""Of the budget, for the noise that models are scored on: it makes theirs 7 % larger, and is 2.6
times as large."""


class IncrementalModel(SolvedModel):
    """Least squares of everything so far, from noisy moments."""

    algorithm: Literal["regression.incremental"] = algorithm_field("regression.incremental")
    error: bool = Field(
        default=False,
        description="Whether mean squared error and R^2 are released too. They need the sum of "
        "squared targets, and sums with noise of their own that no model has seen, for an eighth "
        "of the budget: the noise of everything is a little larger. While that noise is too large "
        "to tell them, they are null.",
        examples=[True],
    )
    over: OverSpan = span_field()

    title: ClassVar[str] = "least squares of everything so far, from noisy moments"
    about: ClassVar[str] = (
        "Running sums of the products of features and targets, released jointly with noise; a "
        "model of everything so far is fitted to them at every tick, over the set."
    )
    source: ClassVar[str] = "Kasiviswanathan, Nissim & Jin 2017 (PrivIncReg1), joint release"
    event_only: ClassVar[str] = ""

    def compile(self, terms: Terms) -> Compiled:
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
        return self.compiled(*choose_moments(over, terms, moments, build, scored))


class TwoTreesModel(SolvedModel):
    """The same over two trees with half of the budget each."""

    algorithm: Literal["regression.two_trees"] = algorithm_field("regression.two_trees")
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

    def compile(self, terms: Terms) -> Compiled:
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
        priced = Alternative("tree", "gaussian", True, 1.0, state, after, worst)
        return self.compiled(program, (priced,))

    def doubts(self, program: Any, terms: Terms) -> Iterator[str]:
        yield from super().doubts(program, terms)
        if not isinstance(program, Incremental):
            return
        fields = self.model_dump(exclude_unset=True, by_alias=True)
        better = IncrementalModel.model_validate({**fields, "algorithm": "regression.incremental"})
        ticks = terms.ticks()
        with suppress(ConfigError):
            other = cast(Incremental, better.compile(terms).program)
            times = float(np.max(program.stddev(ticks)) / np.max(other.stddev(ticks)))
            yield f"A baseline: regression.incremental has {times:.2g} times less noise."


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
    built = []
    for part, sensitivity in (
        (scales[:size], 2 * moments.reach**2),
        (scales[size:], 2 * moments.reach * moments.height),
    ):
        change = round_up(sensitivity)
        tree = calibrated("tree", FixedLeaf(part, (None,), change, change), for_ever, half)
        assert isinstance(tree, Tree)
        # Algorithm 4: variance 2 log^2(T) Delta^2 ln(2 / delta) / epsilon^2; log T for the levels.
        printed = tree.levels * math.sqrt(2 * math.log(4 / delta)) * tree.sensitivity * 2 / epsilon
        built.append(replace(tree, noise_scale=round_up(max(tree.noise_scale, printed))))
    return built[0], built[1]
