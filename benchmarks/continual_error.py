"""How large is the error of a continual sum, and is the predicted one the real one?

    python -m benchmarks.continual_error

Error per unit of sensitivity / mu, of each mechanism at its worst tick or at the tick named,
predicted by its ``factor``; beside it the error at a tick that was run, predicted and measured with
keyed noise on empty streams (they must agree within 2 %), and the bytes of state per key and
dimension. Writes benchmarks/results/continual_error.csv and .png. About a minute on one core.
"""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy import fft
from scipy.special import digamma

from benchmarks.fit_tables import optimum
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.noise.noise import label
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.registry import CONTINUAL_SUMS

RESULTS = Path(__file__).parent / "results"
SCALE = 2.0**24
"""Lattice units per unit of noise: rounding to the lattice is far below what is measured."""
KEYS, DIMENSION, GROUPS = 32, 80, 8
"""GROUPS times KEYS * DIMENSION samples: a standard error of half a percent."""
STRIDE = 64
WINDOWS = (64, 256, 1024, 4096)
TREE_TICKS = 2**20
AGREEMENT = 0.02


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
      mechanism, over: what was run. window: protected ticks, None = for ever.
      tick: at which the error is taken, None = of all ticks.
      predicted: error per unit sensitivity / mu.
      measured_tick, expected, measured: the same at a tick that was run; None: not run.
      state: bytes per key and dimension; None: not in this project.
    """

    mechanism: str
    over: int | None
    window: int | None
    tick: int | None
    predicted: float
    measured_tick: int | None = None
    expected: float | None = None
    measured: float | None = None
    state: int | None = None


def build(
    name: str,
    window: int | None,
    dimension: int = 1,
    over: int | None = None,
    horizon: int | None = None,
) -> Any:
    """A mechanism at mu = sensitivity = 1."""
    return CONTINUAL_SUMS[name].calibrated(
        dimension=dimension,
        scales=(SCALE,) * dimension,
        sensitivity=1.0,
        overs=(over,),
        window=window,
        horizon=horizon,
        budget=PrivacyLoss("gdp", 1.0),
    )


def predicted(mechanism: Any, tick: int) -> float:
    """Error at a tick (0-based)."""
    return float(mechanism.stddev(np.array([tick]), mechanism.overs[0])[0, 0]) / SCALE


def groups() -> Iterator[tuple[RootKey, list[bytes]]]:
    """Keys of each group of samples."""
    root = RootKey.derive(bytes(range(32)), "continual_error", bytes(32))
    for group in range(GROUPS):
        yield root, [f"{group} {key}".encode() for key in range(KEYS)]


def measured(mechanism: Any, tick: int) -> float:
    """Root mean square of the noise released at one tick."""
    squares = []
    for root, keys in groups():
        state, first = mechanism.init(KEYS), 0
        if mechanism.name == "toeplitz":  # all that an empty stream leaves behind: its last units
            first = tick
            units = keyed_units(root, keys, tick - mechanism.window + 1, mechanism.window - 1)
            state = state._replace(own=state.own._replace(past=units))
        while first <= tick:
            n = min(STRIDE, tick + 1 - first)
            leaves = np.zeros((n, KEYS, DIMENSION), dtype=np.int64)
            state, released = mechanism.step(state, leaves, KeyedNoise(root, 0, keys, first))
            first += n
        squares.append(np.mean((released[0][-1] / SCALE) ** 2))
    return math.sqrt(np.mean(squares))


def keyed_units(root: RootKey, keys: list[bytes], first: int, n: int) -> Any:
    """(K, d, n) units of noise that correlated mechanisms draw on an empty stream."""
    noise = KeyedNoise(root, 0, keys, first)
    empty = np.zeros((n, len(keys), 2), dtype=np.uint64)
    drawn = noise.gaussian(label(0, first + np.arange(n)), empty, DIMENSION)
    return np.ascontiguousarray(drawn.transpose(1, 2, 0))


def run(
    name: str, window: int | None, tick: int | None, measured_tick: int, over: int | None = None
) -> Row:
    """Predicts and measures; tick None: the worst of all."""
    wide, one = build(name, window, DIMENSION, over), build(name, window, 1, over)
    last = 2**40 if tick is None else tick - 1
    return Row(
        name if window or over else f"{name} (perpetual)",
        over,
        window,
        tick,
        worst_of_period(one) if name == "window_tree" else predicted(one, last),
        measured_tick,
        predicted(one, measured_tick),
        measured(wide, measured_tick),
        one.state_bytes(),
    )


def worst_of_period(mechanism: Any) -> float:
    """Worst error of a mechanism whose error repeats with its window."""
    ticks = np.arange(4 * mechanism.window)
    return float(mechanism.stddev(ticks, None).max()) / SCALE


def full_tree(tick: int) -> Row:
    """The full-history tree, which must know how many ticks will come."""
    tree = build("tree", None, horizon=TREE_TICKS)
    worst = float(tree.stddev(np.arange(tick), None).max()) / SCALE
    return Row("tree (2^20 ticks)", None, None, tick, worst, state=tree.state_bytes())


def unbounded_square_root(ticks: tuple[int, ...], a: float = 0.1) -> list[Row]:
    """b(x) = (1 - x)^(-1/2) L(x)^(1/2 + a), L = -ln(1 - x) / x (Jacobsen and Fawaz, 2025).

    Coefficients by Cauchy's integral on a circle of radius below 1; squares of c beyond the last
    tick by their asymptotic form, c_k^2 ~ 1 / (k u^(1 + 2a)), u = ln k - psi(1/2).
    """
    n, size = max(ticks), 8 * max(ticks)
    radius = 1e-7 ** (1 / size)
    x = radius * np.exp(2j * np.pi * np.arange(size) / size)
    series = -np.log(1 - x) / x
    shrink = radius ** -np.arange(n, dtype=np.float64)
    b = (fft.fft((1 - x) ** -0.5 * series ** (0.5 + a)).real / size)[:n] * shrink
    c = (fft.fft((1 - x) ** -0.5 * series ** (-0.5 - a)).real / size)[:n] * shrink
    tail = c[-1] ** 2 * n * (math.log(n) - float(digamma(0.5))) / (2 * a)
    record = math.sqrt(np.sum(c**2) + tail)
    name = f"Jacobsen-Fawaz (a = {a})"
    return [Row(name, None, None, t, record * math.sqrt(np.sum(b[:t] ** 2))) for t in ticks]


def rows() -> Iterator[Row]:
    """The whole table."""
    for window in WINDOWS:
        yield Row("best for W ticks in all", None, window, window, optimum(window))
        yield run("toeplitz", window, None, 2 * window)
        yield run("blt", window, None, 2 * window)
        yield run("window_tree", window, None, 2 * window)
    for tick in (2**10, 2**14):
        yield run("blt", None, tick, tick - 1)
    long = build("blt", None)
    yield Row(
        "blt (perpetual)", None, None, 2**20, predicted(long, 2**20 - 1), state=long.state_bytes()
    )
    for tick in (2**10, 2**14, 2**20):
        yield Row("best for t ticks in all", None, tick, tick, optimum(tick))
        yield full_tree(tick)
    yield from unbounded_square_root((2**10, 2**14, 2**20))
    for over in WINDOWS[:3]:
        yield run("sliding", None, None, 2 * over, over)


def shown(value: float | int | None, digits: int = 3) -> str:
    """A cell of the table."""
    if value is None:
        return ""
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)


HEADER = (
    "mechanism",
    "over",
    "protected_ticks",
    "tick",
    "error",
    "measured_tick",
    "expected",
    "measured",
    "state_bytes",
)


def cells(row: Row) -> tuple[str, ...]:
    """A line of the CSV."""
    return (
        row.mechanism,
        "all" if row.over is None else str(row.over),
        "all" if row.window is None else str(row.window),
        "worst" if row.tick is None else str(row.tick),
        *(shown(x) for x in (row.predicted, row.measured_tick, row.expected, row.measured)),
        shown(row.state),
    )


def draw(table: list[Row], path: Path) -> None:
    """Error against window (left) and against time (right)."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, sharey=True)
    kinds = {row.mechanism for row in table if row.window in WINDOWS and row.tick is None}
    for name in sorted(kinds):
        some = [row for row in table if row.mechanism == name and row.tick is None]
        (line,) = left.plot(
            [row.window for row in some], [row.predicted for row in some], label=name
        )
        at = [(row.window, row.measured) for row in some if row.measured is not None]
        left.plot(*zip(*at, strict=True), "o", color=line.get_color())
    sliding = [row for row in table if row.mechanism == "sliding" or row.over is not None]
    left.plot(
        [row.over for row in sliding], [row.predicted for row in sliding], "--", label="sliding"
    )
    left.set(xlabel="window in ticks", ylabel="worst error, per sensitivity / mu", xscale="log")
    left.set_title("protected for a window (dots: measured)")
    timed = [row for row in table if row.tick is not None and "W ticks" not in row.mechanism]
    for name in dict.fromkeys(row.mechanism for row in timed):
        some = sorted((row.tick or 0, row.predicted) for row in timed if row.mechanism == name)
        right.plot(*zip(*some, strict=True), marker=".", label=name)
    right.set(xlabel="tick", xscale="log", title="protected for ever")
    for axes in (left, right):
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Prints and writes the table."""
    start, table = time.perf_counter(), []
    widths = (26, 6, 16, 8, 8, 14, 9, 9, 12)
    print(" ".join(word.rjust(width) for word, width in zip(HEADER, widths, strict=True)))
    for row in rows():
        table.append(row)
        line = zip(cells(row), widths, strict=True)
        print(" ".join(word.rjust(width) for word, width in line), flush=True)
        if row.measured is not None and row.expected is not None:
            assert abs(row.measured / row.expected - 1) < AGREEMENT, row
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / "continual_error.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *map(cells, table)])
    draw(table, RESULTS / "continual_error.png")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
