"""How predictions fare: how many there are, and how good where the file has the targets too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.models.prediction import labels_of
from weir.pipelines.results.events import numbers


@dataclass
class Tally:
    """Counts of a file so far.

    Attributes:
      events: all. no_model: of keys without a model. no_features: that lack a feature.
      known, right: of predicted events those whose class is known, and those where it is right.
      squares: target -> (n, sum of errors^2, sum of y, sum of y^2), y moved by the first of them.
    """

    events: int = 0
    no_model: int = 0
    no_features: int = 0
    known: int = 0
    right: int = 0
    squares: dict[str, Floats] = field(default_factory=dict)
    _origin: dict[str, float] = field(default_factory=dict)

    @property
    def predicted(self) -> int:
        """Events with a prediction."""
        return self.events - self.no_model - self.no_features

    @property
    def accuracy(self) -> float | None:
        """Share of right classes; None where no class is known."""
        return self.right / self.known if self.known else None

    def r2(self) -> dict[str, float]:
        """Target -> 1 - squared error / spread, of those that vary."""
        found = {}
        for name, (n, error, total, square) in self.squares.items():
            spread = square - total * total / max(n, 1.0)
            if n >= 2 and spread > 0:
                found[name] = 1 - error / spread
        return found

    def classes(
        self, table: pa.Table, target: str, predicted: pa.Array, classes: Sequence[Any]
    ) -> None:
        """Compares classes with a column of the file, where it has one of them."""
        if target not in table.schema.names:
            return
        actual = table[target].combine_chunks()
        try:
            actual = pc.cast(actual, predicted.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return
        declared = pc.is_in(actual, pa.array(list(classes), predicted.type))
        both = pc.and_(declared, pc.is_valid(predicted))
        self.known += int(pc.sum(both).as_py() or 0)
        self.right += int(pc.sum(pc.equal(actual, predicted)).as_py() or 0)

    def labels(
        self, table: pa.Table, target: str, predicted: NDArray[Any], ends: tuple[float, float]
    ) -> None:
        """Compares labels with a column of numbers, where the file has one: which half of its range
        each lies in is its class, as the loss reads it."""
        if target not in table.schema.names:
            return
        actual = numbers(table, target, "DATA")
        both = np.isfinite(actual) & np.isfinite(predicted)
        self.known += int(both.sum())
        self.right += int(np.sum(predicted[both] == labels_of(actual[both], ends)))

    def values(self, table: pa.Table, target: str, predicted: NDArray[Any]) -> None:
        """Compares numbers with a column of the file, where it has one."""
        if target not in table.schema.names:
            return
        actual = numbers(table, target, "DATA")
        fine = np.isfinite(actual) & np.isfinite(predicted)
        if not fine.any():
            return
        origin = self._origin.setdefault(target, float(actual[fine][0]))
        y, error = actual[fine] - origin, actual[fine] - predicted[fine]
        sums = [fine.sum(), math.fsum(error * error), math.fsum(y), math.fsum(y * y)]
        self.squares[target] = self.squares.get(target, np.zeros(4)) + np.asarray(sums, dtype=float)
