"""How does the excess risk of a regression grow with t, for every method and the paper's table?

    python -m benchmarks.regression_risk [--ticks 10000] [--epsilons 1 8] [--seeds 8]

One event a tick, ||x||_2 <= 1, |y| <= 1, models in the unit l2 ball, epsilon and delta = 1e-6 for
ever, T known. ``round``: x on the sphere. ``skewed``: eigenvalues of the covariance fall from 1 to
10^-4, so that some direction is always hidden by the noise, which is where a worst-case bound is
met. The excess is sum (<x, theta> - y)^2 over the prefix, less its least value in the ball (least
squares without noise, the reference of every line). Models are made by the programs that configs
name, at ticks that lie evenly on a logarithmic axis:

- over continual sums, exact moments of the prefix plus Gaussian noise with the mechanism's own
  stddev at that tick, drawn anew for every tick, then the program's ``solve``: at a given tick this
  is the law of what it releases. ``stepped`` runs the program through every tick, as a check.
- ``regression.erm`` and ``regression.naive`` run their solver at the runs that those ticks release,
  from the model of the run before it among them.

Slopes are of log excess: against t in the last decade of the longest stream, and against T over the
last decade of T, where the excess is the largest at any t of a stream of T ticks, which is what the
paper's table bounds. A power of 1 is what theta = 0 has: a bound below it shows where the noise is
small enough for anything to be learned, so there is a larger epsilon too.

The paper's two trees are printed with a factor log T in the noise that its composition does not
need: beside them, two trees at the tight calibration, (mu / sqrt 2, Delta = 2) each, at the worst
tick and as a root mean square over ticks.

Then a stream of d = 2,000 features of which 10 are not 0, a few of them in most events, models in
an l1 ball, against projections to 100, 200 and 400 dimensions; 10,000 ticks at most. Incremental
regression has two million sums a key there; its noise is drawn with the stddev that the same
mechanism has (it does not depend on d), at three ticks, and its objective solved as the program
does. Over an l1 ball its error grows with log d only, so a projection that is too small loses more
than it saves. Everything stands there with the default ridge and with none: the ball is a bound by
itself.

--ticks 100000 is the stream of the published table: some twenty minutes on one core. Writes
benchmarks/results/regression_risk.csv.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.least_squares import least_squares
from weir.dpcore.accounting.calibrate import gdp_mu
from weir.dpcore.geometry.balls import L1Ball, L2Ball
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.erm.prefix import Prefix
from weir.dpcore.models.regression import accelerated
from weir.dpcore.models.regression.quadratic import PrivateQuadratic
from weir.dpcore.models.regression.ridge import ridge_for
from weir.dpcore.models.scaling import STEP
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.plan import Plan
from weir.dpcore.training import Job, fit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RESULTS = Path(__file__).parent / "results"
DIMENSIONS = (5, 20, 100)
DELTA = 1e-6
FIRST = 10
"""The earliest tick that is looked at."""
A_DECADE = 5
CHUNK = 500
COLUMNS = (
    *(
        "stream",
        "d",
        "epsilon",
        "method",
        "horizon",
        "t",
        "excess_q25",
        "excess_median",
        "excess_q75",
    ),
    *("mean_excess", "least_mean_square", "statistic_stddev"),
)
TABLE = {
    "regression.naive": "1/2, of sqrt(T d)",
    "regression.erm": "1/3, of (T d)^(1/3)",
    "regression.two_trees": "0, of sqrt(d)",
    "regression.incremental": "0, of sqrt(d)",
    "regression.projected": "1/3, of T^(1/3) W^(2/3)",
}
"""The paper's bounds, without logarithms, and the power of T in them."""
CLIP = "clip: {features: 1, target: 1}"
SPARSE, NOT_ZERO, RADIUS, SPARSE_TICKS = 2_000, 10, 2.5, 10_000
PROJECTED = (100, 200, 400)
FREE = "ridge: 0"

CONFIG = """
name: risk
schema: {{time: t}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1m, end: {end}Z}}
privacy: {{epsilon: {epsilon}, delta: {delta}, protect_for: all}}
model:
  algorithm: {algorithm}
  features: [{features}]
  target: y
  intercept: false
  ranges: {{{ranges}}}
  set: {set}
{settings}
"""


@dataclass(frozen=True)
class Stream:
    """Events, one a tick, and the set of their models. x: (T, d). y: (T,)."""

    name: str
    x: Floats = field(repr=False)
    y: Floats = field(repr=False)
    set: ConvexSet

    @property
    def d(self) -> int:
        """Number of features."""
        return int(self.x.shape[1])


