"""From columns to rows: features clipped in l2, targets as numbers or declared classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.models.blocks.feature_map import FeatureMap
from weir.dpcore.models.blocks.objective import Scored
from weir.dpcore.models.gradients import shorten
from weir.dpcore.models.scaling import STEP, Scaling, is_void
from weir.dpcore.program import Bounded

Classes = tuple[str, ...] | tuple[float, ...]


@dataclass(frozen=True)
class Inputs:
    """Rows of features, each mapped from its public range onto [-1, 1], and a target.

    **Formal guarantees**: a row depends on its own event alone. Its features have l2 norm at most
    ``norm``, exactly: a longer row is shortened as a whole, then truncated toward zero to the
    lattice of ``STEP``, which lengthens nothing. A target that is missing or is none of the
    declared classes, or a feature that is missing or not finite, makes a void row: it keeps its
    place and has no loss.

    Attributes:
      features: columns. target: column.
      ranges: (low, high) of the features, and of the target where there are no classes.
      classes: declared values of the target, all texts or all numbers; () where it is a number.
      norm: most that ||features||_2 is, scaled and mapped.
      map: public map of the scaled features; None: they are taken as they are.
    """

    features: tuple[str, ...]
    target: str
    ranges: tuple[tuple[float, float], ...]
    classes: Classes
    norm: float
    map: FeatureMap | None = None

    sparse: ClassVar[bool] = False
    lists: ClassVar[Mapping[str, int]] = MappingProxyType({})

    @cached_property
    def scaling(self) -> Scaling:
        """Of the features and the target; that of classes has their places for a range."""
        ranges = self.ranges
        if self.classes:
            ranges = (*ranges, (0.0, float(len(self.classes) - 1)))
        low, high = zip(*ranges, strict=True)
        return Scaling((*self.features, self.target), low, high)

    @property
    def width(self) -> int:
        """Numbers in a row: the features, mapped, then the target."""
        return self.outputs + 1

    @property
    def row_bytes(self) -> int:
        """Of a packed row."""
        return 4 * self.width

    @property
    def target_ends(self) -> tuple[float, float]:
        """Range of the target, or of the places of its classes."""
        return self.scaling.low[-1], self.scaling.high[-1]

    @property
    def outputs(self) -> int:
        """Numbers that a model has a coefficient of."""
        return len(self.features) if self.map is None else self.map.outputs

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are read."""
        return self.scaling.columns

    @property
    def texts(self) -> Mapping[str, tuple[str, ...]]:
        """The target, where its classes are texts."""
        names = tuple(one for one in self.classes if isinstance(one, str))
        return {self.target: names} if names else {}

    @property
    def plain(self) -> bool:
        """Whether a model has coefficients of columns."""
        return self.map is None

    def bound(self, columns: Mapping[str, NDArray[Any]], n_events: int) -> Bounded:
        """Rows (n_events, width) float64 in [-1, 1], whole multiples of ``STEP``; and counts.

        A target of declared texts is given as places among them, NaN for any other.
        """
        given = dict(columns)
        if self.classes and not self.texts:
            numbers = np.asarray(columns[self.target], dtype=np.float64)
            given[self.target] = class_places(self.classes, numbers)
        found = self.scaling.bound(given, n_events)
        rows = np.asarray(found.rows)
        if self.map is not None:
            mapped = self.map.apply(rows[:, :-1])
            mapped[is_void(rows)] = 0.0
            rows = np.concatenate([mapped, rows[:, -1:]], axis=1)
        features = np.ascontiguousarray(rows[:, :-1])
        long = np.einsum("ij,ij->i", features, features) > self.norm * self.norm
        shorten(features, self.norm)
        rows[:, :-1] = np.trunc(features * (1.0 / STEP)) * STEP + 0.0
        clipped = found.clipped + int(np.count_nonzero(long & ~is_void(rows)))
        return Bounded(rows, clipped, found.non_finite)

    def coefficients(self, theta: Floats, objective: Scored) -> Floats:
        """(..., D) -> (..., m (p + 1)), in the user's units: of each class in turn, where softmax
        has several. Of an event whose scaled features are longer than ``norm`` the model sees a
        shortened one, which these do not."""
        shape = (*theta.shape[:-1], objective.outputs, objective.width)
        labels = bool(self.classes)
        own = self.scaling.coefficients(theta.reshape(shape), objective.intercept, labels)
        return own.reshape(*theta.shape[:-1], -1)

    def labels(self, objective: Scored) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the numbers of theta and of coefficients: of each class in turn, where there
        are several outputs, else those of the score (of the second class, or the prediction)."""
        constant = ("intercept",) if objective.intercept else ()
        names = self.features
        if self.map is not None:
            names = tuple(f"map.{i}" for i in range(self.map.outputs))
        theta, own = (*names, *constant), (*names, "intercept")
        if objective.outputs == 1:
            return theta, own
        classes = [class_text(one) for one in self.classes]
        return (
            tuple(f"{name}.{one}" for name in classes for one in theta),
            tuple(f"{name}.{one}" for name in classes for one in own),
        )

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a row."""
        return {
            "features": list(self.features),
            "target": self.target,
            "ranges": [[low.hex(), high.hex()] for low, high in self.ranges],
            "classes": [one if isinstance(one, str) else one.hex() for one in self.classes],
            "norm": self.norm.hex(),
            "step": STEP.hex(),
            **({} if self.map is None else {"map": self.map.canonical()}),
        }


def class_places(classes: Classes, values: Floats) -> Floats:
    """Numbers -> their places among declared ones, NaN where one is none of them."""
    known = np.asarray(classes, dtype=np.float64)
    order = np.argsort(known)
    at = np.minimum(np.searchsorted(known[order], values), len(known) - 1)
    return np.where(known[order][at] == values, order[at].astype(np.float64), np.nan)


def class_text(value: str | float) -> str:
    """A class as a label has it."""
    return value if isinstance(value, str) else f"{value:g}"
