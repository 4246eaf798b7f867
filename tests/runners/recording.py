"""One recorded stream with everything that goes wrong in one, and what it must release.

Of the events 10 % are delivered twice, 10 % of all deliveries are late by their arrival stamp, and
a few have no value, an unknown key, a time outside the clock, no time, or are no JSON at all. Six
hours hold no event. What must come out is dpcore's ``simulate`` over the events that count, and the
operator's counters are counted here, apart from the pipeline.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from weir.dpcore.bounded_events import Bound, Events, bounded
from weir.dpcore.config import durations
from weir.dpcore.leaves.hashes import event_hashes
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate
from weir.transforms.runtime.reasons import MISSING, counter_of

SECRET = bytes(range(7, 39))
START = "2024-03-01T00:00:00Z"
HOUR = 3_600_000_000
DELAY = HOUR
KEYS = tuple(f"store-{i:02d}" for i in range(24))
QUIET = KEYS[-2:]
"""Declared keys that never have an event."""
EMPTY = (5, 6, 7, 20, 33, 34)
"""Hours without any event."""

HEAD = """\
name: rehearsal
schema:
  time: at
  id: id
  arrival: seen
{unit}where: kind != "test"
key: {{column: store, {keys}}}
clock: {{start: {start}, period: 1h, end: {end}, delay: 1h}}
privacy: {{epsilon: {epsilon}, delta: 1e-6, protect_for: 16 ticks{person}}}
{blocks}"""
SUMS = """\
aggregates:
  visits: {count: events, over: [all, 7]}
  paid: {sum: amount, clip: [0, 50]}
  basket: {mean: amount, clip: [0, 50]}
  sizes: {histogram: items, edges: [0, 1, 3, 6]}
"""
LEARNER = """\
model:
  algorithm: online.follow_the_leader
  features: [items, hour]
  target: amount
  ranges: {items: [0, 8], hour: [0, 24], amount: [0, 80]}
  cap: 4
"""
FITS = """\
model:
  algorithm: regression.erm
  features: [items, hour]
  target: amount
  ranges: {items: [0, 8], hour: [0, 24], amount: [0, 80]}
  cap: 4
  rows: 2000
  every: 12
  iterations: 500
"""
USERS = """\
aggregates:
  visits: {count: events}
  people: {count: users}
  fresh: {count: users, per: period}
  paid: {sum: amount, clip_user: [0, 80]}
"""
PERSON = (
    ", unit: user, per: 12h, contributions: {ticks: 4, keys: 2, events: 2, ticks_per_key: 3, "
    "spacing: 2}"
)
PRIVATE = """\
aggregates:
  visits: {count: events, over: [all, 7]}
  paid: {sum: amount, clip_user: [0, 80]}
"""
ACTIVE = """\
aggregates:
  visits: {count: events}
  active: {count: users, over: [1, 5, 24]}
