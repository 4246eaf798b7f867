"""Implicit gradient steps, certified, and the noise of their iterates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.accounting.guarantee import PrivacyLoss, Relation
from weir.dpcore.accounting.precision import refuse_coarse
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.errors import ConfigError, at_least_one, positive
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.kit.loss import PredictionLoss
from weir.dpcore.models.kit.point import centre_of, grid_of, row_dot, to_grid
from weir.dpcore.models.kit.rows import is_void
from weir.dpcore.noise import replay
from weir.dpcore.noise.noise import Noise, label


@dataclass(frozen=True)
class ImplicitStep:
    """argmin over x in P of ||x - v||^2 / 2 + eta (f(x) + (mu / 2) ||x - centre||^2).

    f is convex with a ``smoothness``-Lipschitz gradient; phi, the whole, is m-strongly convex and
    S-smooth, m = 1 + eta mu, S = m + eta smoothness. Accelerated projected gradient; a key stops
    where its own certificate holds, so its result does not depend on the other keys.

    **Formal guarantees**
      Certificate: one projected step of length 1/S is a (1 - m/S)-contraction whose fixed point is
        the minimiser x*, so a step from y to x+ proves ||x+ - x*|| <= (S/m - 1) ||x+ - y||.
      Ends: after (sqrt(S/m)) ln(...) steps the certificate holds in any case, so ``limit`` follows
        from public numbers and never cuts one short, round-off apart.
      Source: Nesterov, Introductory Lectures on Convex Optimization, 2.2.

    Attributes:
      convex_set: P. centre: (d,). curvature: mu. smoothness: of f.
    """

    convex_set: ConvexSet
    centre: Floats
    curvature: float
    smoothness: float

    def __call__(
        self, gradient: Callable[[Floats], Floats], origin: Floats, eta: float, distance: float
    ) -> Floats:
        """Steps K keys.

        Args:
          gradient: (K, d) -> (K, d), gradient of each key's f.
          origin: v, (K, d). eta: step size. distance: certified ||x - x*||, above 0.
        """
        modulus = 1 + eta * self.curvature
        smooth = modulus + eta * self.smoothness
        ratio = smooth / modulus - 1
        root = math.sqrt(smooth / modulus)
        momentum = (root - 1) / (root + 1)
        x = self.convex_set.project(origin)
        y, out = x, x
        open_ = np.ones(len(x), dtype=bool)
        for _ in range(self.limit(eta, distance)):
            slope = (y - origin) + eta * (gradient(y) + self.curvature * (y - self.centre))
            new = self.convex_set.project(y - slope / smooth)
            out = np.where(open_[:, None], new, out)
            move = new - y
            open_ &= ratio * np.sqrt((move * move).sum(axis=1)) > distance
            if not open_.any():
                break
            x, y = new, new + momentum * (new - x)
        return out

    def limit(self, eta: float, distance: float) -> int:
        """Steps after which the certificate holds whatever the data are.

        phi(x_k) - phi* <= (1 - sqrt(q))^k S D^2 with q = m/S; hence ||x_k - x*|| and both of its
        neighbours y, x+ fall below q distance / 8 when the right side is below
        (m/2) (q distance / 8)^2.
        """
        q = 1 / (1 + eta * self.smoothness / (1 + eta * self.curvature))
        if q == 1:
            return 1
        gap = 128 * self.convex_set.diameter**2 / (q**3 * distance**2)
        return 3 + math.ceil(max(0.0, math.log(gap)) / -math.log1p(-math.sqrt(q)))


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
      average: (K, d) of the noisy iterates so far; (), where the newest is played.
    """

    x: Floats
    played: Floats
    average: Any = ()


