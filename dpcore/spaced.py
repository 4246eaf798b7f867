"""Releases at every n-th tick of the clock: a public schedule, with fewer releases to pay for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.algorithm import Algorithm, Compiled
from weir.dpcore.arrays import Floats, Ints, State
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.errors import ConfigError, at_least_one
from weir.dpcore.noise.noise import Noise
from weir.dpcore.pricing.calibration import Alternative
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.program import MOST_SUM, Bounded, NoiseOf, OutputInfo, Program, Released


class SpacedState(NamedTuple):
    """State of K keys.

    Attributes:
      own: the program's (clean sums: to be protected). waiting: (K, D), clean sum of the leaves
        since the last release. shown: what ``step`` put out last, (K, ...) each; NaN before.
    """

    own: State
    waiting: Ints
    shown: tuple[Floats, ...]


@dataclass(frozen=True)
class Spaced(Program):
    """A program that is stepped at every n-th tick with the sum of n leaves.

    At ticks n - 1, 2 n - 1, ... it releases what it would with ticks n times as long; in between
    the last release is repeated, and before the first there is none (NaN). Sums over the last N
    ticks, N a multiple of n, are the program's over the last N / n of its steps.

    Formal guarantees:
      Unit, relation, sensitivity: those of ``program``: an event is in one sum of n leaves, and
        moves it as it moves a leaf. Adding within bounds lengthens no difference.
      Guarantee: within w ticks of its arrival an event meets ceil(w / n) releases, those at the
        ends of spans of n ticks, the first at the end of its own: the loss of ``program`` within
        ceil(w / n) of its steps. Which ticks these are is public. Repeats are post-processing.
      Noise is named by the number of the span, in the place of the tick.

    Attributes:
      program: what is stepped. every: n.
    """

    program: Program
    every: int

    def __post_init__(self) -> None:
        at_least_one(every=self.every)

    @property
    def dimension(self) -> int:
        """D, coordinates of a leaf."""
        return self.program.dimension

    @property
    def columns(self) -> tuple[str, ...]:
        """Numeric columns that are read."""
        return self.program.columns

    @property
    def capacity(self) -> int:
        """Events of a key in n ticks that exact sums have room for, spread evenly."""
        return max(1, self.program.capacity // self.every)

    @property
    def row_width(self) -> int:
        """As the program's."""
        return self.program.row_width

    @property
    def sums(self) -> tuple[ContinualSum, ...]:
        """Where the noise comes from."""
        return self.program.sums

    @property
    def doubles(self) -> tuple[str, ...]:
        """As the program's."""
        return self.program.doubles

    def bound(self, columns: Mapping[str, NDArray[Any]], n_events: int) -> Bounded:
        """As the program's."""
        return self.program.bound(columns, n_events)

    def accumulate(self, rows: Any, cells: Ints, n_cells: int) -> Ints:
        """As the program's."""
        return self.program.accumulate(rows, cells, n_cells)

    def init(self, n_keys: int) -> SpacedState:
        """No data, no release."""
        waiting = np.zeros((n_keys, self.dimension), dtype=np.int64)
        shown = tuple(np.full((n_keys, width), np.nan) for width in self.program.widths)
        return SpacedState(self.program.init(n_keys), waiting, shown)

    def step(
        self, state: SpacedState, leaves: Ints, noise: NoiseOf
    ) -> tuple[SpacedState, tuple[Floats, ...]]:
        """A stride -> new state, and the last noisy arrays at each tick."""
        first, n = noise(0).first_tick, len(leaves)
        due = (first + 1 + np.arange(n)) % self.every == 0
        waiting, spans = state.waiting, []
        for leaf, ends in zip(leaves, due.tolist(), strict=True):
            waiting = np.clip(waiting + np.clip(leaf, -MOST_SUM, MOST_SUM), -MOST_SUM, MOST_SUM)
            if ends:
                spans.append(waiting)
                waiting = np.zeros_like(waiting)
        if not spans:
            out = tuple(np.repeat(item[None], n, axis=0) for item in state.shown)
            return SpacedState(state.own, waiting, state.shown), out
        number = (first + int(np.argmax(due))) // self.every

        def of_span(part: int) -> Noise:
            return noise(part).at(number)

        own, noisy = self.program.step(state.own, np.stack(spans), of_span)
        place = np.cumsum(due)
        known = [np.concatenate([a[None], b]) for a, b in zip(state.shown, noisy, strict=True)]
        shown = tuple(item[-1].copy() for item in known)
        return SpacedState(own, waiting, shown), tuple(item[place] for item in known)

    def solve(self, noisy: tuple[Floats, ...], ticks: Ints) -> tuple[Released, ...]:
        """What the program makes of each release, once; NaN before the first."""
        return self._solved(noisy, ticks, self.program.solve)

    def solve_keys(
        self, noisy: tuple[Floats, ...], ticks: Ints, keys: Sequence[bytes]
    ) -> tuple[Released, ...]:
        """The same, by the names of keys."""
        return self._solved(noisy, ticks, partial(self.program.solve_keys, keys=keys))

    def _solved(
        self,
        noisy: tuple[Floats, ...],
        ticks: Ints,
        solve: Callable[[tuple[Floats, ...], Ints], tuple[Released, ...]],
    ) -> tuple[Released, ...]:
        spans = (ticks + 1) // self.every
        last = np.flatnonzero(np.append(spans[1:] != spans[:-1], True))
        place = np.searchsorted(spans[last], spans)
        some = [item[last] for item in noisy]
        silent = np.asarray(np.isnan(some[0]).any(axis=2))
        filled = tuple(np.nan_to_num(item, nan=0.0) for item in some)
        result = solve(filled, np.maximum(spans[last] - 1, 0))

        def told(numbers: Floats) -> Floats:
            return np.asarray(np.where(silent[:, :, None], np.nan, numbers)[place])

        return tuple(item.mapped(told)._replace(over=self._ticks_of(item.over)) for item in result)

    def times_of(self, grouping: int) -> int:
        """As the program's."""
        return self.program.times_of(grouping)

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """Of the program, in its own steps."""
        return self.program.loss(None if ticks is None else -(-ticks // self.every))

    def describe(self, ticks: Ints) -> tuple[OutputInfo, ...]:
        """What is released."""
        reported = self.program.describe(np.unique(self._steps(ticks)))
        return tuple(item._replace(over=self._ticks_of(item.over)) for item in reported)

    def _ticks_of(self, spans: int | None) -> int | None:
        """Of what was asked for in spans."""
        return None if spans is None else spans * self.every

    def _steps(self, ticks: Ints) -> Ints:
        """The step whose release is shown at a tick, or the first."""
        return np.maximum((np.asarray(ticks) + 1) // self.every - 1, 0)

    def state_bytes(self) -> int:
        """Bytes of state per key."""
        return self.program.state_bytes() + 8 * (self.dimension + sum(self.program.widths))

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release."""
        return {"release_every": self.every, "of": self.program.canonical()}


def compiled(algorithm: Algorithm, terms: Terms, every: int | None) -> Compiled:
    """An algorithm under the terms, released at every tick or at every n-th.

    Raises:
      ConfigError: nothing can serve; or ``every`` is no schedule for it.
    """
    try:
        return _compiled(algorithm, terms, every)
    except ConfigError as error:
        raise terms.written(error) from None


def program_of(algorithm: Algorithm, terms: Terms, every: int | None) -> Program:
    """The program alone: nothing is priced that cannot be chosen.

    Raises:
      ConfigError: as ``compiled``.
    """
    return compiled(algorithm, replace(terms, compare=False), every).program


def _compiled(algorithm: Algorithm, terms: Terms, every: int | None) -> Compiled:
    if terms.person is not None and algorithm.only_events:
        raise ConfigError(
            "model.algorithm",
            algorithm.name,
            f"protects events only: {algorithm.only_events}; or privacy.unit: event.",
        )
    built = algorithm.compile(terms) if every is None else _spaced(algorithm, terms, every)
    doubts = tuple(algorithm.doubts(built.program, terms))
    return replace(built, warnings=(*built.warnings, *doubts), doubts=doubts)


def _spaced(algorithm: Algorithm, terms: Terms, every: int) -> Compiled:
    """Compiled for ticks ``every`` times as long, to run at every one."""
    if terms.person is not None:
        raise ConfigError(
            "release_every",
            every,
            "is not for unit: user: ticks that are released together would hold several cells of "
            "a user in one, which the contribution bounds on ticks do not bound; take a longer "
            "clock.period.",
        )
    if terms.clock.calendar is not None:
        raise ConfigError(
            "release_every",
            every,
            f"is for ticks of a fixed length, not of {terms.clock.unit}; take a longer "
            "clock.period, like 3 months or 7d.",
        )
    if terms.horizon is not None and terms.horizon % every:
        raise ConfigError(
            "release_every",
            every,
            f"must divide the {terms.horizon:,} ticks of the clock, so that the last is released.",
        )
    if algorithm.own_schedule:
        words = f"is not for {algorithm.name}: {algorithm.own_schedule}."
        raise ConfigError("release_every", every, words)
    built = algorithm.in_spans(every).compile(coarse(terms, every))
    alternatives = tuple(_in_ticks(alternative, every) for alternative in built.alternatives)
    program = built.program.every_nth(every)
    if program is not None:
        return algorithm.compiled(program, alternatives)
    if not built.program.widths:
        raise ConfigError(
            "release_every",
            every,
            f"is for aggregates, learners and regressions from running sums: {algorithm.name} does "
            "not say how it is spaced; remove it, or take a longer clock.period.",
        )
    return replace(built, program=Spaced(built.program, every), alternatives=alternatives)


def _in_ticks(priced: Alternative, every: int) -> Alternative:
    """What it says of N spans, said of ticks."""

    def ticks(found: re.Match[str]) -> str:
        return f"over={int(found[1]) * every}"

    reported = {re.sub(r"over=(\d+)$", ticks, name): value for name, value in priced.stddev.items()}
    return replace(priced, stddev=reported)


def coarse(terms: Terms, every: int) -> Terms:
    """The terms in steps of ``every`` ticks."""
    clock = terms.clock
    end = None if clock.ticks is None else clock.start + clock.ticks * clock.period
    return replace(
        terms,
        clock=replace(clock, period=clock.period * every, end=end),
        window=None if terms.window is None else -(-terms.window // every),
        events=None if terms.events is None else terms.events * every,
    )