"""
PROGRAMS = {"sums": SUMS, "learner": LEARNER, "fits": FITS, "users": USERS, "private": PRIVATE,
            "active": ACTIVE}  # fmt: skip
EPSILON = {"fits": 60.0, "private": 20.0}
"""Of programs that learn nothing, and of keys that nobody finds, from so few events at 1."""

Cells = dict[tuple[int, str, str, int | None], tuple[list[float], list[float] | None]]
"""(tick, key, name, over) -> (value, stddev)."""


@dataclass(frozen=True)
class Delivery:
    """One line of the stream. ``arrival``: microseconds; lines without a stamp have their time."""

    line: bytes
    arrival: int


@dataclass(frozen=True)
class Recording:
    """A stream and a plan over it.

    Attributes:
      program: sums, learner, fits, users, active (users of several ticks), or private (keys too).
      ticks: hours of the clock.
      events: before anything is repeated. seed: of the data. blocks: of the plan, None: the plan's
        own choice.
    """

    program: str = "sums"
    ticks: int = 48
    events: int = 6_000
    seed: int = 20
    blocks: int | None = None

    @property
    def of_users(self) -> bool:
        """Whether its unit is a user: of those there are few, and they come often."""
        return self.program in ("users", "private", "active")

    @property
    def finds_keys(self) -> bool:
        """Whether no key is declared: they are found in private."""
        return self.program == "private"

    @property
    def end(self) -> str:
        """Where the clock ends."""
        return durations.show_timestamp(durations.timestamp(START) + self.ticks * HOUR)

    @property
    def config(self) -> str:
        """The sections that shape the plan; source, secret and sink are the test's business."""
        blocks = "" if self.blocks is None else f"blocks: {self.blocks}\n"
        head = HEAD.format(
            keys="discover: {min_users: 4}"
            if self.finds_keys
            else f"declared: [{', '.join(KEYS)}]",
            start=START,
            end=self.end,
            blocks=blocks,
            epsilon=EPSILON.get(self.program, 1.0),
            unit="  unit: who\n" if self.of_users else "",
            person=PERSON if self.of_users else "",
        )
        return head + PROGRAMS[self.program]

    @cached_property
    def plan(self) -> Plan:
        """The plan of ``config``."""
        return Plan.from_yaml(self.config)

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Events as dictionaries, duplicates and late ones among them, in order of arrival.

        On time is at most half the delay behind the event, late is at least half as much too much:
        a stream that is a little slow to publish changes nothing.
        """
        random = np.random.default_rng(self.seed)
        full = np.array([hour for hour in range(self.ticks) if hour not in EMPTY])
        start = durations.timestamp(START)
        found = []
        for i in range(self.events):
            at = start + int(random.choice(full)) * HOUR + int(random.integers(HOUR))
            at -= at % 1000
            row = {
                "id": f"event-{i}",
                "at": at,
                "store": KEYS[int(random.zipf(1.5)) % (len(KEYS) - len(QUIET))],
                "amount": round(float(random.normal(30, 15)), 2),
                "items": int(random.integers(0, 8)),
                "hour": at // HOUR % 24,
                "kind": "test" if random.random() < 0.02 else "sale",
            }
            if self.of_users:
                row["who"] = user_of(i)
            if random.random() < 0.01:
                row["amount"] = None
            if random.random() < 0.005:
                row["store"] = "nowhere"
            if random.random() < 0.005:
                row["at"] = start + (self.ticks + 2) * HOUR if i % 2 else start - HOUR
            found.append(row)
            if random.random() < 0.10:
                found.append(dict(row))
        for row in found:
            late = random.random() < 0.10
            wait = random.uniform(1.5, 3.0) if late else random.uniform(0.0, 0.5)
            row["seen"] = row["at"] + int(wait * DELAY) // 1000 * 1000
        return sorted(found, key=lambda row: row["seen"])

    @cached_property
    def deliveries(self) -> list[Delivery]:
        """Every line in order of arrival, the broken ones and those without a time among them."""
        found = []
        for i, row in enumerate(self.rows):
            found.append(Delivery(line_of(row), row["seen"]))
            if i % 150 == 7:
                found.append(Delivery(b'{"broken', row["seen"]))
            if i % 400 == 11:
                found.append(Delivery(line_of({**row, "id": f"x{i}", "at": None}), row["seen"]))
        return found

    def shuffled(self) -> list[Delivery]:
        """The deliveries in no order at all."""
        order = np.random.default_rng(self.seed + 1).permutation(len(self.deliveries))
        return [self.deliveries[i] for i in order.tolist()]

    def write(self, folder: Path, files: int = 3) -> Path:
        """The shuffled stream as files of lines; returns the glob that finds them."""
        folder.mkdir(parents=True, exist_ok=True)
        lines = [delivery.line for delivery in self.shuffled()]
        for i in range(files):
            (folder / f"events-{i}.ndjson").write_bytes(b"\n".join(lines[i::files]) + b"\n")
        return folder / "events-*.ndjson"

    def messages(self, size: int, shuffled: bool = False) -> Iterator[tuple[bytes, int]]:
        """Messages of ``size`` lines each, and the earliest arrival in each of them."""
        deliveries = self.shuffled() if shuffled else self.deliveries
        for start in range(0, len(deliveries), size):
            part = deliveries[start : start + size]
            yield b"\n".join(one.line for one in part) + b"\n", min(one.arrival for one in part)

    @cached_property
    def _judged(self) -> tuple[list[dict[str, Any]], dict[str, int]]:
        """The events that count, and why the others do not."""
        reasons: dict[str, int] = {}
        first, last = durations.timestamp(START), durations.timestamp(self.end)
        seen: set[str] = set()
        kept = []
        for row in self.rows:
            if row["kind"] == "test":
                reason = "filtered"
            elif row["at"] < first:
                reason = "before_start"
            elif row["at"] >= last:
                reason = "after_end"
            elif row["seen"] - row["at"] > DELAY:
                reason = "late"
            elif row["store"] not in KEYS and not self.finds_keys:
                reason = "unknown_key"
            elif self.of_users and row["who"] is None:
                reason = "no_user"
            elif row["id"] in seen and not self.of_users:
                reason = "duplicate"
            else:
                seen.add(row["id"])
                kept.append(row)
                continue
            reasons[reason] = reasons.get(reason, 0) + 1
        return kept, reasons

    @cached_property
    def _events(self) -> Events:
        kept, _ = self._judged
        return Events(
            np.array([row["at"] for row in kept], dtype=np.int64),
            [row["store"] for row in kept],
            {
                name: np.array([numeric(row[name]) for row in kept])
                for name in self.plan.program.columns
            },
            [row["id"] for row in kept],
            [row["who"] for row in kept] if self.of_users else None,
        )

    @cached_property
    def counters(self) -> dict[str, int]:
        """What the operator must read, exactly. Counters that are not here must be zero."""
        kept, reasons = self._judged
        broken = sum(delivery.line.startswith(b'{"broken') for delivery in self.deliveries)
        timeless = len(self.deliveries) - len(self.rows) - broken
        found = {
            "events": len(self.rows),
            "malformed": broken,
            "missing_time": timeless,
            counter_of("at", "missing_time"): timeless,
            **reasons,
            counter_of("store", "unknown_key"): reasons.get("unknown_key", 0),
        }
        for name in self.plan.program.columns:
            found[counter_of(name, MISSING)] = sum(row[name] is None for row in self.rows)
        plan = self.plan
        if self.of_users:  # what caps leave out is told apart, and nothing else is clipped before
            return {name: count for name, count in found.items() if count}
        told = plan.program.bound(self._events.columns, len(kept))
        found |= {
            "clipped": told.clipped,
            "non_finite": told.non_finite,
            "out_of_range": told.out_of_range,
        }
        if plan.program.leaf == "rows":
            found["over_capacity"] = self._over_capacity(bounded(plan, self._events, self.ticks))
        return {name: count for name, count in found.items() if count}

    def _over_capacity(self, bound: Bound) -> int:
        """Rows beyond the cap of their key and tick."""
        program: Any = self.plan.program
        hashes = event_hashes(SECRET, self.plan.digest, bound.rows, bound.times, bound.ids)
        dropped = 0
        for tick in np.unique(bound.ticks).tolist():
            here = np.flatnonzero(bound.ticks == tick)
            leaf = RowLeaf.from_events(
                bound.keys[here], bound.rows[here], bound.times[here], hashes[here],
                len(bound.names),
            )  # fmt: skip
            dropped += len(here) - len(leaf.capped(program.cap).leaf.rows)
        return dropped

    @cached_property
    def releases(self) -> Cells:
        """What every runner must release, bit for bit."""
        found: Cells = {}
        for one in simulate(self.plan, self._events, SECRET):
            for released in one.released:
                for i, value in enumerate(released.value[:, 0]):
                    error = None if released.stddev is None else released.stddev[i, 0].tolist()
                    cell = (one.first_tick + i, one.key, released.name, released.over)
                    found[cell] = (value.tolist(), error)
        return found


def user_of(number: int) -> str | None:
    """Whose an event is; of one in fifty nobody's."""
    return None if number % 50 == 9 else f"user-{zlib.crc32(b'%d' % number) % 150}"


