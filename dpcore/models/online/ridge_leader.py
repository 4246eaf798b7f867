"""Follow the leader of squared losses: from released moments to the next iterate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.kit.grid import to_grid
from weir.dpcore.models.online.quadratic import FARTHEST, solve_positive, unpack
from weir.dpcore.models.online.rule import OverSet


@dataclass(frozen=True)
class RidgeLeader(OverSet):
    """x_{t+1} = Proj_P(argmin of x' Q x / 2 - <q, x> + (r_t/2) ||x - centre||^2), Q and q released
    sums of x x^T and x y; r_t = mu t, t ticks so far, or r_t = mu, which fades.

    Pivots are raised to r_t, below which no clean system has any, and as ``solve_positive`` says:
    noise may make Q indefinite.
    Where the constraint binds, the projection of the unconstrained solution is not the constrained
    one.

    **Formal guarantees**: post-processing of the sums.

    Attributes:
      set: P, which projects. curvature: mu. centre: d numbers. growth: of r_t.
    """

    growth: Literal["linear", "constant"] = "linear"

    rule: ClassVar[str] = "ridge_leader"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.set.projects:
            raise ConfigError(
                "model.set", self.set.name, "has no projection, which online.pqftl needs."
            )

    def __call__(self, statistics: Floats, ticks: Floats) -> Floats:
        """statistics: (K, D) in units of the data; ticks: (K,), 0 or more -> (K, d) to play."""
        d = self.set.dimension
        out = np.repeat(self.set.start()[None], len(statistics), axis=0)
        some = np.flatnonzero(ticks > 0)
        if some.size:
            matrix, right = unpack(statistics[some], d)
            grown = ticks[some] if self.growth == "linear" else np.ones(some.size)
            ridge = self.curvature * grown
            diagonal = np.arange(d)
            matrix[:, diagonal, diagonal] += ridge[:, None]
            right += ridge[:, None] * self._centre
            solved = solve_positive(matrix, right, ridge)
            # Nothing that noise makes of a system may reach a projection as infinity.
            solved = np.nan_to_num(np.clip(solved, -FARTHEST, FARTHEST))
            out[some] = self.set.project(solved)
        return to_grid(out, self._grid)

    def numbers(self) -> Mapping[str, Any]:
        """See OverSet."""
        return {} if self.growth == "linear" else {"growth": self.growth}
