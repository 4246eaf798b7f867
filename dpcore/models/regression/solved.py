"""Fields of regressions that may be solved by the paper's own steps too."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from weir.dpcore.config.section import Pair, Says, refusal
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.moments import Moments
from weir.dpcore.models.regression.incremental import Incremental
from weir.dpcore.models.regression.price import SLACK
from weir.dpcore.models.regression.section import MomentsModel
from weir.dpcore.models.regression.solver import Solver
from weir.dpcore.program import Program

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
        found = super().moments(squares, typical)
        reach = found.reach if self.clip.features is None else float(self.clip.features)
        reach = min(reach, math.sqrt(self.longest**2 + self.intercept) * SLACK)
        return replace(found, reach=reach, entry=max(1.0, reach))

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

    def warnings(self, program: Program) -> Iterator[str]:
        """See Algorithm."""
        yield from super().warnings(program)
        if isinstance(program, Incremental) and not self.usual:
            yield from self.length_notes(program.rows.moments)
