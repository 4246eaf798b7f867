"""From columns to rows: features clipped in a norm, targets as numbers or declared classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.leaves.sparse_rows import SparseRows
from weir.dpcore.models.kit.feature_map import FeatureMap
from weir.dpcore.models.kit.rows import (
    STEP,
    Scaling,
    is_void,
    scaled_values,
    shorten,
    shortened,
    shortened_sparse,
)
from weir.dpcore.program import Bounded, RowProgram

Classes = tuple[str, ...] | tuple[float, ...]
Names = tuple[tuple[str, ...], tuple[str, ...]]
"""Of the numbers of a model in scaled units, and in the user's."""


class Inputs(ABC):
    """Rows of features, each mapped from its public range onto [-1, 1], and a target.

    **Formal guarantees**: a row depends on its own event alone. Its features have a norm (l2, or lq
    with ``dual``) of at most ``norm``, exactly: a longer row is shortened as a whole, then
    truncated toward zero to the lattice of ``STEP``, which lengthens nothing. A target that is
    missing or is none of the declared classes, or a feature that is missing or not finite, makes a
    void row: it keeps its place and has no loss.

    Attributes:
      target: column. classes: declared values of the target, all texts or all numbers; () where it
        is a number.
      norm: most that ||features|| is, scaled and mapped; infinite: the ranges alone bound it.
      dual: q of that norm, where a learner has one of its own; None: l2.
      sparse: whether rows travel without their zeros.
    """

    target: str
    classes: Classes
    norm: float
    dual: float | None

    sparse: ClassVar[bool]

    @property
    @abstractmethod
    def scaling(self) -> Scaling:
        """Of the target, and of dense features; that of classes has their places for a range."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Numbers that a model has a coefficient of."""

    @property
    @abstractmethod
    def row_bytes(self) -> int:
        """Of a packed row, at most."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Columns that are read."""

    @property
    def lists(self) -> Mapping[str, int]:
        return MappingProxyType({})

    @property
    def texts(self) -> Mapping[str, tuple[str, ...]]:
        """The target, where its classes are texts."""
        names = tuple(item for item in self.classes if isinstance(item, str))
        return {self.target: names} if names else {}

    @property
    def width(self) -> int:
        """Numbers in a row: the features, mapped, then the target."""
        return self.outputs + 1

    @property
    def target_ends(self) -> tuple[float, float]:
        """Range of the target, or of the places of its classes."""
        return self.scaling.low[-1], self.scaling.high[-1]

    @property
    def plain(self) -> bool:
        """Whether a model has coefficients of columns."""
        return True

    @abstractmethod
    def bound(self, columns: Mapping[str, Any], n_events: int) -> Bounded:
        """Rows (n_events, width) in [-1, 1], whole multiples of ``STEP``; and counts.

        A target of declared texts is given as places among them, NaN for any other.
        """

    def targets_of(self, columns: Mapping[str, Any]) -> Floats:
        """Targets, declared numbers as places among them: (n,)."""
        value = np.asarray(columns[self.target], dtype=np.float64)
        return class_places(self.classes, value) if self.classes and not self.texts else value

    @abstractmethod
    def coefficients(
        self, theta: Floats, intercept: bool, labels: bool, outputs: int = 1
    ) -> Floats:
        """The same models in the user's units. Of an event whose scaled features are longer than
        ``norm`` a model sees a shortened one, which these do not.

        Args:
          theta: (..., D). intercept: whether each output ends with a constant. labels: whether the
            prediction is a score, not a target. outputs: m.

        Returns:
          (..., m (p + 1)), of each output in turn, the constant last.
        """

    @abstractmethod
    def names(self, intercept: bool, outputs: int = 1) -> Names:
        """Names of the numbers of theta and of coefficients: of each class in turn, where there
        are several outputs, else those of the score (of the second class, or the prediction)."""

    @abstractmethod
    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a row."""

    def canonical_target(self) -> Mapping[str, Any]:
        """Those of the target and the norm."""
        return {
            "target": self.target,
            "classes": [item if isinstance(item, str) else item.hex() for item in self.classes],
            "norm": self.norm.hex(),
            "step": STEP.hex(),
        }


@dataclass(frozen=True)
class DenseInputs(Inputs):
    """Rows that are tables of float64.

    Attributes: see ``Inputs``;
      features: columns.
      ranges: (low, high) of the features, and of the target where there are no classes.
      map: public map of the scaled features; None: they are taken as they are.
    """

    features: tuple[str, ...]
    target: str
    ranges: tuple[tuple[float, float], ...]
    classes: Classes
    norm: float
    map: FeatureMap | None = None
    dual: float | None = None

    sparse: ClassVar[bool] = False

    @cached_property
    def scaling(self) -> Scaling:
        ranges = self.ranges
        if self.classes:
            ranges = (*ranges, (0.0, float(len(self.classes) - 1)))
        low, high = zip(*ranges, strict=True)
        return Scaling((*self.features, self.target), low, high)

    @property
    def row_bytes(self) -> int:
        return 4 * self.width

    @property
    def outputs(self) -> int:
        return len(self.features) if self.map is None else self.map.outputs

    @property
    def columns(self) -> tuple[str, ...]:
        return self.scaling.columns

    @property
    def plain(self) -> bool:
        return self.map is None

    def bound(self, columns: Mapping[str, Any], n_events: int) -> Bounded:
        value = {**columns, self.target: self.targets_of(columns)}
        scaled = self.scaling.bound(value, n_events)
        rows = np.asarray(scaled.rows)
        if self.map is not None:
            mapped = self.map.apply(rows[:, :-1])
            mapped[is_void(rows)] = 0.0
            rows = np.concatenate([mapped, rows[:, -1:]], axis=1)
        if self.dual is None:
            features = np.ascontiguousarray(rows[:, :-1])
            long = np.einsum("ij,ij->i", features, features) > self.norm * self.norm
            shorten(features, self.norm)
            rows[:, :-1] = np.trunc(features * (1.0 / STEP)) * STEP + 0.0
            longer = int(np.count_nonzero(long & ~is_void(rows)))
        else:
            rows[:, :-1], longer = shortened(rows[:, :-1], self.dual, self.norm)
        return Bounded(rows, scaled.clipped + longer, scaled.non_finite)

    def coefficients(
        self, theta: Floats, intercept: bool, labels: bool, outputs: int = 1
    ) -> Floats:
        shape = (*theta.shape[:-1], outputs, theta.shape[-1] // outputs)
        own = self.scaling.coefficients(theta.reshape(shape), intercept, labels)
        return own.reshape(*theta.shape[:-1], outputs * own.shape[-1])

    def names(self, intercept: bool, outputs: int = 1) -> Names:
        names = self.features
        if self.map is not None:
            names = tuple(f"map.{i}" for i in range(self.map.outputs))
        theta, own = (*names, *(("intercept",) if intercept else ())), (*names, "intercept")
        if outputs == 1:
            return theta, own
        classes = [class_text(item) for item in self.classes]
        return (
            tuple(f"{name}.{item}" for name in classes for item in theta),
            tuple(f"{name}.{item}" for name in classes for item in own),
        )

    def canonical(self) -> Mapping[str, Any]:
        return {
            "features": list(self.features),
            "ranges": [[low.hex(), high.hex()] for low, high in self.ranges],
            **self.canonical_target(),
            **({} if self.map is None else {"map": self.map.canonical()}),
        }


@dataclass(frozen=True)
class SparseInputs(Inputs):
    """Sparse rows of the features of one list column, mapped from a public range around 0.

    **Formal guarantees**: those of ``Inputs``. A row has at most ``most`` numbers that are not 0,
    of more those of the largest size (the earlier of equals).

    Attributes: see ``Inputs``;
      column: of lists. size: p. bound_at: features lie in [-bound_at, bound_at].
      most: numbers of a row that are not 0, at most.
      target_range: (low, high); None where there are classes.
    """

    column: str
    size: int
    bound_at: float
    most: int
    target: str
    target_range: tuple[float, float] | None
    classes: Classes
    norm: float
    dual: float | None = None

    sparse: ClassVar[bool] = True

    @cached_property
    def scaling(self) -> Scaling:
        low, high = self.target_range or (0.0, float(len(self.classes) - 1))
        return Scaling((self.target,), (low,), (high,))

    @property
    def row_bytes(self) -> int:
        return 8 * (self.most + 1)

    @property
    def outputs(self) -> int:
        return self.size

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column, self.target)

    @property
    def lists(self) -> Mapping[str, int]:
        return {self.column: self.size}

    def bound(self, columns: Mapping[str, Any], n_events: int) -> Bounded:
        """``SparseRows`` (n_events, size + 1) of float32, of lists that are ``SparseRows``."""
        scaled = self.scaling.bound({self.target: self.targets_of(columns)}, n_events)
        targets = np.asarray(scaled.rows)[:, 0].copy()
        lists: SparseRows = columns[self.column]
        raw, rows = lists.values.astype(np.float64), lists.rows
        bad = ~np.isfinite(raw)
        clipped = int(np.count_nonzero(~bad & (np.abs(raw) > self.bound_at)))
        void = np.isnan(targets)
        void[rows[bad]] = True
        targets[void] = np.nan
        stay = ~void[rows] & (raw != 0)
        long = np.bincount(rows[stay], minlength=n_events) > self.most
        if long.any():
            stay[stay] = self._largest(raw[stay], rows[stay], long)
        raw, rows, at = raw[stay], rows[stay], lists.indices[stay]
        values = scaled_values(raw, self.bound_at)
        values, longer = shortened_sparse(values, rows, n_events, self.norm, self.dual)
        some = values != 0
        offsets = np.searchsorted(rows[some], np.arange(n_events + 1))
        features = SparseRows(offsets, at[some], values[some].astype(np.float32), self.size)
        changed = scaled.clipped + clipped + longer + int(np.count_nonzero(long))
        missing = scaled.non_finite + int(np.count_nonzero(bad))
        return Bounded(features.with_last(targets), changed, missing)

    def _largest(
        self, values: Floats, rows: NDArray[np.int64], long: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Which numbers stay: of rows with too many those of the largest size."""
        crowded = np.flatnonzero(long[rows])
        own = rows[crowded]
        order = np.lexsort((-np.abs(values[crowded]), own))  # stable: earlier places first
        ranked = own[order]
        rank = np.arange(len(ranked)) - np.searchsorted(ranked, ranked)
        keep = np.ones(len(values), dtype=bool)
        keep[crowded[order[rank >= self.most]]] = False
        return keep

    def coefficients(
        self, theta: Floats, intercept: bool, labels: bool, outputs: int = 1
    ) -> Floats:
        low, high = self.target_ends
        unit = 1.0 if labels else (high - low) / 2
        out = np.empty((*theta.shape[:-1], self.size + 1))
        out[..., :-1] = theta[..., : self.size] * (unit / self.bound_at)
        out[..., -1] = 0.0 if labels else low + unit
        if intercept:
            out[..., -1] += unit * theta[..., -1]
        out[np.isnan(theta[..., 0])] = np.nan
        return out

    def names(self, intercept: bool, outputs: int = 1) -> Names:
        names = names_of(self.column, self.size)
        own = (*names, "intercept")
        return (own if intercept else names), own

    def canonical(self) -> Mapping[str, Any]:
        target = self.target_range and [end.hex() for end in self.target_range]
        return {
            "list": [self.column, self.size, self.bound_at.hex(), self.most],
            "target_range": target,
            **self.canonical_target(),
            **({} if self.dual is None else {"dual": self.dual.hex()}),
        }


