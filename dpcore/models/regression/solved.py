"""Fields of regressions that may be solved by the paper's own steps too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from dpcore.config.section import Says
from dpcore.errors import ConfigError
from dpcore.models.regression.incremental import Incremental
from dpcore.models.regression.section import MomentsModel
from dpcore.models.regression.solver import Solver
from dpcore.program import Program

SolverName = Annotated[
    Literal["accelerated", "noisy_projected_gradient"],
    Says("must be one of accelerated, noisy_projected_gradient."),
]


class SolvedModel(MomentsModel):
    """A regression in all dimensions of its features."""

    solver: SolverName = Field(
        default="accelerated",
        description="How the private objective is minimised: accelerated, to the tolerance, or "
        "noisy_projected_gradient, the paper's constant steps and averaged iterate.",
        examples=["accelerated"],
    )

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
        if isinstance(program, Incremental):
            yield from self.length_notes(program.rows.moments)