def line_of(row: Mapping[str, Any]) -> bytes:
    """An event as a line of JSON; times as ISO 8601 with milliseconds."""
    shown = dict(row)
    for name in ("at", "seen"):
        if shown[name] is not None:
            shown[name] = show(shown[name])
    return orjson.dumps(shown)


def show(micros: int) -> str:
    """2024-03-01T00:00:00.000Z."""
    seconds, rest = divmod(micros, 1_000_000)
    text = str(np.datetime64(seconds, "s"))
    return f"{text}.{rest // 1000:03d}Z"


def numeric(value: float | None) -> float:
    """A number, NaN where there is none."""
    return float("nan") if value is None else float(value)


def cells_of(rows: Sequence[Mapping[str, Any]]) -> Cells:
    """Rows of releases of either layout by what they are about; what is there twice is an error."""
    found: Cells = {}
    for row in rows:
        cell = (row["tick"], row["key"], row["name"], row["over"])
        assert cell not in found or "index" in row, f"released twice: {cell}"
        if "index" not in row:
            found[cell] = (row["value"], row["stddev"])
            continue
        values, errors = found.setdefault(cell, ({}, {}))
        assert row["index"] not in values, f"released twice: {cell}, {row['index']}"
        values[row["index"]], errors[row["index"]] = row["value"], row["stddev"]
    return {cell: _as_lists(*held) for cell, held in found.items()}


def _as_lists(values: Any, errors: Any) -> tuple[Any, Any]:
    """Numbers by index -> in order of it; no errors at all are None. Lists stay."""
    if not isinstance(values, dict):
        return values, errors
    order = sorted(values)
    assert order == list(range(len(order))), "a number of a vector is missing"
    told = [errors[index] for index in order]
    return [values[index] for index in order], None if set(told) == {None} else told
