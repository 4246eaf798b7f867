"""A bank of exact filters: one for each model of a signal, weighted by how well it predicted.

Only sums, products, divisions, square roots, ``exact_exp`` and ``exact_log``, in a fixed order:
the same bits on every CPU, and no optimiser.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal, localcontext
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.estimates.laws import Entries, NoiseLaw
from weir.dpcore.noise.gaussian import exact_log
from weir.dpcore.noise.generalised_gaussian import exact_exp

DRIFTS = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6)
SCATTERS = (0.0, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5)
SEASONS = (0.0, 1.0, 100.0, 1e4)
"""Variances of the grid, in units of the noise: of what a tick adds to the level, of a tick around
the level, and of the season's coordinates. Steps of the level reach past any jump of a signal: a
grid that ends at 1e3 has larger errors than the releases of one that jumps."""
UNKNOWN = (1e8, 0.0, 0.0)
"""The member to which a release says all: nothing is known of the next tick."""
FLAT, SEASONAL_DRIFT = 1e8, 1e-3
"""Variance of the level before the first tick; share of its variance that a season gains a tick."""
HARMONICS = 3
SHARE, POOLED, FORGET = 0.03, 0.5, 0.02
"""Fixed share (Herbster, Warmuth 1998): of the weights that are given back to all members at every
tick, so that a member that was wrong comes back; how much of that by the average over keys, and how
fast that average moves."""
PRUNED, PRUNED_AFTER = 32, 28
"""Members that are left where there are many keys, and the ticks after which they are chosen."""
DIGITS = Context(prec=50)


@lru_cache(maxsize=64)
def turn(numerator: int, denominator: int) -> tuple[float, float]:
    """cos and sin of 2 pi numerator / denominator, correctly rounded on every machine."""
    with localcontext(DIGITS):
        angle = 2 * _pi() * (numerator % denominator) / denominator
        sums, term = [Decimal(0), Decimal(0)], Decimal(1)
        for k in range(120):
            sums[k % 2] += term if k % 4 < 2 else -term
            term = term * angle / (k + 1)
        return float(sums[0]), float(sums[1])


def _pi() -> Decimal:
    """By Machin's formula."""

    def arctan(x: int) -> Decimal:
        total, power = Decimal(0), Decimal(1) / x
        for k in range(80):
            total += (power if k % 2 == 0 else -power) / (2 * k + 1)
            power /= x * x
        return total

    return 16 * arctan(5) - 4 * arctan(239)


def grid(seasonal: bool) -> Floats:
    """(members, 3): variance of level steps, of ticks around it, of the season."""
    rows = [
        (drift, scatter, season)
        for drift in DRIFTS
        for scatter in SCATTERS
        for season in (SEASONS if seasonal else (0.0,))
    ]
    return np.asarray([*rows, UNKNOWN])


