"""A stream in which one key is fitted for long while others want their releases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tests.runners.recording import HOUR, SECRET, START, Cells, line_of
from weir.dpcore.bounded_events import Events
from weir.dpcore.config import durations
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate

EARLY = "early"
LATE = ("late-1", "late-2", "late-3")

CONFIG = """\
name: fitting
schema: {{time: at, id: id, arrival: seen}}
key: {{column: store, observed_keys_are_public: true}}
clock: {{start: {start}, period: 1h, end: {end}, delay: 1h}}
privacy: {{epsilon: 60.0, delta: 1e-6, protect_for: all}}
model:
  algorithm: regression.erm
  features: [u, v]
  target: y
  ranges: {{u: [-1, 1], v: [-1, 1], y: [-2, 2]}}
  cap: 1000
  rows: {rows}
  every: {every}
  iterations: {iterations}
"""


@dataclass(frozen=True)
class Fitting:
    """One run at tick ``every`` - 1, of ``EARLY`` alone: the others are born after it.

    Attributes:
      ticks: hours of the clock, fewer than two periods. every: ticks to the run.
      rows: of the early key; as many as it may have. iterations: of the run.
    """

    ticks: int = 119
    every: int = 60
    rows: int = 20_000
    iterations: int = 12_000

    @property
    def config(self) -> str:
        """The sections that shape the plan."""
        end = durations.show_timestamp(durations.timestamp(START) + self.ticks * HOUR)
        return CONFIG.format(
            start=START, end=end, rows=self.rows, every=self.every, iterations=self.iterations
        )

    @cached_property
    def plan(self) -> Plan:
        """The plan of ``config``."""
        return Plan.from_yaml(self.config)

    @cached_property
    def events(self) -> Events:
        """In order of time: the early key's before the run, a few of each other key behind it."""
        random = np.random.default_rng(3)
        ticks = np.sort(random.integers(0, self.every, self.rows))
        keys = [EARLY] * self.rows
        for tick in range(self.every + 1, self.ticks):
            ticks, keys = np.append(ticks, [tick] * len(LATE)), [*keys, *LATE]
        n = len(keys)
        u, v = random.uniform(-1, 1, (2, n))
        at = (
            durations.timestamp(START) + ticks * HOUR + random.integers(HOUR // 1000, size=n) * 1000
        )
        order = np.argsort(at)
        columns = {"u": u, "v": v, "y": u - v / 2 + random.normal(size=n) / 4}
        return Events(
            at[order],
            [keys[i] for i in order],
            {name: column[order] for name, column in columns.items()},
            [f"e{i}" for i in range(n)],
        )

    def messages(self, size: int) -> Iterator[tuple[bytes, int]]:
        """Messages of ``size`` lines each, and the earliest arrival in each of them."""
        events = self.events
        assert events.keys is not None and events.ids is not None
        for start in range(0, len(events.keys), size):
            lines = []
            for i in range(start, min(start + size, len(events.keys))):
                numbers = {name: float(column[i]) for name, column in events.columns.items()}
                at = int(events.times[i])
                row = {"id": events.ids[i], "at": at, "seen": at, "store": events.keys[i]}
                lines.append(line_of({**row, **numbers}))
            yield b"\n".join(lines) + b"\n", int(events.times[start])

    @cached_property
    def releases(self) -> Cells:
        """What every runner must release, bit for bit."""
        found: Cells = {}
        for one in simulate(self.plan, self.events, SECRET):
            for released in one.released:
                for i, value in enumerate(released.value[:, 0]):
                    cell = (one.first_tick + i, one.key, released.name, released.over)
                    found[cell] = (value.tolist(), None)
        return found
