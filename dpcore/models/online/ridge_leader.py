"""Follow the leader of squared losses: from released moments to the next iterate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpcore.arrays import Floats
from dpcore.errors import ConfigError, positive
from dpcore.geometry.convex_set import ConvexSet
from dpcore.models.grid import centre_of, grid_of, to_grid
from dpcore.models.online.quadratic import solve_positive, unpack

FARTHEST = 2.0**100


@dataclass(frozen=True)
class RidgeLeader:
    """x_{t+1} = Proj_P(argmin of x' Q x / 2 - <q, x> + t (mu/2) ||x - centre||^2), Q and q released
    sums of x x^T and x y, t ticks so far.

    Pivots are raised to t mu, below which no clean system has any, and as ``solve_positive`` says:
    noise may make Q indefinite.
    Where the constraint binds, the projection of the unconstrained solution is not the constrained
    one.

    **Formal guarantees**: post-processing of the sums.

    Attributes:
      set: P, which projects. curvature: mu. centre: d numbers.
    """

    set: ConvexSet
    curvature: float
    centre: tuple[float, ...]

    def __post_init__(self) -> None:
        positive(curvature=self.curvature)
        centre_of(self.set, self.centre)
        if not self.set.projects:
            raise ConfigError(
                "model.set", self.set.name, "has no projection, which online.pqftl needs."
            )

    @cached_property
    def _grid(self) -> float:
        return grid_of(self.set)

    def __call__(self, statistics: Floats, ticks: Floats) -> Floats:
        """statistics: (K, D) in units of the data; ticks: (K,), 0 or more -> (K, d) to play."""
        d = self.set.dimension
        out = np.repeat(self.set.start()[None], len(statistics), axis=0)
        some = np.flatnonzero(ticks > 0)
        if some.size:
            matrix, right = unpack(statistics[some], d)
            ridge = self.curvature * ticks[some]
            diagonal = np.arange(d)
            matrix[:, diagonal, diagonal] += ridge[:, None]
            right += ridge[:, None] * centre_of(self.set, self.centre)
            solved = solve_positive(matrix, right, ridge)
            # Nothing that noise makes of a system may reach a projection as infinity.
            solved = np.nan_to_num(np.clip(solved, -FARTHEST, FARTHEST))
            out[some] = self.set.project(solved)
        return to_grid(out, self._grid)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {
            "rule": "ridge_leader",
            "set": self.set.canonical(),
            "curvature": self.curvature.hex(),
            "centre": [value.hex() for value in self.centre],
            "grid": self._grid.hex(),
        }