@dataclass(frozen=True)
class Line:
    """A method on a stream. excess: (checkpoints, seeds). noise: (checkpoints,), of a statistic."""

    stream: Stream
    epsilon: float
    method: str
    horizon: int
    ends: Ints
    excess: Floats = field(repr=False)
    least: Floats = field(repr=False)
    noise: Floats = field(repr=False)

    @property
    def median(self) -> Floats:
        """(checkpoints,)."""
        return np.asarray(np.median(self.excess, axis=1))


def stream_of(name: str, ticks: int, d: int) -> Stream:
    """``round`` or ``skewed``, from a fixed seed."""
    rng = np.random.default_rng(2017)
    x = rng.normal(size=(ticks, d))
    if name == "skewed":
        x *= np.geomspace(1, 1e-2, d)
    x /= np.linalg.norm(x, axis=1)[:, None]
    model = np.where(np.arange(d) % 2, -1.0, 1.0) * (0.7 / np.sqrt(d))
    return Stream(name, x, np.clip(x @ model + rng.normal(size=ticks) * 0.1, -1, 1), L2Ball(1.0, d))


def sparse_stream(ticks: int) -> Stream:
    """10 of 2,000 features are +-1 / sqrt(10), popular ones far more often; five matter."""
    rng = np.random.default_rng(2018)
    weight = (np.arange(SPARSE, dtype=np.float32) + 1) ** -2
    chance = -rng.standard_exponential((ticks, SPARSE), dtype=np.float32) / weight
    chosen = np.argpartition(-chance, NOT_ZERO, axis=1)[:, :NOT_ZERO]  # without replacement
    x = np.zeros((ticks, SPARSE))
    np.put_along_axis(x, chosen, rng.choice([-1, 1], chosen.shape) * NOT_ZERO**-0.5, axis=1)
    model = np.zeros(SPARSE)
    model[:5] = (0.7, -0.6, 0.5, 0.4, -0.3)
    y = np.clip(x @ model + rng.normal(size=ticks) * 0.1, -1, 1)
    return Stream("sparse", x, y, L1Ball(RADIUS, SPARSE))


def checkpoints(ticks: int) -> Ints:
    """Numbers of events at which models are compared."""
    n = max(2, round(A_DECADE * np.log10(ticks / FIRST)) + 1)
    return np.unique(np.geomspace(FIRST, ticks, n).round().astype(np.int64))


def plan_of(
    algorithm: str, d: int, epsilon: float, ticks: int, settings: str, convex_set: str
) -> Plan:
    """A plan over d columns in [-1, 1]. settings: lines of the model section."""
    names = [f"x{i}" for i in range(d)]
    return Plan.from_yaml(
        CONFIG.format(
            end=np.datetime64("2024-01-01", "s") + np.timedelta64(ticks, "m"),
            epsilon=epsilon,
            delta=DELTA,
            algorithm=algorithm,
            features=", ".join(names),
            ranges=", ".join(f"{name}: [-1, 1]" for name in (*names, "y")),
            set=convex_set,
            settings="\n".join(f"  {line}" for line in settings.splitlines()),
        )
    )


class Exact:
    """Exact moments of prefixes, and what models cost there."""

    def __init__(self, stream: Stream, ends: Ints) -> None:
        self.ends, d = ends, stream.d
        self.matrix, self.right = np.zeros((len(ends), d, d)), np.zeros((len(ends), d))
        self.square, begin = np.zeros(len(ends)), 0
        for i, end in enumerate(ends.tolist()):
            x, y = stream.x[begin:end], stream.y[begin:end]
            self.matrix[i] = self.matrix[max(i - 1, 0)] + x.T @ x
            self.right[i] = self.right[max(i - 1, 0)] + y @ x
            self.square[i] = self.square[max(i - 1, 0)] + y @ y
            begin = end
        best = least_squares(stream.x, stream.y[:, None], ends, stream.set)
        self.least = np.zeros((len(ends), 1))
        self.least = self.excess(best)

    def excess(self, theta: Floats) -> Floats:
        """(checkpoints, seeds, d) -> (checkpoints, seeds)."""
        bend = np.einsum("msi,msi->ms", theta @ self.matrix, theta)
        cost = bend - 2 * np.einsum("msi,mi->ms", theta, self.right) + self.square[:, None]
        return np.asarray(cost - self.least)


def columns_of(stream: Stream, ticks: int) -> dict[str, Floats]:
    """Events as a program reads them."""
    named = {f"x{i}": stream.x[:ticks, i] for i in range(stream.d)}
    return {**named, "y": stream.y[:ticks]}


