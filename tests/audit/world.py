"""What an audit attacks: a plan from a config, its worst neighbours, and many trials at once.

The noise of different keys is independent, so thousands of keys with the same events are thousands
of trials. Everything goes through ``simulate``; a recorder keeps the noisy channel sums on their
way, of which all released values are post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from weir.dpcore.audit.changes import Placed
from weir.dpcore.audit.law import inverted
from weir.dpcore.bounded_events import Events
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate

DAY = 86_400_000_000
WINDOW = 8

CONFIG = """
name: audit
schema: {time: at, id: id}
key: {column: k, declared: [%(keys)s]}
clock: {start: 2020-01-01T00:00:00Z, period: 1d, end: %(end)s}
privacy: {epsilon: %(epsilon)s, delta: %(delta)s, protect_for: %(window)s, relation: %(relation)s}
mechanism: {%(mechanism)s}
%(extra)s
aggregates:
%(aggregates)s
"""

EVERYTHING = """
  n: {count: events, over: %(over)s}
  s: {sum: a, clip: [-1, 3], over: %(over)s}
  m: {mean: b, clip: [2, 6], over: %(over)s}
  v: {variance: c, clip: [0, 4], over: %(over)s}
  h: {histogram: d, edges: [0, 1, 2], over: %(over)s}
