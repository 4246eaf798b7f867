"""How much of two real streams does a private regression explain, and what would a batch do?

    python -m benchmarks.regression_real --bikes hour.csv [--seeds 5]

Bikes: Capital Bikeshare's hourly demand, 2011 and 2012 (17,379 hours; ``hour.csv`` of the UCI data
set "Bike Sharing", or WEIR_BIKES says where it is). Flights: the 327,346 of 336,776 departures from
New York in 2013 that landed, a model a carrier; then one for all (``flights_together``). Hourly
ticks, protection for ever, delta = 1e-6, public ranges set beforehand (of the demand, 600 either
way of a guess of 200 an hour: a model falls back to the middle of a range). R^2 of the model
released at tick t, on the data as they are: ``so far``, on all events up to t, and ``next``, on
those of the 30 days that follow. Epsilon ``none`` is the same program with silent noise and no
ridge. Medians and quartiles over seeds, which differ in noise alone.

Beside it at the end: the same with a single release of the whole stream (``weir, once``), which
shows what being continual costs, and diffprivlib's LinearRegression (pip install diffprivlib
'scikit-learn<1.7'), run once on all rows, with the same bounds and epsilon, and delta = 0: what a
batch user would do. What is wrong with it (0.6.6, read, and shown by ``flaws``):

- The sensitivity of sum x_i^2 is the square of the *lower* bound, whose name stands twice where the
  upper one belongs. Bounds are taken relative to the noisy mean, so a feature whose mean lies near
  its lower bound gets far too little noise there. ``flaws`` replaces one row, records each query
  that the library makes and the sensitivity that it claims, and adds up the losses.
- The means cost 2 eps / (p + 1), but only eps / (p + 1) is taken off what the rest gets: a model
  with an intercept spends (p + 2) / (p + 1) of epsilon even where all sensitivities are right.
- Without an intercept nothing is clipped to the bounds, so that no sensitivity holds.
- Noisy second moments need not be positive definite, and are not mended (the functional mechanism's
  own paper does): the objective then has no minimum, and the model is where the optimiser gave up.
  Of the flights that ruins the carriers with few rows, so there is one model for all of them too.
- Laplace noise with one equal share of epsilon for each of p (p + 1) / 2 + p + 1 numbers: its
  deviation grows with p^2, that of one joint Gaussian release with p at worst.

Writes benchmarks/results/regression_real.csv.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
from numpy.typing import NDArray

from examples.flights import data as flights_data
from examples.shop.demo import CACHE
from tests.constant_noise import ConstantNoise
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import Events, simulate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RESULTS = Path(__file__).parent / "results"
EPSILONS: tuple[float | None, ...] = (None, 4.0, 1.0, 0.5)
HOUR = 3_600_000_000
STREAMS = ("bikes", "flights", "flights_together")
NEXT = 30 * 24
NUMBERS = ("temp", "hum", "windspeed", "holiday")
COLUMNS = ("stream", "method", "epsilon", "tick", "r2_so_far", "r2_next_30_days", "q25", "q75")

CONFIG = """
name: {name}
schema: {{time: t}}
{key}
clock: {{start: {start}Z, period: {period}, end: {end}Z}}
privacy: {{epsilon: {epsilon}, delta: 1e-6, protect_for: all}}
model:
  algorithm: regression.incremental
  features: [{features}]
  target: {target}
  ranges: {{{ranges}}}
  clip: {{features: {reach}}}
{more}
"""


@dataclass(frozen=True)
class Data:
    """A stream. x: (n, p), y: (n,), key: (n,) index into names, time: (n,) microseconds.

    Attributes:
      start: of the clock. hours: of it. low, high: public, of the features, then the target.
      reach: bound on a scaled row, near what most have.
    """

    name: str
    features: tuple[str, ...]
    target: str
    x: Floats = field(repr=False)
    y: Floats = field(repr=False)
    key: Ints = field(repr=False)
    names: tuple[str, ...]
    time: Ints = field(repr=False)
    start: np.datetime64
    hours: int
    low: Floats
    high: Floats
    reach: float

    @property
    def tick(self) -> Ints:
        """(n,) hour of each event."""
        return (self.time - self.start.astype("datetime64[us]").astype(np.int64)) // HOUR

    @property
    def events(self) -> Events:
        """As a plan reads them."""
        columns = {name: self.x[:, i] for i, name in enumerate(self.features)}
        return Events(
            self.time, [self.names[i] for i in self.key], {**columns, self.target: self.y}
        )

    def plan(self, epsilon: float | None, once: bool = False) -> Plan:
        """Hourly, or one tick for the whole stream; epsilon None: to run without noise, as plain
        least squares."""
        keyed = f"key: {{column: key, declared: [{', '.join(self.names)}]}}"
        names = (*self.features, self.target)
        ranges = zip(names, self.low.tolist(), self.high.tolist(), strict=True)
        return Plan.from_yaml(
            CONFIG.format(
                name=self.name,
                key=keyed,
                start=self.start.astype("datetime64[s]"),
                end=(self.start + np.timedelta64(self.hours, "h")).astype("datetime64[s]"),
                period=f"{self.hours}h" if once else "1h",
                epsilon=epsilon or 1.0,
                more="  ridge: 0" if epsilon is None else "",
                features=", ".join(self.features),
                target=self.target,
                ranges=", ".join(f"{name}: [{low}, {high}]" for name, low, high in ranges),
                reach=self.reach,
            )
        )


def bikes(path: Path) -> Data:
    """Demand of an hour by the time of day, the weather and how long the service has run."""
    rows = pyarrow.csv.read_csv(path)
    dates = [text.split("/") for text in rows["dteday"].to_pylist()]
    days = np.array([f"{y}-{int(m):02d}-{int(d):02d}" for m, d, y in dates], dtype="datetime64[D]")
    hour = rows["hr"].to_numpy()
    time = days.astype("datetime64[h]") + hour.astype("timedelta64[h]")
    angle = 2 * np.pi * hour / 24
    columns = {
        "hour_sin": np.sin(angle),
        "hour_cos": np.cos(angle),
        "half_sin": np.sin(2 * angle),
        "half_cos": np.cos(2 * angle),
        **{name: rows[name].to_numpy().astype(float) for name in NUMBERS},
        "age": (time - time[0]).astype(float) / (365 + 366) / 24,
    }
    return Data(
        name="bikes",
        features=tuple(columns),
        target="cnt",
        x=np.stack(list(columns.values()), axis=1),
        y=rows["cnt"].to_numpy().astype(float),
        key=np.zeros(len(hour), dtype=np.int64),
        names=("all",),
        time=time.astype("datetime64[us]").astype(np.int64),
        start=np.datetime64("2011-01-01T00", "h"),
        hours=(365 + 366) * 24,
        low=np.array([-1.0] * 4 + [0.0] * 5 + [-400.0]),
        high=np.array([1.0] * 9 + [800.0]),
        reach=2.5,
    )


def flights() -> Data:
    """Delay on arrival by the delay at the gate and the timetable, of each carrier."""
    found = flights_data.flights(flights_data.fetch(CACHE))
    return Data(
        name="flights",
        features=flights_data.FEATURES,
        target=flights_data.TARGET,
        x=found.features,
        y=found.target,
        key=found.carrier,
        names=flights_data.CARRIERS,
        time=found.landed.astype("datetime64[us]").astype(np.int64),
        start=flights_data.START,
        hours=flights_data.HOURS,
        low=np.array([-120.0, 0, -1, -1, -1, -1, -120]),
        high=np.array([120.0, 5000, 1, 1, 1, 1, 120]),
        reach=1.9,
    )


def together(data: Data) -> Data:
    """The same as one key."""
    key = np.zeros(len(data.y), dtype=np.int64)
    return replace(data, name=f"{data.name}_together", key=key, names=("all",))


def streams(names: list[str], path: Path) -> Iterator[Data]:
    """By their names."""
    if "bikes" in names:
        yield bikes(path)
    if {"flights", "flights_together"} & set(names):
        found = flights()
        yield from [found] if "flights" in names else []
        yield from [together(found)] if "flights_together" in names else []


def r2(data: Data, models: Floats, some: Any) -> float:
    """Of models (keys, p + 1) on some of the rows."""
    x, y, own = data.x[some], data.y[some], models[data.key[some]]
    if len(y) < 2:
        return float("nan")
    off = (own[:, :-1] * x).sum(axis=1) + own[:, -1] - y
    return float(1 - (off @ off) / np.sum((y - y.mean()) ** 2))


def models_of(data: Data, plan: Plan, seed: int | None) -> Floats:
    """(ticks, keys, p + 1) coefficients, in the units of the data. seed: None = silent noise."""
    silent = ConstantNoise(0.0) if seed is None else None
    found = simulate(plan, data.events, bytes([seed or 0]) * 32, noise=silent)
    return np.concatenate(
        [out.value for one in found for out in one.released if out.name == "coefficients"], axis=1
    )


def weir(data: Data, seeds: int, ends: Ints) -> Iterator[list[Any]]:
    """R^2 at the checkpoints, and of a single release at the end."""
    tick = data.tick
    for epsilon in EPSILONS:
        runs: list[int | None] = [None] if epsilon is None else list(range(1, seeds + 1))
        models = [models_of(data, data.plan(epsilon), seed)[ends] for seed in runs]
        for i, end in enumerate(ends.tolist()):
            past = [r2(data, model[i], tick <= end) for model in models]
            future = (tick > end) & (tick <= end + NEXT)
            ahead = float(np.median([r2(data, model[i], future) for model in models]))
            yield row(data, "weir", epsilon, end, past, ahead)
        once = data.plan(epsilon, once=True)
        whole = [r2(data, models_of(data, once, seed)[0], slice(None)) for seed in runs]
        yield row(data, "weir, once", epsilon, int(ends[-1]), whole, float("nan"))


def row(
    data: Data, method: str, epsilon: float | None, end: int, past: list[float], ahead: float
) -> list[Any]:
    """A line of the table."""
    low, middle, high = np.percentile(past, (25, 50, 75))
    numbers = (middle, ahead, low, high)
    return [data.name, method, epsilon or "none", end, *(f"{value:.4g}" for value in numbers)]


def peer() -> Any:
    """diffprivlib's linear_regression module; None without it."""
    try:
        return importlib.import_module("diffprivlib.models.linear_regression")
    except ImportError as error:
        print(f"diffprivlib is left out ({error}): pip install diffprivlib 'scikit-learn<1.7'")
        return None