def moments_of(program: Any, stream: Stream, ends: Ints) -> Ints:
    """(checkpoints, D) exact sums of the prefixes, by the program's own rows."""
    last = int(ends[-1])
    rows = program.bound(columns_of(stream, last), last).rows
    cells = np.searchsorted(ends, np.arange(last), side="right")
    return np.asarray(np.cumsum(program.accumulate(rows, cells, len(ends)), axis=0))


def by_sums(plan: Plan, stream: Stream, ends: Ints, seeds: int) -> tuple[Floats, Floats]:
    """Models (checkpoints, seeds, d) from noisy moments, and the noise of a statistic."""
    program: Any = plan.program
    parts = program.parts if hasattr(program, "parts") else (program.mechanism,)
    exact, ticks = moments_of(program, stream, ends), ends - 1
    rng, models = np.random.default_rng(seeds), []
    spread = np.concatenate([part.stddev(ticks, None) for part in parts], axis=1)
    for i in range(len(ends)):
        noise = rng.normal(size=(1, seeds, program.dimension)) * spread[i]
        noisy = exact[i][None, None] + np.rint(noise)
        models.append(program.solve((noisy,), ticks[i : i + 1])[0].value)
    scale = program.rows.moments.resolution
    return np.concatenate(models), spread[:, 0] * scale  # coordinate 0 is on the diagonal


def stepped(plan: Plan, stream: Stream, ends: Ints, seeds: int) -> Floats:
    """The same by stepping through every tick, each seed a key with equal events."""
    program, ticks = plan.program, int(ends[-1])
    leaves = program.accumulate(
        program.bound(columns_of(stream, ticks), ticks).rows, np.arange(ticks), ticks
    )
    root = RootKey.derive(bytes(range(32)), plan.name, bytes.fromhex(plan.digest))
    keys = tuple(f"seed {seed}".encode() for seed in range(seeds))
    state, models = program.init(seeds), []
    for first in range(0, ticks, CHUNK):
        some = np.repeat(leaves[first : first + CHUNK, None], seeds, axis=1)
        state, (noisy,) = program.step(
            state, some, lambda part, first=first: KeyedNoise(root, part, keys, first)
        )
        here = ends[(ends > first) & (ends <= first + len(some))] - 1
        if len(here):
            models.append(program.solve((noisy[here - first],), here)[0].value)
    return np.concatenate(models)


def by_runs(plan: Plan, stream: Stream, ends: Ints, seeds: int) -> tuple[Floats, Floats]:
    """Models of programs that fit prefixes now and then: (checkpoints, seeds, d)."""
    program: Any = plan.program
    root = RootKey.derive(bytes(range(32)), plan.name, bytes.fromhex(plan.digest))
    last, rng = int(ends[-1]), np.random.default_rng(1)
    rows = program.bound(columns_of(stream, last), last).rows
    packed = np.rint(np.asarray(rows) / STEP).astype(np.int32)
    hashes = rng.integers(0, 2**63, (last, 2)).astype(np.uint64)
    out = np.empty((len(ends), seeds, stream.d))
    (phase,) = program.schedule.phases
    for seed in range(seeds):
        models, done = program.training.models(1), -1
        for i, end in enumerate(ends.tolist()):
            seen = end // phase.every * phase.every  # events that the last run saw
            if seen and seen != done:
                prefix = Prefix(np.array([seen]), packed[:seen], hashes[:seen])
                noise = KeyedNoise(root, 0, (f"seed {seed}".encode(),), seen - 1)
                chain, age = rng.integers(1, 2**63, (1, 2)).astype(np.uint64), np.array([seen])
                job = Job(seen - 1, chain, age[:, None], prefix)
                models = fit(program.training, job, prefix, models, lambda part, noise=noise: noise)
                done = seen
            out[i, seed] = models[0][0]
    noise_of = program.gradient_stddev(phase.share)
    return out, np.full(len(ends), noise_of)


