"""How a learner follows released gradients: the rules over a set, and the leader."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.errors import ConfigError, positive
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.kit.point import centre_of, grid_of, rounding_of, start_of, to_grid


@dataclass(frozen=True)
class OverSet:
    """A rule over a convex set, whose iterates lie on a public grid.

    Attributes:
      set: P. curvature: mu or w, above 0. centre: d numbers, where the curvature pulls to.
    """

    set: ConvexSet
    curvature: float
    centre: tuple[float, ...]

    rule: ClassVar[str]

    def __post_init__(self) -> None:
        positive(curvature=self.curvature)
        centre_of(self.set, self.centre)

    def refuse_unprojected(self, field: str, value: str) -> None:
        """Raises ConfigError: the set has no projection, which the rule needs."""
        if not self.set.projects:
            raise ConfigError(
                field,
                value,
                f"needs a projection, which {self.set.name} has none of; use "
                "online.conditional_gradient, which needs a linear oracle only.",
            )

    @cached_property
    def _grid(self) -> float:
        return grid_of(self.set)

    @cached_property
    def _centre(self) -> Floats:
        return centre_of(self.set, self.centre)

    @property
    def from_centre(self) -> bool:
        """Whether x_1 is the centre, if the set holds it."""
        return True

    @cached_property
    def start(self) -> Floats:
        """(d,) x_1: the centre, if one is given and the set holds it; else the set's start."""
        result = start_of(self.set, self.centre) if self.from_centre else self.set.start()
        return np.asarray(to_grid(result[None], self._grid)[0])

    def at_start(self, n_keys: int) -> Floats:
        """(K, d): everyone starts at the public start."""
        return np.repeat(self.start[None], n_keys, axis=0)

    def numbers(self) -> Mapping[str, Any]:
        """Public numbers of the rule's own, JSON-able."""
        return {}

    def canonical(self) -> Mapping[str, Any]:
        return {
            "rule": self.rule,
            "set": self.set.canonical(),
            "curvature": self.curvature.hex(),
            "centre": [value.hex() for value in self.centre],
            **self.numbers(),
            "grid": self._grid.hex(),
        }


class LeaderRule(OverSet, ABC):
    """F_t(x) = <data sum, x> + public quadratics; the rule (nearly) minimises it over the set.

    With x_1, .., x_t played, Sum the released running sum of clipped gradients, mu and centre
    public, ghat_t = Sum + mu sum_{tau <= t} (x_tau - centre): the gradient of the data plus that of
    (mu/2) ||x - centre||^2 at every tick, empty ones too. With ``own_curvature`` one loss a tick is
    strongly convex by itself and ghat_t = Sum.

    Nothing here reads data: **Formal guarantees** are those of the sum that it is given.

    Attributes: see ``OverSet``;
      averages: whether gradients are taken elsewhere than at what is played, which is an average.
      calls: of a linear oracle a tick, in place of a projection; 0: it projects.
      fading: weight of the curvature, for people, where it fades relative to the events; "": it
      lasts.
      played: what is played, for people, where it is not the newest iterate.
    """

    averages: ClassVar[bool] = False
    calls: int = 0

    @property
    def fading(self) -> str:
        return ""

    @property
    def played(self) -> str:
        return ""

    @property
    @abstractmethod
    def regret(self) -> str:
        """What is known about its regret, for people."""

    @abstractmethod
    def init(self, n_keys: int) -> Any:
        """A NamedTuple of arrays with leading axis K, among them x (K, d), which is played next,
        and t (K,) int64."""

    def probe(self, state: Any) -> Floats:
        """(K, d), where the gradients of the next tick are taken: a function of what was released,
        as x is, and x itself where the rule does not average."""
        return np.asarray(state.x)

    @abstractmethod
    def update(self, state: Any, data_sum: Floats) -> Any:
        """One tick; the new state's x is played next.

        data_sum: (K, d) float64, released, gradient units; it is kept, and never changed.
        """


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
class FollowTheLeader(LeaderRule):
    """x_{t+1} = Proj_P(y_t), y_t = centre - Sum_t / (mu t): the minimiser of
    <Sum_t, x> + t (mu/2) ||x - centre||^2 over P.

    With own curvature y_t = (1/t) (sum_{tau <= t} x_tau - Sum_t / mu). The paper's line 3 lacks the
    1/t, without which the iterate sticks to the boundary.

    **Formal guarantees**: post-processing of the sum.
    Source: Lou and Cheung (2020), Algorithm 1, corrected; over a full-history tree it is PFTAL of
    Thakurta and Smith (2013).

    Attributes:
      set: P, which projects. curvature: mu. centre: d numbers. own_curvature: see ``LeaderRule``.
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
