"""Which learner, for which stream? Each of them as its defaults have it, on the same events.

    python -m benchmarks.learners [--bikes hour.csv] [--seeds 10] [--only STREAM]

Before every tick a model predicts the tick's events (regressions with the model of the tick
before), and the mean of its squared errors over the whole stream is divided by that of least
squares over the same set on all events before the tick, without noise and with a ridge of one
event. 1.05 is five per cent more error than that.

Streams: ``bikes``, hourly demand of Capital Bikeshare, 731 daily ticks of 24 events (``hour.csv``
of the UCI data set "Bike Sharing", or WEIR_BIKES says where it is), and ``bikes_hourly``, the same
in 17,544 ticks of one; ``flights``, the 327,346 arrivals of 2013 in 8,784 hourly ticks, one model
for all, ``flights_daily``, the same in 366 ticks, and ``carriers``, those with a model for each of
16 carriers; and two made-up ones, ``even`` (1,000 ticks of about 10 events, 6 coefficients) and
``narrow`` (400 ticks of about 100, 20 coefficients, features that go together). Ranges are set
beforehand, protection is for ever, delta = 1e-6; every config says ``expect``, the mean over ticks
and keys. ``best of nine`` is online.follow_the_leader with schedule: linear under the best of nine
settings for that very stream, chosen on it afterwards (curvature 0.03, 0.1 and 0.3 of the events of
a tick; clip a half, a quarter and an eighth of the root of the coefficients).

Defaults were chosen on other made-up streams (``dpcore/models/online/pull.py``). Medians over
seeds, which differ in noise alone. Writes benchmarks/results/learners.csv, and the table of
docs/which-learner.md (both tables).
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks import regression_real
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import Events, simulate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "which-learner.md"
HOUR = 3_600_000_000
RADIUS = 2.0
MOST_ROWS = 100_000
"""On more (flights) what takes hours is left out: regression.erm and online.pocg, which look at
every row some tens of times."""
MOST_TOGETHER = 2_000_000
"""Rows of all seeds up to which they are keys of one run."""
MOST_TICKS = 10_000
"""On more (bikes by hour) the same."""
NOT_PRIVATE = 1e5
"""An epsilon at which hardly any noise is left."""
COLUMNS = (
    *("stream", "learner", "epsilon", "error", "second_half", "q25", "q75", "last_excess"),
    "seconds",
)
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
LEARNERS = {
    "online.follow_the_leader": "  algorithm: online.follow_the_leader\n  clip: {loss: 0}",
    "online.conditional_gradient": "  algorithm: online.conditional_gradient\n"
    "  clip: {loss: 0}\n  set: {l1_ball: 3}",
    "online.pftal": "  algorithm: online.pftal\n  clip: {loss: 0}",
    "online.pocg": "  algorithm: online.pocg\n  clip: {loss: 0}\n  cap: 256",
    "online.pqftl": "  algorithm: online.pqftl",
    "regression.incremental": "  algorithm: regression.incremental",
}
NINE = "best of nine, linear"
ZERO = "zero"
ERM = "regression.erm"
POCG = "online.pocg"
STREAMS = ("bikes", "bikes_hourly", "flights", "flights_daily", "carriers", "even", "narrow")
BEGIN, END = "<!-- python -m benchmarks.learners -->\n", "<!-- end -->\n"
"""Marks of the tables in the page."""
BETWEEN = (
    "How much more squared error the last model has on all events than the best model in hindsight:"
)


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


def scaled(values: Floats, low: Floats, high: Floats) -> Floats:
    """Public ranges to [-1, 1]."""
    return np.asarray(np.clip((2 * values - low - high) / (high - low), -1, 1))


def real(name: str, path: Path | None, hours: int, keyed: bool = False) -> Stream:
    """Bikes, or flights, in ticks of so many hours."""
    found = regression_real.bikes(path) if path is not None else regression_real.flights()
    ticks, tick = found.hours // hours, found.tick // hours
    low, high = found.low.copy(), found.high.copy()
    if path is not None:
        low[-1], high[-1] = 0.0, 1000.0
    order = np.argsort(tick, kind="stable")
    order = order[(tick[order] >= 0) & (tick[order] < ticks)]
    x, y = scaled(found.x, low[:-1], high[:-1]), scaled(found.y, low[-1], high[-1])
    key = found.key if keyed else np.zeros_like(tick)
    keys = len(found.names) if keyed else 1
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


def streams(bikes: Path | None) -> Iterator[Stream]:
    """All that are at hand."""
    if bikes is not None:
        yield real("bikes", bikes, 24)
        yield real("bikes_hourly", bikes, 1)
    else:
        print("bikes are left out: no --bikes, and WEIR_BIKES is not set")
    yield real("flights", None, 1)
    yield real("flights_daily", None, 24)
    yield real("carriers", None, 24, keyed=True)
    yield made_up("even", 1, 1000, 10, 5, False)
    yield made_up("narrow", 2, 400, 100, 19, True)


def leader(stream: Stream) -> Floats:
    """(ticks, keys, p + 1): least squares within the ball on all before the tick, without noise."""
    rows = np.c_[stream.x, np.ones(len(stream.y))]
    out = np.zeros((stream.ticks, stream.keys, rows.shape[1]))
    for key in range(stream.keys):
        own = stream.key == key
        x, y = rows[own], stream.y[own]
        edges = np.searchsorted(stream.tick[own], np.arange(stream.ticks + 1))
        matrix, right = np.eye(rows.shape[1]), np.zeros(rows.shape[1])
        for tick in range(stream.ticks):
            out[tick, key] = within(matrix, right)
            here = slice(edges[tick], edges[tick + 1])
            matrix = matrix + x[here].T @ x[here]
            right = right + x[here].T @ y[here]
    return out


def hindsight(stream: Stream) -> Floats:
    """(ticks, keys, p + 1): the best model of each key on all its events, at every tick."""
    all_ = np.c_[stream.x, np.ones(len(stream.y))]
    found = []
    for key in range(stream.keys):
        x, y = all_[stream.key == key], stream.y[stream.key == key]
        found.append(within(x.T @ x + 1e-9 * np.eye(x.shape[1]), x.T @ y))
    return np.repeat(np.stack(found)[None], stream.ticks, axis=0)


def within(matrix: Floats, right: Floats) -> Floats:
    """argmin of x' M x / 2 - <q, x> over the ball, by bisection of the multiplier."""
    values, vectors = np.linalg.eigh(matrix)
    along = vectors.T @ right
    low, high = 0.0, 1e9
    if np.linalg.norm(along / values) <= RADIUS:
        return np.asarray(vectors @ (along / values))
    for _ in range(80):
        middle = (low + high) / 2
        inside = np.linalg.norm(along / (values + middle)) <= RADIUS
        low, high = (low, middle) if inside else (middle, high)
    return np.asarray(vectors @ (along / (values + high)))


