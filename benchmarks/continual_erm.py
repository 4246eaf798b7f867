"""Private continual ERM on MNIST: accuracy against t, as Figures 4 and 5 of Watson et al. (2021).

    python -m benchmarks.continual_erm --mnist FOLDER [--runs 4] [--quick]

FOLDER (or WEIR_MNIST) holds ``t10k-images-idx3-ubyte.gz`` and ``t10k-labels-idx1-ubyte.gz``. Of
their 10,000 images, in an order of each run's own, 8,448 are the stream, in blocks of 256, and
1,500 are the test set: a quarter of the paper's blocks. Softmax regression without an intercept,
rows of length 1 at most. ``pip install scikit-learn``, whose digits are the public stream that the
second setting is chosen on: 1,488 images in blocks of 48, at an epsilon that is 256/48 times as
large, which makes the same noise. MNIST has no say in it.

Settings: ``paper``, lambda = 1 and pixels from 0 to 1; ``chosen``, lambda, public centre of the
pixels (the mean image of the digits, in ``ranges``) and projection to 50, whatever has the best
mean accuracy on the digits at epsilon = 1. Noises: ``gaussian`` at delta = 1e-6 and ``pure``, both
as the plan prices them; ``printed``, Laplace noise on each coordinate at the paper's own scales,
which has no such epsilon in more than one dimension; ``none``. In ``drift`` every label moves by
one in mid-stream, and models are tested on labels as they are.

Medians and quartiles over runs, which differ in order, test set and noise. Writes
benchmarks/results/continual_erm.csv and .png, and the table of docs/which-learner.md.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from benchmarks.blocks import Data, Setting, accuracies, models, with_noise

Floats = NDArray[np.float64]

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "which-learner.md"
BEGIN, END = "<!-- python -m benchmarks.continual_erm -->\n", "<!-- end of continual_erm -->\n"
BLOCK, BLOCKS, TEST = 256, 33, 1500
SMALL_BLOCK, SMALL_BLOCKS = 48, 31
ALGORITHMS = {
    "output_perturbation": "algorithm: erm.output_perturbation",
    "independent_batches": "algorithm: erm.independent_batches",
    "independent_batches of 8 blocks": "algorithm: erm.independent_batches",
    "sliding_window": "algorithm: erm.sliding_window\nwindow: 7",
    "multi_resolution": "algorithm: erm.multi_resolution\ndoublings: 3",
    "sampled": "algorithm: erm.sampled\ndoublings: 3",
    "basic_continual": "algorithm: erm.basic_continual\nbase: 8\ndoublings: 2",
    "continual": "algorithm: erm.continual\nbase: 8\ndoublings: 2",
}
OF_EIGHT = "independent_batches of 8 blocks"
DRIFTING = ("independent_batches", OF_EIGHT, "sliding_window", "continual")
NOISES = (
    ("none", 1.0),
    *((noise, epsilon) for epsilon in (1.0, 0.1) for noise in ("gaussian", "pure", "printed")),
)
LAMBDAS = (0.01, 0.03, 0.1, 0.3, 1.0)
COLUMNS = (
    *("experiment", "setting", "algorithm", "noise", "epsilon", "t"),
    *("q25", "median", "q75", "runs"),
)


@dataclass(frozen=True)
class Line:
    """Accuracy after each block: found (runs, blocks)."""

    experiment: str
    setting: str
    algorithm: str
    noise: str
    epsilon: float
    found: Floats

    @property
    def quartiles(self) -> Floats:
        """(3, blocks)."""
        return np.percentile(self.found, (25, 50, 75), axis=0)

    @property
    def late(self) -> float:
        """Median over runs of the mean accuracy over the second half of the stream."""
        return float(np.median(self.found[:, self.found.shape[1] // 2 :].mean(axis=1)))


def mnist(folder: Path) -> Data:
    """The 10,000 images."""

    def read(name: str, offset: int) -> NDArray[np.uint8]:
        return np.frombuffer(gzip.decompress((folder / name).read_bytes()), np.uint8, offset=offset)

    x = read("t10k-images-idx3-ubyte.gz", 16).reshape(-1, 784).astype(float)
    return Data(x, read("t10k-labels-idx1-ubyte.gz", 8).astype(float))


def digits() -> Data:
    """The digits of scikit-learn in the frame of MNIST: 8 x 8 made 20 x 20, with a rim of 4."""
    from sklearn.datasets import load_digits

    found = load_digits()
    place = np.arange(20) * 8 // 20
    wide = found.images[:, place][:, :, place] * (255 / 16)
    x = np.pad(wide, ((0, 0), (4, 4), (4, 4))).reshape(-1, 784)
    return Data(x, found.target.astype(float))


def setting(regularise: float, centre: Floats, map_: str, block: int) -> Setting:
    """Pixels less a public centre, over 255."""
    return Setting(regularise, centre - 255, centre + 255, 10, block, map_)


def parts(data: Data, seed: int, block: int, blocks: int) -> tuple[Data, Data]:
    """Stream and test set of a run."""
    order = np.random.default_rng(seed).permutation(len(data.y))
    last = order[block * blocks :][-TEST:]
    return data.part(order[: block * blocks]), data.part(last)


def run(
    data: Data, made: Setting, algorithm: str, noise: str, epsilon: float, seed: int, drift: bool
) -> Floats:
    """(blocks,) accuracy of one run."""
    blocks = BLOCKS if made.block == BLOCK else SMALL_BLOCKS
    stream, test = parts(data, seed, made.block, blocks)
    if drift:
        late = np.arange(len(stream.y)) >= blocks // 2 * made.block
        stream = Data(stream.x, np.where(late, (stream.y + 1) % 10, stream.y))
    own = replace(made, block=8 * made.block) if algorithm == OF_EIGHT else made
    pure = noise == "pure" or algorithm == "sampled"
    plan = own.plan(ALGORITHMS[algorithm], epsilon, pure)
    kind = {"none": "none", "printed": "paper"}.get(noise, "ours")
    theta = models(with_noise(plan, kind, epsilon, seed), stream, made.block, seed)
    found = accuracies(plan, theta, test)
    if drift:
        moved = accuracies(plan, theta, Data(test.x, (test.y + 1) % 10))
        found = np.where(np.arange(blocks) >= blocks // 2, moved, found)
    return found


def choose(data: Data, runs: int) -> Iterator[tuple[float, bool, str, float]]:
    """(lambda, centred, map, mean accuracy) on a public stream at the noise of epsilon = 1."""
    centres = (np.zeros(784), data.x.mean(axis=0))
    for regularise, centred, map_ in itertools.product(
        LAMBDAS, (False, True), ("", "projection: 50")
    ):
        made = setting(regularise, centres[centred], map_, SMALL_BLOCK)
        epsilon = BLOCK / SMALL_BLOCK
        found = [
            run(data, made, algorithm, "gaussian", epsilon, seed, False)
            for algorithm in (OF_EIGHT, "sliding_window")
            for seed in range(runs)
        ]
        yield regularise, centred, map_, float(np.nanmean(found))


def lines(data: Data, settings: dict[str, Setting], runs: int, quick: bool) -> Iterator[Line]:
    """All that is shown."""
    for name, made in settings.items():
        for algorithm, (noise, epsilon) in itertools.product(ALGORITHMS, NOISES):
            if algorithm == "sampled" and noise in ("gaussian", "printed"):
                continue  # pure alone; as printed it is not private at all
            if quick and (noise == "pure" or epsilon < 1):
                continue
            found = [run(data, made, algorithm, noise, epsilon, i, False) for i in range(runs)]
            yield Line("figure", name, algorithm, noise, epsilon, np.array(found))
    made = settings["chosen"]
    for algorithm, (noise, epsilon) in itertools.product(
        DRIFTING, (("none", 1.0), ("gaussian", 1.0))
    ):
        found = [run(data, made, algorithm, noise, epsilon, i, True) for i in range(runs)]
        yield Line("drift", "chosen", algorithm, noise, epsilon, np.array(found))


def recovery(line: Line) -> int | None:
    """Blocks after the drift until the median is nine tenths of what it was before; None: never."""
    median = line.quartiles[1]
    half = len(median) // 2
    back = np.flatnonzero(median[half:] >= 0.9 * np.nanmean(median[half - 4 : half]))
    return int(back[0]) + 1 if len(back) else None


def draw(found: list[Line], path: Path) -> None:
    """Accuracy against t: a row a setting, a column a noise; drift below."""
    shown = (("none", 1.0), ("gaussian", 1.0), ("printed", 1.0), ("gaussian", 0.1))
    figure = Figure(figsize=(15, 10), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(3, len(shown), sharey=True, squeeze=False)
    for (i, name), (j, (noise, epsilon)) in itertools.product(
        enumerate(("paper", "chosen", "drift")), enumerate(shown)
    ):
        axes, title = grid[i][j], noise if noise == "none" else f"{noise}, epsilon = {epsilon:g}"
        some = [
            one
            for one in found
            if (one.noise, one.epsilon) == (noise, epsilon)
            and name == (one.setting if one.experiment == "figure" else "drift")
        ]
        if not some:
            axes.set_axis_off()
            continue
        for one in some:
            t = BLOCK * np.arange(1, one.found.shape[1] + 1)
            color = f"C{list(ALGORITHMS).index(one.algorithm)}"
            low, middle, high = one.quartiles
            axes.plot(t, middle, color=color, label=one.algorithm)
            axes.fill_between(t, low, high, color=color, alpha=0.15)
        axes.axhline(0.1, color="grey", linestyle=":")
        axes.set(title=f"{name}: {title}", xlabel="t, records", ylim=(0, 1))
        axes.grid(alpha=0.3)
    for row in grid:
        row[0].set_ylabel("accuracy")
    grid[0][0].legend(fontsize=8)
    figure.savefig(path, dpi=80)


def markdown(found: list[Line]) -> str:
    """The tables of the page."""
    settings = ("paper", "chosen")
    table = {(o.experiment, o.setting, o.algorithm, o.noise, o.epsilon): o for o in found}
    heads = [noise if noise == "none" else f"{noise}, {epsilon:g}" for noise, epsilon in NOISES]
    out = [f"| setting | `erm.` | {' | '.join(heads)} |", "|---|---|" + "---|" * len(heads)]
    for name, algorithm in itertools.product(settings, ALGORITHMS):
        cells = (table.get(("figure", name, algorithm, *one)) for one in NOISES)
        shown = " | ".join("-" if one is None else f"{one.late:.2f}" for one in cells)
        out.append(f"| {name} | {algorithm} | {shown} |")
    out += ["", "Blocks after the drift until accuracy is nine tenths of what it was:", ""]
    out += ["| `erm.` | none | gaussian, 1 |", "|---|---|---|"]
    for algorithm in DRIFTING:
        both = (table["drift", "chosen", algorithm, n, 1.0] for n in ("none", "gaussian"))
        out.append(f"| {algorithm} | {' | '.join(str(recovery(o) or 'never') for o in both)} |")
    return "\n".join(out) + "\n"


def write(found: list[Line], choices: list[tuple[float, bool, str, float]]) -> None:
    """Results, picture and page."""
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / "continual_erm.csv").open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(COLUMNS)
        for regularise, centred, map_, mean in choices:
            name = f"lambda {regularise:g}, centred {centred}, map {map_ or 'none'}"
            out.writerow(("choice", name, "", "gaussian", 1.0, "", "", f"{mean:.4f}", "", ""))
        for one in found:
            head = (one.experiment, one.setting, one.algorithm, one.noise, one.epsilon)
            for i, row in enumerate(one.quartiles.T):
                if not np.isnan(row[1]):
                    shown = (f"{value:.4f}" for value in row)
                    out.writerow((*head, BLOCK * (i + 1), *shown, len(one.found)))
    draw(found, RESULTS / "continual_erm.png")
    before, mark, rest = PAGE.read_text().partition(BEGIN)
    if mark:
        PAGE.write_text(before + mark + markdown(found) + END + rest.partition(END)[2])


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mnist", type=Path, default=os.environ.get("WEIR_MNIST"))
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--quick", action="store_true", help="Gaussian noise at 1 alone")
    options = parser.parse_args()
    if options.mnist is None:
        parser.error("say where the images are: --mnist FOLDER, or WEIR_MNIST")
    began, public = time.perf_counter(), digits()
    choices = list(choose(public, 1 if options.quick else 2))
    for one in choices:
        print(*one, sep="\t", flush=True)
    regularise, centred, map_, _ = max(choices, key=lambda one: one[3])
    zero = np.zeros(784)
    centre = public.x.mean(axis=0) if centred else zero
    settings = {
        "paper": setting(1.0, zero, "", BLOCK),
        "chosen": setting(regularise, centre, map_, BLOCK),
    }
    found = []
    for line in lines(mnist(Path(options.mnist)), settings, options.runs, options.quick):
        found.append(line)
        name = f"{line.experiment:7}{line.setting:8}{line.algorithm:34}{line.noise:9}"
        print(f"{name}{line.epsilon:<5g}{line.late:.3f}", flush=True)
    write(found, choices)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
