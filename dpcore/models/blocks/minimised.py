"""Fits by a certified minimiser, with noise on what it finds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.models.blocks.fitter import Draws, Made
from weir.dpcore.models.blocks.level import Level, SampleNoise
from weir.dpcore.models.blocks.noised import noise_labels
from weir.dpcore.models.blocks.objective import Objective


@dataclass(frozen=True)
class Minimised:
    """Makes the fits of a level: see ``Level`` for what they cost.

    Attributes:
      objective: F. level: its public numbers.
    """

    objective: Objective
    level: Level

    @property
    def dimension(self) -> int:
        """See Fitter."""
        return self.objective.dimension

    @property
    def sizes(self) -> tuple[int, int]:
        """See Fitter: an iterate, and what its minimiser carries beside it."""
        return self.dimension, self.dimension

    @property
    def steps(self) -> int:
        """See Fitter."""
        return self.level.minimiser.steps

    @property
    def work(self) -> int:
        """See Fitter."""
        return 2 * self.level.most * self.dimension

    def sample(self, draws: Draws) -> NDArray[np.bool_] | None:
        """See Fitter."""
        if not self.level.of:
            return None
        labels = noise_labels(draws.place, draws.complete)
        return self.level.sample(cast(SampleNoise, draws.noise), labels, draws.digest)

    def fit(self, features: Any, targets: Floats, after: Floats, draws: Draws) -> MinimisedFit:
        """See Fitter."""
        points = self.objective.points(features)
        targets = self.objective.targets_of(targets)
        return MinimisedFit(self, self.level.centre(after), points, targets, draws)

    def weighed(
        self, features: Any, targets: Floats, weights: Floats, after: Floats, draws: Draws
    ) -> MinimisedFit:
        """See Weighing."""
        return replace(self.fit(features, targets, after, draws), weights=weights)


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
        """See Fit."""
        return self.centre.copy(), self.centre.copy()

    def advance(self, x: Floats, y: Floats, done: int, steps: int) -> tuple[Floats, Floats]:
        """See Fit."""
        for at in range(done, done + steps):
            x, y = self.made.level.minimiser.step(at, x, y, self._gradient)
        return x, y

    def finish(self, x: Floats, y: Floats) -> Made:
        """See Fit: a point without its certificate is not released, the centre is."""
        level, draws, good = self.made.level, self.draws, self.certified(x)
        labels = noise_labels(draws.place, draws.complete)
        found = x if good else self.centre.copy()
        return Made(level.noise.released(found, draws.noise, labels, draws.digest), int(not good))

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
