"""Implicit gradient descent over a convex set, and what is published of it with noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple, cast

import numpy as np

from dpcore.accounting.guarantee import PrivacyLoss, Relation
from dpcore.accounting.precision import refuse_coarse
from dpcore.arrays import Floats, Ints
from dpcore.canonical import canonical_value
from dpcore.errors import ConfigError, at_least_one, positive
from dpcore.geometry.convex_set import ConvexSet
from dpcore.leaves.rows import RowLeaf
from dpcore.models.grid import centre_of, grid_of, row_dot, to_grid
from dpcore.models.losses import PredictionLoss
from dpcore.models.online.implicit import ImplicitStep
from dpcore.models.scaling import is_void
from dpcore.noise.noise import Noise, label

SLACK: Final = 2.0**-7
"""Share of the sensitivity that is left to errors of the solver."""

ROUND_OFF: Final = 2.0**-46
"""Round-off of a projected step, relative to the set's diameter; a generous bound."""


COARSE: Final = "raise epsilon or delta, take a larger curvature, or another algorithm."


class DescentState(NamedTuple):
    """State of K learners.

    Attributes:
      x: (K, d) un-noised iterate. Private: never released.
      played: (K, d) what is played, and released, at the next tick.
    """

    x: Floats
    played: Floats


@dataclass(frozen=True)
class ImplicitDescent:
    """x_{t+1} = argmin over x in P of ||x - x_t||^2 / 2 + eta_t f_t(x), eta_t = 1 / (mu t), and
    what is published of it, Proj_P(x_{t+1} + noise); t = 1, 2, ... counts ticks of the clock.

    f_t(x) = sum over the tick's events of l(<a, x>, y) + (mu/2) ||x - centre||^2, where the
    derivative of l is clipped to [-L/||a||, L/||a||]: still convex, and L-Lipschitz in x, whatever
    the data are. A void row has the loss 0.

    **Formal guarantees**
      Unit: one event. Relation: replace_one, add_remove (a cap makes rows compete, so that an event
        added may replace another), replace_anywhere (two ticks change).
      Sensitivity: one changed event moves x_{t+1} by at most 2L / (mu (t+1)): both are minimisers
        of (1 + eta_t mu)-strongly convex functions that differ by an (eta_t 2L)-Lipschitz one.
        After it, at tick s, equal data shrink the difference by 1 / (1 + eta_s mu) = s / (s + 1).
        So states differ by at most 2L / (mu (s+1)) for ever; without the constraint inside the
        argmin this is false. (4L for replace_anywhere.) The solver is within
        SLACK L / (mu T (s+1)) of the argmin at each tick, certified, which adds a share SLACK.
      Guarantee: T releases with sigma_{t+1} = (2L (1 + SLACK) / (mu (t+1))) sqrt(T / (2 rho)),
        each (rho / T)-zCDP, and mu_dp-Gaussian DP in all, mu_dp^2 = 2 rho: Gaussian noise is priced
        exactly. No output feeds back. Within n ticks of its arrival a record pays n / T of it.
      Source: Jain, Kothari, Thakurta (2012), "Differentially private online learning", POCG;
        constraint, sensitivity and accounting as derived here.

    Attributes:
      set: P, which projects. curvature: mu. centre: d numbers. loss: l, with a smooth derivative.
      gradient_bound: L. reach: bound on ||a||_2. cap: rows a key and tick.
      horizon: T, ticks of the clock. relation: which neighbours. budget: mu_dp.
    """

    set: ConvexSet
    curvature: float
    centre: tuple[float, ...]
    loss: PredictionLoss
    gradient_bound: float
    reach: float
    cap: int
    horizon: int
    relation: Relation
    budget: float

    def __post_init__(self) -> None:
        positive(curvature=self.curvature, gradient_bound=self.gradient_bound, reach=self.reach)
        positive(budget=self.budget)
        at_least_one(cap=self.cap, horizon=self.horizon)
        centre_of(self.set, self.centre)
        if not self.set.projects:
            raise ConfigError(
                "model.algorithm", "online.pocg", f"needs a projection; {self.set.name} has none."
            )
        # Only where the noisy iterate lies in the set are its steps seen, but a projection may take
        # differences of large coordinates: these must not miss steps of the grid either.
        first = float(self.sigma(np.zeros(1, dtype=np.int64))[0])
        refuse_coarse("online.pocg", "gaussian", first / self._grid, remedy=COARSE)
        finest = ROUND_OFF * self.set.diameter
        if self.distance(self.horizon) < finest or self._certificate < finest:
            raise ConfigError(
                "clock.end",
                self.horizon,
                "has too many ticks for online.pocg: its steps would have to be exact beyond "
                "floating point; take a shorter clock, a smaller curvature, or another algorithm.",
            )

    @cached_property
    def _solver(self) -> ImplicitStep:
        smooth = self.cap * smoothness_of(self.loss) * self.reach**2
        return ImplicitStep(self.set, centre_of(self.set, self.centre), self.curvature, smooth)

    @cached_property
    def _grid(self) -> float:
        return grid_of(self.set)

    @property
    def _certificate(self) -> float:
        """Length of the last move at which a step is certified; the same at every tick."""
        return SLACK * self.gradient_bound / (self._solver.smoothness * self.horizon)

    @property
    def dimension(self) -> int:
        """d."""
        return self.set.dimension

    def distance(self, t: int) -> float:
        """Largest distance of the solver's x_{t+1} from the argmin."""
        return SLACK * self.gradient_bound / (self.curvature * self.horizon * (t + 1))

    def sensitivity(self, ticks: Ints) -> Floats:
        """Largest ||x_{t+1} - x'_{t+1}|| of neighbours, t = tick + 1. (m,) 0-based -> (m,)."""
        changes = 4.0 if self.relation == "replace_anywhere" else 2.0
        whole = (changes + 2 * SLACK) * self.gradient_bound / self.curvature
        return np.asarray(whole / (np.asarray(ticks, dtype=np.float64) + 2))

    def sigma(self, ticks: Ints) -> Floats:
        """Standard deviation of the noise on x_{t+1}, t = tick + 1: (m,) 0-based -> (m,)."""
        scale = math.sqrt(self.horizon) / self.budget * (1 + 2.0**-40)
        return np.asarray(self.sensitivity(ticks) * scale)

    def privacy(self, ticks: int | None) -> PrivacyLoss:
        """Loss of one record against everything released within ``ticks`` of its arrival."""
        seen = self.horizon if ticks is None else min(ticks, self.horizon)
        return PrivacyLoss("gdp", self.budget * math.sqrt(seen / self.horizon))

    def init(self, n_keys: int) -> DescentState:
        """Everyone starts at the set's public start."""
        start = to_grid(np.repeat(self.set.start()[None], n_keys, axis=0), self._grid)
        return DescentState(start, start.copy())

    def advance(self, x: Floats, rows: RowLeaf, tick: int) -> Floats:
        """x_t -> x_{t+1}. x: (K, d); rows: of (features, y); tick: 0-based."""
        d, table, keys = self.dimension, cast(Floats, rows.rows), rows.keys
        a = np.ones((len(table), d))  # a last coefficient without a feature is the intercept
        a[:, : table.shape[1] - 1] = table[:, :-1]
        void = is_void(table)
        y = np.where(void, 0.0, table[:, -1])
        length = np.sqrt(row_dot(a, a))
        steepest = self.gradient_bound / np.where(length > 0, length, 1.0)
        steepest[void] = 0.0

        def gradient(at: Floats) -> Floats:
            slope = self.loss.derivative(row_dot(a, at[keys]), y)
            slope = np.clip(slope, -steepest, steepest)
            return sum_rows(a * slope[:, None], rows.counts)

        t = tick + 1
        return self._solver(gradient, x, 1 / (self.curvature * t), self.distance(t))

    def publish(self, x: Floats, noise: Noise) -> Floats:
        """x_{t+1} of a stride, (n, K, d), -> Proj(x + noise) on a public grid."""
        n, n_keys, d = x.shape
        ticks = noise.first_tick + np.arange(n, dtype=np.int64)
        # What is released depends on x alone: equal bits may share noise, others never do.
        digests = noise.leaf_digests((x + 0.0).view(np.int64))
        drawn = noise.gaussian(label(0, ticks), digests, d) * self.sigma(ticks)[:, None, None]
        out = self.set.project((x + drawn).reshape(n * n_keys, d))
        return to_grid(out, self._grid).reshape(n, n_keys, d)

    def step(
        self, state: DescentState, leaves: tuple[RowLeaf, ...], noise: Noise
    ) -> tuple[DescentState, Floats]:
        """A stride -> new state and what was played, (n, K, d)."""
        if noise.first_tick + len(leaves) > self.horizon:
            raise ValueError(f"online.pocg was calibrated for {self.horizon} ticks.")
        x, states = state.x, []
        for i, leaf in enumerate(leaves):
            x = self.advance(x, leaf, noise.first_tick + i)
            states.append(x)
        published = self.publish(np.stack(states), noise)
        played = np.concatenate([state.played[None], published[:-1]])
        return DescentState(x, published[-1].copy()), played

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release."""
        numbers = (self.curvature, self.gradient_bound, self.reach, self.budget)
        return {
            "rule": "pocg",
            "set": self.set.canonical(),
            "loss": [self.loss.name, canonical_value(self.loss)],
            "numbers": [float(number).hex() for number in numbers],
            "centre": [float(value).hex() for value in self.centre],
            "cap": self.cap,
            "horizon": self.horizon,
            "relation": self.relation,
            "slack": SLACK.hex(),
        }


def smoothness_of(loss: PredictionLoss) -> float:
    """Lipschitz constant of a loss's derivative in the prediction.

    Raises:
      ConfigError: it has none.
    """
    if math.isinf(loss.smoothness):
        raise ConfigError(
            "model.loss",
            loss.name,
            "has a corner, over which online.pocg cannot take exact steps; use squared, huber, "
            "logistic or hinge, or another algorithm.",
        )
    return loss.smoothness


def sum_rows(rows: Floats, counts: Ints) -> Floats:
    """Sums each key's rows in their order. rows: (N, d), counts: (K,) -> (K, d)."""
    out = np.zeros((len(counts), rows.shape[1]))
    some = np.flatnonzero(counts)
    if len(rows) == len(some):
        out[some] = rows
    elif some.size:
        starts = (np.cumsum(counts) - counts)[some]
        out[some] = np.add.reduceat(rows, starts, axis=0)
    return out
