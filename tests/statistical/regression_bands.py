"""Do the margins of a regression hold, and how wide are they next to what an oracle would draw?

    python -m tests.statistical.regression_bands --bikes hour.csv [--runs 4000]

Streams of 731 daily ticks: Capital Bikeshare's hourly demand by three and by twelve columns
(``hour.csv`` of the UCI data set "Bike Sharing", or WEIR_BIKES says where it is), and synthetic
ones
of 3 and 20 coefficients: dense, or ``one``, a coefficient of 0.9 next to zeros, or ``two`` of 0.45.
Early (tick 30) and late (the last). Epsilon 1, delta 1e-6, protection for ever, replace_one; every
public number is a default or a range known beforehand. A cell is a stream, a tick and a set. Runs
differ in noise alone: Gaussian of the plan's own deviation, drawn here, goes with the exact moments
through the program's own ``solve``. ``projected m`` is ``regression.projected`` to m dimensions of
some of the streams, and of 60 features of which five are not 0: there ``projected`` is what has
margins.

Columns: ``covered``, the share of coefficients (over all runs) whose margin of 1.96 deviations
holds
that of the minimiser over the set, on the same events without noise or ridge, and ``least``, that
of the coefficient with the fewest; ``ratio``, the median of a margin's width, as far as it lies in
the set, over the oracle's: 1.96 deviations by the true covariance, or half the set's width where
that is less. ``excess``, the median over runs of (sum of squared errors less the least over the
set) of events as they are, not shortened; ``adassp``, the same with that ridge. Next to them
``least_squares_once``: one release of everything at the end with the whole budget and the ridge of
AdaSSP (Wang 2018), of the same clip; and ``release_every_731``, the one release of a plan that
makes no other. ``mse`` and ``r2``: the share of runs whose margin holds that of the released model
on
the same events, rows without a value not counted; ``shown`` the share with a value, ``r2_half``
half the median margin. Writes regression_bands.csv next to this file.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
from numpy.typing import NDArray

from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.regression.accelerated import solve
from weir.dpcore.models.regression.incremental import Incremental
from weir.dpcore.models.regression.lifting import solve_embedded
from weir.dpcore.models.regression.projected import Projected
from weir.dpcore.models.regression.quadratic import PrivateQuadratic
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.pricing.calibration import BAND

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Fitted = Incremental | Projected

TICKS, EARLY, LATE = 731, 30, 730
SETS: Mapping[str, Any] = {
    "l2_ball 2": {"l2_ball": 2},
    "l1_ball 1": {"l1_ball": 1},
    "l1_ball 3": {"l1_ball": 3},
    "box": {"box": [-1, 1]},
    "lp_ball 1.5": {"lp_ball": {"radius": 2, "p": 1.5}},
    "simplex": {"simplex": 1},
}
LIFTED = ("l2_ball 2", "l1_ball 1", "l1_ball 3", "simplex")
"""Sets for projections: the others take a search a model to lift it, which no margin sees."""
RANGES: Mapping[str, tuple[float, float]] = {
    "season": (1, 4), "yr": (0, 1), "mnth": (1, 12), "hr": (0, 23), "holiday": (0, 1),
    "weekday": (0, 6), "workingday": (0, 1), "weathersit": (1, 4), "temp": (0, 1),
    "atemp": (0, 1), "hum": (0, 1), "windspeed": (0, 1), "cnt": (0, 1000),
}  # fmt: skip
COLUMNS = (
    "stream", "tick", "set", "covered", "least", "ratio", "excess", "adassp", "release_every_731",
    "least_squares_once", "mse", "mse_shown", "r2", "r2_shown", "r2_half",
)  # fmt: skip


@dataclass(frozen=True)
class Stream:
    """columns: name -> (n,), the target last. ranges: of each. tick: (n,)."""

    name: str
    columns: Mapping[str, Floats]
    ranges: Mapping[str, tuple[float, float]]
    tick: Ints

    @property
    def names(self) -> list[str]:
        """Features, then the target."""
        return list(self.columns)


def bikes(path: Path, features: tuple[str, ...]) -> Stream:
    """Demand of an hour."""
    rows = pyarrow.csv.read_csv(path)
    dates = [text.split("/") for text in rows["dteday"].to_pylist()]
    days = np.array([f"{y}-{int(m):02d}-{int(d):02d}" for m, d, y in dates], dtype="datetime64[D]")
    columns = {name: rows[name].to_numpy().astype(np.float64) for name in (*features, "cnt")}
    tick = (days - np.datetime64("2011-01-01")).astype(np.int64)
    ranges = {name: RANGES[name] for name in columns}
    return Stream(f"bikes {len(features)}", columns, ranges, tick)


def synthetic(features: int, events: int, seed: int = 0) -> Stream:
    """Features spread evenly over their ranges, noise of 0.3 in a target of range 2."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (events, features))
    truth = rng.normal(size=features)
    truth /= 1.2 * np.linalg.norm(truth)
    return _stream(f"synthetic {features + 1}", x, x @ truth + 0.1, rng)


