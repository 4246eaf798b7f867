"""A stream of wide lists and of two columns, for models by private optimisation over sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tests.runners.recording import HOUR, SECRET, START, line_of
from weir.dpcore.bounded_events import Events
from weir.dpcore.config import durations
from weir.dpcore.leaves.sparse_rows import SparseRows
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate
from weir.pipelines.results.files import TYPES, read_file
from weir.pipelines.results.run import ResultFolder

SIZE, EACH = 6000, 8
"""Features of a list, and how many of them are not 0."""
COUNT = 250
"""Events of each half."""
KEYS = ("east", "north", "west")
CONFIG = """\
name: optimizing
schema: {{time: at, id: id}}
key: {{column: store, declared: [{keys}]}}
clock: {{start: {start}, period: 1h, delay: 1h, ahead: 60d}}
privacy: {{epsilon: 4.0, delta: 1e-6, protect_for: all, relation: replace_one}}
model:
  target: y
  {model}
"""
MODELS = {
    "one_pass": f"algorithm: optimize.sfw_polyhedral\n  features: {{column: x, size: {SIZE}}}\n"
    "  ranges: {x: [-2, 2], y: [-4, 4]}\n  set: {l1_ball: 1}\n  records: 16\n",
    "windows": "algorithm: optimize.frank_wolfe\n  features: [u, v]\n"
    "  ranges: {u: [-2, 2], v: [-2, 2], y: [-4, 4]}\n  set: {l1_ball: 1}\n  block: 12\n"
    "  window: 2\n",
}

Models = dict[tuple[int, str, str], list[float]]
"""(tick, key, name) -> numbers; empty where there is none yet."""


@dataclass(frozen=True)
class Optimizing:
    """A stream without an end, with duplicates and events that lack a number, and a plan over it.

    Attributes:
      model: of ``MODELS``. spans: (first tick, last tick) of each half of the events.
    """

    model: str
    spans: tuple[tuple[int, int], ...]

    @property
    def config(self) -> str:
        """The sections that shape the plan."""
        keys, model = ", ".join(KEYS), MODELS[self.model]
        return CONFIG.format(keys=keys, start=START, model=model)

    @cached_property
    def plan(self) -> Plan:
        """The plan of ``config``."""
        return Plan.from_yaml(self.config)

    def rows(self, half: int) -> list[dict[str, Any]]:
        """In order of time; the features as an object and as two columns."""
        random, found = np.random.default_rng(half), []
        first, last = self.spans[half]
        start = durations.timestamp(START)
        for i, tick in enumerate(np.sort(random.integers(first, last + 1, COUNT)).tolist()):
            at = start + tick * HOUR + int(random.integers(HOUR // 1000)) * 1000
            places = [0, 1, *random.choice(np.arange(2, SIZE), EACH - 2, replace=False).tolist()]
            numbers = random.choice([-2.0, -1.0, 1.0, 2.0], EACH).tolist()
            u, v = numbers[:2]
            if i % 40 == 7:
                numbers[3] = u = None
            row = {
                "id": f"e{half}-{i}",
                "at": at,
                "seen": at,
                "store": KEYS[int(random.integers(len(KEYS)))],
                "x": dict(zip(map(str, places), numbers, strict=True)),
                "u": u,
                "v": v,
                "y": round(float(random.normal((u or 0.0) - v / 2, 0.2)), 3),
            }
            found.append(row)
        return found

    def messages(self, size: int, half: int = 0) -> Iterator[tuple[bytes, int]]:
        """Messages of ``size`` lines each, every tenth event twice, and their first arrivals."""
        rows = self.rows(half)
        lines = [row for i, row in enumerate(rows) for _ in range(1 + (i % 10 == 0))]
        for start in range(0, len(lines), size):
            part = lines[start : start + size]
            yield b"\n".join(map(line_of, part)) + b"\n", int(part[0]["at"])

    def releases(self, ticks: int) -> Models:
        """What every runner must release in the first so many ticks, bit for bit."""
        rows = [row for half in range(len(self.spans)) for row in self.rows(half)]
        table = np.zeros((len(rows), SIZE))
        for i, row in enumerate(rows):
            for place, number in row["x"].items():
                table[i, int(place)] = np.nan if number is None else number
        numbers = {name: [row[name] for row in rows] for name in ("u", "v", "y")}
        columns = {name: np.array(some, dtype=float) for name, some in numbers.items()}
        events = Events(
            np.array([row["at"] for row in rows]),
            [row["store"] for row in rows],
            {**columns, "x": SparseRows.from_dense(table)},
            [row["id"] for row in rows],
        )
        found: Models = {}
        for one in simulate(self.plan, events, SECRET, ticks=ticks):
            for released in one.released:
                for i, value in enumerate(released.value[:, 0]):
                    found[one.first_tick + i, one.key, released.name] = told(value.tolist())
        return found


def told(values: Any) -> list[float]:
    """Numbers, none where nothing is said."""
    numbers = np.array(values or [], dtype=float)
    return [] if np.isnan(numbers).all() else list(numbers.tolist())


def released(folder: Path) -> Models:
    """What is in a folder; what is there twice is an error."""
    run, found = ResultFolder.open(folder), {}
    for file in run.files:
        for batch in read_file(file, list(TYPES), run.sizes):
            for row in batch.to_pylist():
                cell = (row["tick"], row["key"], row["name"])
                assert cell not in found, f"released twice: {cell}"
                found[cell] = told(row["value"])
    return found
