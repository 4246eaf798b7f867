"""Private incremental regression: models of everything so far, from noisy running moments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.accounting.guarantee import PrivacyLoss, compose
from weir.dpcore.arrays import Floats, Ints, State
from weir.dpcore.continual.base import ContinualSum, canonical_mechanism
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.moments import Statistics
from weir.dpcore.models.regression.margins import Debiased, FitScores, score_of
from weir.dpcore.models.regression.quadratic import (
    PrivateQuadratic,
    Ridge,
    canonical_ridge,
    prior_of,
    quadratic_for,
)
from weir.dpcore.models.regression.rows import EventRows, MomentsProgram
from weir.dpcore.models.regression.solver import Solver
from weir.dpcore.program import Bounded, NoiseOf, OutputInfo, Released, Runs


@dataclass(frozen=True)
class Incremental(MomentsProgram):
    """A linear model per key and target: least squares over a set, of all events so far.

    At tick t theta_t is released, a function of what the private sums show of ticks 0 .. t:
    argmin over the set of theta' A theta - 2 q' theta, A the noisy sum of x x^T with its negative
    eigenvalues at 0 plus the ridge, q the noisy sum of x y. Nothing but the sums is kept.

    Formal guarantees:
      Unit: one event. Relation: the plan's; a leaf is a plain sum, so rows do not compete.
      Sensitivity: ``rows`` keeps ||x||_2 <= X and ||y||_2 <= Y exactly on the lattice, products are
        exact, and so one neighbour moves the joint (svec(x x^T), x y^T[, y^2]) by no more than
        ``Moments.sensitivity``, which the sum was calibrated for.
      Guarantee: that of the continual sums, composed. Solving, margins and errors are
      post-processing
        of their releases.
      Source: Kasiviswanathan, Nissim, Jin (2017), Algorithm 2 (PrivIncReg1), with one joint release
        in place of two.

    Attributes:
      rows: columns, ranges, bounds. parts: continual sums over consecutive coordinates of a leaf;
        one, unless it is a baseline. set: where models lie. ridge: weight of |theta|^2;
        None: by the size of the noise, see ``lift_for``.
      solver: how models are found. error: whether mse and r2 are released. statistics: whether
        the moments are. algorithm: its name in the config. scores: another sum over the same
        leaves, with noise of its own, on which models are scored; None: they are not.
    """

    rows: EventRows
    parts: tuple[ContinualSum, ...]
    set: ConvexSet
    ridge: Ridge
    solver: Solver
    error: bool
    statistics: bool
    algorithm: str
    scores: ContinualSum | None = None

    projected: ClassVar[bool] = False

    @property
    def over(self) -> int | None:
        """Ticks that a model is of; None: all since the start."""
        return self.parts[0].overs[0]

    @property
    def sums_runs(self) -> bool:
        return True

    def sum_runs(
        self, columns: Mapping[str, NDArray[Any]], n_events: int, runs: Runs, n_cells: int
    ) -> tuple[Ints, Bounded]:
        """Both at once, where events of a cell lie together."""
        return self.rows.sum_runs(columns, n_events, runs, n_cells)

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers of a key in each noisy array."""
        return (self.dimension,) * (1 + (self.scores is not None))

    @property
    def sums(self) -> tuple[ContinualSum, ...]:
        """Where the noise comes from."""
        return self.parts if self.scores is None else (*self.parts, self.scores)

    def init(self, n_keys: int) -> State:
        """No data."""
        return tuple(part.init(n_keys) for part in self.sums)

    def step(self, state: State, leaves: Ints, noise: NoiseOf) -> tuple[State, tuple[Floats, ...]]:
        """A stride -> new state, and the noisy moments (n, K, D) in lattice units; and the same
        with other noise, if models are scored on it."""
        states, result, start = [], [], 0
        for index, part in enumerate(self.parts):
            mine = leaves[:, :, start : start + part.dimension]
            new, (released,) = part.step(state[index], mine, noise(index))
            states.append(new)
            result.append(released)
            start += part.dimension
        whole = result[0] if len(result) == 1 else np.concatenate(result, axis=2)
        if self.scores is None:
            return tuple(states), (whole,)
        new, (other,) = self.scores.step(state[-1], leaves, noise(len(self.parts)))
        return (*states, new), (whole, other)

    def stddev(self, ticks: Ints) -> Floats:
        """(m,) s, of the noise of a coordinate of (svec(Q), q), scaled units; of parts the most."""
        return self._stddev(self.parts, ticks)

    def _stddev(self, parts: tuple[ContinualSum, ...], ticks: Ints) -> Floats:
        results = [part.unit_variance * part.factor(ticks, self.over) for part in parts]
        return np.asarray(np.sqrt(np.max(np.stack(results), axis=0)) * self._rounding)

    @cached_property
    def _rounding(self) -> float:
        """What rounding up made of scales that are 1 in scaled units."""
        return max(float(part.scales[0]) for part in self.parts) * self.rows.moments.resolution

    def solve(self, noisy: tuple[Floats, ...], ticks: Ints) -> tuple[Released, ...]:
        """Models in scaled and user units with their margins; errors and moments if asked."""
        n, n_keys, size = noisy[0].shape
        moments = self.rows.moments
        result = moments.unpack(noisy[0].reshape(n * n_keys, size))
        deviation = np.repeat(self.stddev(ticks), n_keys)
        quadratic = self._quadratic(result, deviation)
        theta = self.solver(quadratic, self.set, deviation)
        out = self._models(quadratic, theta, deviation, (n, n_keys))
        if self.rows.intercept:
            out.append(self._band(quadratic, theta, result, deviation, (n, n_keys)))
        if self.scores is not None:
            other = moments.unpack(noisy[1].reshape(n * n_keys, size))
            unseen = np.repeat(self._stddev((self.scores,), ticks), n_keys)
            fit = score_of(other, result, theta, unseen)
            out.extend(self._errors(fit, (n, n_keys)))
        if self.statistics:
            each = [part.stddev(ticks, self.over) for part in self.parts]
            spread = np.concatenate(each, axis=1)[:, None, :] * moments.resolution
            value = noisy[0] * moments.resolution
            out.append(Released("moments", self.over, value, np.broadcast_to(spread, value.shape)))
        return tuple(out)

    def _quadratic(self, found: Statistics, stddev: Floats) -> PrivateQuadratic:
        return quadratic_for(self.ridge, found, stddev, prior_of(self.set))

    def _models(
        self, quadratic: PrivateQuadratic, theta: Floats, stddev: Floats, shape: tuple[int, int]
    ) -> list[Released]:
        d = theta.shape[2]
        directions = np.concatenate([np.eye(d), self._user_units])
        spread = Debiased(quadratic, theta, stddev, self.set).along(directions)
        users = spread[:, :, d:] * self._half[:, None]
        return [
            self._released("theta", theta, shape, spread[:, :, :d]),
            self._released("coefficients", self.rows.coefficients(theta), shape, users),
        ]

    def _band(
        self,
        quadratic: PrivateQuadratic,
        theta: Floats,
        found: Statistics,
        stddev: Floats,
        shape: tuple[int, int],
    ) -> Released:
        count = np.maximum(found.matrix[:, -1, -1], 1.0)
        widest = self.rows.moments.reach * self.set.diameter / 2
        band = np.minimum(Debiased(quadratic, theta, stddev, self.set).typical(count), widest)
        return self._released("band", band * self._half, shape)

    def _errors(self, fit: FitScores, shape: tuple[int, int]) -> tuple[Released, Released]:
        unit = self._half**2
        return (
            self._released("mse", fit.mse * unit, shape, fit.mse_stddev * unit),
            self._released("r2", fit.r2, shape, fit.r2_stddev),
        )

    def _released(
        self, name: str, value: Floats, shape: tuple[int, int], stddev: Floats | None = None
    ) -> Released:
        """(n K, ...) -> (n, K, m)."""
        spread = None if stddev is None else stddev.reshape(*shape, -1)
        return Released(name, self.over, value.reshape(*shape, -1), spread)

    @cached_property
    def _half(self) -> Floats:
        """(k,) half of each target's range."""
        return np.array([scaling.half[-1] for scaling in self.rows.scalings])

    @cached_property
    def _user_units(self) -> Floats:
        """(p + 1, d): coefficients in the user's units, per half range of the target."""
        d = self.rows.moments.features
        scaling = self.rows.scalings[0]
        points = np.concatenate([np.zeros((1, d)), np.eye(d)])
        moved = scaling.coefficients(points, self.rows.intercept, False)
        return np.asarray((moved[1:] - moved[0]).T / scaling.half[-1])

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """Composition over the sums."""
        return compose(tuple(part.loss(ticks) for part in self.sums))

    def describe(self, ticks: Ints) -> tuple[OutputInfo, ...]:
        """What is released. The stddev of a model depends on the data: NaN."""
        rows, over, nan = self.rows, self.over, float("nan")
        sensitivity = max(part.sensitivity for part in self.parts)
        constant = ("intercept",) if rows.intercept else ()
        named = {
            "theta": self.labels((*rows.features, *constant)),
            "coefficients": self.labels((*rows.features, "intercept")),
        }
        if rows.intercept:
            named["band"] = rows.targets
        if self.error:
            named.update({"mse": rows.targets, "r2": rows.targets})
        worst = float(self.stddev(ticks).max())
        results = [
            OutputInfo(name, over, len(x), sensitivity, nan, x, inner_stddev=worst)
            for name, x in named.items()
        ]
        if self.statistics:
            size = self.dimension
            names = rows.moments.labels((*rows.features, *constant), rows.targets)
            results.append(OutputInfo("moments", over, size, sensitivity, worst, names))
        return tuple(results)

    def state_bytes(self) -> int:
        """Bytes of state per key."""
        return sum(part.state_bytes() for part in self.sums)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release; scales follow from the moments."""
        scores = {} if self.scores is None else {"scores": _canonical(self.scores)}
        return {
            "program": self.algorithm,
            "rows": self.rows.canonical(),
            "set": self.set.canonical(),
            "ridge": canonical_ridge(self.ridge),
            "solver": self.solver.canonical(),
            "error": self.error,
            "statistics": self.statistics,
            "parts": [_canonical(part) for part in self.parts],
            **scores,
            "bands": "debiased",
        }


def _canonical(part: ContinualSum) -> Mapping[str, Any]:
    return {**canonical_mechanism(replace(part, scales=())), "scales": part.scales[0].hex()}