def sparse(coefficients: Sequence[float], features: int, events: int, seed: int = 0) -> Stream:
    """The same with these coefficients, and 0 for all others."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (events, features))
    name = f"{('one', 'two')[len(coefficients) - 1]} of {features + 1}, {events:,}"
    return _stream(name, x, x[:, : len(coefficients)] @ np.asarray(coefficients), rng)


def few(features: int, at_once: int, events: int, seed: int = 0) -> Stream:
    """Of all features a few are not 0 in an event; three coefficients."""
    rng = np.random.default_rng(seed)
    chosen = np.argsort(rng.random((events, features)), axis=1)[:, :at_once]
    x = np.zeros((events, features))
    np.put_along_axis(x, chosen, rng.uniform(-1, 1, (events, at_once)), axis=1)
    return _stream(f"few of {features}", x, x[:, :3] @ np.array([0.7, -0.6, 0.5]), rng)


def _stream(name: str, x: Floats, mean: Floats, rng: np.random.Generator) -> Stream:
    y = np.clip(mean + rng.normal(0, 0.3, len(x)), -1, 1)
    columns = {**{f"x{i}": x[:, i] for i in range(x.shape[1])}, "y": y}
    tick = np.sort(rng.integers(0, TICKS, len(x)))
    return Stream(name, columns, dict.fromkeys(columns, (-1.0, 1.0)), tick)


def program_of(
    stream: Stream,
    spec: Any,
    ticks: int = TICKS,
    release_every: int | None = None,
    **model: Any,
) -> Any:
    """Of default settings but the set."""
    *features, target = stream.names
    config = {
        "name": "bands",
        "release_every": release_every,
        "schema": {"time": "t"},
        "clock": {
            "start": "2011-01-01T00:00:00Z",
            "period": f"{TICKS // ticks}d",
            "end": f"{np.datetime64('2011-01-01') + TICKS // ticks * ticks}T00:00:00Z",
        },
        "privacy": {
            "epsilon": 1.0, "delta": 1e-6, "protect_for": "all", "relation": "replace_one",
        },
        "model": {
            "algorithm": "regression.incremental",
            "features": features,
            "target": target,
            "ranges": {name: list(ends) for name, ends in stream.ranges.items()},
            "set": spec,
            **model,
        },
    }  # fmt: skip
    return Plan.from_config(PlanConfig.from_yaml(json.dumps(config))).program


def exact(program: Fitted, stream: Stream, tick: int) -> Floats:
    """(D,) the moments up to a tick, lattice units."""
    some = {name: column[stream.tick <= tick] for name, column in stream.columns.items()}
    n = len(next(iter(some.values())))
    rows = program.bound(some, n).rows
    return program.accumulate(rows, np.zeros(n, dtype=np.int64), 1)[0].astype(np.float64)


def noisy(program: Fitted, moments: Floats, tick: int, runs: int, seed: int) -> list[Floats]:
    """What ``step`` would put out: arrays (1, runs, D)."""
    rng, at, out = np.random.default_rng(seed), 0, []

    def drawn(part: ContinualSum, mine: Floats) -> Floats:
        spread = part.stddev(np.array([tick]), program.over)[0]
        return np.asarray((mine + spread * rng.standard_normal((runs, part.dimension)))[None])

    scored = isinstance(program, Incremental) and program.scores is not None
    for part in program.sums[: len(program.sums) - scored]:
        out.append(drawn(part, moments[at : at + part.dimension]))
        at += part.dimension
    whole = [np.concatenate(out, axis=2)]
    return [*whole, drawn(program.sums[-1], moments)] if scored else whole


def minimiser(program: Fitted, moments: Floats) -> Floats:
    """(d,) of plain least squares over the set; (m,) as a projection shows it."""
    found = program.rows.moments.unpack(moments[None])
    quadratic = PrivateQuadratic(found.matrix, found.right)
    if isinstance(program, Incremental):
        return solve(quadratic, program.set, 1e-11).theta[0, 0]
    image = program.image
    best = solve_embedded(quadratic, image.phi, image.spread, image.set, 1e-10, 20_000).theta
    return np.asarray(image.phi @ best[0, 0])


def oracle(program: Fitted, moments: Floats, tick: int, best: Floats) -> Floats:
    """(d,) half a margin that knows the true covariance."""
    matrix = program.rows.moments.unpack(moments[None]).matrix[0]
    values, vectors = np.linalg.eigh(matrix)
    inverse = (vectors / np.maximum(values, 1e-9)) @ vectors.T
    part, resolution = program.sums[0], program.rows.moments.resolution
    spread = float(part.stddev(np.array([tick]), program.over).max()) * resolution
    square = (1 + best @ best / 2) * np.sum(inverse**2, axis=0) + (inverse @ best) ** 2 / 2
    low, high = ends(program)
    return np.minimum(BAND * spread * np.sqrt(square), (high - low) / 2)


def ends(program: Fitted) -> tuple[Floats, Floats]:
    """(d,) least and largest of each coordinate of what has margins."""
    where: Any = program.set if isinstance(program, Incremental) else program.image
    unit = np.eye(program.rows.moments.features)
    return np.diag(where.linear_oracle(unit)), np.diag(where.linear_oracle(-unit))


def cell(
    stream: Stream, tick: int, spec: Any, runs: int, seed: int = 0, wrong: float = 1.0, **model: Any
) -> dict[str, float]:
    """Figures of a cell; ``wrong``: stated deviations are this many times what they should be."""
    program = program_of(stream, spec, **model)
    moments = exact(program, stream, tick)
    best = minimiser(program, moments)
    drawn = noisy(program, moments, tick, runs, seed)
    released = {one.name: one for one in program.solve(tuple(drawn), np.array([tick]))}
    banded = released["projected" if isinstance(program, Projected) else "theta"]
    point, stated = banded.value[0], banded.stddev
    assert stated is not None
    band = BAND * wrong * stated[0]
    slack = 1e-7 * max(1.0, float(np.abs(best).max()))
    held = np.mean(np.abs(point - best) <= band + slack, axis=0)
    known, (low, high) = oracle(program, moments, tick, best), ends(program)
    width, wide = np.minimum(point + band, high) - np.maximum(point - band, low), known > 0
    return {
        "covered": float(held.mean()),
        "least": float(held.min()),
        "ratio": float(np.median(width[:, wide] / (2 * known[wide]))),
        "excess": _excess(stream, tick, program.set, released["theta"].value[0]),
    }


def scores(
    stream: Stream, tick: int, spec: Any, runs: int, seed: int = 0, wrong: float = 1.0, **model: Any
) -> dict[str, float]:
    """What the margins of mse and R^2 cover, and how many runs have them. See ``cell``."""
    program = program_of(stream, spec, error=True, **model)
    moments = exact(program, stream, tick)
    drawn = noisy(program, moments, tick, runs, seed)
    released = {one.name: one for one in program.solve(tuple(drawn), np.array([tick]))}
    theta = released["theta"].value[0]
    true = program.rows.moments.unpack(moments)
    assert true.squares is not None
    count, total, square = true.matrix[-1, -1], true.right[0, -1], true.squares[0]
    bend = np.einsum("ni,ij,nj->n", theta, true.matrix, theta)
    error = square - 2 * theta @ true.right[0] + bend
    half = program.rows.scalings[0].half[-1] ** 2
    wanted = {"mse": error / count * half, "r2": 1 - error / (square - total**2 / count)}
    found = {}
    for name, truth in wanted.items():
        value, stated = released[name].value[0, :, 0], released[name].stddev
        assert stated is not None
        shown = np.isfinite(value)
        off = np.abs(value - truth)[shown] <= BAND * wrong * stated[0, shown, 0]
        found[f"{name}_shown"] = float(np.mean(shown))
        if shown.any():
            found[name] = float(np.mean(off))
            found[f"{name}_half"] = float(np.median(BAND * stated[0, shown, 0]))
    return found


def _excess(stream: Stream, tick: int, convex_set: ConvexSet, theta: Floats) -> float:
    """Median over models (n, d) of the excess sum of squared errors, of events as they are."""
    whole = program_of(stream, {"l2_ball": 2}, clip={"features": 1e3})
    moments = exact(whole, stream, tick)
    found = whole.rows.moments.unpack(moments)
    best = solve(PrivateQuadratic(found.matrix[None], found.right[None]), convex_set, 1e-11)
    point = best.theta[0, 0]
    move = theta - point
    slope = found.matrix @ point - found.right[0]
    curve = np.einsum("ni,ij,nj->n", move, found.matrix, move)
    return float(np.median(curve + 2 * move @ slope))


def once(stream: Stream, tick: int, spec: Any, runs: int, seed: int = 0) -> float:
    """Median excess of one release at the end, with the ridge of AdaSSP.

    Source: Wang (2018), Algorithm 2: the least eigenvalue for a third of the budget, and a ridge of
    sqrt(d ln(2 d^2 / 0.05)) deviations less what is certain of it; joint moments have the rest.
    """
    program = program_of(stream, spec, ticks=1)
    moments = exact(program, stream, tick)
    share = math.sqrt(3 / 2)
    found = program.rows.moments.unpack(
        moments + share * (noisy(program, moments, 0, runs, seed)[0][0] - moments)
    )
    spread = share * float(program.stddev(np.array([0]))[0])
    d = program.rows.moments.features
    matrix = program.rows.moments.unpack(moments).matrix
    rng = np.random.default_rng(seed + 1)
    # One event moves an eigenvalue by X^2, and a third of mu^2 is for it.
    part = program.parts[0]
    deviation = math.sqrt(3) * spread / share * program.rows.moments.reach**2 / part.sensitivity
    least = np.linalg.eigvalsh(matrix)[0] + deviation * rng.standard_normal(runs)
    least = np.maximum(least - deviation * math.sqrt(2 * math.log(2 / 0.05)), 0.0)
    wanted = spread * math.sqrt(d * math.log(2 * d * d / 0.05))
    ridge = np.maximum(wanted - least, 0.0)
    theta = solve(PrivateQuadratic(found.matrix, found.right, ridge), program.set, 1e-9).theta
    return _excess(stream, tick, program.set, theta[:, 0])


def at_once(stream: Stream, tick: int, spec: Any, runs: int, seed: int = 0) -> float:
    """Median excess of the only release of a plan with ``release_every`` all ticks."""
    program: Any = program_of(stream, spec, release_every=TICKS)
    own, last = program.program, np.zeros(1, dtype=np.int64)
    drawn = noisy(own, exact(own, stream, tick), 0, runs, seed)
    theta = own.solve(tuple(drawn), last)[0].value[0]
    return _excess(stream, tick, own.set, theta)


def streams(path: Path | None) -> Iterator[Stream]:
    """All that are there."""
    if path is not None:
        yield bikes(path, ("temp", "hum", "windspeed"))
        yield bikes(path, tuple(name for name in RANGES if name != "cnt"))
    yield synthetic(2, 100_000)
    yield synthetic(19, 100_000)
    yield sparse([0.9], 2, 20_000)
    yield sparse([0.9], 19, 100_000)
    yield sparse([0.9], 19, 20_000)
    yield sparse([0.45, -0.45], 19, 100_000)


def projections(path: Path | None) -> Iterator[tuple[Stream, int, Mapping[str, Any]]]:
    """Streams, dimensions, inputs, for ``regression.projected``."""
    if path is not None:
        yield bikes(path, tuple(name for name in RANGES if name != "cnt")), 5, {}
    yield synthetic(19, 100_000), 8, {}
    yield few(60, 5, 100_000), 20, {"inputs": {"k_sparse": 5}}


def projected(m: int, more: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of ``model`` that project to m dimensions."""
    return {"algorithm": "regression.projected", "projection": {"dimension": m}, **more}


