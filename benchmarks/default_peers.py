"""Other ways to fit the tables of ``benchmarks.defaults``, each with what is best in hindsight.

Every generator yields a model for each setting of its grid. Output perturbation, objective
perturbation and descent take rows that are shortened to length 1, and their models are scored on
such rows; DP-SGD takes rows as they are and clips gradients. All are under ``replace_one`` and
delta = 1e-6; diffprivlib is under pure epsilon.
"""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from benchmarks.default_sets import Table
from weir.dpcore.accounting.calibrate import gdp_mu
from weir.dpcore.models.blocks.objective import Objective, Softmax
from weir.dpcore.models.kit.loss import Huber, Logistic, Squared

Floats = NDArray[np.float64]
DELTA = 1e-6
LAMBDAS = tuple(np.geomspace(1e-6, 1.0, 13).tolist())
LENGTHS = tuple(2.0**k for k in range(1, 9))
"""Of a path of gradient descent, in units of the inverse smoothness."""
RATE, PASSES, CLIPS, STEPS = 0.05, 20, (0.25, 1.0), (0.25, 1.0, 4.0)
"""Of DP-SGD: share of rows in a batch, passes over the rows, clips of gradients, step sizes."""
WORKER = Path(__file__).parent / "peers" / "fits.py"


class Aim:
    """The mean loss over a table.

    Attributes:
      objective: loss and gradients, features as they are. best: F*. constant: F0.
    """

    def __init__(self, own: Table, squared: bool = False) -> None:
        self.own, d = own, own.x.shape[1]
        self.squared = squared and not own.classes
        loss: Any = Logistic() if own.classes else Squared() if self.squared else Huber(0.5)
        loss = Softmax(own.classes) if own.classes > 2 else loss
        norm = math.sqrt(d) * (1 + 2.0**-50)
        self.objective = Objective(loss, d, True, norm, 0.0)
        self.points = self.objective.points(own.x)
        self.targets = 2 * own.y - 1 if own.classes == 2 else own.y
        self.best = self(self.minimum(0.0))
        base = Objective(loss, 0, True, 0.0, 0.0)
        ones = np.ones((len(own.y), 1))
        found = minimize(
            lambda w: (
                self.loss_of(ones @ w.reshape(base.outputs, 1).T),
                base.gradient(w, w, ones, self.targets, float(len(ones))),
            ),
            np.zeros(base.dimension),
            jac=True,
        )
        self.constant = float(found.fun)

    @property
    def rows(self) -> int:
        """n."""
        return len(self.targets)

    def loss_of(self, scores: Floats) -> float:
        """Of predictions (n, outputs)."""
        loss: Any = self.objective.loss
        if loss.outputs == 1:
            return float(loss.value(scores[:, 0], self.targets).mean())
        most = scores.max(axis=1)
        total = np.log(np.exp(scores - most[:, None]).sum(axis=1)) + most
        return float((total - scores[np.arange(self.rows), self.targets.astype(int)]).mean())

    def __call__(self, w: Floats) -> float:
        """F(w)."""
        return self.loss_of(self.points @ w.reshape(self.objective.outputs, -1).T)

    def gradient(self, w: Floats) -> Floats:
        """Of F."""
        return self.objective.gradient(w, w, self.points, self.targets, float(self.rows))

    @lru_cache(maxsize=64)  # noqa: B019  # of the few aims of a run
    def bare_minimum(self, strength: float) -> Floats:
        """argmin F(w) + strength |w|^2."""
        return self.minimum(strength)

    def minimum(self, strength: float, tilt: Floats | float = 0.0) -> Floats:
        """argmin F(w) + strength |w|^2 + <tilt, w>."""
        slope = np.zeros(self.objective.dimension) + tilt

        def value(w: Floats) -> tuple[float, Floats]:
            whole = self(w) + strength * w @ w + slope @ w
            return whole, self.gradient(w) + 2 * strength * w + slope

        start = np.zeros(self.objective.dimension)
        options = {"maxiter": 1000, "maxfun": 1200, "ftol": 1e-12, "gtol": 1e-8}
        return np.asarray(minimize(value, start, jac=True, method="L-BFGS-B", options=options).x)

    def shortened(self) -> Aim:
        """The same of features that are shortened to length 1."""
        size = np.maximum(np.linalg.norm(self.own.x, axis=1), 1e-12)
        own = self.own.x * np.minimum(1, 1 / size)[:, None]
        return Aim(Table(own, self.own.y, self.own.classes), self.squared)


@lru_cache(maxsize=64)
def mu_of(epsilon: float, delta: float = DELTA) -> float:
    """mu of Gaussian noise at a budget."""
    return float(gdp_mu(epsilon, delta))


def output(aim: Aim, epsilon: float, rng: Any) -> Iterator[Floats]:
    """Output perturbation at every lambda."""
    loss = aim.objective.loss
    steep = loss.slope(math.inf) * math.sqrt(2)
    for strength in LAMBDAS:
        w = aim.bare_minimum(strength)
        scale = steep / (strength * aim.rows * mu_of(epsilon))
        yield w + scale * rng.standard_normal(len(w))


def objective(aim: Aim, epsilon: float, rng: Any) -> Iterator[Floats]:
    """Objective perturbation (Kifer, Smith, Thakurta 2012) at every lambda that its determinant
    allows."""
    loss = aim.objective.loss
    for strength in LAMBDAS:
        spent = 2 * loss.outputs * math.log1p(loss.smoothness * 2 / (2 * strength * aim.rows))
        if spent < 0.9 * epsilon:
            mu = mu_of(epsilon - spent, DELTA / 2)
            scale = 2 * loss.slope(math.inf) * math.sqrt(2) / (aim.rows * mu)
            yield aim.minimum(strength, scale * rng.standard_normal(aim.objective.dimension))