"""

CORNERS: Mapping[str, Sequence[float]] = {
    "a": (-1.0, 3.0, 1e300),
    "b": (2.0, 6.0, -np.inf),
    "c": (0.0, 2.0, 4.0, np.nan),
    "d": (0.5, 1.5, 7.0),
}
"""Values at which an event may weigh most: corners of clips, centres, bins, and odd ones."""


def make(
    mechanism: str,
    noise: str = "gaussian",
    relation: str = "add_remove",
    over: str = "all",
    keys: int = 1200,
    ticks: int = 24,
    epsilon: float = 12.0,
    delta: float = 1e-3,
    window: int | str | None = None,
    aggregates: str = EVERYTHING,
    extra: str = "",
) -> Plan:
    """A plan that is forced to use a mechanism and a noise."""
    if window is None:
        window = "all" if mechanism in ("ended", "kary_tree") else WINDOW
    lasting = window if window == "all" else f"{window} ticks"
    named = f"continual_sum: {mechanism}, noise: {noise}"
    return Plan.from_yaml(
        CONFIG
        % {
            "keys": ", ".join(f"k{i:06d}" for i in range(keys)),
            "end": np.datetime_as_string(np.datetime64("2020-01-01") + ticks) + "T00:00:00Z",
            "epsilon": epsilon,
            "delta": delta,
            "window": lasting,
            "relation": relation,
            "mechanism": named,
            "extra": extra,
            "aggregates": aggregates % {"over": over} if "%(over)s" in aggregates else aggregates,
        }
    )


@dataclass(frozen=True)
class Neighbours:
    """Two sets of events next to the same background; ``slots`` keys make one trial."""

    here: tuple[Placed, ...]
    there: tuple[Placed, ...]
    slots: int = 1

    @property
    def arrival(self) -> int:
        """The tick from which the events are protected."""
        return min(placed.tick for placed in (*self.here, *self.there))


class Recorder:
    """A program that keeps what its ``step`` returned: the noisy sums, (n, K, d) lattice units."""

    def __init__(self, program: Any) -> None:
        self._program = program
        self.noisy: list[tuple[np.ndarray, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._program, name)

    def step(self, state: Any, leaves: np.ndarray, noise: Any) -> Any:
        new, noisy = self._program.step(state, leaves, noise)
        self.noisy.append(noisy)
        return new, noisy

    def solve(self, noisy: Any, ticks: Any) -> tuple[()]:
        """Nobody looks at what follows from the sums."""
        return ()


@dataclass(frozen=True)
class World:
    """A plan, seen by somebody who knows everything but the noise and one event.

    Attributes:
      plan: what is claimed. program: what runs (the plan's own, unless a test tampers with it).
    """

    plan: Plan
    program: Any

    @classmethod
    def of(cls, plan: Plan, program: Any = None) -> World:
        return cls(plan, plan.program if program is None else program)

    @property
    def ticks(self) -> int:
        return self.plan.clock.ticks or 0

    @property
    def n_keys(self) -> int:
        return len(self.plan.keys.declared)

    # ---- neighbours

    @cached_property
    def candidates(self) -> dict[str, np.ndarray]:
        """Column -> (m,): every combination of corners."""
        grid = list(product(*(CORNERS[name] for name in sorted(self.program.columns))))
        columns = np.asarray(grid, dtype=np.float64).reshape(len(grid), -1)
        return {name: columns[:, i] for i, name in enumerate(sorted(self.program.columns))}

    @cached_property
    def leaves(self) -> np.ndarray:
        """(m + 1, D): what each candidate adds to a leaf; the last row is no event at all."""
        m = len(next(iter(self.candidates.values()), [0]))
        bounded = self.program.bound(self.candidates, m)
        rows = self.program.accumulate(bounded.rows, np.arange(m), m)
        return np.concatenate([rows, np.zeros_like(rows[:1])])

    @cached_property
    def _parts(self) -> list[tuple[Any, np.ndarray, np.ndarray, int]]:
        """For each part: mechanism, B (n, units) and response (n, n) of one of its releases that
        shows all the others, and the place of that release."""
        found, place = [], 0
        for part in self.program.parts:
            mechanism, n = part.mechanism, self.ticks
            overs = mechanism.overs
            over = None if None in overs else overs[0]
            dense = mechanism.materialize(n)
            if hasattr(mechanism, "response"):
                clean = mechanism.response(n)
            else:
                clean = np.tril(np.ones((n, n)))
                if over is not None:
                    step = np.eye(n) - np.eye(n, k=-over)
                    dense, clean = step @ dense, step @ clean
            found.append((part, dense, clean, place + overs.index(over)))
            place += len(overs)
        return found

    def sizes(self, change: np.ndarray) -> list[float]:
        """Per part, squared norm of a change of a leaf (D,) in standard deviations of a unit."""
        found = []
        for part, *_ in self._parts:
            scales = np.asarray(part.mechanism.scales)
            mine = change[list(part.coordinates)]
            assert not mine[scales == 0].any(), "a public coordinate depends on the event"
            unit = scales * np.sqrt(part.mechanism.unit_variance)
            found.append(float(((mine[scales > 0] / unit[scales > 0]) ** 2).sum()))
        return found

    def gain(self, part: int, tick: int, rows: int) -> float:
        """Squared distance, in units, that a unit change at a tick makes in the first rows."""
        _, dense, clean, _ = self._parts[part]
        moved = clean[:rows, tick]
        return float(moved @ inverted(dense[:rows]) @ moved)

    def worst(self, relation: str, may_vanish: bool, span: int) -> Neighbours:
        """The pair that ``span`` ticks of releases tell apart best."""
        nothing = len(self.leaves) - 1
        last = self.ticks - span
        gains = [
            [self.gain(p, tick, tick + span) for p in range(len(self._parts))]
            for tick in range(last + 1)
        ]
        present = range(nothing)
        alone = [(i, nothing) for i in present]
        pairs = [(i, j) for i in present for j in present if i != j]
        same = {"add_remove": alone, "replace_one": pairs + alone * may_vanish}.get(relation, pairs)
        options: list[tuple[float, Neighbours]] = []
        unique: dict[bytes, tuple[int, int]] = {}
        for i, j in same:
            unique.setdefault((self.leaves[i] - self.leaves[j]).tobytes(), (i, j))
        for i, j in unique.values():
            size = np.asarray(self.sizes(self.leaves[i] - self.leaves[j]))
            squares = np.asarray(gains) @ size
            tick = int(squares.argmax())
            there = () if j == nothing else (Placed(0, tick, j),)
            options.append((float(squares[tick]), Neighbours((Placed(0, tick, i),), there)))
        if relation == "replace_anywhere":
            size = np.asarray([self.sizes(self.leaves[i]) for i in present])
            squares = np.asarray(gains) @ size.T
            tick, i = np.unravel_index(int(squares.argmax()), squares.shape)
            placed = (Placed(0, int(tick), int(i)),), (Placed(1, int(tick), int(i)),)
            options.append((2 * float(squares.max()), Neighbours(*placed, slots=2)))
            _, moved = max(options[:-1], key=lambda option: option[0])
            for one, other in ((i, i), (moved.here[0].candidate, moved.there[0].candidate)):
                for elsewhere in set(range(self.ticks)) - {moved.arrival}:
                    here = (Placed(0, moved.arrival, int(one)),)
                    pair = Neighbours(here, (Placed(0, elsewhere, int(other)),))
                    if pair.arrival + span <= self.ticks:
                        options.append((self.attack(pair, span)[1] ** 2, pair))
        return max(options, key=lambda option: option[0])[1]

    # ---- the attack

    def shift(self, pair: Neighbours, part: int) -> np.ndarray:
        """(slots, n, d): how the clean releases of a part differ between the two."""
        one, _, clean, _ = self._parts[part]
        out = np.zeros((pair.slots, self.ticks, len(one.coordinates)))
        for events, sign in ((pair.here, 1.0), (pair.there, -1.0)):
            for placed in events:
                leaf = self.leaves[placed.candidate][list(one.coordinates)]
                out[placed.slot] += sign * clean[:, placed.tick, None] * leaf
        return out

    def attack(self, pair: Neighbours, span: int) -> tuple[list[np.ndarray], float]:
        """The likelihood-ratio direction over releases within ``span`` ticks, and its exact mu.

        Returns:
          Weights (slots, n, d) a part; the separation of the statistic in standard deviations.
        """
        rows = min(pair.arrival + span, self.ticks)
        square, weights = 0.0, []
        for p, (part, dense, _, _) in enumerate(self._parts):
            shift = self.shift(pair, p)
            scales = np.asarray(part.mechanism.scales) * np.sqrt(part.mechanism.unit_variance)
            assert not shift[:, :, scales == 0].any()
            precision = np.divide(1.0, scales**2, out=np.zeros_like(scales), where=scales > 0)
            weight = np.zeros_like(shift)
            weight[:, :rows] = np.einsum("ut,std->sud", inverted(dense[:rows]), shift[:, :rows])
            weight *= precision
            weights.append(weight)
            square += float((weight * shift).sum())
        return weights, float(np.sqrt(square))

    def events(self, placed: Sequence[Placed], slots: int) -> Events:
        """The same events in every trial: a few in the background, and those placed."""
        start = self.plan.clock.start
        names = [key.decode() for key in self.plan.keys.ordered]
        columns = sorted(self.program.columns)
        some = len(self.leaves) - 1
        everywhere = [(tick % self.ticks, tick % some) for tick in (0, 1, 5, 13)]
        times, keys, picked = [], [], []
        for slot in range(slots):
            own = [(p.tick, p.candidate) for p in placed if p.slot == slot]
            rows = [*everywhere, *own]
            mine = names[slot::slots]
            for tick, candidate in rows:
                times.append(np.full(len(mine), start + tick * DAY + 1))
                keys.extend(mine)
                picked.append(np.full(len(mine), candidate))
        index = np.concatenate(picked)
        values = {name: self.candidates[name][index] for name in columns}
        return Events(np.concatenate(times), keys, values)

    def sums(self, events: Events, secret: int, noise: Any = None) -> list[np.ndarray]:
        """One run: the noisy sums (n, K, d) of each part's telling release."""
        recorder = Recorder(self.program)
        plan = replace(self.plan, program=recorder)
        simulate(plan, events, secret.to_bytes(32, "little"), noise=noise)
        (noisy,) = recorder.noisy
        return [noisy[place] for *_, place in self._parts]

    def statistic(self, sums: Sequence[np.ndarray], weights: Sequence[np.ndarray]) -> np.ndarray:
        """The attack's number for every trial."""
        slots = weights[0].shape[0]
        trials = self.n_keys // slots
        total = np.zeros(trials)
        for values, weight in zip(sums, weights, strict=True):
            for slot in range(slots):
                total += np.einsum("tkd,td->k", values[:, slot::slots][:, :trials], weight[slot])
        return total
