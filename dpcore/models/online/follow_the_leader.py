"""Follow the approximate leader with an exact projection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.models.kit.grid import rounding_of, to_grid
from weir.dpcore.models.online.rule import Rule


class LeaderState(NamedTuple):
    """State of K learners.

    Attributes:
      x: (K, d) float64, what is played next. t: (K,) int64, ticks so far.
      played: (K, d) sum of what was played; (K, 0) where it is not needed.
      certificate: (K,) bound on ||x - minimiser||: only the rounding of x.
    """

    x: Floats
    t: Ints
    played: Floats
    certificate: Floats


@dataclass(frozen=True)
class FollowTheLeader(Rule):
    """x_{t+1} = Proj_P(y_t), y_t = centre - Sum_t / (mu t): the minimiser of
    <Sum_t, x> + t (mu/2) ||x - centre||^2 over P.

    With own curvature y_t = (1/t) (sum_{tau <= t} x_tau - Sum_t / mu). The paper's line 3 lacks the
    1/t, without which the iterate sticks to the boundary.

    **Formal guarantees**: post-processing of the sum.
    Source: Lou and Cheung (2020), Algorithm 1, corrected; over a full-history tree it is PFTAL of
    Thakurta and Smith (2013).

    Attributes:
      set: P, which projects. curvature: mu. centre: d numbers. own_curvature: see ``Rule``.
    """

    own_curvature: bool = False

    rule: ClassVar[str] = "follow_the_leader"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_unprojected("model.algorithm", "online.follow_the_leader")

    @property
    def from_centre(self) -> bool:
        return not self.own_curvature

    @property
    def regret(self) -> str:
        return (
            "Exact projection: regret grows as ln T while the noise of the sum stays bounded (a "
            "fixed window), at most (L/mu) (L + 2N) (1 + ln T) and a constant, L the largest "
            "gradient of a tick and N the norm of the noise."
        )

    def init(self, n_keys: int) -> LeaderState:
        """Everyone starts at the public start."""
        d = self.set.dimension
        return LeaderState(
            self.at_start(n_keys),
            np.zeros(n_keys, dtype=np.int64),
            np.zeros((n_keys, d if self.own_curvature else 0)),
            np.zeros(n_keys),
        )

    def update(self, state: LeaderState, data_sum: Floats) -> LeaderState:
        t = state.t + 1
        share = (1.0 / t)[:, None]
        y = data_sum * (-1.0 / self.curvature)
        played = state.played
        if self.own_curvature:
            played = played + state.x
            y += played
            y *= share
        else:
            y *= share
            y += self._centre
        x = to_grid(self.set.project(y), self._grid)
        rounding = np.full(len(t), rounding_of(self.set, self._grid))
        return LeaderState(x, t, played, rounding)

    def numbers(self) -> Mapping[str, Any]:
        return {"own_curvature": self.own_curvature}
