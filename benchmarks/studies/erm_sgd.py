"""What stochastic steps leave next to the noise of a fit, and what they cost next to the minimiser.

    pip install -e ".[bench]"; python -m benchmarks.studies.erm_sgd

One fit of one block (``erm.output_perturbation``, epsilon = 1, pure), by ``solver: sgd`` after 1 to
64 passes and by the certified minimiser, from the same rows. ``left`` is the distance of where the
steps end from the certified point, over the length of the noise that both get; the number of passes
that is taken where none is given was chosen on the synthetic rows alone. Seconds are of the
processor, on one thread (OPENBLAS_NUM_THREADS=1), for one fit. Where double precision leaves the
certificate no room, the minimiser is refused (-), and the distance is from where its steps would
end. Writes benchmarks/studies/results/erm_sgd.csv.

Run on 2026-11-22 at 122c58d.
"""

from __future__ import annotations

import csv
import itertools
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.accelerated import accelerated
from weir.dpcore.models.blocks.fitter import Draws, Minimised, Stepped
from weir.dpcore.models.blocks.level import FINENESS, level_for
from weir.dpcore.models.blocks.objective import Objective, row_loss
from weir.dpcore.models.blocks.stochastic import stochastic_level
from weir.dpcore.models.kit.loss import Logistic
from weir.dpcore.noise.prf import KeyedNoise, RootKey

Floats = NDArray[np.float64]
RESULTS = Path(__file__).parent / "results"
PASSES = (1, 2, 4, 8, 16, 64)
LAMBDAS = (0.1, 0.01, 0.001)
COLUMNS = ("rows_of", "rows", "features", "classes", "lambda", "solver", "steps", "left", "seconds")


def streams() -> Iterator[tuple[str, Floats, Floats]]:
    """(name, rows of length 1 at most, class numbers)."""
    rng = np.random.default_rng(1)
    for n, features, classes in ((1000, 5, 2), (8000, 50, 2), (8000, 50, 10)):
        x = rng.normal(size=(n, features))
        scores = 2 * x @ rng.normal(size=(features, classes)) / np.sqrt(features)
        y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1).astype(float)
        yield "synthetic", x / np.linalg.norm(x, axis=1, keepdims=True), y
    digits, cancer = datasets.load_digits(), datasets.load_breast_cancer()
    x = digits.data / 8 - 1  # 0 to 16
    yield "digits", x / np.linalg.norm(x, axis=1, keepdims=True), digits.target.astype(float)
    x = np.clip(cancer.data / (2 * np.median(cancer.data, axis=0)), 0, 1) * 2 - 1
    x /= np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True))
    yield "breast cancer", x, cancer.target.astype(float)


def measured(name: str, x: Floats, y: Floats, strength: float) -> Iterator[tuple[object, ...]]:
    """Lines of the table."""
    n, classes = len(y), int(y.max()) + 1
    made = Objective(
        row_loss(Logistic() if classes == 2 else None, classes), x.shape[1], True, 1.0, strength
    )
    targets = 2 * y / (classes - 1) - 1
    budget, whole, start = PrivacyLoss("pure", 1.0), Fraction(1), np.zeros(made.dimension)
    noise = KeyedNoise(RootKey.derive(bytes(32), "steps", bytes(32)), 0, [b""], 0)
    draws = Draws(noise, 0, 1, np.zeros(2, dtype=np.uint64))
    head = (name, n, x.shape[1], classes, strength)

    def ended(fitter: Minimised | Stepped) -> tuple[Floats, float]:
        fit = fitter.fit(x, targets, start, draws)
        fit.advance(*fit.start(), 0, 1)  # public permutations are kept from then on
        began = time.process_time()
        found, _ = fit.advance(*fit.start(), 0, fitter.steps)
        return found, time.process_time() - began

    try:
        certified = Minimised(made, level_for(made, 1, float(n), n, 1, budget, whole))
    except ConfigError:
        exact = uncertified(made, x, targets)
        yield (*head, "minimiser", "-", "-", "-")
    else:
        exact, seconds = ended(certified)
        yield (*head, "minimiser", certified.steps, "0", f"{seconds:.3g}")
    for passes in PASSES:
        steps = Stepped(made, stochastic_level(made, 1, n, 1, budget, whole, passes))
        found, seconds = ended(steps)
        length = np.sqrt(made.dimension * steps.level.noise.variance)
        left = np.linalg.norm(found - exact) / length
        yield (*head, f"sgd, {passes} passes", steps.level.total, f"{left:.3g}", f"{seconds:.3g}")


def uncertified(made: Objective, features: Floats, targets: Floats) -> Floats:
    """The minimiser, of a certificate's fineness and without one."""
    points, labels, n = made.points(features), made.targets_of(targets), float(len(targets))
    convexity = 2 * made.strength
    smoothness, distance = made.smoothness + convexity, made.lipschitz / convexity
    tau = FINENESS * made.moves(n) * made.strength
    steps = accelerated(smoothness, convexity, distance, tau)
    x = y = centre = np.zeros(made.dimension)
    for at in range(steps.steps):
        x, y = steps.step(at, x, y, lambda w: made.gradient(w, centre, points, labels, n))
    return x


def main() -> None:
    """Measures and writes."""
    print(*COLUMNS, sep="\t")
    with (RESULTS / "erm_sgd.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for (name, x, y), strength in itertools.product(streams(), LAMBDAS):
            for line in measured(name, x, y, strength):
                table.writerow(line)
                print(*line, sep="\t", flush=True)


if __name__ == "__main__":
    main()