class SignalModel(NamedTuple):
    """A signal under noise: state (D = z of the last tick, noise state, level, season pairs).

    Attributes:
      law: of the noise. period: ticks of a season; None: there is none.
    """

    law: NoiseLaw
    period: int | None

    @property
    def pairs(self) -> int:
        """Harmonics of the season."""
        return 0 if self.period is None else min(HARMONICS, self.period // 2)

    @property
    def size(self) -> int:
        """d, numbers of the state."""
        return 2 + self.law.size + 2 * self.pairs

    @property
    def level(self) -> int:
        """Place of the level in the state."""
        return 1 + self.law.size

    def at(self, tick: int) -> SignalMove:
        """How the state moves at a tick of the clock."""
        noise, m = self.law.at(tick), self.law.size
        entries = [(0, 1 + j, weight) for j, weight in enumerate(noise.read) if weight]
        entries += [(1 + i, 1 + j, value) for i, j, value in noise.move if value]
        entries.append((self.level, self.level, 1.0))
        seen = [(0, -1.0), *((1 + j, weight) for j, weight in enumerate(noise.read) if weight)]
        seen.append((self.level, 1.0))
        for k in range(self.pairs):
            cos, sin = turn(k + 1, self.period or 1)
            i = 2 + m + 2 * k
            entries += [(i, i, cos), (i, i + 1, sin), (i + 1, i, -sin), (i + 1, i + 1, cos)]
            seen.append((i, 1.0))
        push = np.zeros(self.size)
        push[: 1 + m] = (noise.size, *noise.push)
        return SignalMove(tuple(entries), tuple(seen), push, noise.size)


class SignalMove(NamedTuple):
    """F (entries), H (place and weight), and what xi adds: to the state (d,), to what is seen."""

    entries: Entries
    seen: tuple[tuple[int, float], ...]
    push: Floats
    size: float


def moved(entries: Entries, x: Floats) -> Floats:
    """F x, for x (d, ...)."""
    out = np.zeros_like(x)
    for row, column, value in entries:
        out[row] += x[column] if value == 1.0 else value * x[column]
    return out


def looked_at(seen: Iterable[tuple[int, float]], x: Floats) -> Floats:
    """H x, for x (d, ...)."""
    out = np.zeros(x.shape[1:])
    for place, weight in seen:
        if weight == 1.0:
            out += x[place]
        elif weight == -1.0:
            out -= x[place]
        else:
            out += weight * x[place]
    return out


class GainRow(NamedTuple):
    """Of one tick, for G members: they hold no data, so one row serves all keys.

    Attributes:
      gain: (d, G). spread: (G,) variance of what is seen next. lagged: (L, G) gains of past z.
      total: (G,) variance of z. spans: of z - z of N ticks ago, one (G,) a span.
      before: (d, d, G) of the state before the tick. move: of the tick.
    """

    gain: Floats
    spread: Floats
    lagged: Floats
    total: Floats
    spans: tuple[Floats, ...]
    before: Floats
    move: SignalMove


@dataclass
class Gains:
    """The Riccati recursion of all members, and the fixed-point smoother of L past z.

    Attributes:
      model, members, spans, tick: what they are of, and the next tick of the clock.
      state: (d, d, G) variance. with_past: (L, d, G) covariance of past z with the state, in a
        ring by tick; past: (L, G) their variances.
    """

    model: SignalModel
    members: Floats
    spans: tuple[int, ...]
    tick: int = 0
    age: int = 0
    state: Floats = field(init=False)
    with_past: Floats = field(init=False)
    past: Floats = field(init=False)

    def __post_init__(self) -> None:
        d, g, lags = self.model.size, len(self.members), max(self.spans, default=0)
        self.state = np.zeros((d, d, g))
        self.state[self.model.level, self.model.level] = FLAT
        for i in range(self.model.level + 1, d):
            self.state[i, i] = self.members[:, 2]
        self.with_past, self.past = np.zeros((lags, d, g)), np.zeros((lags, g))

    def advance(self) -> GainRow:
        """The gains of the next tick."""
        model, p = self.model, self.state
        move = model.at(self.tick)
        ph = looked_at(move.seen, p.transpose(1, 0, 2))
        spread = looked_at(move.seen, ph) + move.size**2 + self.members[:, 1]
        gain = (moved(move.entries, ph) + move.size * move.push[:, None]) / spread
        new = moved(move.entries, moved(move.entries, p).transpose(1, 0, 2))
        new += (move.push[:, None] * move.push[None, :])[:, :, None]
        new -= spread * gain[:, None] * gain[None, :]
        new[model.level, model.level] += self.members[:, 0]
        for i in range(model.level + 1, model.size):
            new[i, i] += self.members[:, 2] * SEASONAL_DRIFT
        new = (new + new.transpose(1, 0, 2)) / 2
        seen = looked_at(move.seen, self.with_past.transpose(1, 0, 2))
        lagged = seen / spread
        self.past -= lagged * seen
        carried = moved(move.entries, self.with_past.transpose(1, 0, 2)).transpose(1, 0, 2)
        self.with_past = carried - seen[:, None, :] * gain[None]
        total = new[0, 0]
        spans = tuple(self._span(over, total) for over in self.spans)
        if len(self.past):
            at = self.age % len(self.past)
            self.with_past[at], self.past[at] = new[0], total
        self.state, self.tick, self.age = new, self.tick + 1, self.age + 1
        return GainRow(gain, spread, lagged, total, spans, p, move)

    def _span(self, over: int, total: Floats) -> Floats:
        """Variance of z - z of ``over`` ticks ago."""
        if self.age < over:
            return total
        at = (self.age - over) % len(self.past)
        return np.asarray(total + self.past[at] - 2 * self.with_past[at, 0])

    def only(self, members: Ints) -> None:
        """Goes on with some of the members."""
        self.members, self.past = self.members[members], self.past[:, members]
        self.state, self.with_past = self.state[:, :, members], self.with_past[:, :, members]


class NoiseMoments(NamedTuple):
    """Of the noise in a release, given the releases up to it: mean (K,) and variance (K,)."""

    mean: Floats
    variance: Floats


class FilterStep(NamedTuple):
    """What the smoother needs of a tick: its gains, (d, G, K) states before it, (G, K) errors."""

    row: GainRow
    state: Floats
    error: Floats


@dataclass
class Bank:
    """Filters of K keys that began at one tick.

    Attributes:
      model: signal and noise. keys: K. overs: None for the total, N for the last N ticks.
      first: tick at which the keys begin. members: (G, 3), see ``grid``.
      prune: whether ``PRUNED`` members are left after ``PRUNED_AFTER`` ticks.
      history: filled where ``remember`` is set.
    """

    model: SignalModel
    keys: int
    overs: tuple[int | None, ...]
    first: int = 0
    members: Floats | None = None
    prune: bool = False
    remember: bool = False
    history: list[FilterStep] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.members is None:
            self.members = grid(self.model.period is not None)
        g, k, d = len(self.members), self.keys, self.model.size
        spans = tuple(sorted({over for over in self.overs if over is not None}))
        self.gains = Gains(self.model, self.members, spans, self.first)
        self.state = np.zeros((d, g, k))
        self.past = np.zeros((max(spans, default=0), g, k))
        self.weights = np.full((g, k), 1 / g)
        self.pooled = np.full(g, 1 / g)
        self.likelihood = np.zeros((g, k))

    @property
    def age(self) -> int:
        """Ticks so far."""
        return self.gains.age

    def step(self, change: Floats) -> dict[int | None, NoiseMoments]:
        """Takes one tick.

        Args:
          change: (K,) released total less that of the tick before, in units of noise.

        Returns:
          for each of ``overs`` the moments of the noise in the released sum.
        """
        row = self.gains.advance()
        age = self.age - 1
        error = change - looked_at(row.move.seen, self.state)
        if self.remember:
            self.history.append(FilterStep(row, self.state, error))
        spread = row.spread[:, None]
        score = -0.5 * (error * error / spread + exact_log(spread))
        self.likelihood += score
        weights = self.weights * exact_exp(score - score.max(axis=0))
        weights /= weights.sum(axis=0)
        self.state = moved(row.move.entries, self.state)
        self.state += row.gain[:, :, None] * error
        self.past += row.lagged[:, :, None] * error
        now = self.state[0]
        out: dict[int | None, NoiseMoments] = {}
        for over in self.overs:
            if over is None:
                out[over] = mixture(weights, now, row.total)
                continue
            variance = row.spans[self.gains.spans.index(over)]
            off = now - self.past[(age - over) % len(self.past)] if age >= over else now
            out[over] = mixture(weights, off, variance)
        if len(self.past):
            self.past[age % len(self.past)] = now
        self.pooled = (1 - FORGET) * self.pooled + FORGET * weights.mean(axis=1)
        prior = POOLED * self.pooled + (1 - POOLED) / len(weights)
        self.weights = (1 - SHARE) * weights + SHARE * prior[:, None]
        if self.prune and self.age == PRUNED_AFTER:
            self.only(likely(self.likelihood, self.gains.members))
        return out

    def only(self, members: Ints) -> None:
        """Goes on with some of the members."""
        self.gains.only(members)
        self.members = self.gains.members
        self.state, self.past = self.state[:, members], self.past[:, members]
        self.likelihood = self.likelihood[members]
        self.weights = self.weights[members] / self.weights[members].sum(axis=0)
        self.pooled = self.pooled[members] / self.pooled[members].sum()

    def to_arrays(self) -> dict[str, Any]:
        """Everything that the next tick needs, by name."""
        gains = self.gains
        return {
            "members": gains.members, "variance": gains.state, "with_past": gains.with_past,
            "past_variance": gains.past, "state": self.state, "past": self.past,
            "weights": self.weights, "pooled": self.pooled, "likelihood": self.likelihood,
            "age": np.asarray(gains.age),
        }  # fmt: skip

    def restore(self, arrays: dict[str, Any]) -> None:
        """Puts back what ``to_arrays`` gave."""
        gains = self.gains
        self.members = gains.members = arrays["members"]
        gains.state, gains.with_past = arrays["variance"], arrays["with_past"]
        gains.past, gains.age = arrays["past_variance"], int(arrays["age"])
        gains.tick = self.first + gains.age
        self.state, self.past, self.weights = (arrays[n] for n in ("state", "past", "weights"))
        self.pooled, self.likelihood = arrays["pooled"], arrays["likelihood"]


def mixture(weights: Floats, mean: Floats, variance: Floats) -> NoiseMoments:
    """Mean and variance of members (G, K), their own variances (G,) or (G, K)."""
    variance = variance if variance.ndim == 2 else variance[:, None]
    center = (weights * mean).sum(axis=0)
    apart = mean - center
    total = (weights * (variance + apart * apart)).sum(axis=0)
    return NoiseMoments(center, np.maximum(total, 0.0))


def likely(likelihood: Floats, members: Floats, size: int = PRUNED) -> Ints:
    """Places of the members of most weight over all keys, and of the extremes, (size,) rising.

    Args:
      likelihood: (G, K) logarithms.
    """
    weight = exact_exp(likelihood - likelihood.max(axis=0))
    weight = (weight / weight.sum(axis=0)).mean(axis=1)
    drift, scatter = members[:, 0], members[:, 1]
    extremes = {0, len(members) - 1}
    extremes |= {int(np.argmax((drift == at) & (scatter == at))) for at in (1.0, 1e3)}
    places: Sequence[int] = np.argsort(-weight, kind="stable").tolist()
    for place in places:
        if len(extremes) >= min(size, len(members)):
            break
        extremes.add(place)
    return np.asarray(sorted(extremes), dtype=np.int64)
