"""How a fit of a block runs: certified minimisers and stochastic steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.models.blocks.level import Level, SampleNoise
from weir.dpcore.models.blocks.objective import Objective
from weir.dpcore.models.blocks.stochastic import Stochastic
from weir.dpcore.noise.noise import Noise, label


class Draws(NamedTuple):
    """Where the noise of one fit comes from.

    Attributes:
      noise: keyed, of the job's tick and of the one key that is fitted.
      place: of the fit among those that its number of blocks allows.
      complete: blocks of the key that are complete.
      digest: (2,), of all data of the key so far.
    """

    noise: Noise
    place: int
    complete: int
    digest: Digests

    @property
    def labels(self) -> Digests:
        """(1, 2), of the noise of a fit that draws once."""
        return label(self.place, self.complete)


class FitResult(NamedTuple):
    """What a fit came to.

    Attributes:
      model: (D,), with its noise: it may be released. failed: 1 where the answer was not what is
        paid for, and was not released; else 0.
    """

    model: Floats
    failed: int = 0


class FitRun(Protocol):
    """One fit with its rows in hand, between two slices of it. Between slices only two vectors of
    public lengths are carried: whatever else it holds follows from them and the rows."""

    def start(self) -> tuple[Floats, Floats]:
        """What the first iteration begins with."""

    def advance(self, x: Floats, y: Floats, done: int, steps: int) -> tuple[Floats, Floats]:
        """So many iterations more, after ``done`` of them."""

    def finish(self, x: Floats, y: Floats) -> FitResult:
        """The released model, once all iterations are done."""


class Fitter(ABC):
    """Makes the fits of one level of a schedule; public numbers alone.

    Attributes:
      steps: iterations of a fit, the same for all.
      by_place: whether the place of a row among those of its blocks matters: void rows take places
        too.
    """

    steps: int
    by_place: ClassVar[bool] = False

    @property
    @abstractmethod
    def dimension(self) -> int:
        """D, of a model."""

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, int]:
        """Lengths of the two vectors that slices carry."""

    @property
    @abstractmethod
    def work(self) -> int:
        """Numbers that an iteration reads, at most."""

    def sample(self, draws: Draws) -> NDArray[np.bool_] | None:
        """Which rows of the blocks are fitted, void ones among them; None: all."""
        return None

    @abstractmethod
    def fit(
        self,
        features: Any,
        targets: Floats,
        after: Floats,
        draws: Draws,
        weights: Floats | None = None,
        places: Ints | None = None,
    ) -> FitRun:
        """A fit of rows (n, p), (n,) that is pulled to a released model ``after`` (D,).

        Args:
          weights: (n,), where the unit is a user: those of a user and block add up to 1 at most.
          places: (n,), of the rows among all of the fit's, ascending; None: no row is void.
        """


@dataclass(frozen=True)
class Minimised(Fitter):
    """Makes the fits of a level: see ``Level`` for what they cost.

    Attributes:
      objective: F. level: its public numbers.
    """

    objective: Objective
    level: Level

    @property
    def dimension(self) -> int:
        return self.objective.dimension

    @property
    def sizes(self) -> tuple[int, int]:
        """See Fitter: an iterate, and what its minimiser carries next to it."""
        return self.dimension, self.dimension

    @property
    def steps(self) -> int:  # type: ignore[override]  # a field of other fitters
        return self.level.minimiser.steps

    @property
    def work(self) -> int:
        return 2 * self.level.most * self.dimension

    def sample(self, draws: Draws) -> NDArray[np.bool_] | None:
        if not self.level.of:
            return None
        labels = draws.labels
        return self.level.sample(cast(SampleNoise, draws.noise), labels, draws.digest)

    def fit(
        self,
        features: Any,
        targets: Floats,
        after: Floats,
        draws: Draws,
        weights: Floats | None = None,
        places: Ints | None = None,
    ) -> MinimisedFit:
        points = self.objective.points(features)
        targets = self.objective.targets_of(targets)
        return MinimisedFit(self, self.level.centre(after), points, targets, draws, weights)


@dataclass(frozen=True)
class MinimisedFit:
    """One fit: see Fit.

    Attributes:
      made: what made it. centre: (D,), what it is pulled to. points: (n, width). targets: (n,).
      draws: of its noise. weights: (n,), of rows; None: 1 each.
    """

    made: Minimised
    centre: Floats
    points: Floats
    targets: Floats
    draws: Draws
    weights: Floats | None = None

    def start(self) -> tuple[Floats, Floats]:
        return self.centre.copy(), self.centre.copy()

    def advance(self, x: Floats, y: Floats, done: int, steps: int) -> tuple[Floats, Floats]:
        for at in range(done, done + steps):
            x, y = self.made.level.minimiser.step(at, x, y, self._gradient)
        return x, y

    def finish(self, x: Floats, y: Floats) -> FitResult:
        """See FitRun: a point without its certificate is not released, the centre is."""
        level, draws, good = self.made.level, self.draws, self.certified(x)
        labels = draws.labels
        result = x if good else self.centre.copy()
        return FitResult(
            level.noise.released(result, draws.noise, labels, draws.digest), int(not good)
        )

    def certified(self, w: Floats) -> bool:
        """Whether a point is as near to the minimiser as is paid for: looked at afresh, whatever
        the minimiser says of itself."""
        level, objective = self.made.level, self.made.objective
        total = len(self.points) if self.weights is None else float(self.weights.sum())
        rounding = objective.rounding(w, len(self.points), total / level.divisor)
        return level.certified(self._gradient(w), rounding)

    def _gradient(self, w: Floats) -> Floats:
        objective, divisor = self.made.objective, self.made.level.divisor
        rows = (self.points, self.targets, divisor, self.weights)
        return objective.gradient(w, self.centre, *rows)


CALL = 1 << 12
"""What a step costs next to its rows, in products."""


@dataclass(frozen=True)
class Stepped(Fitter):
    """Makes the fits of a level: see ``Stochastic`` for what they cost. An iteration is a pass.

    Attributes:
      objective: F. level: its public numbers.
    """

    objective: Objective
    level: Stochastic

    by_place: ClassVar[bool] = True

    @property
    def dimension(self) -> int:
        return self.objective.dimension

    @property
    def sizes(self) -> tuple[int, int]:
        """See Fitter: an iterate."""
        return self.dimension, 0

    @property
    def steps(self) -> int:  # type: ignore[override]  # a field of other fitters
        return self.level.passes

    @property
    def work(self) -> int:
        return 2 * self.level.most * self.dimension + CALL * self.level.batches

    def fit(
        self,
        features: Any,
        targets: Floats,
        after: Floats,
        draws: Draws,
        weights: Floats | None = None,
        places: Ints | None = None,
    ) -> SteppedFit:
        places = np.arange(len(targets)) if places is None else places
        rows = np.full(self.level.most, -1, dtype=np.int64)
        rows[places] = np.arange(len(places))
        points = self.objective.points(features)
        targets = self.objective.targets_of(targets)
        return SteppedFit(self, self.level.centre(after), points, targets, rows, draws)


@dataclass(frozen=True)
class SteppedFit:
    """One fit: see Fit.

    Attributes:
      made: what made it. centre: (D,), what it is pulled to. points: (n, width). targets: (n,).
      rows: (N,), the row at each place; -1 where it is void. draws: of its noise.
    """

    made: Stepped
    centre: Floats
    points: Floats
    targets: Floats
    rows: Ints
    draws: Draws

    def start(self) -> tuple[Floats, Floats]:
        return self.centre.copy(), np.zeros(0)

    def advance(self, x: Floats, y: Floats, done: int, steps: int) -> tuple[Floats, Floats]:
        level, objective = self.made.level, self.made.objective
        part = level.divisor / level.batches
        for number in range(done, done + steps):
            for index in range(level.batches):
                rows = self.rows[level.batch(number, index)]
                rows = rows[rows >= 0]
                some = (self.points[rows], self.targets[rows], part)
                gradient = objective.gradient(x, self.centre, *some)
                x = x - level.length(number * level.batches + index + 1) * gradient
        return x, y

    def finish(self, x: Floats, y: Floats) -> FitResult:
        """See FitRun: any point that the steps come to has the sensitivity that is paid for."""
        draws = self.draws
        labels = draws.labels
        return FitResult(self.made.level.noise.released(x, draws.noise, labels, draws.digest))
