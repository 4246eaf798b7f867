"""Private quadratic follow-the-leader: a baseline that sums moments and solves for the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.continual.base import ContinualSum, SumState, canonical_mechanism
from weir.dpcore.leaves.lattice import Lattice, clip_l2
from weir.dpcore.models.moments import BITS, Moments
from weir.dpcore.models.online.pocg import model_outputs, models
from weir.dpcore.models.online.ridge_leader import RidgeLeader
from weir.dpcore.models.scaling import Scaling, is_void
from weir.dpcore.program import Bounded, NoiseOf, OutputInfo, Released

NAME = "online.pqftl"
LATTICE = Lattice(2.0**-BITS)
"""Of features and target; products are whole multiples of its square."""


class PqftlState(NamedTuple):
    """State of K learners.

    Attributes:
      sums: of the continual sum (clean: to be protected).
      released: (K, D) what it released at the last tick, lattice units.
    """

    sums: SumState
    released: Floats


@dataclass(frozen=True)
class Pqftl:
    """A linear model per key: the ridge solution of noisy running sums of (x x^T, x y).

    At tick t theta_t is released: a function of what was released before, made of earlier ticks'
    events. The noise has d (d + 1) / 2 + d coordinates where a gradient has d, and no gradient is
    clipped: the sensitivity grows with the square of the features' length.

    Formal guarantees:
      Unit: one event. Relation: the plan's; a leaf is a plain sum, so rows do not compete.
      Sensitivity: x (with its intercept) is clipped to l2 norm ``reach`` and truncated toward zero
        to a lattice together with |y| <= 1; products are exact, so that the joint change of
        (svec(x x^T), x y) is at most ``Moments.sensitivity``, which ``mechanism`` was given. A void
        row is the event (0, 0), its constant included.
      Guarantee: that of the continual sum. All the rest is post-processing.
      Source: Jain, Kothari, Thakurta (2012), PQFTL; sums and sensitivity as in incremental
        regression, Kasiviswanathan, Nissim, Jin (2017), joint.

    Attributes:
      scaling: the public ranges. rule: what follows from the sums. mechanism: the continual sum.
      reach: X, bound on ||x||_2. intercept: whether theta ends with one.
    """

    scaling: Scaling
    rule: RidgeLeader
    mechanism: ContinualSum
    reach: float
    intercept: bool

    leaf: ClassVar[Literal["sum", "rows"]] = "sum"
    training: ClassVar[None] = None

    @property
    def dimension(self) -> int:
        """D, coordinates of a leaf."""
        return self.mechanism.dimension

    @property
    def moments(self) -> Moments:
        """What a leaf holds."""
        return moments_of(len(self.scaling.columns) - 1 + self.intercept, self.reach)

    @property
    def capacity(self) -> int:
        """Events of a key and tick that exact sums have room for."""
        return self.moments.capacity

    @property
    def row_width(self) -> int:
        """Numbers in a row: few rows are smaller than their moments, and summed late."""
        return self.moments.width

    @property
    def columns(self) -> tuple[str, ...]:
        """Numeric columns that are read."""
        return tuple(dict.fromkeys(self.scaling.columns))

    @property
    def algorithm(self) -> str:
        """Its name in the config."""
        return NAME

    @property
    def curvature(self) -> float:
        """mu, which every tick adds."""
        return self.rule.curvature

    @property
    def regret(self) -> str:
        """What is known about its regret, for people."""
        return (
            "Regret grows as a power of ln T while the set's constraint does not bind; where it "
            "binds, projecting the ridge solution loses a constant at every tick."
        )

    def bound(self, columns: Mapping[str, NDArray[Any]], n_events: int) -> Bounded:
        """Scaled features, with their constant, and target on the lattice; void rows are 0."""
        scaled = self.scaling.bound(columns, n_events)
        features = scaled.rows[:, :-1]
        if self.intercept:
            features = np.concatenate([features, np.ones((n_events, 1))], axis=1)
        x, over, _ = clip_l2(features, self.reach)
        y = scaled.rows[:, -1:]
        if over:  # the target too: such an event counts for less, and pulls no coefficient
            longest = np.abs(features).argmax(axis=1)[:, None]
            before = np.take_along_axis(features, longest, axis=1)
            after = np.take_along_axis(x, longest, axis=1)
            y = y * np.divide(after, before, out=np.ones_like(y), where=before != 0)
        rows = np.concatenate([x, y], axis=1)
        rows[is_void(scaled.rows)] = 0.0
        rows = LATTICE.truncate(rows)
        return Bounded(rows.astype(np.float64), scaled.clipped + over, scaled.non_finite)

    def accumulate(self, rows: Any, cells: Ints, n_cells: int) -> Ints:
        """Exact sums per cell."""
        return self.moments.accumulate(rows, cells, n_cells)

    @property
    def sums(self) -> tuple[ContinualSum, ...]:
        """Where the noise comes from."""
        return (self.mechanism,)

    def init(self, n_keys: int) -> PqftlState:
        """No data."""
        return PqftlState(self.mechanism.init(n_keys), np.zeros((n_keys, self.dimension)))

    def step(
        self, state: PqftlState, leaves: Ints, noise: NoiseOf
    ) -> tuple[PqftlState, tuple[Floats, ...]]:
        """A stride -> new state, and the sums (n, K, D) that were released before each tick."""
        sums, (released,) = self.mechanism.step(state.sums, leaves, noise(0))
        before = np.concatenate([state.released[None], released[:-1]])
        return PqftlState(sums, released[-1].copy()), (before,)

    def solve(self, noisy: tuple[Floats, ...], ticks: Ints) -> tuple[Released, ...]:
        """The model in scaled and in the user's units."""
        n, n_keys, size = noisy[0].shape
        flat = (noisy[0] * LATTICE.resolution**2).reshape(n * n_keys, size)
        theta = self.rule(flat, np.repeat(ticks.astype(np.float64), n_keys))
        return models(theta.reshape(n, n_keys, -1), self.scaling, self.intercept, False)

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """That of the continual sum."""
        return self.mechanism.loss(ticks)

    def describe(self, ticks: Ints) -> tuple[OutputInfo, ...]:
        """What is released. The stddev of a solution is not additive: NaN."""
        return model_outputs(self.scaling, self.intercept, self.mechanism.sensitivity)

    def state_bytes(self) -> int:
        """Bytes of state per key."""
        return self.mechanism.state_bytes() + 8 * self.dimension

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release."""
        return {
            "program": NAME,
            "scaling": self.scaling.canonical(),
            "intercept": self.intercept,
            "lattice": LATTICE.resolution.hex(),
            "reach": self.reach.hex(),
            "whole": True,
            "rule": self.rule.canonical(),
            "mechanism": canonical_mechanism(self.mechanism),
        }


def moments_of(dimension: int, reach: float) -> Moments:
    """Of x with ||x||_2 <= reach, its constant in it, and one target in [-1, 1]."""
    return Moments(dimension, 1, False, reach, 1.0)
