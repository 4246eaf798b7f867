"""When the private solver runs, and which share of the budget each run may spend."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.errors import ConfigError

FIRST = 1 << 6
"""Ticks of the first phase of a stream without end; each later one is as long as all before it."""
FOREVER = 1 << 40
"""Ticks for which a guarantee for ever is calibrated."""


@dataclass(frozen=True)
class RefitPhase:
    """Runs at every ``every``-th tick of [start, stop).

    Attributes:
      start, stop: ticks; stop None: no end. every: tau. share: of the budget, for each run.
    """

    start: int
    stop: int | None
    every: int
    share: Fraction

    @property
    def runs(self) -> float:
        """How many there are; infinite without an end."""
        return math.inf if self.stop is None else (self.stop - self.start) // self.every

    def runs_within(self, ticks: int | None) -> float:
        """Most runs in so many consecutive ticks (None: in all)."""
        return self.runs if ticks is None else min(self.runs, -(-max(ticks, 0) // self.every))

    def runs_at(self, tick: int) -> bool:
        """Whether a run sees everything up to this tick, and is released at it."""
        inside = self.start <= tick and (self.stop is None or tick < self.stop)
        return inside and (tick + 1 - self.start) % self.every == 0


@dataclass(frozen=True)
class RefitSchedule:
    """Public ticks at which prefixes are fitted.

    **Formal guarantees**
      A run at tick t sees the rows of ticks 0 .. t. A record of tick s is in the prefix of runs at
      s, s + 1, ... and of no other. Runs compose adaptively, and shares of one budget add (mu^2,
      rho, eps), so within n ticks of its arrival a record pays at most the sum of the shares of the
      runs in n consecutive ticks.
      Window: of W consecutive ticks at most ceil(W / tau) are multiples of tau: with shares
        1 / ceil(W / tau) a record pays at most the budget within W ticks, wherever it lies. With T
        ticks in all there are floor(T / tau) runs, so the smaller of the two numbers is divided by.
      For ever, without an end: phases [0, 64), [64, 128), [128, 256), ... up to 2^40 ticks, P of
        them with a run; the N_j runs of phase j get 1 / (P N_j) each. All runs there are sum to at
        most sum_j N_j / (P N_j) = 1. After 2^40 ticks nothing is run any more.
      Every sum here is one of exact fractions.

    Attributes:
      phases: in order, disjoint. budget: what shares are of.
    """

    phases: tuple[RefitPhase, ...]
    budget: PrivacyLoss

    def __post_init__(self) -> None:
        if not any(phase.runs for phase in self.phases):
            raise ConfigError(
                "model.every",
                max((phase.every for phase in self.phases), default=0),
                "is longer than the clock: nothing would ever be fitted; take fewer ticks.",
            )

    def share(self, tick: int) -> Fraction | None:
        """Share of the run at a tick; None where none runs."""
        for phase in self.phases:
            if phase.runs_at(tick):
                return phase.share
        return None

    def runs(self, first: int, stop: int) -> tuple[int, ...]:
        """Ticks of [first, stop) with a run, in order."""
        return tuple(tick for tick in range(first, stop) if self.share(tick) is not None)

    def last_run(self, horizon: int | None) -> int | None:
        """The last run of a clock; of one without end the first after ``FIRST`` ticks. None: there
        is none."""
        start = FIRST if horizon is None else horizon
        if horizon is None:
            start += self.longest
        runs = self.runs(max(0, start - self.longest), start)
        return runs[-1] if runs else None

    def spent(self, ticks: int | None) -> Fraction | None:
        """Most that a record pays within so many ticks of its arrival; None: without bound."""
        total = Fraction(0)
        for phase in self.phases:
            runs = phase.runs_within(ticks)
            if math.isinf(runs):
                return None
            total += int(runs) * phase.share
        return total

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """The same as a loss. Several phases: the sum of what each may cost, an upper bound."""
        spent, kind = self.spent(ticks), self.budget.kind
        if spent is None:
            return PrivacyLoss(kind, math.inf)
        share = float(spent)
        root = math.sqrt(share) if kind == "gdp" else share
        return PrivacyLoss(kind, self.budget.value * root)

    @property
    def longest(self) -> int:
        """Ticks from one run to the next, at most: across a border of phases up to two periods."""
        every = max(phase.every for phase in self.phases if phase.runs)
        return every if len(self.phases) == 1 else 2 * every

    @property
    def largest(self) -> Fraction:
        """Share of the most generous run."""
        return max(phase.share for phase in self.phases if phase.runs)

    @property
    def smallest(self) -> Fraction:
        """Share of the least generous run."""
        return min(phase.share for phase in self.phases if phase.runs)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {
            "phases": [[p.start, p.stop, p.every, str(p.share)] for p in self.phases],
            "budget": [self.budget.kind, self.budget.value.hex()],
        }


def schedule_for(
    every: Callable[[int], int], window: int | None, horizon: int | None, budget: PrivacyLoss
) -> RefitSchedule:
    """A schedule whose loss within the window is at most the budget.

    Args:
      every: ticks over which the budget is spread -> tau.
      window: W; None: for ever. horizon: T; None: no end.

    Raises:
      ConfigError: tau leaves no run.
    """
    if window is None and horizon is None:
        return RefitSchedule(endless(every), budget)
    spread = min(ticks for ticks in (window, horizon) if ticks is not None)
    tau = every(spread)
    runs = -(-spread // tau)
    if horizon is not None:
        runs = min(runs, horizon // tau)
    return RefitSchedule((RefitPhase(0, horizon, tau, Fraction(1, max(1, runs))),), budget)


def endless(every: Callable[[int], int]) -> tuple[RefitPhase, ...]:
    """Phases that double; see ``RefitSchedule``."""
    results: list[tuple[int, int, int]] = []
    start, stop = 0, FIRST
    while start < FOREVER:
        tau = every(stop)
        if stop - start >= tau:
            results.append((start, stop, tau))
        start, stop = stop, 2 * stop
    return tuple(
        RefitPhase(start, stop, tau, Fraction(1, len(results) * ((stop - start) // tau)))
        for start, stop, tau in results
    )