def fit(module: Any, data: Data, some: Any, epsilon: float, seed: int) -> Any:
    """One fitted model, with the public bounds."""
    model = module.LinearRegression(
        epsilon=epsilon,
        bounds_X=(data.low[:-1], data.high[:-1]),
        bounds_y=(data.low[-1], data.high[-1]),
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(data.x[some].copy(), data.y[some].copy())


def batch(module: Any, data: Data, seeds: int) -> Iterator[list[Any]]:
    """diffprivlib, once at the end, a model a key."""
    for epsilon in EPSILONS:
        found = []
        for seed in range(1, (1 if epsilon is None else 4 * seeds) + 1):
            models = np.zeros((len(data.names), len(data.features) + 1))
            for key in range(len(data.names)):
                model = fit(module, data, data.key == key, epsilon or 1e9, 1000 * seed + key)
                models[key] = np.append(model.coef_, model.intercept_)
            found.append(r2(data, models, slice(None)))
        yield row(data, "diffprivlib, once", epsilon, int(data.tick.max()), found, float("nan"))


class Recorder:
    """In place of a mechanism of the library: notes what it was to hide, and hides nothing."""

    def __init__(self, log: list[tuple[float, float, float]]) -> None:
        self._log, self._args = log, (0.0, 0.0)

    def __call__(self, *, epsilon: float, sensitivity: float, **rest: Any) -> Recorder:
        """As the mechanism's constructor."""
        self._args = (epsilon, sensitivity)
        return self

    def randomise(self, value: float) -> float:
        """The value itself."""
        self._log.append((float(value), *self._args))
        return value


def queries(module: Any, data: Data, some: Any, offsets: list[Any]) -> Floats:
    """What fit asks, with the means that were released: (m, 3) value, epsilon, sensitivity."""
    log: list[tuple[float, float, float]] = []
    names = ("Laplace", "LaplaceFolded", "mean")
    held, means = [getattr(module, name) for name in names], iter(offsets)
    recorder = Recorder(log)
    released: tuple[Callable[..., Any], ...] = (
        recorder,
        recorder,
        lambda *args, **rest: next(means),
    )
    try:
        for name, value in zip(names, released, strict=True):
            setattr(module, name, value)
        fit(module, data, some, 1.0, 0)
    finally:
        for name, value in zip(names, held, strict=True):
            setattr(module, name, value)
    return np.array(log)


def flaws(module: Any, data: Data) -> None:
    """The loss of one replaced row, at a claimed epsilon of 1, from the library's own queries."""
    some = np.flatnonzero(data.key == np.bincount(data.key).argmax())
    x = np.clip(data.x[some], data.low[:-1], data.high[:-1])
    y = np.clip(data.y[some], data.low[-1], data.high[-1])
    offsets = [x.mean(axis=0), y.mean()]
    p, worst, culprit = len(data.features), 0.0, ""
    rng = np.random.default_rng(0)
    before = queries(module, data, some, offsets)
    place = [i for i, _ in enumerate(before)]
    squares = [1 + p + i * p - i * (i - 1) // 2 for i in range(p)]
    held = data.x[some[0]].copy(), data.y[some[0]]
    for _ in range(64):
        data.x[some[0]] = np.where(rng.random(p) < 0.5, data.low[:-1], data.high[:-1])
        data.y[some[0]] = data.low[-1] if rng.random() < 0.5 else data.high[-1]
        after = queries(module, data, some, offsets)
        data.x[some[0]], data.y[some[0]] = held
        each = np.abs(after[:, 0] - before[:, 0]) * before[:, 1] / before[:, 2]
        if each.sum() > worst:
            worst, top = float(each.sum()), int(each[place].argmax())
            named = data.features[squares.index(top)] if top in squares else "?"
            culprit = (
                f"{each[top]:.2f} of it from the square of {named}: it changes by "
                f"{abs(after[top, 0] - before[top, 0]):.4g}, claimed are {before[top, 2]:.4g}"
            )
    print(f"{data.name}: one replaced row costs diffprivlib {worst:.2f} at a claimed 1; {culprit}")
    print(f"{'':9}besides, its means spend {1 / (p + 1):.3f} more than it accounts for")


def main() -> None:
    """Measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bikes", default=os.environ.get("WEIR_BIKES"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--streams", nargs="*", default=list(STREAMS), choices=STREAMS)
    args = parser.parse_args()
    if "bikes" in args.streams and not Path(args.bikes or "").is_file():
        sys.exit(
            f"{args.bikes or '--bikes'}: no such file; give --bikes (or WEIR_BIKES) the path of "
            "hour.csv, from the UCI data set Bike Sharing."
        )
    module = peer()
    RESULTS.mkdir(exist_ok=True)
    with open(RESULTS / "regression_real.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        print(*COLUMNS, sep="\t")
        for data in streams(args.streams, Path(args.bikes or "")):
            size = np.linalg.norm(
                np.c_[(2 * data.x - data.low[:-1] - data.high[:-1]), data.y * 0 + 1]
                / np.append(data.high[:-1] - data.low[:-1], 1),
                axis=1,
            )
            print(
                f"{data.name}: {len(data.y):,} events, {np.mean(size > data.reach):.1%} shortened"
            )
            ends = np.array([*(d * 24 - 1 for d in (7, 30, 90, 180, 270, 365, 545))])
            ends = np.append(ends[ends < data.hours - 48], data.hours - 1)
            for line in weir(data, args.seeds, ends):
                writer.writerow(line)
                print(*line, sep="\t", flush=True)
            if module is not None:
                for line in batch(module, data, args.seeds):
                    writer.writerow(line)
                    print(*line, sep="\t", flush=True)
                flaws(module, data)


if __name__ == "__main__":
    main()
