"""Follow the leader under a pull that fades, and play the average of the leaders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.kit.grid import to_grid
from weir.dpcore.models.online.nearest import Nearest
from weir.dpcore.models.online.rule import Rule

Growth = Literal["constant", "root"]


class AveragedState(NamedTuple):
    """State of K learners.

    Attributes:
      x: (K, d) float64, the average, which is played next. t: (K,) int64, ticks so far.
      probe: (K, d) where the next gradients are taken. near: see ``Nearest``.
    """

    x: Floats
    t: Ints
    probe: Floats
    near: Any = ()


@dataclass(frozen=True)
class AveragedLeader(Rule):
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
      set: P. curvature: w. centre: d numbers. growth: of w_t. momentum: beta, in [0, 1].
      calls: 0: P projects; else leaders are approached by so many linear oracle calls a tick.
    """

    growth: Growth = "constant"
    momentum: float = 0.6
    calls: int = 0

    averages: ClassVar[bool] = True
    rule: ClassVar[str] = "averaged_leader"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.momentum <= 1:
            raise ConfigError("model.momentum", self.momentum, "must lie between 0 and 1.")
        if not self.calls:
            self.refuse_unprojected("model.schedule", self.growth)

    @cached_property
    def _nearest(self) -> Nearest:
        return Nearest(self.set, self.calls)

    @property
    def regret(self) -> str:
        return (
            "The pull to the centre fades, so that models come to the best one of the set, and the "
            "noise in them falls with the number of ticks, unless features change slowly. Of the "
            "leaders that are averaged regret grows as the root of T (with schedule: root, for any "
            "losses); no bound on that of the average is claimed, which measures better."
        )

    @property
    def fading(self) -> str:
        return " times the root of the ticks" if self.growth == "root" else " in all"

    @property
    def played(self) -> str:
        return (
            "the average of the leaders; gradients are taken at last, "
            f"{self.momentum:g} of the way from the newest leader to it"
        )

    def init(self, n_keys: int) -> AveragedState:
        """Everyone starts at the public start."""
        start, t = self.at_start(n_keys), np.zeros(n_keys, dtype=np.int64)
        return AveragedState(start, t, start.copy(), self._nearest.init(n_keys))

    def probe(self, state: AveragedState) -> Floats:
        return state.probe

    def update(self, state: AveragedState, data_sum: Floats) -> AveragedState:
        t = state.t + 1
        ticks = t.astype(np.float64)
        weight = self.curvature * (np.sqrt(ticks) if self.growth == "root" else np.ones(len(t)))
        y = self._centre - data_sum * (1.0 / weight)[:, None]
        leader, near = self._nearest(y, state.near)
        x = to_grid(state.x + (3.0 / (ticks + 2.0))[:, None] * (leader - state.x), self._grid)
        probe = to_grid(leader + self.momentum * (x - leader), self._grid)
        return AveragedState(x, t, probe, near)

    def numbers(self) -> Mapping[str, Any]:
        calls = {"calls": self.calls} if self.calls else {}
        momentum = float(self.momentum).hex()
        return {"growth": self.growth, "momentum": momentum, **calls}
