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
16 carriers; and two synthetic ones, ``even`` (1,000 ticks of about 10 events, 6 coefficients) and
``narrow`` (400 ticks of about 100, 20 coefficients, features that go together). Ranges are set
beforehand, protection is for ever, delta = 1e-6; every config says ``expect``, the mean over ticks
and keys. ``best of nine`` is online.follow_the_leader with schedule: linear under the best of nine
settings for that very stream, chosen on it afterwards (curvature 0.03, 0.1 and 0.3 of the events of
a tick; clip a half, a quarter and an eighth of the root of the coefficients).

Defaults were chosen on other synthetic streams (``dpcore/models/online/regularisation.py``).
Medians over seeds, which differ in noise alone. Writes the tables of benchmarks/results/learners.md
too. Short: one seed of ``narrow``, and nothing is written.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Bench, main, rows_of
from benchmarks.learner_streams import STREAMS, Stream, streams
from weir.dpcore.simulate import simulate

Floats = NDArray[np.float64]

PAGE = Path(__file__).parents[1] / "benchmarks" / "results" / "learners.md"
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
BEGIN, END = "<!-- python -m benchmarks.learners -->\n", "<!-- end -->\n"
"""Marks of the tables in the page."""
BETWEEN = (
    "How much more squared error the last model has on all events than the best model in hindsight:"
)


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


def table(stream: Stream, seeds: int) -> Iterator[dict[str, Any]]:
    """Rows of one stream."""
    models = leader(stream)
    best = stream.squares(models)
    least = stream.squares(hindsight(stream)).sum() / len(stream.y)
    half = stream.ticks // 2
    large = len(stream.y) > MOST_ROWS or stream.ticks > MOST_TICKS
    little = len(stream.y) * seeds <= MOST_TOGETHER

    def row(name: str, epsilon: float, found: Found) -> dict[str, Any]:
        ratio = found.squares.sum(axis=1) / best.sum()
        late = found.squares[:, half:].sum(axis=1) / best[half:].sum()
        q25, median, q75 = np.quantile(ratio, (0.25, 0.5, 0.75))
        shown = {"error": median, "second_half": np.median(late), "q25": q25, "q75": q75}
        excess = float(np.median(found.last)) / least - 1
        return {
            "stream": stream.name,
            "learner": name,
            "epsilon": str(epsilon),
            **{what: f"{value:.3f}" for what, value in shown.items()},
            "last_excess": f"{excess:.4f}",
            "seconds": f"{found.seconds:.1f}",
        }

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
        rows = "  algorithm: regression.erm\n  solver: noisy_projected_gradient\n"
        rows += f"  rows: {len(stream.y)}"
        yield row(ERM, epsilon, run(stream, rows, epsilon, seeds))
        seldom = f"{rows}\n  every: {stream.ticks // 4}"
        yield row(f"{ERM}, four fits", epsilon, run(stream, seldom, epsilon, seeds))


def markdown(rows: Sequence[Mapping[str, str]]) -> str:
    """The tables of the page: errors of predictions, and what the last model misses by."""
    named = [name for name in STREAMS if any(row["stream"] == name for row in rows)]
    rule = f"|---|---|{'---|' * len(named)}"
    found = {(row["learner"], row["epsilon"], row["stream"]): row for row in rows}
    lines = [f"| learner | epsilon | {' | '.join(named)} |", rule]
    after = [f"| the last model | epsilon | {' | '.join(named)} |", rule]
    in_order = sorted(rows, key=lambda row: STREAMS.index(row["stream"]))
    for name, epsilon in dict.fromkeys((row["learner"], row["epsilon"]) for row in in_order):
        of = [found.get((name, epsilon, stream)) for stream in named]
        shown = {"1.0": "1", "nan": "-"}.get(epsilon, "reference without noise")
        head = f"| {'the middle of the range' if name == ZERO else f'`{name}`'} | {shown} | "
        errors = ("-" if r is None else f"{r['error']} ({r['second_half']})" for r in of)
        lines.append(head + " | ".join(errors) + " |")
        if name != NINE:
            last = ("-" if r is None else f"{float(r['last_excess']):.2%}" for r in of)
            after.append(head + " | ".join(last) + " |")
    return "\n".join([*lines, "", BETWEEN, "", *after]) + "\n"


def with_table(page: str, table_: str) -> str:
    """The page with its table replaced."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table_ + END + rest.partition(END)[2]


def measure(bench: Bench) -> None:
    """Measures and writes the tables."""
    args, bench.keys = bench.args, ("stream",)
    names = ("narrow",) if bench.short else STREAMS if args.only is None else (args.only,)
    path = None if args.bikes is None else Path(args.bikes)
    for stream in streams(path, names):
        for row in table(stream, 1 if bench.short else args.seeds):
            bench.row(**row)
    if not bench.short:
        rows = list(rows_of(args.results / "learners.csv"))
        PAGE.write_text(with_table(PAGE.read_text(), markdown(rows)))


if __name__ == "__main__":
    main(
        measure,
        bikes={"default": os.environ.get("WEIR_BIKES"), "help": "hour.csv; or set WEIR_BIKES"},
        seeds=10,
        only={"choices": STREAMS, "help": "the others keep what they have"},
    )
