"""Follow the leader under a pull that fades, and play the average of the leaders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from dpcore.arrays import Floats, Ints
from dpcore.errors import ConfigError, positive
from dpcore.geometry.convex_set import ConvexSet
from dpcore.models.grid import centre_of, grid_of, start_of, to_grid

Growth = Literal["constant", "root"]


class AveragedState(NamedTuple):
    """State of K learners.

    Attributes:
      x: (K, d) float64, the average, which is played next. t: (K,) int64, ticks so far.
      probe: (K, d) where the next gradients are taken.
    """

    x: Floats
    t: Ints
    probe: Floats


@dataclass(frozen=True)
class AveragedLeader:
    """z_t = Proj_P(centre - Sum_t / w_t), the minimiser of <Sum_t, x> + (w_t/2) ||x - centre||^2
    over P; w_t = w, or w sqrt(t).

    Beside the events of t ticks, a share w_t / t of a tick's pull is left, which vanishes. Steps of
    constant weight do not die out: on smooth losses the leaders circle around the optimum, with
    the noise of the newest sum, and their average

      x_{t+1} = x_t + (3 / (t + 2)) (z_t - x_t)      (weights s (s + 1) of z_s),

    which is played, comes closer with every tick: the noise in it falls as that of the mean
    gradient, 1/t. Gradients are taken at (1 - beta) z_t + beta x_{t+1}, nearer to it: then
    many events in a tick, or a leader far out with its noise, make no step overshoot.

    **Formal guarantees**: post-processing of the sum, whatever schedule, momentum and average are.
      Events enter by the sum alone, and what one may add to it is bounded by its clip at any point
      that gradients are taken at: no sensitivity depends on a step.
    Bits: + - * / and sqrt, row by row, and what feeds back is rounded to the grid.
    Source: Kairouz et al. (2021), "Practical and private (deep) learning without sampling or
      shuffling", Algorithm 1 (DP-FTRL), for z; Defazio et al. (2024), "The road less scheduled",
      for where gradients are taken; Polyak and Juditsky (1992) for the average.

    Attributes:
      set: P, which projects. curvature: w. centre: d numbers. growth: of w_t.
      momentum: beta, in [0, 1].
    """

    set: ConvexSet
    curvature: float
    centre: tuple[float, ...]
    growth: Growth = "constant"
    momentum: float = 0.6

    averages: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive(curvature=self.curvature)
        centre_of(self.set, self.centre)
        if not 0 <= self.momentum <= 1:
            raise ConfigError("model.momentum", self.momentum, "must lie between 0 and 1.")
        if not self.set.projects:
            raise ConfigError(
                "model.schedule",
                self.growth,
                f"needs a projection, which {self.set.name} has none of; use "
                "online.conditional_gradient, which needs a linear oracle only.",
            )

    @cached_property
    def _grid(self) -> float:
        return grid_of(self.set)

    @cached_property
    def _centre(self) -> Floats:
        return centre_of(self.set, self.centre)

    @cached_property
    def start(self) -> Floats:
        """(d,) x_1: the centre, if one is given and the set holds it; else the set's start."""
        return np.asarray(to_grid(start_of(self.set, self.centre)[None], self._grid)[0])

    @property
    def regret(self) -> str:
        """See Rule."""
        return (
            "The pull to the centre fades, so that models come to the best one of the set, and the "
            "noise in them falls with the number of ticks, unless features change slowly. Of the "
            "leaders that are averaged regret grows as the root of T (with schedule: root, for any "
            "losses); no bound on that of the average is claimed, which measures better."
        )

    def init(self, n_keys: int) -> AveragedState:
        """Everyone starts at the public start."""
        start = np.repeat(self.start[None], n_keys, axis=0)
        return AveragedState(start, np.zeros(n_keys, dtype=np.int64), start.copy())

    def probe(self, state: AveragedState) -> Floats:
        """See Rule."""
        return state.probe

    def update(self, state: AveragedState, data_sum: Floats) -> AveragedState:
        """See Rule."""
        t = state.t + 1
        ticks = t.astype(np.float64)
        weight = self.curvature * (np.sqrt(ticks) if self.growth == "root" else np.ones(len(t)))
        leader = self.set.project(self._centre - data_sum * (1.0 / weight)[:, None])
        x = to_grid(state.x + (3.0 / (ticks + 2.0))[:, None] * (leader - state.x), self._grid)
        probe = to_grid(leader + self.momentum * (x - leader), self._grid)
        return AveragedState(x, t, probe)

    def canonical(self) -> Mapping[str, Any]:
        """See Rule."""
        return {
            "rule": "averaged_leader",
            "set": self.set.canonical(),
            "curvature": self.curvature.hex(),
            "centre": [value.hex() for value in self.centre],
            "growth": self.growth,
            "momentum": float(self.momentum).hex(),
            "grid": self._grid.hex(),
        }
