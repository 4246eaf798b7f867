"""Fits by stochastic gradient steps, with noise on what they come to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.models.blocks.fitter import Draws, Made
from weir.dpcore.models.blocks.noised import noise_labels
from weir.dpcore.models.blocks.objective import Objective
from weir.dpcore.models.blocks.stochastic import Stochastic

CALL = 1 << 12
"""What a step costs beside its rows, in products."""


@dataclass(frozen=True)
class Stepped:
    """Makes the fits of a level: see ``Stochastic`` for what they cost. An iteration is a pass.

    Attributes:
      objective: F. level: its public numbers.
    """

    objective: Objective
    level: Stochastic

    @property
    def dimension(self) -> int:
        """See Fitter."""
        return self.objective.dimension

    @property
    def sizes(self) -> tuple[int, int]:
        """See Fitter: an iterate."""
        return self.dimension, 0

    @property
    def steps(self) -> int:
        """See Fitter."""
        return self.level.passes

    @property
    def work(self) -> int:
        """See Fitter."""
        return 2 * self.level.most * self.dimension + CALL * self.level.batches

    def sample(self, draws: Draws) -> NDArray[np.bool_] | None:
        """See Fitter."""
        return None

    def fit(self, features: Any, targets: Floats, after: Floats, draws: Draws) -> SteppedFit:
        """See Fitter: no row is void."""
        return self.placed(features, targets, np.arange(len(targets)), after, draws)

    def placed(
        self, features: Any, targets: Floats, places: Ints, after: Floats, draws: Draws
    ) -> SteppedFit:
        """See Placing."""
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
        """See Fit."""
        return self.centre.copy(), np.zeros(0)

    def advance(self, x: Floats, y: Floats, done: int, steps: int) -> tuple[Floats, Floats]:
        """See Fit."""
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

    def finish(self, x: Floats, y: Floats) -> Made:
        """See Fit: any point that the steps come to has the sensitivity that is paid for."""
        draws = self.draws
        labels = noise_labels(draws.place, draws.complete)
        return Made(self.made.level.noise.released(x, draws.noise, labels, draws.digest))