@dataclass(frozen=True)
class ImplicitDescent:
    """x_{t+1} = argmin over x in P of ||x - x_t||^2 / 2 + eta_t f_t(x), eta_t = 1 / w_{t-1}, and
    what is published of it, Proj_P(x_{t+1} + noise); t = 1, 2, ... counts ticks of the clock.

    f_t(x) = sum over the tick's events of l(<a, x>, y) + (mu_t/2) ||x - centre||^2, where the
    derivative of l is clipped to [-L/||a||, L/||a||]: still convex, and L-Lipschitz in x, whatever
    the data are. A void row has the loss 0. The weights w_t = w_{t-1} + mu_t are public: mu (t + 1)
    with mu_t = mu, whose pull grows as the events do; or, ``fading``, w + b sqrt(t + 1), whose pull
    fades relative to them, and then the mean of the noisy iterates (weights s (s + 1)) is played:
    it has the noise of the mean, sqrt(t) times less than one of them, and is drawn to the centre by
    as much as that noise is worth next to the set, before it is projected.

    **Formal guarantees**
      Unit: one event. Relation: replace_one, add_remove (a cap makes rows compete, so that an event
        added may replace another), replace_anywhere (two ticks change).
      Sensitivity: one changed event moves x_{t+1} by at most 2L / w_t: both are minimisers of
        (1 + eta_t mu_t)-strongly convex functions that differ by an (eta_t 2L)-Lipschitz one, and
        eta_t / (1 + eta_t mu_t) = 1 / (w_{t-1} + mu_t) = 1 / w_t. After it, at tick s, equal data
        shrink the difference by 1 / (1 + eta_s mu_s) = w_{s-1} / w_s. So states differ by at most
        2L / w_s for ever; without the constraint inside the argmin this is false. (4L for
        replace_anywhere.) The solver is within SLACK L / (T w_s) of the argmin at each tick,
        certified, which adds a share SLACK.
        Of a user: a cell of e events is e such changes at one tick (rows compete one by one: e
        leave, and at most e come in). What m ticks of a key move adds up, each shrunk to the same
        1 / w_s: e m 2L / w_s. Keys have noise of their own, so that their squares add: ``rows``
        (``rows_of_user``) times 2L / w_s, at every s. Clipping a user's summed gradient once
        would be no step on a convex loss, and this proof needs one.
      Guarantee: of R releases the ``spread`` ones that a record meets within its window share the
        budget: sigma_{t+1} = (2L (1 + SLACK) / w_t) sqrt(spread / (2 rho)), each
        (rho / spread)-zCDP, and mu_dp-Gaussian DP in all, mu_dp^2 = 2 rho: Gaussian noise is priced
        exactly. No output feeds back. Published at every n-th tick only, R = T / n: within m ticks
        of its arrival a record meets ceil(m / n) releases. Averages are post-processing.
      Source: Jain, Kothari, Thakurta (2012), "Differentially private online learning", POCG;
        constraint, sensitivity and accounting as derived here.

    Attributes:
      set: P, which projects. curvature: mu, or w where it fades. centre: d numbers.
      loss: l, with a smooth derivative.
      gradient_bound: L. reach: bound on ||a||_2. cap: rows a key and tick.
      horizon: T, ticks of the clock. relation: which neighbours. budget: mu_dp.
      fading: b; None: the pull grows with the ticks. rows: that the unit counts for.
      spread: releases that share the budget; None: all. every: n, ticks from one to the next.
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
    fading: float | None = None
    rows: int = 1
    spread: int | None = None
    every: int = 1

    def __post_init__(self) -> None:
        positive(curvature=self.curvature, gradient_bound=self.gradient_bound, reach=self.reach)
        positive(budget=self.budget)
        at_least_one(cap=self.cap, horizon=self.horizon, rows=self.rows, every=self.every)
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

    def weight(self, t: Any) -> Any:
        """w_t, t = 0, 1, ..., a number or an array."""
        if self.fading is None:
            return self.curvature * (t + 1)
        return self.curvature + self.fading * np.sqrt(t + 1.0)

    def _solver(self, t: int) -> ImplicitStep:
        grown = self.curvature
        if self.fading is not None:
            grown = float(self.weight(t) - self.weight(t - 1))
        return ImplicitStep(self.set, self._centre, grown, self._smoothness)

    @cached_property
    def _smoothness(self) -> float:
        return self.cap * smoothness_of(self.loss) * self.reach**2

    @cached_property
    def _grid(self) -> float:
        return grid_of(self.set)

    @property
    def _certificate(self) -> float:
        """Length of the last move at which a step is certified; the same at every tick."""
        return SLACK * self.gradient_bound / (self._smoothness * self.horizon)

    @property
    def dimension(self) -> int:
        """d."""
        return self.set.dimension

    def distance(self, t: int) -> float:
        """Largest distance of the solver's x_{t+1} from the argmin."""
        if self.fading is None:
            return SLACK * self.gradient_bound / (self.curvature * self.horizon * (t + 1))
        return SLACK * self.gradient_bound / (float(self.weight(t)) * self.horizon)

    def sensitivity(self, ticks: Ints) -> Floats:
        """Largest ||x_{t+1} - x'_{t+1}|| of neighbours, t = tick + 1. (m,) 0-based -> (m,)."""
        changes = 4.0 if self.relation == "replace_anywhere" else 2.0
        whole = (changes * self.rows + 2 * SLACK) * self.gradient_bound
        at = np.asarray(ticks, dtype=np.float64)
        if self.fading is None:
            return np.asarray(whole / self.curvature / (at + 2))
        return np.asarray(whole / self.weight(at + 1) * (1 + 2.0**-40))

    @property
    def releases(self) -> int:
        """R, how often something is published."""
        return self.horizon // self.every

    def sigma(self, ticks: Ints) -> Floats:
        """Standard deviation of the noise on x_{t+1}, t = tick + 1: (m,) 0-based -> (m,)."""
        scale = math.sqrt(self.spread or self.releases) / self.budget * (1 + 2.0**-40)
        return np.asarray(self.sensitivity(ticks) * scale)

    def privacy(self, ticks: int | None) -> PrivacyLoss:
        """Loss of one record against everything released within ``ticks`` of its arrival."""
        seen = self.releases
        if ticks is not None:
            seen = min(-(-ticks // self.every), seen)
        return PrivacyLoss("gdp", self.budget * math.sqrt(seen / (self.spread or self.releases)))

    def init(self, n_keys: int) -> DescentState:
        """Everyone starts at the set's public start."""
        start = to_grid(np.repeat(self.set.start()[None], n_keys, axis=0), self._grid)
        average = () if self.fading is None else np.zeros_like(start)
        return DescentState(start, start.copy(), average)

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
        eta = 1 / float(self.weight(t - 1))
        return self._solver(t)(gradient, x, eta, self.distance(t))

    def publish(self, x: Floats, noise: Noise, average: Any = ()) -> tuple[Floats, Any]:
        """x_{t+1} of a stride, (n, K, d), -> what is played after each tick that publishes,
        (m, K, d) on a public grid; and the average."""
        ticks = noise.first_tick + np.arange(len(x), dtype=np.int64)
        due = self.due(ticks)
        # What is released depends on x alone: equal bits may share noise, others never do.
        digests = noise.leaf_digests((x + 0.0).view(np.int64))[due]
        drawn = noise.gaussian(label(0, ticks[due]), digests, self.dimension)
        noisy = x[due] + drawn * self.sigma(ticks[due])[:, None, None]
        if replay.is_on():
            scale, moved = self.sigma(ticks[due]), self.sensitivity(ticks[due])
            noisy = replay.rows("iterate", "gaussian", x[due], noisy, moved, scale)
        if self.fading is not None:
            means = np.empty_like(noisy)
            numbers = (ticks[due] + 1) // self.every
            for i, number in enumerate(numbers.tolist()):
                average = average + (3.0 / (number + 2.0)) * (noisy[i] - average)
                retained = self._worth[number - 1]
                means[i] = self._centre + retained * (average - self._centre)
            noisy = means
        out = self.set.project(noisy.reshape(-1, self.dimension))
        return to_grid(out, self._grid).reshape(noisy.shape), average

    @cached_property
    def _worth(self) -> Floats:
        """(R,) p^2 / (p^2 + v_k) of the mean of k iterates, v_k the variance of its noise and p
        what a coefficient is taken to vary by in the set: what is kept of it next to the centre."""
        ends = np.arange(1, self.releases + 1, dtype=np.int64) * self.every - 1
        prior, result = (self.set.diameter / 4) ** 2 / self.dimension, np.empty(len(ends))
        spread = 0.0
        for i, variance in enumerate((self.sigma(ends) ** 2).tolist()):
            share = 3.0 / (i + 3.0)
            spread = (1 - share) ** 2 * spread + share * share * variance
            result[i] = prior / (prior + spread)
        return result

    @cached_property
    def _centre(self) -> Floats:
        return centre_of(self.set, self.centre)

    def due(self, ticks: Ints) -> NDArray[np.bool_]:
        """Whether the iterate after a tick is published: (m,) -> (m,)."""
        return np.asarray((ticks + 1) % self.every == 0)

    def step(
        self, state: DescentState, leaves: tuple[RowLeaf, ...], noise: Noise
    ) -> tuple[DescentState, Floats]:
        """A stride -> new state and what was played, (n, K, d)."""
        first = noise.first_tick
        if first + len(leaves) > self.horizon:
            raise ValueError(f"online.pocg was calibrated for {self.horizon} ticks.")
        x, states = state.x, []
        for i, leaf in enumerate(leaves):
            x = self.advance(x, leaf, first + i)
            states.append(x)
        due = self.due(first + np.arange(len(leaves), dtype=np.int64))
        shown, average = state.played[None], state.average
        if due.any():
            published, average = self.publish(np.stack(states), noise, average)
            shown = np.concatenate([shown, published])
        # At tick t what was published last before it is played.
        before = np.concatenate([[0], np.cumsum(due)[:-1]])
        return DescentState(x, shown[-1].copy(), average), shown[before]

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release."""
        numbers = (self.curvature, self.gradient_bound, self.reach, self.budget)
        return {
            "rule": "pocg",
            "set": self.set.canonical(),
            "loss": self.loss.canonical(),
            "numbers": [float(number).hex() for number in numbers],
            "centre": [float(value).hex() for value in self.centre],
            "cap": self.cap,
            "horizon": self.horizon,
            "relation": self.relation,
            "slack": SLACK.hex(),
            **({} if self.fading is None else {"fading": float(self.fading).hex()}),
            **({} if self.rows == 1 else {"rows": self.rows}),
            **({} if self.spread is None else {"spread": self.spread}),
            **({} if self.every == 1 else {"every": self.every}),
        }


def smoothness_of(loss: PredictionLoss) -> float:
    """Lipschitz constant of a loss's derivative in the prediction.

    Raises:
      ConfigError: it has none.
    """
    if loss.cornered:
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