class InputRows(RowProgram):
    """A program of rows with features clipped in a norm.

    Attributes:
      inputs: from columns to rows.
    """

    inputs: Inputs

    @property
    def width(self) -> int:
        """Numbers in a row: the features, then the target."""
        return self.inputs.width

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are read."""
        return tuple(dict.fromkeys(self.inputs.columns))

    @property
    def lists(self) -> Mapping[str, int]:
        return self.inputs.lists

    @property
    def texts(self) -> Mapping[str, tuple[str, ...]]:
        return self.inputs.texts

    def bound(self, columns: Mapping[str, NDArray[Any]], n_events: int) -> Bounded:
        """Rows (n_events, width) in [-1, 1], features clipped in their norm."""
        return self.inputs.bound(columns, n_events)


def class_places(classes: Classes, values: Floats) -> Floats:
    """Numbers -> their places among declared ones, NaN where one is none of them."""
    known = np.asarray(classes, dtype=np.float64)
    order = np.argsort(known)
    at = np.minimum(np.searchsorted(known[order], values), len(known) - 1)
    return np.where(known[order][at] == values, order[at].astype(np.float64), np.nan)


def class_text(value: str | float) -> str:
    """A class as a label has it."""
    return value if isinstance(value, str) else f"{value:g}"


@lru_cache(maxsize=4)
def names_of(column: str, size: int) -> tuple[str, ...]:
    """x[0], x[1], ..."""
    return tuple(f"{column}[{place}]" for place in range(size))
