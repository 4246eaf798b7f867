"""How good the forecasts of flights are, next to the truth. Public data only, as in the demo.

A forecast is made when a flight leaves its gate, with the last model that was released before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.flights.data import CARRIERS, FEATURES, TARGET, Flights
from weir.dpcore import simulate
from weir.dpcore.leaves.hashes import event_hashes
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.plan import Plan
from weir.pipelines.results.files import matrix
from weir.pipelines.results.run import OWN, ResultFolder
from weir.pipelines.results.series import COLUMNS, batch_of

Floats = NDArray[np.float64]

WEEK = 168
PRIVATE = "private models"
EXACT = "the same learner without noise *"
CENTRE = "public guess: as late as it left"
MADE_UP = "as it left, less last week's gain *"
MEAN = "last week's mean delay *"
HINDSIGHT = "best linear model in hindsight *"


@dataclass(frozen=True)
class Score:
    """Errors of forecasts in minutes: mean absolute, and root of the mean square."""

    absolute: float
    square: float


def score(forecast: Floats, flights: Flights, some: Any = slice(None)) -> Score:
    """Of some of the flights."""
    off = (forecast - flights.target)[some]
    return Score(float(np.abs(off).mean()), float(np.sqrt((off**2).mean())))


def predict(coefficients: Floats, flights: Flights) -> Floats:
    """Forecasts of all flights.

    Args:
      coefficients: (ticks, carriers, features + 1), the model that each tick released.
      flights: n of them.

    Returns:
      (n,) minutes. Before the first release every model is the one of tick 0, a public constant.
    """
    own = coefficients[np.maximum(flights.left - 1, 0), flights.carrier]
    return np.asarray((own[:, :-1] * flights.features).sum(axis=1) + own[:, -1])


def released(run: ResultFolder) -> Floats:
    """The models of a run in the units of the data: (ticks, carriers, features + 1)."""
    found = np.full((run.last_tick + 1, len(CARRIERS), len(FEATURES) + 1), np.nan)
    (output,) = (one for one in run.outputs if one.name == OWN)
    for raw in run.batches(COLUMNS):
        batch = batch_of(raw)
        rows = batch.rows(output, np.arange(raw.num_rows))
        place = np.array([CARRIERS.index(key) for key in batch.keys])
        found[batch.tick[rows], place[batch.key[rows]]] = matrix(batch.value, rows, found.shape[2])
    return found


def events_of(flights: Flights) -> simulate.Events:
    """The flights as the pipeline reads them."""
    columns = {name: flights.features[:, i] for i, name in enumerate(FEATURES)}
    return simulate.Events(
        flights.landed.astype("datetime64[us]").astype(np.int64),
        [CARRIERS[i] for i in flights.carrier],
        {**columns, TARGET: flights.target},
    )


def without_noise(plan: Plan, flights: Flights) -> Floats:
    """What the plan's learner would play if it summed gradients without noise.

    Nothing that could be released: the flights are public, and no command can do this.
    """
    learner: Any = plan.program
    ticks = plan.clock.ticks or 0
    bound = simulate.bounded(plan, events_of(flights), ticks)
    hashes = event_hashes(bytes(32), plan.digest, bound.rows, bound.times, bound.ids)
    leaves = simulate.row_leaves(plan, bound, list(range(len(bound.names))), hashes)
    nothing = RowLeaf.empty(len(bound.names), learner.width, learner.dtype)
    state = learner.rule.init(len(bound.names))
    d, resolution = state.x.shape[1], learner.gradients.lattice.resolution
    total = np.zeros((len(bound.names), d), dtype=np.int64)
    played = np.empty((ticks, *state.x.shape))
    for tick in range(ticks):
        played[tick] = state.x
        total += learner.gradients.sums(learner.rule.probe(state), leaves.get(tick, nothing))[:, :d]
        state = learner.rule.update(state, total * resolution)
    gradients = learner.gradients
    return np.asarray(
        learner.scaling.coefficients(played, gradients.intercept, gradients.loss.labels)
    )


def others(flights: Flights) -> Mapping[str, Floats]:
    """Forecasts that ask for no learner: (n,) each."""
    late = flights.features[:, FEATURES.index("dep_delay")]
    rows = np.c_[flights.features, np.ones(len(late))]
    best = np.empty(len(late))
    for i in range(len(CARRIERS)):
        mine = flights.carrier == i
        best[mine] = rows[mine] @ np.linalg.lstsq(rows[mine], flights.target[mine])[0]
    return {
        CENTRE: late,
        MADE_UP: late + last_week(flights, flights.target - late),
        MEAN: last_week(flights, flights.target),
        HINDSIGHT: best,
    }


def last_week(flights: Flights, value: Floats) -> Floats:
    """Mean of what a carrier's flights had that landed in the week before one leaves; else 0."""
    shape = (int(flights.known.max()) + 1, len(CARRIERS))
    cell = flights.known * len(CARRIERS) + flights.carrier
    # Row t: what landed before tick t.
    sums, count = (
        np.vstack([np.zeros(len(CARRIERS)), total.reshape(shape).cumsum(axis=0)])
        for total in (
            np.bincount(cell, value, minlength=shape[0] * shape[1]),
            np.bincount(cell, minlength=shape[0] * shape[1]),
        )
    )
    now, then, own = flights.left, np.maximum(flights.left - WEEK, 0), flights.carrier
    n = count[now, own] - count[then, own]
    total = sums[now, own] - sums[then, own]
    return np.asarray(np.where(n > 0, total / np.maximum(n, 1), 0.0))
