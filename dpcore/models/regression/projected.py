"""Private incremental regression in many dimensions: project, sum with noise, solve, lift."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.continual.base import ContinualSum, SumState, canonical_mechanism
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.regression.lifting import Embedded, Image, is_least, lift, solve_embedded
from weir.dpcore.models.regression.margins import Debiased
from weir.dpcore.models.regression.projection import ProjectedRows
from weir.dpcore.models.regression.quadratic import (
    PrivateQuadratic,
    Ridge,
    canonical_ridge,
    quadratic_for,
)
from weir.dpcore.models.regression.rows import MomentsProgram
from weir.dpcore.models.regression.solver import Solver
from weir.dpcore.program import SPARSE_FROM, NoiseOf, OutputInfo, Released

NAME = "regression.projected"
STEPS = 5000
_TOGETHER = 1 << 20
"""Numbers in the matrices that are solved together, at most."""


@dataclass(frozen=True)
class Projected(MomentsProgram):
    """A linear model per key and target of d features, from moments in m < d dimensions.

    At tick t theta_t is released: the theta in the set whose Phi theta is best for the noisy
    moments of ((|x| / |Phi x|) Phi x, y) over ticks 0 .. t, and of all with that Phi theta the one
    of the least gauge. The noise has m (m + 1) / 2 + m coordinates in place of d (d + 1) / 2 + d.

    Formal guarantees:
      Unit: one event. Relation: the plan's; a leaf is a plain sum, so rows do not compete.
      Sensitivity: ``rows`` keeps ||Phi x~||_2 <= X and ||y||_2 <= Y exactly on the lattice; Phi is
        public and drawn without data; an event outside the set of inputs is the zero event, which
        is decided for it alone. So one neighbour moves the joint (svec, x y^T) by no more than
        ``Moments.sensitivity`` in m dimensions, for which ``mechanism`` was calibrated.
      Guarantee: that of the continual sum. Solving and lifting are post-processing.
      Source: Kasiviswanathan, Nissim, Jin (2017), Algorithm 3 (PrivIncReg2), with one joint release
        in place of two.

    Attributes:
      rows: columns, ranges, Phi, bounds. mechanism: continual sum of the moments. set: where models
        lie, in d dimensions. ridge: weight of |Phi theta|^2; None: ``lift_for`` in m dimensions.
        solver: tolerance and most steps. statistics: whether the moments are released. notes: for
        the plan. Phi theta is released with margins, of which ``Debiased`` says what they cover in
        m dimensions: the image of the set's best model for the moments of the projected events,
        without noise or ridge.
    """

    rows: ProjectedRows
    mechanism: ContinualSum
    set: ConvexSet
    ridge: Ridge
    solver: Solver
    statistics: bool
    notes: tuple[str, ...] = ()

    projected: ClassVar[bool] = True

    @property
    def algorithm(self) -> str:
        """Its name in the config."""
        return NAME

    @property
    def over(self) -> int | None:
        """Ticks that a model is of; None: all since the start."""
        return self.mechanism.overs[0]

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers of a key in each noisy array."""
        return (self.dimension,)

    @property
    def sums(self) -> tuple[ContinualSum, ...]:
        """Where the noise comes from."""
        return (self.mechanism,)

    def init(self, n_keys: int) -> SumState:
        """No data."""
        return self.mechanism.init(n_keys)

    def step(
        self, state: SumState, leaves: Ints, noise: NoiseOf
    ) -> tuple[SumState, tuple[Floats, ...]]:
        """A stride -> new state, and the noisy moments (n, K, D) in lattice units."""
        return self.mechanism.step(state, leaves, noise(0))

    @cached_property
    def _phi(self) -> Floats:
        """(m, d): Phi, and 1 for the constant."""
        phi = self.rows.projection.matrix
        if not self.rows.events.intercept:
            return phi
        out = np.zeros((phi.shape[0] + 1, phi.shape[1] + 1))
        out[:-1, :-1], out[-1, -1] = phi, 1.0
        return out

    @cached_property
    def _spread(self) -> float:
        """Largest singular value of Phi."""
        largest = float(np.linalg.eigvalsh(self._phi @ self._phi.T)[-1])
        return math.sqrt(largest) * (1 + 2.0**-20)

    def __getstate__(self) -> dict[str, Any]:
        """Without Phi, which follows from its seed."""
        retained = {name: value for name, value in self.__dict__.items() if name not in _CACHED}
        return retained

    @cached_property
    def image(self) -> Image:
        """Where Phi theta lies."""
        return Image(self.set, self._phi, self._spread)

    def _deviation(self, ticks: Ints) -> Floats:
        """(m,) s, of the noise of a coordinate of (svec(Q), q), scaled units."""
        return self.mechanism.stddev(ticks, self.over)[:, 0] * self.rows.moments.resolution

    def solve(self, noisy: tuple[Floats, ...], ticks: Ints) -> tuple[Released, ...]:
        """Lifted models in scaled and user units; what they were lifted from, and what noise does
        to a prediction, with margins; and the moments if asked."""
        n, n_keys, size = noisy[0].shape
        moments, over = self.rows.moments, self.over
        flat = noisy[0].reshape(n * n_keys, size)
        k, d = moments.targets, self.set.dimension
        theta = np.empty((len(flat), k, d))
        shown = np.empty((len(flat), k, moments.features))
        spread, band = np.empty_like(shown), np.empty((len(flat), k))
        most = max(1, _TOGETHER // (moments.features**2 + k * d))
        deviation = np.repeat(self._deviation(ticks), n_keys)
        for first in range(0, len(flat), most):
            at = slice(first, first + most)
            quadratic = self._quadratic(flat[at], deviation[at])
            theta[at] = self._models(quadratic)
            shown[at] = theta[at] @ self._phi.T
            known = Debiased(quadratic, shown[at], deviation[at], self.image)
            spread[at] = known.along(np.eye(moments.features))
            band[at] = known.typical(np.maximum(quadratic.matrix[:, -1, -1], 1.0))
        shape = (n, n_keys, -1)
        results = [
            Released("theta", over, theta.reshape(shape), None),
            Released("coefficients", over, self.rows.coefficients(theta).reshape(shape), None),
        ]
        results.append(Released("projected", over, shown.reshape(shape), spread.reshape(shape)))
        if self.rows.events.intercept:
            widest = moments.reach * self.image.diameter / 2
            half = np.array([scaling.half[-1] for scaling in self.rows.events.scalings])
            margin = (np.minimum(band, widest) * half).reshape(shape)
            results.append(Released("band", over, margin, None))
        if self.statistics:
            whole = self.mechanism.stddev(ticks, over)[:, None, :] * moments.resolution
            value = noisy[0] * moments.resolution
            results.append(Released("moments", over, value, np.broadcast_to(whole, value.shape)))
        return tuple(results)

    def _quadratic(self, values: Floats, deviation: Floats) -> PrivateQuadratic:
        """(n, D) lattice sums, and the noise of each -> the objective in m dimensions."""
        result = self.rows.moments.unpack(values)
        return quadratic_for(self.ridge, result, deviation, self.image.prior)

    def _models(self, quadratic: PrivateQuadratic) -> Floats:
        """(n, k, d), solved for and lifted."""
        steps = STEPS if self.solver.steps is None else self.solver.steps
        theta = solve_embedded(
            quadratic, self._phi, self._spread, self.set, self.solver.tolerance, steps
        ).theta
        nothing = np.zeros(theta.shape[:2])
        problem = Embedded(
            self._phi, quadratic.convex, quadratic.right, nothing[:, 0], nothing[:, 0], nothing
        )
        wide = ~is_least(problem, theta, self.set)
        theta[wide] = lift(theta[wide], self._phi, self.set)
        return theta

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """That of the continual sum."""
        return self.mechanism.loss(ticks)

    def describe(self, ticks: Ints) -> tuple[OutputInfo, ...]:
        """What is released. The stddev of a lifted model depends on the data: NaN."""
        events, over, nan = self.rows.events, self.over, float("nan")
        constant = ("intercept",) if events.intercept else ()
        moved = self.mechanism.sensitivity
        theta = self.labels((*events.features, *constant))
        whole = self.labels((*events.features, "intercept"))
        sparse = self.set.sparse and len(theta) >= SPARSE_FROM
        results = [
            OutputInfo("theta", over, len(theta), moved, nan, theta, sparse),
            OutputInfo("coefficients", over, len(whole), moved, nan, whole, sparse),
        ]
        names = tuple(f"phi_{i + 1}" for i in range(self.rows.projection.dimension))
        image = self.labels((*names, *constant))
        results.append(OutputInfo("projected", over, len(image), moved, nan, image))
        if events.intercept:
            targets = events.targets
            results.append(OutputInfo("band", over, len(targets), moved, nan, targets))
        if self.statistics:
            worst = float(self._deviation(ticks).max())
            named = self.rows.moments.labels((*names, *constant), events.targets)
            results.append(OutputInfo("moments", over, self.dimension, moved, worst, named))
        return tuple(results)

    def state_bytes(self) -> int:
        """Bytes of state per key."""
        return self.mechanism.state_bytes()

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release; scales follow from the moments."""
        part = canonical_mechanism(replace(self.mechanism, scales=()))
        return {
            "program": NAME,
            "rows": self.rows.canonical(),
            "set": self.set.canonical(),
            "ridge": canonical_ridge(self.ridge),
            "solver": self.solver.canonical(),
            "statistics": self.statistics,
            "mechanism": {**part, "scales": self.mechanism.scales[0].hex()},
        }


_CACHED = frozenset({"_phi", "_spread", "image"})
