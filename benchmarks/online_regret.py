"""How does regret grow with T, for every row of the paper's Table I on one stream?

    python -m benchmarks.online_regret [--ticks 100000] [--seeds 10]

The papers' setting: one strongly convex loss a tick, f_t(x) = (<a_t, x> - y_t)^2 / 2 +
(mu/2) ||x||^2, neighbours differ in one event. All (mechanism, W, epsilon, seed) are keys of one
block; seeds differ in their noise alone. The noise of a continual sum does not depend on data, so
each mechanism's own is drawn on an empty stream, one draw for all sets and epsilons (scaled), and
added to the exact sums. POCG and PQFTL run their own rules. Prints medians and what they must show;
writes benchmarks/results/online_regret.csv and .png.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.regret import Quadratics, best_in_hindsight
from weir.dpcore.accounting.calibrate import gdp_mu
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.geometry.balls import L1Ball, L2Ball
from weir.dpcore.geometry.simplex import Simplex
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.losses import Squared
from weir.dpcore.models.moments import moments_sensitivity
from weir.dpcore.models.online.conditional_gradient import ConditionalGradient
from weir.dpcore.models.online.follow_the_leader import FollowTheLeader
from weir.dpcore.models.online.implicit_descent import ImplicitDescent
from weir.dpcore.models.online.quadratic import triangle
from weir.dpcore.models.online.ridge_leader import RidgeLeader
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.registry import CONTINUAL_SUMS

RESULTS = Path(__file__).parent / "results"
D, MU, CLIP, DELTA = 8, 0.1, 1.0, 1e-6
WINDOWS, EPSILONS = (64, 256, 1024), (0.5, 1.0, 4.0)
COLUMNS = (
    *("set", "algorithm", "mechanism", "noise", "window", "epsilon", "ticks"),
    *("q25", "median", "q75"),
)
SCALE = 2.0**24
CHUNK = 500
ZERO = (0.0,) * D
SETS = {"l1_ball": L1Ball(1.0, D), "simplex": Simplex(1.0, D), "l2_ball": L2Ball(1.0, D)}
LOCAL = ("l1_ball", "simplex")
"""Sets with a local linear oracle."""


@dataclass(frozen=True)
class Sum:
    """One continual sum, at one unit of budget: mu = 1, or epsilon = 1 for K-norm noise."""

    name: str
    noise: str
    window: int | None

    def build(self, ticks: int, dimension: int) -> Any:
        """The mechanism over ``dimension`` coordinates of unit joint sensitivity."""
        return CONTINUAL_SUMS[self.name].calibrated(
            dimension=dimension,
            scales=(SCALE,) * dimension,
            sensitivity=1.0,
            overs=(None,),
            window=self.window,
            horizon=ticks,
            budget=PrivacyLoss("gdp" if self.noise == "gaussian" else "pure", 1.0),
        )

    def factor(self, epsilon: float) -> float:
        """Noise at an epsilon, in units of that at one unit of budget."""
        return 1 / (gdp_mu(epsilon, DELTA) if self.noise == "gaussian" else epsilon)


SUMS = (
    *(Sum(name, "gaussian", w) for name in ("window_tree", "blt", "toeplitz") for w in WINDOWS),
    *(Sum("window_tree", "k_norm", w) for w in WINDOWS),
    Sum("tree", "gaussian", None),
    Sum("tree", "k_norm", None),
)


@dataclass(frozen=True)
class Line:
    """One line of a plot: what ran, and its regret at the checkpoints.

    Attributes:
      algorithm, mechanism, noise: names. window: W, None = the whole stream.
      epsilon: None = not private. regret: (checkpoints, seeds).
    """

    set: str
    algorithm: str
    mechanism: str
    noise: str
    window: int | None
    epsilon: float | None
    regret: Any = field(repr=False)

    @property
    def median(self) -> Any:
        """(checkpoints,)."""
        return np.median(self.regret, axis=1)


def stream(name: str, ticks: int) -> tuple[Any, Any]:
    """Features on the unit sphere and targets of a model inside the set, within [-1, 1]."""
    rng = np.random.default_rng(2020)
    a = rng.normal(size=(ticks, D))
    a /= np.linalg.norm(a, axis=1)[:, None]
    model = np.array([0.5, -0.25, 0.1, 0, 0, 0.05, 0, 0])
    if name == "simplex":
        model = np.array([0.4, 0.2, 0.15, 0.05, 0.05, 0.05, 0.05, 0.05])
    y = a @ model + rng.normal(size=ticks) * 0.2
    return a, np.clip(y, -1, 1)


class Noises:
    """Noise of running totals, a chunk at a time: (n, seeds, dimension) at one unit of budget."""

    def __init__(self, which: Sum, ticks: int, dimension: int, seeds: int) -> None:
        self.mechanism = which.build(ticks, dimension)
        name = f"{which.name} {which.noise} {which.window} {dimension}"
        self.root = RootKey.derive(bytes(range(32)), name, bytes(32))
        self.keys = tuple(f"seed {seed}".encode() for seed in range(seeds))
        self.state, self.tick = self.mechanism.init(seeds), 0
        self.empty = np.zeros((CHUNK, seeds, dimension), dtype=np.int64)

    def take(self, n: int) -> Any:
        """The next n ticks."""
        keyed = KeyedNoise(self.root, 0, self.keys, self.tick)
        self.state, (drawn,) = self.mechanism.step(self.state, self.empty[:n], keyed)
        self.tick += n
        return drawn / SCALE


class Losses:
    """Losses so far of K players, and what they were at the checkpoints."""

    def __init__(self, n_keys: int, ends: Any) -> None:
        self.total, self.ends, self.found = np.zeros(n_keys), set(ends.tolist()), []
        self.t = 0

    def add(self, x: Any, a: Any, y: float) -> Any:
        """Plays x (K, d); returns the slopes <a, x> - y."""
        slope = (x * a).sum(axis=1) - y
        self.total += slope * slope / 2 + MU / 2 * (x * x).sum(axis=1)
        self.t += 1
        if self.t in self.ends:
            self.found.append(self.total.copy())
        return slope


class Followers:
    """One rule for every (sum, epsilon, seed), and without noise as the last key."""

    def __init__(self, rule: Any, seeds: int, ends: Any) -> None:
        self.rule, self.seeds = rule, seeds
        self.n_keys = len(SUMS) * len(EPSILONS) * seeds + 1
        self.state = rule.init(self.n_keys)
        self.losses = Losses(self.n_keys, ends)
        self.exact = np.zeros((self.n_keys, D))

    def run(self, a: Any, y: Any, noise: Any) -> None:
        """A chunk: a (n, d), y (n,), noise (n, K - 1, d) of the gradient sums."""
        for t in range(len(a)):
            x = self.state.x
            slope = self.losses.add(x, a[t], y[t])
            gradient = slope[:, None] * a[t] + MU * x
            size = np.sqrt((gradient * gradient).sum(axis=1))
            gradient *= (CLIP / np.maximum(size, CLIP))[:, None]
            self.exact += gradient
            released = self.exact.copy()
            released[:-1] += noise[t]
            self.state = self.rule.update(self.state, released)

    def lines(self, name: str, algorithm: str, best: Any) -> Iterator[Line]:
        regret = np.stack(self.losses.found) - best[:, None]
        cube = regret[:, :-1].reshape(len(best), len(SUMS), len(EPSILONS), self.seeds)
        for i, which in enumerate(SUMS):
            label = "pftal" if which.name == "tree" else algorithm
            for j, epsilon in enumerate(EPSILONS):
                if which.name == "tree" and algorithm != "follow_the_leader":
                    label = "conditional_gradient"
                shown = (which.name, which.noise, which.window)
                yield Line(name, label, *shown, epsilon, cube[:, i, j])
        yield Line(name, algorithm, "none", "none", None, None, regret[:, -1:])


class Pocg:
    """Its un-noised iterates are the same for all: one path, noised for every (epsilon, seed)."""

    def __init__(self, convex_set: Any, ticks: int, seeds: int, ends: Any) -> None:
        self.rules = [
            ImplicitDescent(
                convex_set,
                MU,
                ZERO,
                Squared(),
                CLIP,
                1.0,
                1,
                ticks,
                "replace_one",
                gdp_mu(e, DELTA),
            )
            for e in EPSILONS
        ]
        self.x, self.seeds = convex_set.start()[None], seeds
        self.played = np.repeat(self.x, len(EPSILONS) * seeds, axis=0)
        self.losses = Losses(len(self.played), ends)
        self.rng = np.random.default_rng(7)
        self.one = np.zeros(1, dtype=np.int64)

    def run(self, a: Any, y: Any) -> None:
        rule, first = self.rules[0], self.losses.t
        noise = self.rng.normal(size=(len(a), len(EPSILONS), self.seeds, D))
        for i, each in enumerate(self.rules):
            noise[:, i] *= each.sigma(first + np.arange(len(a)))[:, None, None]
        rows = np.concatenate([a, y[:, None]], axis=1)
        hashes = np.zeros((1, 2), dtype=np.uint64)
        offsets = np.array([0, 1])
        for t in range(len(a)):
            self.losses.add(self.played, a[t], y[t])
            leaf = RowLeaf(offsets, rows[t : t + 1], self.one, hashes)
            self.x = rule.advance(self.x, leaf, first + t)
            self.played = rule.set.project(self.x + noise[t].reshape(-1, D))

    def lines(self, name: str, best: Any) -> Iterator[Line]:
        regret = (np.stack(self.losses.found) - best[:, None]).reshape(len(best), -1, self.seeds)
        for i, epsilon in enumerate(EPSILONS):
            yield Line(name, "pocg", "own", "gaussian", None, epsilon, regret[:, i])


class Pqftl:
    """Nothing feeds back: a chunk of ridge systems at a time."""

    def __init__(self, convex_set: Any, seeds: int, ends: Any) -> None:
        self.rule, self.seeds = RidgeLeader(convex_set, MU, ZERO), seeds
        self.losses = Losses(len(EPSILONS) * seeds, ends)
        i, j = triangle(D)
        self.i, self.j = i, j
        # svec's sqrt 2 off the diagonal, on the noise
        self.weight = np.concatenate([np.where(i == j, 1.0, math.sqrt(0.5)), np.ones(D)])
        self.exact = np.zeros(len(self.weight))
        self.last = np.zeros((1, len(EPSILONS) * seeds, len(self.weight)))

    def run(self, a: Any, y: Any, noise: Any) -> None:
        rows = np.concatenate([a[:, self.i] * a[:, self.j], a * y[:, None]], axis=1)
        exact = self.exact + np.cumsum(rows, axis=0)
        self.exact = exact[-1]
        scale = moments_sensitivity(1.0, 1.0, "replace_one") * self.weight
        parts = [noise * (scale / gdp_mu(epsilon, DELTA)) for epsilon in EPSILONS]
        released = exact[:, None] + np.concatenate(parts, axis=1)
        before = np.concatenate([self.last, released[:-1]])
        self.last = released[-1:]
        ticks = np.repeat(self.losses.t + np.arange(len(a), dtype=np.float64), before.shape[1])
        x = self.rule(before.reshape(len(ticks), -1), ticks).reshape(*before.shape[:2], D)
        for t in range(len(a)):
            self.losses.add(x[t], a[t], y[t])

    def lines(self, name: str, best: Any) -> Iterator[Line]:
        regret = (np.stack(self.losses.found) - best[:, None]).reshape(len(best), -1, self.seeds)
        for i, epsilon in enumerate(EPSILONS):
            yield Line(name, "pqftl", "tree", "gaussian", None, epsilon, regret[:, i])


def measure(ticks: int, seeds: int) -> tuple[Any, list[Line]]:
    """Checkpoints, and a line for everything."""
    ends = np.unique(np.geomspace(10, ticks, 41).astype(int))
    sums = [Noises(which, ticks, D, seeds) for which in SUMS]
    moments = Noises(Sum("tree", "gaussian", None), ticks, D * (D + 3) // 2, seeds)
    runs: dict[str, list[Any]] = {}
    data = {name: stream(name, ticks) for name in SETS}
    for name, convex_set in SETS.items():
        leader = FollowTheLeader(convex_set, MU, ZERO, own_curvature=True)
        runs[name] = [Followers(leader, seeds, ends)]
        if name in LOCAL:
            free = ConditionalGradient(convex_set, MU, ZERO, own_curvature=True)
            runs[name].append(Followers(free, seeds, ends))
        runs[name] += [Pocg(convex_set, ticks, seeds, ends), Pqftl(convex_set, seeds, ends)]
    begun, spent = time.perf_counter(), 0.0
    for first in range(0, ticks, CHUNK):
        n = min(CHUNK, ticks - first)
        drawn: list[Any] = []
        for which, noise in zip(SUMS, sums, strict=True):
            unit = noise.take(n)
            drawn += [unit * (2 * CLIP * which.factor(epsilon)) for epsilon in EPSILONS]
        gradients, statistics = np.concatenate(drawn, axis=1), moments.take(n)
        for name, (a, y) in data.items():
            piece = slice(first, first + n)
            for run in runs[name]:
                extra = {Followers: (gradients,), Pocg: (), Pqftl: (statistics,)}[type(run)]
                run.run(a[piece], y[piece], *extra)
        if time.perf_counter() - spent > 30:
            spent = time.perf_counter()
            print(f"{first + n:,} of {ticks:,} ticks, {spent - begun:.0f} s", flush=True)
    lines: list[Line] = []
    for name, convex_set in SETS.items():
        quadratics = Quadratics.of_prefixes(*data[name], MU, np.zeros(D), ends)
        best = best_in_hindsight(quadratics, convex_set, 1e-6 * ticks**0.5).value
        for run in runs[name]:
            if isinstance(run, Followers):
                free = isinstance(run.rule, ConditionalGradient)
                algorithm = "conditional_gradient" if free else "follow_the_leader"
                lines += run.lines(name, algorithm, best)
            else:
                lines += run.lines(name, best)
    return ends, lines


def write(ends: Any, lines: list[Line], path: Path) -> None:
    """Median and quartiles at every fifth checkpoint, two a decade of T = 100,000."""
    with path.open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(COLUMNS)
        for line in lines:
            quartiles = np.percentile(line.regret, (25, 50, 75), axis=1).T
            window, epsilon = line.window or "", line.epsilon or ""
            for end, row in zip(ends[::5], quartiles[::5], strict=True):
                names = (line.set, line.algorithm, line.mechanism, line.noise, window, epsilon)
                out.writerow([*names, end, *(f"{value:.4f}" for value in row)])


COLOURS = {"window_tree": "tab:red", "blt": "tab:blue", "toeplitz": "tab:cyan"}
STYLES = {64: ":", 256: "-", 1024: "--", None: "-"}


def style(line: Line) -> tuple[str, str] | None:
    """Colour and label; None: not drawn (it would lie on another line)."""
    if line.epsilon is None:
        return ("black", "not private") if line.algorithm == "follow_the_leader" else None
    if line.algorithm == "conditional_gradient":
        if (line.mechanism, line.window, line.noise) != ("blt", 256, "gaussian"):
            return None
        return "tab:green", "projection-free, blt, W=256"
    if line.algorithm == "follow_the_leader":
        if line.noise == "k_norm":
            return "tab:pink", f"window_tree, pure, W={line.window}"
        return COLOURS[line.mechanism], f"{line.mechanism}, W={line.window}"
    if line.algorithm == "pftal":
        pure = line.noise == "k_norm"
        return ("tab:olive", "pftal, pure") if pure else ("tab:orange", "pftal, gaussian")
    return ("tab:purple", "pocg") if line.algorithm == "pocg" else ("tab:brown", "pqftl")


def draw(ends: Any, lines: list[Line], path: Path) -> None:
    """Regret against T: a row of panels a set, a column an epsilon."""
    figure = Figure(figsize=(17, 15), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(SETS), len(EPSILONS), sharex=True)
    for i, name in enumerate(SETS):
        for j, epsilon in enumerate(EPSILONS):
            panel = panels[i][j]
            for line in lines:
                shown = style(line)
                if shown is None or line.set != name or line.epsilon not in (None, epsilon):
                    continue
                low, middle, high = np.percentile(line.regret, (25, 50, 75), axis=1)
                panel.plot(
                    ends, middle, STYLES[line.window], color=shown[0], label=shown[1], lw=1.3
                )
                panel.fill_between(ends, low, high, color=shown[0], alpha=0.1, lw=0)
            for power, label in ((1.0, "ln T"), (1.5, "ln^1.5 T")):
                guide = np.log(ends) ** power
                panel.plot(ends, guide * 30, color="grey", lw=0.8, ls=(0, (1, 3)))
                panel.annotate(label, (ends[-1], guide[-1] * 30), color="grey", fontsize=8)
            panel.set(xscale="log", yscale="log", title=f"{name}, epsilon = {epsilon:g}")
            panel.set_ylim(bottom=1)
            panel.set_xlabel("T") if i == len(SETS) - 1 else None
            panel.set_ylabel("regret, median and quartiles") if j == 0 else None
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=9)
    figure.savefig(path, dpi=80)


def find(lines: list[Line], **wanted: Any) -> list[Line]:
    """Lines with these attributes."""
    return [
        line for line in lines if all(getattr(line, key) == want for key, want in wanted.items())
    ]


def report(ends: Any, lines: list[Line]) -> None:
    """Medians, and the three things that must show."""
    half = int(np.searchsorted(ends, math.sqrt(ends[0] * ends[-1])))
    tenth = int(np.searchsorted(ends, ends[-1] / 10))
    print(f"\nmedian regret at T = {ends[half]:,} / {ends[tenth]:,} / {ends[-1]:,}")
    for line in lines:
        m = line.median
        window = "" if line.window is None else f"W={line.window}"
        epsilon = "" if line.epsilon is None else f"eps={line.epsilon:g}"
        head = f"{line.set:8} {line.algorithm:20} {line.mechanism:11} {line.noise:8} {window:6}"
        print(f"{head} {epsilon:7} {m[half]:9.1f} {m[tenth]:9.1f} {m[-1]:9.1f}")

    base = {name: find(lines, set=name, epsilon=None)[0].median for name in SETS}
    windows = [line for line in lines if line.window is not None and line.epsilon is not None]
    print("\n1. fixed windows, exact projection: regret over the last decade of T")
    powers, steps = [], []
    before = int(np.searchsorted(ends, ends[-1] / 10**0.5))
    for line in windows:
        if line.algorithm == "follow_the_leader" and line.noise == "gaussian":
            m = line.median
            powers.append(math.log(m[-1] / m[tenth]) / math.log(ends[-1] / ends[tenth]))
            steps.append((m[-1] - m[before]) / (m[before] - m[tenth]))
    print(f"   growth T^p, p from {min(powers):.3f} to {max(powers):.3f} (1 is linear)")
    print("   its second half adds, to one that the first half adds (1 is a straight line in ln T,")
    print(f"   less is slower): {min(steps):.2f} to {max(steps):.2f}")
    print("2. conditional gradient / exact projection, at T")
    ratios = []
    for line in windows:
        if line.algorithm == "conditional_gradient":
            same = {k: getattr(line, k) for k in ("set", "mechanism", "noise", "window", "epsilon")}
            exact = find(lines, algorithm="follow_the_leader", **same)[0]
            ratios.append(line.median[-1] / exact.median[-1])
    print(f"   {min(ratios):.3f} to {max(ratios):.3f}")
    print("3. excess over the non-private leader, blt / window tree, at T")
    for name in SETS:
        shown = []
        for window in WINDOWS:
            for epsilon in EPSILONS:
                same = {"set": name, "window": window, "epsilon": epsilon, "noise": "gaussian"}
                same["algorithm"] = "follow_the_leader"
                blt = find(lines, mechanism="blt", **same)[0].median[-1] - base[name][-1]
                tree = find(lines, mechanism="window_tree", **same)[0].median[-1] - base[name][-1]
                shown.append(f"{blt / tree:.2f}")
        print(f"   {name:8} W x eps = {WINDOWS} x {EPSILONS}: {' '.join(shown)}")


def main() -> None:
    """Runs, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ticks", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    begun = time.perf_counter()
    ends, lines = measure(options.ticks, options.seeds)
    options.results.mkdir(exist_ok=True)
    write(ends, lines, options.results / "online_regret.csv")
    draw(ends, lines, options.results / "online_regret.png")
    report(ends, lines)
    print(f"\n{time.perf_counter() - begun:.0f} s in all")


if __name__ == "__main__":
    main()
