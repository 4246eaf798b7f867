"""What finds the point of a fit of a block, as a config names it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from weir.dpcore.config.section import Says
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.cut import Blocks

MINIMISER, SGD = "minimiser", "sgd"
SOLVERS = (MINIMISER, SGD)

Solver = Annotated[Literal["minimiser", "sgd"], Says(f"must be one of {', '.join(SOLVERS)}.")]
Passes = Annotated[int, Field(ge=1, le=1024), Says("must be a whole number from 1 to 1024.")]


def solver_of(solver: str | None, passes: int | None, cut: Blocks, stepped: bool) -> str:
    """The solver that a config asks for, or the default.

    Args:
      solver, passes: as in the config. cut: into blocks. stepped: whether the algorithm knows sgd.

    Raises:
      ConfigError: stochastic steps where they have no such sensitivity.
    """
    if solver != SGD:
        if passes is not None:
            raise ConfigError("model.passes", passes, "belongs to model.solver: sgd; remove it.")
        return MINIMISER
    if not stepped:
        raise ConfigError(
            "model.solver", solver, "is not for fits on samples; write solver: minimiser."
        )
    if not cut.by_count:
        raise ConfigError(
            "model.solver",
            solver,
            "needs model.block to be a number of records: how many rows a batch of other blocks "
            "has is private, and steps that hold for any would be as short as over all rows; "
            "write solver: minimiser.",
        )
    return SGD