def main() -> None:
    """Prints and writes the table."""
    raw = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--bikes", type=Path, default=os.environ.get("WEIR_BIKES"))
    parser.add_argument("--runs", type=int, default=4000)
    given = parser.parse_args()
    path = given.bikes and Path(given.bikes)
    if path is None:
        print("no bikes: name hour.csv with --bikes or WEIR_BIKES", file=sys.stderr)
    rows = []

    def add(found: dict[str, Any]) -> None:
        row = {key: f"{v:.4g}" if isinstance(v, float) else v for key, v in found.items()}
        print(*(f"{key} {value}" for key, value in row.items()), sep="  ", flush=True)
        rows.append(row)

    for stream, (tick, name) in product(streams(path), product((EARLY, LATE), SETS)):
        spec, runs = SETS[name], given.runs
        found: dict[str, Any] = {"stream": stream.name, "tick": tick, "set": name}
        found |= cell(stream, tick, spec, runs)
        told = scores(stream, tick, spec, runs)
        found |= {what: value for what, value in told.items() if what in COLUMNS}
        found["adassp"] = cell(stream, tick, spec, runs, ridge="adassp")["excess"]
        if tick == LATE:
            found["release_every_731"] = at_once(stream, tick, spec, runs)
            found["least_squares_once"] = once(stream, tick, spec, runs)
        add(found)
    late = product((EARLY, LATE), LIFTED)
    for (stream, m, more), (tick, name) in product(projections(path), late):
        found = {"stream": f"{stream.name}, projected {m}", "tick": tick, "set": name}
        add(found | cell(stream, tick, SETS[name], given.runs, **projected(m, more)))
    with Path(__file__).with_suffix(".csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