class Found(NamedTuple):
    """What a learner came to.

    Attributes:
      squares: (seeds, ticks) summed squared errors of predictions. last: (seeds,) mean squared
        error of the last model on all events. seconds: of one run.
    """

    squares: Floats
    last: Floats
    seconds: float


def copies(stream: Stream, times: int) -> Stream:
    """Each key so many times, under names of its own: noise belongs to the key."""
    key = (stream.key[:, None] * times + np.arange(times)).ravel()
    x, y, tick = (np.repeat(one, times, axis=0) for one in (stream.x, stream.y, stream.tick))
    return replace(stream, x=x, y=y, tick=tick, key=key, keys=stream.keys * times)


def played(stream: Stream, model: str, epsilon: float, seed: int) -> Floats:
    """(ticks, keys, p + 1): models that predict each tick's events."""
    plan = stream.plan(model, epsilon)
    parts = simulate(plan, stream.events, bytes([seed + 1]) * 32)
    found = [part.value for one in parts for part in one.released if part.name == "theta"]
    return np.concatenate(found, axis=1)


def run(stream: Stream, model: str, epsilon: float, seeds: int) -> Found:
    """Some runs of one learner, side by side where there is room."""
    together = seeds if len(stream.y) * seeds <= MOST_TOGETHER else 1
    whole, found, last = copies(stream, together), [], []
    began = time.process_time()
    for seed in range(seeds // together):
        all_ = played(whole, model, epsilon, seed)
        for copy in range(together):
            theta = all_[:, copy::together]
            last.append(stream.squares(np.repeat(theta[-1:], stream.ticks, axis=0)).sum())
            if "algorithm: regression." in model:  # made of its tick's events, too
                theta = np.concatenate([np.zeros_like(theta[:1]), theta[:-1]])
            found.append(stream.squares(theta))
    seconds = (time.process_time() - began) / seeds
    return Found(np.array(found), np.array(last) / len(stream.y), seconds)


def nine(stream: Stream) -> Iterator[str]:
    """Hand-tuned settings of the schedule that does not fade."""
    root = math.sqrt(stream.x.shape[1] + 1)
    for part in (0.03, 0.1, 0.3):
        for clip in (0.125, 0.25, 0.5):
            yield (
                "  algorithm: online.follow_the_leader\n  schedule: linear\n"
                f"  curvature: {part * stream.mean:.6g}\n"
                f"  clip: {{gradient: {clip * root:.6g}, loss: 0}}"
            )


def table(stream: Stream, seeds: int) -> Iterator[tuple[Any, ...]]:
    """Rows of one stream."""
    models = leader(stream)
    best = stream.squares(models)
    least = stream.squares(hindsight(stream)).sum() / len(stream.y)
    half = stream.ticks // 2
    large = len(stream.y) > MOST_ROWS or stream.ticks > MOST_TICKS
    little = len(stream.y) * seeds <= MOST_TOGETHER

    def row(name: str, epsilon: float, found: Found) -> tuple[Any, ...]:
        ratio = found.squares.sum(axis=1) / best.sum()
        late = found.squares[:, half:].sum(axis=1) / best[half:].sum()
        q25, median, q75 = np.quantile(ratio, (0.25, 0.5, 0.75))
        shown = (median, np.median(late), q25, q75)
        excess = float(np.median(found.last)) / least - 1
        numbers = (*(f"{one:.3f}" for one in shown), f"{excess:.4f}", f"{found.seconds:.1f}")
        return (stream.name, name, epsilon, *numbers)

    zero = stream.squares(np.zeros_like(models))
    yield row(ZERO, math.nan, Found(zero[None], zero.sum(keepdims=True) / len(stream.y), 0.0))
    for epsilon in (NOT_PRIVATE, 1.0):
        several = 1 if epsilon == NOT_PRIVATE else seeds
        for name, model in LEARNERS.items():
            if name != POCG or not large:
                yield row(name, epsilon, run(stream, model, epsilon, several))
        if epsilon != 1.0:
            continue
        tried = [run(stream, one, epsilon, seeds if little else 1) for one in nine(stream)]
        best_one = min(range(len(tried)), key=lambda i: float(tried[i].squares.mean()))
        if little:
            yield row(NINE, epsilon, tried[best_one])
        else:
            yield row(NINE, epsilon, run(stream, list(nine(stream))[best_one], epsilon, seeds))
        if large:
            continue
        rows = f"  algorithm: regression.erm\n  rows: {len(stream.y)}"
        yield row(ERM, epsilon, run(stream, rows, epsilon, seeds))
        seldom = f"{rows}\n  every: {stream.ticks // 4}"
        yield row(f"{ERM}, four fits", epsilon, run(stream, seldom, epsilon, seeds))


def kept(path: Path) -> list[list[str]]:
    """Rows of an earlier run."""
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return list(csv.reader(file))[1:]


def markdown(rows: list[list[str]]) -> str:
    """The tables of the page: errors of predictions, and what the last model misses by."""
    named = list(dict.fromkeys(row[0] for row in rows))
    rule = f"|---|---|{'---|' * len(named)}"
    found = {(row[1], row[2], row[0]): row for row in rows}
    lines = [f"| learner | epsilon | {' | '.join(named)} |", rule]
    after = [f"| the last model | epsilon | {' | '.join(named)} |", rule]
    for name, epsilon in dict.fromkeys((row[1], row[2]) for row in rows):
        of = [found.get((name, epsilon, stream)) for stream in named]
        shown = {"1.0": "1", "nan": "-"}.get(epsilon, "hardly any noise")
        head = f"| {'the middle of the range' if name == ZERO else f'`{name}`'} | {shown} | "
        lines.append(head + " | ".join("-" if r is None else f"{r[3]} ({r[4]})" for r in of) + " |")
        if name != NINE:
            last = ("-" if r is None else f"{float(r[7]):.2%}" for r in of)
            after.append(head + " | ".join(last) + " |")
    return "\n".join([*lines, "", BETWEEN, "", *after]) + "\n"


def with_table(page: str, table_: str) -> str:
    """The page with its table made anew."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table_ + END + rest.partition(END)[2]


def main() -> None:
    """Measures and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bikes", type=Path, default=os.environ.get("WEIR_BIKES"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", choices=STREAMS, help="the others keep what they have")
    options = parser.parse_args()
    bikes = None if options.bikes is None else Path(options.bikes)
    path = RESULTS / "learners.csv"
    of = {name: [row for row in kept(path) if row[0] == name] for name in STREAMS}
    for stream in streams(bikes):
        if options.only not in (None, stream.name):
            continue
        of[stream.name] = []
        for row in table(stream, options.seeds):
            of[stream.name].append([str(one) for one in row])
            print(*row, sep="\t", flush=True)
    rows = [row for name in STREAMS for row in of[name]]
    RESULTS.mkdir(exist_ok=True)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)
    PAGE.write_text(with_table(PAGE.read_text(), markdown(rows)))


if __name__ == "__main__":
    main()
