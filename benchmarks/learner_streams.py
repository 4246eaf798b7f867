"""Streams that learners are compared on: see ``benchmarks.learners``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
from numpy.typing import NDArray

from examples.flights import data as flights_data
from examples.shop.demo import CACHE
from weir.dpcore.bounded_events import Events
from weir.dpcore.plan import Plan

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STREAMS = ("bikes", "bikes_hourly", "flights", "flights_daily", "carriers", "even", "narrow")
HOUR = 3_600_000_000
NUMBERS = ("temp", "hum", "windspeed", "holiday")
"""Columns of the bikes that are taken as they are."""
CONFIG = """
name: {name}
schema: {{time: t}}
key: {{column: k, declared: [{keys}]}}
clock: {{start: 2000-01-01T00:00:00Z, period: 1h, end: {end}Z}}
privacy: {{epsilon: {epsilon}, delta: 1e-6, protect_for: all, relation: replace_one}}
expect: {{events: {events}}}
model:
  features: [{features}]
  target: y
  ranges: {{{ranges}}}
  set: {{l2_ball: 2}}
{model}
"""


@dataclass(frozen=True)
class Stream:
    """Events in scaled units, tick by tick.

    Attributes:
      x: (n, p) in [-1, 1]. y: (n,). tick: (n,), ascending. ticks: how many. key: (n,). keys: how
        many.
    """

    name: str
    x: Floats
    y: Floats
    tick: Ints
    ticks: int
    key: Ints
    keys: int = 1

    @property
    def names(self) -> list[str]:
        """Of the keys, in the order of their bytes."""
        return [f"k{i:04d}" for i in range(self.keys)]

    @property
    def events(self) -> Events:
        """As a plan reads them."""
        start = np.datetime64("2000-01-01T00:00:00", "us").astype(np.int64)
        # Spread within their tick, so that none of them share a moment.
        first = np.searchsorted(self.tick, self.tick)
        times = start + self.tick * HOUR + (np.arange(len(self.tick)) - first)
        keys = [self.names[i] for i in self.key.tolist()]
        return Events(times, keys, {**{f"x{i}": c for i, c in enumerate(self.x.T)}, "y": self.y})

    @property
    def mean(self) -> float:
        """Events a key and tick, to two digits, as someone who knows the stream would say."""
        n = len(self.tick) / self.ticks / self.keys
        digits = 1 - math.floor(math.log10(n))
        return round(n, digits)

    def plan(self, model: str, epsilon: float) -> Plan:
        """Of one learner."""
        names = [f"x{i}" for i in range(self.x.shape[1])]
        end = np.datetime64("2000-01-01T00:00:00") + np.timedelta64(self.ticks, "h")
        config = CONFIG if "  set:" not in model else CONFIG.replace("  set: {{l2_ball: 2}}\n", "")
        return Plan.from_yaml(
            config.format(
                name=self.name,
                keys=", ".join(self.names),
                end=end,
                epsilon=epsilon,
                events=self.mean,
                features=", ".join(names),
                ranges=", ".join(f"{name}: [-1, 1]" for name in (*names, "y")),
                model=model,
            )
        )

    def squares(self, models: Floats) -> Floats:
        """(ticks,) summed squared errors of models (ticks, keys, p + 1), on their ticks' events."""
        own = models[self.tick, self.key]
        miss = (own[:, :-1] * self.x).sum(axis=1) + own[:, -1] - self.y
        return np.bincount(self.tick, miss * miss, minlength=self.ticks)


def scaled(values: Floats, low: Any, high: Any) -> Floats:
    """Public ranges to [-1, 1]."""
    return np.asarray(np.clip((2 * values - low - high) / (high - low), -1, 1))


