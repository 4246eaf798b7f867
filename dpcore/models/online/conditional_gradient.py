"""Follow the approximate leader without projections: one call of a linear oracle a tick."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.geometry.local_oracle import LocalOracle
from weir.dpcore.models.kit.point import row_dot
from weir.dpcore.models.online.oracle_step import OracleStep
from weir.dpcore.models.online.rule import LeaderRule

GLOBAL_OFFSET = 16
"""C0 where there is no local oracle and hence no rho."""


class GradientState(NamedTuple):
    """State of K learners.

    Attributes:
      x: (K, d) float64, what is played next. t: (K,) int64, ticks so far.
      certificate: (K,) B of the last tick: ||x played then - leader of that tick|| <= B.
      gap: (K,) Bp^2: the same, squared, for the next x against that leader.
      released: (K, d) the released sum of the last tick.
      played: (K, d) sum of what was played; (K, 0) where it is not needed.
      aux: what the local oracle keeps.
    """

    x: Floats
    t: Ints
    certificate: Floats
    gap: Floats
    released: Floats
    played: Floats
    aux: Any


@dataclass(frozen=True)
class ConditionalGradient(LeaderRule):
    """One local linear oracle call a tick, its radius certified by what was released.

    F_t(x) = (H/2) ||x - y||^2 + const, H = mu (t + C0),
    y = (t centre + C0 x_1 - Sum_t / mu) / (t + C0)
    (own curvature: sum_{tau <= t} x_tau in place of t centre). With e = ||ghat_t - ghat_{t-1}|| / H
    the played x_t is within B = e + sqrt(e^2 + Bp^2) of the leader; p = LLOO(x_t, B, x_t - y);
    x_{t+1} = x_t + g (p - x_t), g by exact line search or constant.

    Without a local oracle (sets known by a linear oracle only) p is the vertex of least cost: the
    step contracts no longer at a constant rate, ``regret`` says what is lost, and the certificate
    rests on the duality gap.

    **Formal guarantees**: post-processing of the sum.
    Source: Lou and Cheung (2020), Algorithm 2, with sign, offset and radius corrected; Garber and
    Hazan (2016).

    Attributes:
      set: P. curvature: mu. centre: d numbers. own_curvature: see ``LeaderRule``.
      step: line_search, or constant (1 / (2 rho^2); local oracle only).
    """

    own_curvature: bool = False
    step: Literal["line_search", "constant"] = "line_search"

    rule: ClassVar[str] = "conditional_gradient"

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_projected(self.set, self._oracle)
        if self._oracle is None and self.step == "constant":
            raise ConfigError(
                "model.step", self.step, f"needs a local oracle, not {self.set.name}; line_search."
            )

    @cached_property
    def _step(self) -> OracleStep:
        return OracleStep(self.set, self.step)

    @property
    def _oracle(self) -> LocalOracle | None:
        return self._step.oracle

    @property
    def from_centre(self) -> bool:
        """An oracle that remembers weights of vertices begins at the set's own start."""
        own = self.own_curvature or (self._oracle is not None and self._oracle.columns > 0)
        return not own

    @property
    def offset(self) -> int:
        """C0, ticks' worth of curvature around x_1: 16 rho^2."""
        return GLOBAL_OFFSET if self._oracle is None else math.ceil(16 * self._oracle.rho**2)

    @property
    def regret(self) -> str:
        if self._oracle is None:
            return (
                self.set.guarantee_lost
                or f"No local linear oracle is known for {self.set.name}: regret O(ln T) is not "
                "guaranteed."
            ) + " Each model is within its certificate of the leader."
        return (
            "Projection-free by a local linear oracle: regret grows as ln T while the noise of "
            f"the sum stays bounded (a fixed window), with rho^2 = {self._oracle.rho**2:g}: at "
            "most (L/mu) (16 rho^2 (L + 2N) + N) ln((T + C0)/C0) + 8 rho^2 mu D^2, L the largest "
            "gradient of a tick, N the norm of the noise, D the diameter."
        )

    def init(self, n_keys: int) -> GradientState:
        """Everyone starts at the public start, which is the leader of no data."""
        d = self.set.dimension
        return GradientState(
            self.at_start(n_keys),
            np.zeros(n_keys, dtype=np.int64),
            np.zeros(n_keys),
            np.full(n_keys, self._step.least_gap),
            np.zeros((n_keys, d)),
            np.zeros((n_keys, d if self.own_curvature else 0)),
            self._step.init(n_keys),
        )

    def update(self, state: GradientState, data_sum: Floats) -> GradientState:
        x, mu, offset = state.x, self.curvature, float(self.offset)
        t = state.t + 1
        ticks = t.astype(np.float64)
        weight = ticks + offset
        kernel = self._step.kernel() if self._from_zero else None
        if kernel is not None:
            fresh, gap, bound = kernel.follow(x, data_sum, state.released, weight, state.gap, mu)
            return GradientState(fresh, t, bound, gap, data_sum, state.played, state.aux)
        y = data_sum * (-1.0 / mu)
        change = data_sum - state.released
        played = state.played
        if self.own_curvature:
            played = played + x
            y += played
        else:
            change += mu * x
            if self._centre.any():
                change -= mu * self._centre
                y += ticks[:, None] * self._centre
        if self.start.any():
            y += offset * self.start
        y *= (1.0 / weight)[:, None]
        moved = np.sqrt(row_dot(change, change)) / (mu * weight)
        bound = moved + np.sqrt(moved * moved + state.gap)

        fresh, gap, aux = self._step(x, bound, y, state.aux)
        return GradientState(fresh, t, bound, gap, data_sum, played, aux)

    @cached_property
    def _from_zero(self) -> bool:
        """Whether centre and start are 0, and curvature is that of the learner."""
        return not (self.own_curvature or self._centre.any() or self.start.any())

    def numbers(self) -> Mapping[str, Any]:
        return {"own_curvature": self.own_curvature, "step": self.step}


def refuse_projected(convex_set: ConvexSet, oracle: LocalOracle | None) -> None:
    """Raises ConfigError: a set that projects, and has no local oracle."""
    if oracle is None and convex_set.projects:
        raise ConfigError(
            "model.algorithm",
            "online.conditional_gradient",
            f"needs a local linear oracle, which {convex_set.name} has none of; use "
            "online.follow_the_leader: its projection is exact and inexpensive.",
        )
