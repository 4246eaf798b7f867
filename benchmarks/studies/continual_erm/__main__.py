"""Private continual ERM on MNIST: accuracy against t, as Figures 4 and 5 of Watson et al. (2021).

    python -m benchmarks.studies.continual_erm --mnist FOLDER [--runs 4] [--quick]

FOLDER (or WEIR_MNIST) holds ``t10k-images-idx3-ubyte.gz`` and ``t10k-labels-idx1-ubyte.gz``. Of
their 10,000 images, in an order of each run's own, 8,448 are the stream, in blocks of 256, and
1,500 are the test set: a quarter of the paper's blocks. Softmax regression without an intercept,
rows of length 1 at most. The digits of scikit-learn (``pip install -e ".[bench]"``) are the public
stream that settings are chosen on: 1,488 images in blocks of 48, at an epsilon that is 256/48 times
as large, which makes about the same noise. MNIST has no say in it.

Settings: ``paper``, lambda = 1 and pixels from 0 to 1; ``chosen``, the lambda, public centre of the
pixels (the mean image of the digits, in ``ranges``) and map that have the best mean accuracy on the
digits at epsilon = 1; ``fourier``, the same among random Fourier maps, which need no public image.
The length that rows are clipped to is no choice of its own: all are longer, and A with lambda is 1
with lambda / A^2.

``reach``: every lambda with and without the centre and a public projection to 50 directions, on the
stream itself, to see what each costs; nothing is chosen by it.

Noises: ``gaussian`` at delta = 1e-6 and ``pure``, both as the plan prices them; ``printed``,
Laplace noise on each coordinate at the paper's own scales, which has no such epsilon in more than
one dimension (and of the sampled form in none); ``none``. In ``drift`` every label moves by one in
mid-stream, and models are tested on labels as they are.

Medians and quartiles over runs, which differ in order, test set and noise; with ``--minutes`` a
case has as many runs as there was time for, and the table says so. Writes
benchmarks/studies/results/continual_erm.csv and .png, and the table of
benchmarks/results/learners.md.

Run on 2026-11-22 at 17d553a.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.studies.blocks import (
    Data,
    Setting,
    accuracies,
    made_ready,
    models,
    points_of,
    with_noise,
)
from benchmarks.studies.continual_erm.results import (
    ALGORITHMS,
    BEST,
    BLOCK,
    DRIFT_NOISES,
    DRIFTING,
    LAMBDAS,
    NOISES,
    OF_EIGHT,
    REACH_NOISES,
    WAYS,
    Choice,
    Line,
    reach_name,
    write,
)
from weir.dpcore.bounded_events import Bound
from weir.dpcore.plan import Plan

Floats = NDArray[np.float64]

BLOCKS, TEST = 33, 1500
SMALL_BLOCK, SMALL_BLOCKS = 48, 31
TRIED = (
    *WAYS,
    *((False, f"random_fourier: 500, scale: {scale}") for scale in (3.0, 4.0, 6.0)),
)
"""Centred, map: what is tried with each lambda."""


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


@dataclass(frozen=True)
class Run:
    """Stream and test set of a run, bounded under a setting."""

    setting: Setting
    stream: Bound
    points: Floats
    y: Floats
    seed: int
    drift: int | None

    @classmethod
    def of(cls, data: Data, setting: Setting, seed: int, drift: bool = False) -> Run:
        """A run. drift: whether labels move by one from the middle block on."""
        blocks = BLOCKS if setting.block == BLOCK else SMALL_BLOCKS
        stream, test = parts(data, seed, setting.block, blocks)
        half = blocks // 2
        if drift:
            late = np.arange(len(stream.y)) >= half * setting.block
            stream = Data(stream.x, np.where(late, (stream.y + 1) % 10, stream.y))
        plan = setting.plan(ALGORITHMS["independent_batches"], 1.0)
        bound, points = made_ready(plan, stream, setting.block), points_of(plan, test)
        return cls(setting, bound, points, test.y, seed, half if drift else None)

    def accuracy(self, plan: Plan, noise: str, epsilon: float) -> Floats:
        """(blocks,)."""
        kind = {"none": "none", "printed": "paper"}.get(noise, "ours")
        theta = models(with_noise(plan, kind, epsilon, self.seed), self.stream, self.seed)
        found = accuracies(theta, self.points, self.y)
        if self.drift is not None:
            found[self.drift :] = accuracies(theta[self.drift :], self.points, (self.y + 1) % 10)
        return found


def planned(setting: Setting, algorithm: str, noise: str, epsilon: float) -> Plan:
    """Of an algorithm of the table."""
    if algorithm == OF_EIGHT:
        setting = replace(setting, block=8 * setting.block)
    pure = noise == "pure" or algorithm == "sampled"
    return setting.plan(ALGORITHMS[algorithm], epsilon, pure)


def choose(data: Data, runs: int = 1) -> Iterator[Choice]:
    """Mean accuracies on a public stream at the noise of epsilon = 1."""
    centres = (np.zeros(784), data.x.mean(axis=0))
    for regularise, (centred, map_) in itertools.product(LAMBDAS, TRIED):
        made = setting(regularise, centres[centred], map_, SMALL_BLOCK)
        epsilon, found = BLOCK / SMALL_BLOCK, []
        some = [Run.of(data, made, seed) for seed in range(runs)]
        for algorithm in (OF_EIGHT, "sliding_window"):
            plan = planned(made, algorithm, "gaussian", epsilon)
            found += [one.accuracy(plan, "gaussian", epsilon) for one in some]
        yield regularise, centred, map_, float(np.nanmean(found))


def cases(quick: bool) -> Iterator[tuple[str, str, str, str, float]]:
    """What is shown, the most telling first: experiment, setting, algorithm, noise, epsilon."""
    noises = NOISES[:2] if quick else NOISES
    for (noise, epsilon), name in itertools.product(noises, ("paper", "chosen")):
        for algorithm in ALGORITHMS:
            if algorithm != "sampled" or noise != "gaussian":  # the sampled form is pure alone
                yield "figure", name, algorithm, noise, epsilon
        if (noise, epsilon) == NOISES[1] and name == "chosen":
            for algorithm, drifts in itertools.product(DRIFTING, DRIFT_NOISES):
                yield "drift", name, algorithm, *drifts
    for regularise, way in itertools.product(LAMBDAS, WAYS):
        for one in REACH_NOISES:
            yield "reach", reach_name(regularise, *way), OF_EIGHT, *one
    for one in itertools.product(("figure",), ("fourier",), BEST, noises):
        yield *one[:3], *one[3]


def lines(
    data: Data, settings: dict[str, Setting], runs: int, quick: bool, until: float
) -> list[Line]:
    """All that is shown, run by run until a time is over."""
    found: dict[tuple[str, str, str, str, float], list[Floats]] = {}
    for seed in range(runs):
        ready: dict[tuple[str, str], Run] = {}
        for case in cases(quick):
            experiment, name, algorithm, noise, epsilon = case
            if time.perf_counter() > until:
                break
            if case[:2] not in ready:
                ready[case[:2]] = Run.of(data, settings[name], seed, experiment == "drift")
            plan = planned(settings[name], algorithm, noise, epsilon)
            one = ready[case[:2]].accuracy(plan, noise, epsilon)
            found.setdefault(case, []).append(one)
            print(seed, *case, f"{np.nanmean(one[len(one) // 2 :]):.3f}", sep="\t", flush=True)
    return [Line(*case, np.array(some)) for case, some in found.items()]


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mnist", type=Path, default=os.environ.get("WEIR_MNIST"))
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--quick", action="store_true", help="Gaussian noise at 1 alone")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="then no new fits")
    options = parser.parse_args()
    if options.mnist is None:
        parser.error("say where the images are: --mnist FOLDER, or WEIR_MNIST")
    began, public = time.perf_counter(), digits()
    choices: list[Choice] = []
    for one in choose(public):
        choices.append(one)
        print(*one, sep="\t", flush=True)
    zero = np.zeros(784)
    settings = {"paper": setting(1.0, zero, "", BLOCK)}
    for name, some in (
        ("chosen", choices),
        ("fourier", [one for one in choices if "fourier" in one[2]]),
    ):
        regularise, centred, map_, _ = max(some, key=lambda one: one[3])
        centre = public.x.mean(axis=0) if centred else zero
        settings[name] = setting(regularise, centre, map_, BLOCK)
        print(name, regularise, centred, map_, flush=True)
    centres = (zero, public.x.mean(axis=0))
    for regularise, (centred, map_) in itertools.product(LAMBDAS, WAYS):
        name = reach_name(regularise, centred, map_)
        settings[name] = setting(regularise, centres[centred], map_, BLOCK)
    until = began + 60 * options.minutes
    found = lines(mnist(Path(options.mnist)), settings, options.runs, options.quick, until)
    write(found, choices)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
