"""From a wide list column to sparse rows: features clipped in a norm, the target at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.leaves.sparse_rows import SparseRows
from weir.dpcore.models.blocks.inputs import Classes, class_places
from weir.dpcore.models.blocks.objective import Scored
from weir.dpcore.models.scaling import STEP, Scaling
from weir.dpcore.models.sparse_scaling import scaled_values, shortened, shortened_in
from weir.dpcore.program import Bounded


@dataclass(frozen=True)
class WideInputs:
    """Sparse rows of the features of one list column, mapped from a public range around 0 onto
    [-1, 1], and a target.

    **Formal guarantees**: a row depends on its own event alone. It has at most ``most`` numbers
    that are not 0, of more those of the largest size (the earlier of equals); their l2 norm (lq,
    with ``dual``) is at most ``norm``, exactly: a longer row is shortened as a whole, then
    truncated toward zero to the lattice of ``STEP``. A target that is missing or is none of the
    declared classes, or a feature that is missing or not finite, makes a void row: it keeps its
    place and has no loss.

    Attributes:
      column: of lists. size: p. bound_at: features lie in [-bound_at, bound_at].
      most: numbers of a row that are not 0, at most.
      target: column. target_range: (low, high); None where there are classes.
      classes: declared values of the target; () where it is a number.
      norm: most that ||features|| is, scaled. dual: q of that norm, where a learner has one of its
      own; None: l2.
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
    plain: ClassVar[bool] = True

    @cached_property
    def scaling(self) -> Scaling:
        """Of the target; that of classes has their places for a range."""
        low, high = self.target_range or (0.0, float(len(self.classes) - 1))
        return Scaling((self.target,), (low,), (high,))

    @property
    def width(self) -> int:
        """Numbers in a row: the features, then the target."""
        return self.size + 1

    @property
    def row_bytes(self) -> int:
        """Of a packed row, at most."""
        return 8 * (self.most + 1)

    @property
    def outputs(self) -> int:
        """Numbers that a model has a coefficient of."""
        return self.size

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are read: of lists, and the target."""
        return (self.column, self.target)

    @property
    def lists(self) -> Mapping[str, int]:
        """See ``dpcore.leaves.sparse_rows.width_of``."""
        return {self.column: self.size}

    @property
    def texts(self) -> Mapping[str, tuple[str, ...]]:
        """The target, where its classes are texts."""
        names = tuple(one for one in self.classes if isinstance(one, str))
        return {self.target: names} if names else {}

    @property
    def target_ends(self) -> tuple[float, float]:
        """Range of the target, or of the places of its classes."""
        return self.scaling.low[0], self.scaling.high[0]

    def bound(self, columns: Mapping[str, Any], n_events: int) -> Bounded:
        """Sparse rows (n_events, size + 1) of float32 in [-1, 1], whole multiples of ``STEP``; and
        counts. Columns: the lists as ``SparseRows``, the target as of ``Inputs``."""
        given = np.asarray(columns[self.target], dtype=np.float64)
        if self.classes and not self.texts:
            given = class_places(self.classes, given)
        found = self.scaling.bound({self.target: given}, n_events)
        targets = np.asarray(found.rows)[:, 0].copy()
        lists: SparseRows = columns[self.column]
        raw, rows = lists.values.astype(np.float64), lists.rows
        bad = ~np.isfinite(raw)
        clipped = int(np.count_nonzero(~bad & (np.abs(raw) > self.bound_at)))
        void = np.isnan(targets)
        void[rows[bad]] = True
        targets[void] = np.nan
        kept = ~void[rows] & (raw != 0)
        long = np.bincount(rows[kept], minlength=n_events) > self.most
        if long.any():
            kept[kept] = self._largest(raw[kept], rows[kept], long)
        raw, rows, at = raw[kept], rows[kept], lists.indices[kept]
        scaled = scaled_values(raw, self.bound_at)
        if self.dual is None:
            values, longer = shortened(scaled, rows, n_events, self.norm)
        else:
            values, longer = shortened_in(scaled, rows, n_events, self.dual, self.norm)
        some = values != 0
        offsets = np.searchsorted(rows[some], np.arange(n_events + 1))
        features = SparseRows(offsets, at[some], values[some].astype(np.float32), self.size)
        changed = found.clipped + clipped + longer + int(np.count_nonzero(long))
        missing = found.non_finite + int(np.count_nonzero(bad))
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

    def coefficients(self, theta: Floats, objective: Scored) -> Floats:
        """(..., d) -> (..., size + 1), in the user's units, the constant last: see ``Inputs``."""
        return self.in_units(theta, objective.width > self.size, bool(self.classes))

    def in_units(self, theta: Floats, intercept: bool, labels: bool) -> Floats:
        """The same. labels: whether the prediction is a score, not a target."""
        low, high = self.target_ends
        unit = 1.0 if labels else (high - low) / 2
        out = np.empty((*theta.shape[:-1], self.size + 1))
        out[..., :-1] = theta[..., : self.size] * (unit / self.bound_at)
        out[..., -1] = 0.0 if labels else low + unit
        if intercept:
            out[..., -1] += unit * theta[..., -1]
        out[np.isnan(theta[..., 0])] = np.nan
        return out

    def labels(self, objective: Scored) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the numbers of theta and of coefficients."""
        return self.names(objective.width > self.size)

    def names(self, intercept: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The same. intercept: whether theta has a constant."""
        names = names_of(self.column, self.size)
        own = (*names, "intercept")
        return (own if intercept else names), own

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a row."""
        target = None
        if self.target_range is not None:
            target = [end.hex() for end in self.target_range]
        return {
            "list": [self.column, self.size, self.bound_at.hex(), self.most],
            "target": self.target,
            "target_range": target,
            "classes": [one if isinstance(one, str) else one.hex() for one in self.classes],
            "norm": self.norm.hex(),
            "step": STEP.hex(),
            **({} if self.dual is None else {"dual": self.dual.hex()}),
        }


@lru_cache(maxsize=4)
def names_of(column: str, size: int) -> tuple[str, ...]:
    """x[0], x[1], ..."""
    return tuple(f"{column}[{place}]" for place in range(size))