def lines_of(
    stream: Stream, epsilon: float, horizon: int, seeds: int, erm_seeds: int
) -> Iterator[Line]:
    """Every method on the first ``horizon`` events."""
    ends = checkpoints(horizon)
    exact, d, ball = Exact(stream, ends), stream.d, "{l2_ball: 1}"

    def line(method: str, found: tuple[Floats, Floats]) -> Line:
        theta, noise = found
        return Line(
            stream, epsilon, method, horizon, ends, exact.excess(theta), exact.least[:, 0], noise
        )

    for method in ("regression.two_trees", "regression.incremental"):
        plan = plan_of(method, d, epsilon, horizon, CLIP, ball)
        found = by_sums(plan, stream, ends, seeds)
        yield line(method, found)
        if method == "regression.incremental":
            free = plan_of(method, d, epsilon, horizon, f"{CLIP}\n{FREE}", ball)
            yield line(f"{method}, no ridge", by_sums(free, stream, ends, seeds))
        if d == min(DIMENSIONS):
            yield line(f"{method}, stepped", (stepped(plan, stream, ends, seeds), found[1]))
    m = max(2, d // 2)
    projected = f"{CLIP}\nprojection: {{dimension: {m}}}"
    plan = plan_of("regression.projected", d, epsilon, horizon, projected, ball)
    yield line(f"regression.projected, m = {m}", by_sums(plan, stream, ends, seeds))
    for method in ("regression.erm", "regression.naive"):
        settings = "clip: {gradient: 1}\ncap: 1"
        plan = plan_of(method, d, epsilon, horizon, settings, ball)
        yield line(method, by_runs(plan, stream, ends, erm_seeds))
    start = np.zeros((len(ends), 1, d))
    yield line("theta = 0", (start, np.zeros(len(ends))))


def sparse_lines(epsilon: float, ticks: int, seeds: int) -> Iterator[Line]:
    """Incremental regression of all 2,000 features, and of 100 and 200 projected ones."""
    stream = sparse_stream(ticks)
    ends = np.unique(np.geomspace(ticks / 10, ticks, 3).round().astype(np.int64))
    exact = Exact(stream, ends)
    small: Any = plan_of("regression.incremental", 2, epsilon, ticks, CLIP, "{l2_ball: 1}").program
    spread = small.stddev(ends - 1)
    models = np.empty((2, len(ends), seeds, SPARSE))
    for i, seed in product(range(len(ends)), range(seeds)):
        rng = np.random.default_rng(seed)
        noise = rng.normal(size=(SPARSE, SPARSE)) * spread[i]
        noise = (noise + noise.T) / 2  # off the diagonal, deviation s / sqrt 2
        noise[np.diag_indices(SPARSE)] = rng.normal(size=SPARSE) * spread[i]
        right = (exact.right[i] + rng.normal(size=SPARSE) * spread[i])[None, None]
        for j, ridge in enumerate((None, 0.0)):
            pull = ridge_for(ridge, spread[i : i + 1], stream.set)
            noisy = PrivateQuadratic(exact.matrix[i : i + 1] + noise, right, pull)
            models[j, i, seed] = accelerated.solve(noisy, stream.set, 1e-6).theta[0, 0]

    def line(method: str, theta: Floats, noise: Floats) -> Line:
        return Line(
            stream, epsilon, method, ticks, ends, exact.excess(theta), exact.least[:, 0], noise
        )

    yield line("regression.incremental", models[0], spread)
    yield line("regression.incremental, no ridge", models[1], spread)
    ball = f"{{l1_ball: {RADIUS}}}"
    for m, free in product(PROJECTED, (False, True)):
        settings = (
            f"{CLIP}\ninputs: {{k_sparse: {NOT_ZERO}}}\nprojection: {{dimension: {m}}}\n"
            f"tolerance: 1.0e-6\n{FREE if free else ''}"
        )
        plan = plan_of("regression.projected", SPARSE, epsilon, ticks, settings, ball)
        name = f"regression.projected, m = {m}{', no ridge' if free else ''}"
        yield line(name, *by_sums(plan, stream, ends, seeds))
    yield line("theta = 0", np.zeros((len(ends), 1, SPARSE)), np.zeros(len(ends)))


def slope(at: Any, value: Any) -> float:
    """Of log value against log at."""
    at, value = np.log(np.asarray(at, dtype=float)), np.log(np.maximum(value, 1e-9))
    return float(np.polyfit(at, value, 1)[0]) if len(at) > 1 else float("nan")


def show(line: Line) -> None:
    """A line of the table: excess at four ticks."""
    at = np.unique(np.linspace(0, len(line.ends) - 1, 4).round().astype(int))
    shown = "".join(f"{line.median[i]:13,.2f} at {line.ends[i]:<7,}" for i in at)
    mean = line.median[-1] / line.ends[-1]
    name = f"{line.stream.name:7} d={line.stream.d:<5} eps={line.epsilon:<4g}"
    print(f"{name}{line.method:39}{shown} mean {mean:.5f}", flush=True)


def show_slopes(lines: list[Line]) -> None:
    """Fitted powers beside the paper's."""
    print(f"\n{'slopes of log excess':62}{'in t':>8}{'in T':>8}   the paper's in T")
    groups: dict[tuple[str, int, float, str], list[Line]] = {}
    for line in lines:
        name = (line.stream.name, line.stream.d, line.epsilon, line.method)
        groups.setdefault(name, []).append(line)
    for (stream, d, epsilon, method), group in groups.items():
        longest = max(group, key=lambda line: line.horizon)
        late = longest.ends * 10 >= longest.horizon
        over_t = slope(longest.ends[late], longest.median[late])
        over = slope([line.horizon for line in group], [line.median.max() for line in group])
        paper = TABLE.get(method.partition(",")[0], "1: nothing is learned")
        who = f"{stream:7} d={d:<5} eps={epsilon:<4g}{method:39}"
        print(f"{who}{over_t:8.2f}{over:8.2f}   {paper}")


def show_ratios(lines: list[Line]) -> None:
    """The joint release beside the paper's two trees, and beside them at the tight calibration."""
    head = f"{'joint release / two trees':30}{'noise':>12}{'tight, worst':>14}{'mean':>8}"
    print(f"\n{head}{'excess at T':>14}   (target 0.45)")
    found = {(line.stream.name, line.stream.d, line.epsilon, line.method): line for line in lines}
    for (name, d, epsilon, method), trees in found.items():
        if method != "regression.two_trees":
            continue
        joint = found[name, d, epsilon, "regression.incremental"]
        noise, excess = joint.noise / trees.noise, joint.median / trees.median
        units = np.array([tick.bit_count() for tick in range(1, trees.horizon + 1)])
        tight = 2 * np.sqrt(2 * trees.horizon.bit_length()) / gdp_mu(epsilon, DELTA)
        worst, mean = (
            joint.noise.max() / (tight * np.sqrt(n)) for n in (units.max(), units.mean())
        )
        print(
            f"{name:7} d={d:<5} eps={epsilon:<12g}{noise.max():12.3f}{worst:14.3f}{mean:8.3f}"
            f"{excess[-1]:14.4f}"
        )


def horizon_of(line: Line) -> int:
    """T."""
    return line.horizon


def write(lines: list[Line], path: Path) -> None:
    """Quartiles at every checkpoint of the longest streams, and where the others are the worst."""
    longest = {line.stream.name: line.horizon for line in sorted(lines, key=horizon_of)}
    with path.open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(COLUMNS)
        for line in lines:
            quartiles = np.percentile(line.excess, (25, 50, 75), axis=1).T
            whole = line.horizon == longest[line.stream.name]
            for i, end in enumerate(line.ends.tolist()):
                if not whole and i != line.median.argmax():
                    continue
                names = (
                    line.stream.name,
                    line.stream.d,
                    line.epsilon,
                    line.method,
                    line.horizon,
                    end,
                )
                mean, least = quartiles[i, 1] / end, line.least[i] / end
                numbers = (*quartiles[i], mean, least, line.noise[i])
                out.writerow([*names, *(f"{value:.4g}" for value in numbers)])


def main() -> None:
    """Measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ticks", type=int, default=10_000)
    parser.add_argument("--epsilons", type=float, nargs="*", default=[1.0, 8.0])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--erm-seeds", type=int, default=2)
    parser.add_argument("--dimensions", type=int, nargs="*", default=list(DIMENSIONS))
    parser.add_argument("--no-sparse", action="store_true")
    args = parser.parse_args()
    horizons = sorted({max(20, round(args.ticks / 10**k)) for k in (0, 0.5, 1)})
    lines: list[Line] = []
    for d in args.dimensions:
        for name, epsilon in product(("round", "skewed"), args.epsilons):
            stream, began = stream_of(name, args.ticks, d), time.perf_counter()
            for horizon in horizons:
                for line in lines_of(stream, epsilon, horizon, args.seeds, args.erm_seeds):
                    lines.append(line)
                    if horizon == args.ticks:
                        show(line)
            print(f"{'':7} {time.perf_counter() - began:.0f} s", flush=True)
    show_slopes(lines)
    show_ratios([line for line in lines if line.horizon == args.ticks])
    if not args.no_sparse:
        print()
        for epsilon in args.epsilons:
            for line in sparse_lines(epsilon, min(args.ticks, SPARSE_TICKS), args.erm_seeds):
                lines.append(line)
                show(line)
    RESULTS.mkdir(exist_ok=True)
    write(lines, RESULTS / "regression_risk.csv")


if __name__ == "__main__":
    main()
