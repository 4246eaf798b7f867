"""Events as scaled rows on a lattice, dense and sparse, and programs of such rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.norm_balls import lp_norms
from weir.dpcore.leaves.lattice import clip_values
from weir.dpcore.models.kit.point import row_dot
from weir.dpcore.program import Bounded, OutputInfo, Released, RowProgram

STEP = 2.0**-20
"""Scaled values are whole multiples of this."""


def is_void(rows: Floats) -> NDArray[np.bool_]:
    """Which rows say nothing: their event lacks a feature or the target. (N, p + 1) -> (N,).

    Such a row counts as a row, where rows are capped or kept, and has no gradient and no loss.
    """
    return np.asarray(np.isnan(rows[:, -1]))


@dataclass(frozen=True)
class Scaling:
    """Features and a target, each mapped from its public range onto [-1, 1].

    Attributes:
      columns: names of the features, then the target.
      low, high: their ranges, low < high.
    """

    columns: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        for name, low, high in zip(self.columns, self.low, self.high, strict=True):
            if not (np.isfinite(high - low) and low < high):
                raise ConfigError(
                    f"model.ranges.{name}", [low, high], "must be two finite numbers, low < high."
                )

    @classmethod
    def of(
        cls, features: tuple[str, ...], target: str, ranges: Mapping[str, tuple[float, float]]
    ) -> Scaling:
        """From the config.

        Raises:
          ConfigError: a column without a range, or an empty one.
        """
        columns = (*features, target)
        for name in columns:
            if name not in ranges:
                raise ConfigError(
                    f"model.ranges.{name}", None, "is missing: a public range, like [0, 100]."
                )
        low = tuple(float(ranges[name][0]) for name in columns)
        return cls(columns, low, tuple(float(ranges[name][1]) for name in columns))

    @property
    def half(self) -> Floats:
        """(p + 1,) half of each range."""
        return np.asarray((np.asarray(self.high) - np.asarray(self.low)) / 2)

    @property
    def middle(self) -> Floats:
        """(p + 1,) what becomes 0."""
        return np.asarray(np.asarray(self.low) + self.half)

    def bound(self, columns: Mapping[str, NDArray[Any]], n_events: int) -> Bounded:
        """Clips to the ranges and scales. A number that is missing or not finite makes a void row.

        Returns:
          rows (n_events, p + 1) float64 in [-1, 1], whole multiples of ``STEP``; void ones are 0
          with the canonical NaN for a target (``is_void``), all of the same bits. And counts.
        """
        rows = np.empty((n_events, len(self.columns)))
        void = np.zeros(n_events, dtype=bool)
        clipped = non_finite = 0
        for j, (name, low, high) in enumerate(zip(self.columns, self.low, self.high, strict=True)):
            middle, half = float(self.middle[j]), float(self.half[j])
            raw = np.asarray(columns[name], dtype=np.float64)
            values, over, bad = clip_values(raw, low, high, fill=middle)
            clipped += over
            if bad:
                non_finite += bad
                void |= ~np.isfinite(raw)
            scaled = np.clip((values - middle) * (1.0 / half), -1.0, 1.0)
            rows[:, j] = np.rint(scaled * (1.0 / STEP)) * STEP + 0.0
        rows[void] = 0.0
        rows[void, -1] = np.nan
        return Bounded(rows, clipped, non_finite)

    def coefficients(self, theta: Floats, intercept: bool, labels: bool) -> Floats:
        """The same model in the user's units.

        Args:
          theta: (..., d), of the scaled features, the intercept's last if there is one.
          intercept: whether there is one. labels: whether the prediction is a score, not a target.

        Returns:
          (..., p + 1): prediction = sum_j w_j feature_j + w_p.
        """
        p = len(self.columns) - 1
        half, middle = self.half, self.middle
        unit = 1.0 if labels else half[p]
        out = np.empty((*theta.shape[:-1], p + 1))
        out[..., :p] = theta[..., :p] * (unit / half[:p])
        out[..., p] = 0.0 if labels else middle[p]
        if intercept:
            out[..., p] += unit * theta[..., p]
        for j in range(p):
            out[..., p] -= out[..., j] * middle[j]
        return out

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {
            "columns": list(self.columns),
            "low": [value.hex() for value in self.low],
            "high": [value.hex() for value in self.high],
            "step": STEP.hex(),
        }


def shorten(rows: Floats, bound: float) -> None:
    """Shortens rows in place to an exact l2 norm of at most ``bound``, a row by itself.

    Whole rows at once (``bounding.clip.clip_l2`` goes column by column, for any magnitudes); a row
    whose square overflows becomes zero.

    Args:
      rows: (N, d) float64, C-contiguous.
      bound: in (2^-300, 2^300).
    """
    d = rows.shape[1]
    with np.errstate(over="ignore"):
        norm = np.sqrt(row_dot(rows, rows))
    target = bound * (1 - (d + 16) * 2.0**-52)  # below the bound by more than all rounding
    long = np.flatnonzero(~(norm <= target))
    if long.size:  # an infinite norm makes the factor, and the row, 0
        rows[long] *= (target / norm[long])[:, None]


def norms(rows: Floats, q: float) -> Floats:
    """lq norms, 1 <= q <= inf: (n, m) -> (n,)."""
    if math.isinf(q):
        return np.asarray(np.max(np.abs(rows), axis=1, initial=0.0))
    return lp_norms(rows, q)


def shortened(features: Floats, q: float, bound: float) -> tuple[Floats, int]:
    """Rows (n, m) on the lattice of ``STEP``, each of lq norm at most ``bound``, 1 <= q <= inf; and
    how many were longer. A row by itself; truncation toward zero lengthens nothing.

    The target of the shortening lies below the bound by more than what powers round.
    """
    size = norms(features, q)
    target = bound * (1 - 2.0**-30)
    long = np.flatnonzero(~(size <= target))
    out = np.ascontiguousarray(features, dtype=np.float64).copy()
    if long.size:
        out[long] *= (target / size[long])[:, None]
    out = np.trunc(out * (1.0 / STEP)) * STEP + 0.0
    return out, int(np.count_nonzero(size > bound))


def scaled_values(values: Floats, half: float | Floats) -> Floats:
    """Finite numbers from [-half, half] onto [-1, 1], outside moved to the nearer end, on the
    lattice of ``STEP``: (m,)."""
    inside = np.clip(values * (1.0 / half), -1.0, 1.0)
    return np.asarray(np.rint(inside * (1.0 / STEP)) * STEP + 0.0)


def squares_of(values: Floats, rows: Ints, n: int) -> Floats:
    """Squared length of each sparse row, from the numbers on the lattice that are in it: (n,). Sums
    are of whole numbers, so that their order does not matter.

    Args:
      values: (m,), row after row. rows: (m,), the row of each, not decreasing.
    """
    steps = np.rint(values * (1.0 / STEP)).astype(np.int64)
    total = np.concatenate([[0], np.cumsum(steps * steps)])
    ends = np.searchsorted(rows, np.arange(n + 1))
    return np.diff(total[ends]).astype(np.float64) * STEP**2


def factors(squares: Floats, norm: float) -> Floats:
    """1, or what brings a row below its norm by more than all rounding."""
    length = np.sqrt(squares * (1 + 2.0**-30))
    return np.where(length <= norm, 1.0, norm * (1 - 2.0**-30) / np.maximum(length, norm))


def norms_of(values: Floats, rows: Ints, n: int, q: float) -> Floats:
    """lq norm of each sparse row, 1 <= q <= inf: (n,). Numbers of a row are divided by its largest,
    and their powers added in order. Arguments as of ``squares_of``."""
    size, largest = np.abs(values), np.zeros(n)
    np.maximum.at(largest, rows, size)
    if math.isinf(q):
        return largest
    unit = size / np.where(largest > 0, largest, 1.0)[rows]
    sums = np.bincount(rows, weights=unit**q, minlength=n)
    return np.asarray(largest * sums ** (1 / q))


def shortened_sparse(
    values: Floats, rows: Ints, n: int, bound: float, q: float | None = None
) -> tuple[Floats, int]:
    """Sparse rows of at most so large a norm, truncated toward 0 to the lattice, which lengthens
    none; and how many were longer. Arguments as of ``squares_of``.

    Args:
      q: of the lq norm, as ``shortened`` has it of tables: 2^-30 below the bound, which is more
        than 2^20 numbers of a row and their powers round; None: l2, from exact squares.
    """
    if q is None:
        if math.isinf(bound):
            return values, 0
        factor = factors(squares_of(values, rows, n), bound)
        longer = np.count_nonzero(factor < 1.0)
    else:
        size, target = norms_of(values, rows, n, q), bound * (1 - 2.0**-30)
        factor = np.where(size <= target, 1.0, target / np.maximum(size, target))
        longer = np.count_nonzero(size > bound)
    short = np.trunc(values * factor[rows] * (1.0 / STEP)) * STEP + 0.0
    return np.asarray(short), int(longer)


NAN = float("nan")


class ScaledRows(RowProgram):
    """A program of rows of features and a target, each scaled by its public range.

    Attributes:
      scaling: the public ranges.
    """

    scaling: Scaling

    @property
    def width(self) -> int:
        """Numbers in a row: the features, then the target."""
        return len(self.scaling.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """Numeric columns that are read."""
        return tuple(dict.fromkeys(self.scaling.columns))

    def bound(self, columns: Mapping[str, NDArray[Any]], n_events: int) -> Bounded:
        """Rows (n_events, width) float64 in [-1, 1]: scaled by the public ranges."""
        return self.scaling.bound(columns, n_events)


def released_models(
    theta: Floats, coefficients: Floats | None, behind: Floats | None = None
) -> tuple[Released, ...]:
    """Models in scaled units (n, K, d), the same in the user's (None where features are mapped),
    and what is behind each (n, K, 2)."""
    named = (("theta", theta), ("coefficients", coefficients), ("model_of", behind))
    return tuple(Released(name, None, x, None) for name, x in named if x is not None)


def model_outputs(
    theta: tuple[str, ...],
    coefficients: tuple[str, ...] | None,
    moved: float,
    sparse: bool = False,
    behind: bool = False,
) -> tuple[OutputInfo, ...]:
    """What a plan says of ``released_models``. A model's error is not additive: NaN.

    Args:
      theta, coefficients: names of their numbers. moved: most that one event changes.
      sparse: see ``OutputInfo``. behind: whether what is behind each model is released.
    """
    results = [OutputInfo("theta", None, len(theta), moved, NAN, theta, sparse)]
    if coefficients is not None:
        own = coefficients
        results.append(OutputInfo("coefficients", None, len(own), moved, NAN, own, sparse))
    if behind:
        results.append(OutputInfo("model_of", None, 2, 0.0, NAN, ("first", "last")))
    return tuple(results)


def names_of_models(scaling: Scaling, intercept: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the numbers of theta and of coefficients, of features that are columns."""
    features = scaling.columns[:-1]
    own = (*features, "intercept")
    return own if intercept else features, own