def bikes(name: str, path: Path, hours: int) -> Stream:
    """Demand by the time of day, the weather and how long the service runs, in ticks of hours."""
    rows = pyarrow.csv.read_csv(path)
    dates = [text.split("/") for text in rows["dteday"].to_pylist()]
    days = np.array([f"{y}-{int(m):02d}-{int(d):02d}" for m, d, y in dates], dtype="datetime64[D]")
    hour = rows["hr"].to_numpy()
    age = ((days - days[0]).astype(np.int64) * 24 + hour - hour[0]).astype(np.int64)
    angle, days_of = 2 * np.pi * hour / 24, 365 + 366
    waves = [np.sin(angle), np.cos(angle), np.sin(2 * angle), np.cos(2 * angle)]
    plain = [rows[name].to_numpy().astype(float) for name in NUMBERS]
    x = np.stack([*waves, *plain, age / days_of / 24], axis=1)
    low, high = np.array([-1.0] * 4 + [0.0] * 5), np.ones(9)
    y = scaled(rows["cnt"].to_numpy().astype(float), 0.0, 1000.0)
    tick = ((days - np.datetime64("2011-01-01")).astype(np.int64) * 24 + hour) // hours
    return in_order(name, scaled(x, low, high), y, tick, days_of * 24 // hours)


def flights(name: str, hours: int, keyed: bool = False) -> Stream:
    """Delay on arrival by the delay at the gate and the timetable, in ticks of hours."""
    found = flights_data.flights(flights_data.fetch(CACHE))
    low = np.array([-120.0, 0, -1, -1, -1, -1])
    high = np.array([120.0, 5000, 1, 1, 1, 1])
    since = found.landed.astype("datetime64[us]") - flights_data.START.astype("datetime64[us]")
    tick = since.astype(np.int64) // HOUR // hours
    x, y = scaled(found.features, low, high), scaled(found.target, -120.0, 120.0)
    keys = len(flights_data.CARRIERS) if keyed else 1
    return in_order(name, x, y, tick, flights_data.HOURS // hours, found.carrier * keyed, keys)


def in_order(
    name: str, x: Floats, y: Floats, tick: Ints, ticks: int, key: Ints | None = None, keys: int = 1
) -> Stream:
    """A stream of the events within its ticks, sorted by them."""
    key = np.zeros_like(tick) if key is None else key
    order = np.argsort(tick, kind="stable")
    order = order[(tick[order] >= 0) & (tick[order] < ticks)]
    return Stream(name, x[order], y[order], tick[order], ticks, key[order], keys)


def made_up(name: str, seed: int, ticks: int, events: int, features: int, together: bool) -> Stream:
    """A linear model of length 0.6 with a constant of 0.2 and noise of 0.3."""
    rng = np.random.default_rng(seed)
    tick = np.repeat(np.arange(ticks), rng.poisson(events, ticks))
    x = rng.uniform(-1, 1, (len(tick), features))
    if together:
        x *= np.linspace(0.1, 1, features)
        x = np.clip(x + 0.3 * rng.normal(size=(len(tick), 1)), -1, 1)
    w = rng.normal(size=features)
    y = 0.6 * x @ (w / np.linalg.norm(w)) + 0.2 + 0.3 * rng.normal(size=len(tick))
    return Stream(name, x, np.clip(y, -1, 1), tick, ticks, np.zeros_like(tick))


def streams(path: Path | None, names: Sequence[str]) -> Iterator[Stream]:
    """Those of these names that are at hand."""
    if path is None:
        print("bikes are left out: no --bikes, and WEIR_BIKES is not set")
    made: dict[str, Callable[[], Stream]] = {
        "flights": lambda: flights("flights", 1),
        "flights_daily": lambda: flights("flights_daily", 24),
        "carriers": lambda: flights("carriers", 24, keyed=True),
        "even": lambda: made_up("even", 1, 1000, 10, 5, False),
        "narrow": lambda: made_up("narrow", 2, 400, 100, 19, True),
    }
    if path is not None:
        made["bikes"] = lambda: bikes("bikes", path, 24)
        made["bikes_hourly"] = lambda: bikes("bikes_hourly", path, 1)
    yield from (made[name]() for name in STREAMS if name in names and name in made)
