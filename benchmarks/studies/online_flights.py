"""What does privacy cost a forecast of flights, next to river's linear models, and at what speed?

    python -m benchmarks.studies.online_flights [--settings]

Every flight from New York City in 2013 that landed (327,346), one model a carrier. A flight is
forecast in the hour in which it leaves its gate and learned from when it is down. Weir forecasts
with the last model released before that hour (it has seen landings up to the end of the hour but
one before); river's models, event by event, with all landings before that hour: one hour fresher.
Features: ``gate`` is examples/flights/flights.yaml; ``timetable`` leaves out the delay at the gate,
so that only a timetable is left, and no public guess. River's models are not private, and those
with a standard scaler learn it from the data. Errors in minutes. Speed: seconds of this process,
one core, learning and (river) forecasting; Weir's includes bounding, sorting and noise, in memory.
``--settings`` adds a grid of clips and curvatures at epsilon = 1, to show what they matter.
Writes results/online_flights.csv. About three minutes; river is left out where it is not installed
(``pip install -e ".[bench]"``).

Run on 2026-11-21 at 9d768b2.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.flights import data, truth
from examples.flights.data import CARRIERS, FEATURES, Flights
from examples.shop.demo import CACHE
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate
from weir.pipelines.config.job import loads
from weir.pipelines.graph.checks import plan_of

Floats = NDArray[np.float64]

RESULTS = Path(__file__).parent / "results"
CONFIG = Path(__file__).parents[2] / "examples" / "flights" / "flights.yaml"
GATE = "dep_delay, "
GUESS = "  centre: [1, 0, 0, 0, 0, 0, 0]"
LEARNERS = ("online.conditional_gradient", "online.follow_the_leader")
SECRET = bytes(range(32))
HEAD = (
    *("features", "model", "epsilon", "curvature", "gradient_clip", "mean_absolute"),
    *("root_mean_square", "mean_absolute_after_90_days", "events_per_s"),
)


def config(learner: str, features: str, epsilon: float, curvature: float, clip: float) -> str:
    """examples/flights/flights.yaml with other settings."""
    text = CONFIG.read_text()
    changes = [
        ("online.conditional_gradient", learner),
        ("epsilon: 1.0", f"epsilon: {epsilon}"),
        ("curvature: 0.3", f"curvature: {curvature}"),
        ("gradient: 0.25", f"gradient: {clip}"),
    ]
    if features == "timetable":
        changes += [(GATE, ""), (GUESS, "  # no guess"), ("    dep_delay: [-120, 120]", "    #")]
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def names_of(features: str) -> tuple[str, ...]:
    """Columns of a set of features."""
    return FEATURES if features == "gate" else FEATURES[1:]


def weir(plan: Plan, flights: Flights, private: bool) -> tuple[Floats, float]:
    """Forecasts and seconds."""
    kept = [FEATURES.index(name) for name in plan.program.columns if name in FEATURES]
    began = time.process_time()
    if private:
        found = simulate(plan, truth.events_of(flights), SECRET)
        models = np.stack([own(one.released) for one in found], axis=1)
    else:
        models = truth.without_noise(plan, flights)
    seconds = time.process_time() - began
    whole = np.zeros((*models.shape[:2], len(FEATURES) + 1))
    whole[:, :, [*kept, len(FEATURES)]] = models
    return truth.predict(whole, flights), seconds


def own(released: Any) -> Floats:
    """One key's coefficients in the units of the data: (ticks, d)."""
    (found,) = (one.value[:, 0] for one in released if one.name == "coefficients")
    return np.asarray(found)


def river_models() -> Iterator[tuple[str, bool, Callable[[], Any]]]:
    """(name, whether inputs are scaled by the public ranges, maker); nothing without river."""
    try:
        linear: Any = importlib.import_module("river.linear_model")
        scaling: Any = importlib.import_module("river.preprocessing")
        optim: Any = importlib.import_module("river.optim")
    except ImportError as error:
        print(f"river is left out: {error}")
        return
    yield "river LinearRegression, public ranges", True, linear.LinearRegression
    for rate in (0.1, 0.003, 0.001):
        yield (
            f"river LinearRegression SGD {rate}, public ranges",
            True,
            lambda rate=rate: linear.LinearRegression(optimizer=optim.SGD(rate), intercept_lr=rate),
        )
    yield (
        "river LinearRegression Adam, public ranges",
        True,
        lambda: linear.LinearRegression(optimizer=optim.Adam(0.01)),
    )
    yield (
        "river LinearRegression, standard scaler",
        False,
        lambda: scaling.StandardScaler() | linear.LinearRegression(),
    )
    yield (
        "river PARegressor, standard scaler",
        False,
        lambda: scaling.StandardScaler() | linear.PARegressor(C=0.01, mode=2),
    )