def descent(aim: Aim, epsilon: float, rng: Any) -> Iterator[Floats]:
    """Noisy gradient descent over all rows, of paths of every length."""
    loss = aim.objective.loss
    for steps in LENGTHS:
        scale = 2 * loss.slope(math.inf) * math.sqrt(2) * math.sqrt(steps)
        scale /= aim.rows * mu_of(epsilon)
        w = np.zeros(aim.objective.dimension)
        for _ in range(int(steps)):
            noisy = aim.gradient(w) + scale * rng.standard_normal(len(w))
            w = w - noisy / (loss.smoothness * 2)
        yield w


@lru_cache(maxsize=64)
def multiplier(epsilon: float, steps: int) -> float:
    """Standard deviation of DP-SGD's noise over its clip, by the distribution of privacy loss."""
    from dp_accounting import (
        GaussianDpEvent,
        NeighboringRelation,
        PoissonSampledDpEvent,
        SelfComposedDpEvent,
    )
    from dp_accounting.pld import PLDAccountant

    if epsilon > 100:  # sampling amplifies little there, and the distribution is too wide
        return 2 * math.sqrt(steps) / mu_of(epsilon)
    low, high = 0.2, 100.0
    while high / low > 1.005:
        middle = math.sqrt(low * high)
        accountant = PLDAccountant(
            NeighboringRelation.REPLACE_ONE, value_discretization_interval=1e-3
        )
        event = PoissonSampledDpEvent(RATE, GaussianDpEvent(middle))
        accountant.compose(SelfComposedDpEvent(event, steps))
        low, high = (low, middle) if accountant.get_epsilon(DELTA) <= epsilon else (middle, high)
    return high


def dp_sgd(aim: Aim, epsilon: float, rng: Any) -> Iterator[Floats]:
    """DP-SGD (Abadi et al. 2016) of every clip and step: the last model, and the mean of the second
    half of them. Each record is in a batch with probability ``RATE``."""
    loss, outputs = aim.objective.loss, aim.objective.outputs
    lengths = np.linalg.norm(aim.points, axis=1)
    turns = round(PASSES / RATE)
    sigma = multiplier(epsilon, turns)
    for clip, step in itertools.product(CLIPS, STEPS):
        w = np.zeros((outputs, aim.points.shape[1]))
        mean = np.zeros_like(w)
        for turn in range(turns):
            own = np.flatnonzero(rng.random(aim.rows) < RATE)
            x = aim.points[own]
            slopes = loss.derivatives(x @ w.T, aim.targets[own])
            sizes = np.linalg.norm(slopes, axis=1) * lengths[own]
            slopes = slopes * np.minimum(1, clip / np.maximum(sizes, 1e-12))[:, None]
            noisy = slopes.T @ x + clip * sigma * rng.standard_normal(w.shape)
            w = w - step / (RATE * aim.rows) * noisy
            mean += w * (turn >= turns // 2) / (turns - turns // 2)
        yield w.ravel()
        yield mean.ravel()


PEERS: Mapping[str, Callable[[Aim, float, Any], Iterator[Floats]]] = {
    "output*": output,
    "objective*": objective,
    "descent*": descent,
    "dp-sgd*": dp_sgd,
}
SHORT = ("output*", "objective*", "descent*")
"""Of rows that are shortened."""


def mean_losses(aim: Aim, short: Aim, name: str, epsilon: float, draws: int) -> Floats:
    """(settings,) mean loss of each setting of a peer; empty where none is allowed."""
    own = short if name in SHORT else aim
    with np.errstate(all="ignore"):
        drawn = [
            [own(w) for w in PEERS[name](own, epsilon, np.random.default_rng(seed))]
            for seed in range(draws)
        ]
    return np.mean(drawn, axis=0)


def by_diffprivlib(python: str, aim: Aim, epsilon: float, draws: int) -> Floats:
    """(settings,) mean losses of diffprivlib's regressions.

    Args:
      python: one in which diffprivlib is installed.

    Raises:
      RuntimeError: it failed; says how.
    """
    with tempfile.TemporaryDirectory(prefix="weir-fits-") as folder:
        path = Path(folder) / "table.npz"
        np.savez(path, x=aim.own.x, y=aim.own.y, classes=aim.own.classes)
        words = [python, "-W", "ignore", str(WORKER), str(path), str(epsilon), str(draws)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"diffprivlib failed: {done.stderr.strip().splitlines()[-1]}")
    fits = json.loads(done.stdout.splitlines()[-1])
    drawn = [[aim.loss_of(_scores(aim, np.array(w))) for w in settings] for settings in fits]
    return np.asarray(np.mean(drawn, axis=0))


def _scores(aim: Aim, w: Floats) -> Floats:
    """Of a model (outputs, D); of several classes one against the rest, as shares that add up."""
    scores = np.asarray(aim.points @ w.T)
    return scores if aim.own.classes <= 2 else -np.logaddexp(0, -scores)


def by_sklearn(aim: Aim) -> float:
    """Loss of scikit-learn's linear models without privacy, as their defaults have them."""
    from sklearn.linear_model import LinearRegression, LogisticRegression

    learner = LogisticRegression(max_iter=1000) if aim.own.classes else LinearRegression()
    fit = learner.fit(aim.own.x, aim.own.y)
    w = np.c_[np.atleast_2d(fit.coef_), np.atleast_1d(fit.intercept_)]
    return aim(w.ravel())
