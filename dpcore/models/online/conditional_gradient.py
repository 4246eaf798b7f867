"""Follow the approximate leader without projections: one call of a linear oracle a tick."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from dpcore.arrays import Floats, Ints
from dpcore.errors import ConfigError, positive
from dpcore.geometry.convex_set import ConvexSet
from dpcore.geometry.local_oracle import LocalOracle, local_oracle
from dpcore.models.grid import centre_of, grid_of, rounding_of, row_dot, start_of, to_grid

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
class ConditionalGradient:
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
      set: P. curvature: mu. centre: d numbers. own_curvature: see ``Rule``.
      step: line_search, or constant (1 / (2 rho^2); local oracle only).
    """

    set: ConvexSet
    curvature: float
    centre: tuple[float, ...]
    own_curvature: bool = False
    step: Literal["line_search", "constant"] = "line_search"

    averages: ClassVar[bool] = False

    def __post_init__(self) -> None:
        positive(curvature=self.curvature)
        centre_of(self.set, self.centre)
        if self._oracle is None and self.set.projects:
            raise ConfigError(
                "model.algorithm",
                "online.conditional_gradient",
                f"needs a local linear oracle, which {self.set.name} has none of; use "
                "online.follow_the_leader: its projection is exact and cheap.",
            )
        if self._oracle is None and self.step == "constant":
            raise ConfigError(
                "model.step", self.step, f"needs a local oracle, not {self.set.name}; line_search."
            )

    @cached_property
    def _oracle(self) -> LocalOracle | None:
        return local_oracle(self.set)

    @cached_property
    def _grid(self) -> float:
        return grid_of(self.set)

    @cached_property
    def _centre(self) -> Floats:
        return centre_of(self.set, self.centre)

    @cached_property
    def start(self) -> Floats:
        """(d,) x_1: the centre, if one is given and the set holds it; else the set's start, which
        is also where an oracle that remembers weights of vertices begins."""
        own = self.own_curvature or (self._oracle is not None and self._oracle.columns > 0)
        found = self.set.start() if own else start_of(self.set, self.centre)
        return np.asarray(to_grid(found[None], self._grid)[0])

    @property
    def offset(self) -> int:
        """C0, ticks' worth of curvature around x_1: 16 rho^2."""
        return GLOBAL_OFFSET if self._oracle is None else math.ceil(16 * self._oracle.rho**2)

    @property
    def rate(self) -> float:
        """The constant step 1 / (2 rho^2); 0 without a local oracle."""
        return 0.0 if self._oracle is None else 1 / (2 * self._oracle.rho**2)

    @property
    def regret(self) -> str:
        """See Rule."""
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
            np.repeat(self.start[None], n_keys, axis=0),
            np.zeros(n_keys, dtype=np.int64),
            np.zeros(n_keys),
            np.full(n_keys, (4 * rounding_of(self.set, self._grid)) ** 2),
            np.zeros((n_keys, d)),
            np.zeros((n_keys, d if self.own_curvature else 0)),
            () if self._oracle is None else self._oracle.init(n_keys),
        )

    def probe(self, state: GradientState) -> Floats:
        """See Rule."""
        return state.x

    def update(self, state: GradientState, data_sum: Floats) -> GradientState:
        """See Rule."""
        x, mu, offset = state.x, self.curvature, float(self.offset)
        t = state.t + 1
        ticks = t.astype(np.float64)
        weight = ticks + offset
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

        away = x - y
        found = None if self._oracle is None else self._oracle(x, bound, away, state.aux)
        point = self.set.linear_oracle(away) if found is None else found.point
        direction = point - x
        length = row_dot(direction, direction)
        slope = -row_dot(away, direction)
        if self.step == "constant":
            g = np.where(length > 0, self.rate, 0.0)
        else:
            g = np.clip(slope / np.where(length > 0, length, 1.0), 0.0, 1.0)
            g[length == 0] = 0.0
        direction *= g[:, None]
        direction += x
        fresh = to_grid(direction, self._grid)
        aux = state.aux
        if self._oracle is not None and found is not None:
            aux = self._oracle.update(aux, g, found)
        gap = self._gap(bound, away, fresh, y, g * (2.0 * slope - g * length))
        return GradientState(fresh, t, bound, gap, data_sum, played, aux)

    def _gap(self, bound: Floats, before: Floats, x: Floats, y: Floats, fallen: Floats) -> Floats:
        """Bp^2 >= 2 (F_t(x_{t+1}) - min F_t) / H >= ||x_{t+1} - leader||^2: the least of what the
        oracle's rate, the step's own progress and the duality gap certify.

        Args:
          bound: (K,) B. before: (K, d) x_t - y. x: (K, d) x_{t+1}. y: (K, d).
          fallen: (K,) ||x_t - y||^2 - ||x_{t+1} - y||^2, before x_{t+1} was rounded.

        Returns:
          (K,), with room for the rounding of iterates: this is for utility only.
        """
        square = bound * bound
        least = square - fallen
        if self._oracle is not None:
            al, rho = self.rate, self._oracle.rho
            np.minimum(least, square * ((1 - al) + (al * rho) ** 2), out=least)
        after = x - y
        vertex = self.set.linear_oracle(after)
        np.minimum(least, 2.0 * row_dot(after, x - vertex), out=least)
        np.maximum(least, 0.0, out=least)
        reach = np.sqrt(row_dot(before, before)) + self.set.diameter
        least += 8.0 * rounding_of(self.set, self._grid) * reach
        return least

    def canonical(self) -> Mapping[str, Any]:
        """See Rule."""
        return {
            "rule": "conditional_gradient",
            "set": self.set.canonical(),
            "curvature": self.curvature.hex(),
            "centre": [value.hex() for value in self.centre],
            "own_curvature": self.own_curvature,
            "step": self.step,
            "grid": self._grid.hex(),
        }