def river(
    maker: Callable[[], Any], scaled: bool, flights: Flights, features: str
) -> tuple[Floats, float]:
    """Forecasts and seconds: events one by one, in the order of time."""
    names = names_of(features)
    values = flights.features[:, [FEATURES.index(name) for name in names]]
    unit = 1.0
    if scaled:
        low, high = ranges(names)
        values = (2 * values - low - high) / (high - low)
        unit = 120.0
    rows = [dict(zip(names, row, strict=True)) for row in values.tolist()]
    target = (flights.target / unit).tolist()
    models = [maker() for _ in CARRIERS]
    forecast = np.empty(len(target))
    # In the order of hours; within one, forecasts come before what is learned.
    n = len(target)
    hour = np.concatenate([flights.left, flights.known])
    order = np.lexsort([np.arange(2 * n) >= n, hour]).tolist()
    carrier = flights.carrier.tolist()
    began = time.process_time()
    for event in order:
        at = event % n
        model = models[carrier[at]]
        if event < n:
            forecast[at] = model.predict_one(rows[at])
        else:
            model.learn_one(rows[at], target[at])
    return forecast * unit, time.process_time() - began


def ranges(names: tuple[str, ...]) -> tuple[Floats, Floats]:
    """Public ranges of the config."""
    found = [loads(CONFIG.read_text()).model.ranges[name] for name in names]  # type: ignore[union-attr]
    low, high = np.array(found).T
    return low, high


def line(flights: Flights, forecast: Floats, seconds: float | None) -> list[str]:
    """Scores and speed."""
    later = flights.left >= 90 * 24
    score, late = (
        truth.score(forecast, flights),
        truth.score(forecast, flights, later),
    )
    speed = "" if seconds is None else f"{len(forecast) / seconds:.0f}"
    return [f"{score.absolute:.3f}", f"{score.square:.3f}", f"{late.absolute:.3f}", speed]


def measured(flights: Flights, settings: bool) -> Iterator[list[Any]]:
    """Every row of the table."""
    for features in ("gate", "timetable"):
        for learner in LEARNERS:
            for epsilon in (None, 4.0, 1.0):
                plan = plan_of(loads(config(learner, features, epsilon or 1.0, 0.3, 0.25)))
                found = weir(plan, flights, epsilon is not None)
                yield [features, learner, epsilon or "none", 0.3, 0.25, *line(flights, *found)]
        for name, scaled, maker in river_models():
            found = river(maker, scaled, flights, features)
            yield [features, name, "none", "", "", *line(flights, *found)]
        for name, forecast in truth.others(flights).items():
            if features == "gate":
                exact = "public" if name == truth.CENTRE else "none"
                yield [features, name.strip(" *"), exact, "", "", *line(flights, forecast, None)]
    for curvature in (0.03, 0.1, 1.0, 3.0) if settings else ():
        plan = plan_of(loads(config(LEARNERS[0], "gate", 1.0, curvature, 0.25)))
        found = weir(plan, flights, True)
        yield ["gate", LEARNERS[0], 1.0, curvature, 0.25, *line(flights, *found)]
    for clip in (0.0625, 0.125, 0.5, 1.0) if settings else ():
        plan = plan_of(loads(config(LEARNERS[0], "gate", 1.0, 0.3, clip)))
        found = weir(plan, flights, True)
        yield ["gate", LEARNERS[0], 1.0, 0.3, clip, *line(flights, *found)]


def main() -> None:
    """Measures and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--settings", action="store_true")
    options = parser.parse_args()
    flights = data.flights(data.fetch(CACHE))
    RESULTS.mkdir(exist_ok=True)
    with open(RESULTS / "online_flights.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEAD)
        for row in measured(flights, options.settings):
            writer.writerow(row)
            print(*row, sep="\t", flush=True)


if __name__ == "__main__":
    main()
