"""Private online convex programming: a baseline that puts noise on every iterate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.accounting.contributions import Pattern
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Floats, Ints, arrays_of
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.online.implicit_descent import DescentState, ImplicitDescent
from weir.dpcore.models.scaling import Scaling
from weir.dpcore.program import CAPACITY, Bounded, NoiseOf, OutputInfo, Released

NAME = "online.pocg"


@dataclass(frozen=True)
class Pocg:
    """A linear model per key that follows implicit gradient steps and is noised when released.

    At tick t theta_t is released: a noised iterate, made from earlier ticks' events. Noise of its
    own on each of T iterates costs a factor sqrt(T) that a continual sum does not pay.

    Formal guarantees: those of ``descent``. Rows are bounded by ``scaling`` to [-1, 1], so that
      ||a||_2 <= sqrt(d). theta and coefficients are post-processing.

    Attributes:
      scaling: the public ranges. descent: the algorithm. intercept: whether theta ends with one.
      pattern: of a user's cells, where the unit is one.
    """

    scaling: Scaling
    descent: ImplicitDescent
    intercept: bool
    pattern: Pattern | None = None

    leaf: ClassVar[Literal["sum", "rows"]] = "rows"
    training: ClassVar[None] = None
    sums: ClassVar[tuple[()]] = ()
    capacity: ClassVar[int] = CAPACITY
    row_width: ClassVar[int] = 0
    most_users: ClassVar[None] = None
    dtype: ClassVar[Any] = np.float64

    @property
    def dimension(self) -> int:
        """d, length of theta."""
        return self.descent.dimension

    @property
    def width(self) -> int:
        """Numbers in a row: the features, then the target."""
        return len(self.scaling.columns)

    @property
    def cap(self) -> int:
        """Rows a key and tick."""
        return self.descent.cap

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
        return self.descent.curvature

    @property
    def regret(self) -> str:
        """What is known about its regret, for people."""
        if self.descent.fading is not None:
            return (
                "Noise on every iterate, of which the mean is played: its standard deviation falls "
                "as one over the root of the ticks, and so does the pull to the centre; regret "
                "grows as sqrt(T) times a power of the dimension."
            )
        return (
            "Noise on every iterate: its standard deviation falls as sqrt(T) / t, so that regret "
            "grows as sqrt(T) times a power of the dimension, whatever the window."
        )

    def bound(self, columns: Mapping[str, NDArray[Any]], n_events: int) -> Bounded:
        """Rows (n_events, width) float64 in [-1, 1]: scaled by the public ranges."""
        return self.scaling.bound(columns, n_events)

    def accumulate(self, rows: Any, cells: Ints, n_cells: int) -> Ints:
        """Rows are not summed before a model has met them."""
        raise TypeError("a learner takes rows, not sums.")

    def init(self, n_keys: int) -> DescentState:
        """Every key starts at the set's public start."""
        return self.descent.init(n_keys)

    def step(
        self, state: DescentState, leaves: tuple[RowLeaf, ...], noise: NoiseOf
    ) -> tuple[DescentState, tuple[Floats, ...]]:
        """A stride -> new state, and theta (n, K, d) played at each tick."""
        new, played = self.descent.step(state, leaves, noise(0))
        return new, (played,)

    def solve(self, noisy: tuple[Floats, ...], ticks: Ints) -> tuple[Released, ...]:
        """The model in scaled and in the user's units."""
        return models(noisy[0], self.scaling, self.intercept, self.descent.loss.labels)

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """Loss of one record against everything released within ``ticks`` of its arrival; of a
        user in a period, from the period's last tick on, and before it."""
        return self.descent.privacy(ticks if self.pattern is None else self.pattern.rows(ticks))

    def spaced(self, every: int) -> Pocg:
        """Compiled for ticks ``every`` times as long: the same, published so seldom. Iterates step
        at every tick, so that a tick has its share of the pull."""
        own = self.descent
        fading = None if own.fading is None else own.fading / math.sqrt(every)
        descent = replace(
            own,
            curvature=own.curvature / every,
            fading=fading,
            horizon=own.horizon * every,
            every=every,
        )
        return replace(self, descent=descent)

    def describe(self, ticks: Ints) -> tuple[OutputInfo, ...]:
        """What is released. The stddev after a projection is not additive: NaN."""
        moved = float(self.descent.sensitivity(np.zeros(1, dtype=np.int64))[0])
        return model_outputs(self.scaling, self.intercept, moved)

    def state_bytes(self) -> int:
        """Bytes of state per key."""
        return sum(array.nbytes for array in arrays_of(self.init(1)))

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release."""
        return {
            "program": NAME,
            "scaling": self.scaling.canonical(),
            "intercept": self.intercept,
            "descent": self.descent.canonical(),
        }


def models(
    theta: Floats, scaling: Scaling, intercept: bool, labels: bool
) -> tuple[Released, Released]:
    """theta (n, K, d), and the same model in the user's units."""
    coefficients = scaling.coefficients(theta, intercept, labels)
    return (
        Released("theta", None, theta, None),
        Released("coefficients", None, coefficients, None),
    )


def model_outputs(
    scaling: Scaling, intercept: bool, sensitivity: float
) -> tuple[OutputInfo, OutputInfo]:
    """What a plan says of ``models``."""
    features, nan = scaling.columns[:-1], float("nan")
    names = (*features, *(("intercept",) if intercept else ()))
    whole = (*features, "intercept")
    return (
        OutputInfo("theta", None, len(names), sensitivity, nan, names),
        OutputInfo("coefficients", None, len(whole), sensitivity, nan, whole),
    )
