"""Exact sums of products of features and targets, and their leaf.

Moments of events: sums of (x x^T, x y^T) and, if asked, y^2, as exact lattice sums.

A row is one event (x, y), x in R^d with its constant, y in R^k: d + k whole numbers, multiples of
2^-bits. A leaf holds D = d (d + 1) / 2 + d k (+ k) sums of products of two of them:

    upper triangle of x x^T, row by row | x y_1 | ... | x y_k | y_1^2 ... y_k^2

No table of (events, D) is ever made: rows of a cell are multiplied as one matrix product, in
float64 over at most 2^(53 - 2 bits) rows at a time, where every partial sum is a whole number up to
2^53. So it is exact whatever the order of summation, the BLAS or the number of threads.

Only the upper triangle is kept, and as whole numbers: the isometry svec multiplies what is off the
diagonal by sqrt 2, so here the noise off the diagonal is divided by it instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.accounting.guarantee import Relation
from weir.dpcore.arrays import Floats, Ints, extremes
from weir.dpcore.errors import ConfigError, at_least_one, positive
from weir.dpcore.leaves.lattice import EXACT
from weir.dpcore.pricing.calibration import FixedLeaf, round_up
from weir.dpcore.pricing.terms import Terms

SLACK = 1 + 2.0**-30
"""Default bounds lie above what any event has by more than rounding, so that none is touched."""

BITS = 16
"""Rows are whole multiples of 2^-16 of a column's half range: 1,000 times finer than any noise."""
ROOM = 61
"""Leaves stay within 2^61 lattice units."""
_TURNED = 512
_LONG = 64
_MANY = 24
"""Rows of a cell from which on a product of its own is faster than one of a stack."""
PRODUCTS = 1 << 20
"""Numbers in one stack of matrix products, at most (8 MB)."""


def moments_sensitivity(
    x: float, y: float, relation: Relation, targets: int = 1, squares: bool = False
) -> float:
    """l2 sensitivity of (svec(x x^T), x y^T[, y^2]), ||x||_2 <= x and ||y||_2 <= y; rounded up.

    Formal guarantees:
      Write a = ||x||^2 <= A, b = ||y||^2 <= B, c = <x, x'>, p = <y, y'>.
      add_remove: a^2 + a b + sum_j y_j^4 <= A^2 + A B + B^2 (the last with ``squares`` only).
      replace_one: the squared change is a^2 + a'^2 - 2 c^2 + a b + a' b' - 2 c p, and with
        ``squares`` + ||y.y - y'.y'||^2. It grows with a and a', which only widen what c may be, so
        that a = a' = A. With s = |p|, - 2 c^2 - 2 c p is largest at |c| = s / 2, where it is
        s^2 / 2 <= b b' / 2, or at |c| = A if s > 2 A, where it is 2 A (s - A).
        Without squares everything grows with b, b' and s: 2 A^2 + 2 A B + B^2 / 2, or 4 A B if
        B > 2 A. At unit bounds: 4.5.
        With squares and one target, s^2 = b b': 2 A^2 + A (b + b') + b b' / 2 + (b - b')^2 is
        convex in b and in b', so largest at a corner: 2 A^2 + A B + max(A B + B^2 / 2, B^2).
        With squares and several targets, scale y' and y one at a time: convex in ||y'||^2, so
        b, b' are 0 or B. For b = b' = B let u = y.y / B, u' = y'.y' / B, two distributions with
        affinity g = sum_j sqrt(u_j u'_j) >= s / B and distance t in total variation:
        ||u - u'||^2 <= 2 t^2 <= 2 (1 - g^2), hence B^2 ||u - u'||^2 + s^2 / 2 <= 2 B^2, at y and
        y' of different targets: 2 A^2 + 2 A B + 2 B^2, which is more than b' = 0 gives.
      replace_anywhere: that, or two cells, at twice the square of add_remove, which is more with
        squares and one target: 2 A^2 + 2 A B + 2 B^2. For running sums with correlated noise the
        squared change is linear between the two in the correlation of the two ticks, which is in
        [0, 1] (accounting/joint.py).
      All are attained for d >= 2, and hold for d = 1.
      Source: Kasiviswanathan, Nissim, Jin (2017), who run two sums with more than twice the noise;
        the joint values are derived here.
    """
    positive(x=x, y=y)
    at_least_one(targets=targets)
    a, b = x * x, y * y
    one_cell = a * a + a * b + (b * b if squares else 0.0)
    if relation == "add_remove":
        square = one_cell
    elif squares and targets > 1:
        square = 2 * a * a + 2 * a * b + 2 * b * b
    elif squares:
        square = 2 * a * a + a * b + max(a * b + b * b / 2, b * b)
    else:
        square = 2 * a * a + 2 * a * b + b * b / 2 if b <= 2 * a else 4 * a * b
    if relation == "replace_anywhere":
        square = max(square, 2 * one_cell)
    return math.sqrt(square) * (1 + 2.0**-50)


class Statistics(NamedTuple):
    """Moments in scaled units, with or without noise; leading axes are free.

    Attributes:
      matrix: (..., d, d) symmetric, sums of x x^T.
      right: (..., k, d), sums of y_j x, a row for each target.
      squares: (..., k), sums of y_j^2; None where they are not kept.
    """

    matrix: Floats
    right: Floats
    squares: Floats | None


@dataclass(frozen=True)
class Moments:
    """What a leaf of a regression holds, and what one event may add to it.

    Formal guarantees:
      Unit: one event, a row of whole numbers with ||x||_2 <= reach and ||y||_2 <= height in units
        of 2^bits (``fit`` of dpcore/models/regression/rows.py enforces it after the rounding),
        so that products are exact and nothing is rounded behind the bound.
      Sensitivity: ``sensitivity``, in units of ``scales``.

    Attributes:
      features: d, length of x with its constant. targets: k. with_squares: whether y^2 is kept.
      reach: X. height: Y. bits: of the lattice of rows, in which 1 is 2^bits.
      entry: bound on one coordinate of a row that is summed, scaled units; it says how many rows
        add up exactly, and never that a row is short.
    """

    features: int
    targets: int
    with_squares: bool
    reach: float
    height: float
    bits: int = BITS
    entry: float = 1.0

    def __post_init__(self) -> None:
        at_least_one(features=self.features, targets=self.targets, bits=self.bits)
        positive(reach=self.reach, height=self.height, entry=self.entry)
        if self.largest > 1 << 50:
            raise ConfigError(
                "bits", self.bits, f"is too fine for rows of up to {self.entry:g}; take fewer."
            )

    def __getstate__(self) -> dict[str, Any]:
        """Without what follows from the fields: it may be large."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def width(self) -> int:
        """d + k, numbers in a row."""
        return self.features + self.targets

    @property
    def dimension(self) -> int:
        """D, coordinates of a leaf."""
        d, k = self.features, self.targets
        return d * (d + 1) // 2 + d * k + (k if self.with_squares else 0)

    @property
    def resolution(self) -> float:
        """One step of a leaf, in scaled units: 4^-bits."""
        return math.ldexp(1.0, -2 * self.bits)

    @property
    def capacity(self) -> int:
        """Events of a key and tick that exact sums have room for; 2^29 at 16 bits.

        A cell of more events is held within 2^61 by anyone who sums, and they are counted.
        """
        return (1 << ROOM) // self.largest

    @property
    def largest(self) -> int:
        """Bound on one product of two coordinates, in lattice steps."""
        return int(math.ceil(self.entry * 2.0**self.bits)) ** 2

    @property
    def together(self) -> int:
        """Rows whose products add up exactly in float64."""
        return EXACT // self.largest

    @cached_property
    def _places(self) -> NDArray[np.intp]:
        """(D,) where each coordinate lies in a flat (width, width) matrix of products."""
        d, w = self.features, self.width
        i, j = np.triu_indices(d)
        targets = np.arange(d, w)
        cross = (np.arange(d)[None, :] * w + targets[:, None]).ravel()
        squares = targets * (w + 1) if self.with_squares else targets[:0]
        return np.concatenate([i * w + j, cross, squares])

    @cached_property
    def scales(self) -> tuple[float, ...]:
        """(D,) noise weights in lattice steps: (leaf / scales) has svec's l2 norm, scaled units."""
        i, j = np.triu_indices(self.features)
        step = 1 / self.resolution
        off = step * math.sqrt(0.5)
        rest = self.dimension - len(i)
        return (*np.where(i == j, step, off).tolist(), *([step] * rest))

    def sensitivity(self, relation: Relation, add_up: bool = False) -> float:
        """l2 sensitivity of (leaf / scales), rounded up.

        Args:
          relation: which neighbours.
          add_up: losses of the two cells of a moved event add, and not their squares: pure epsilon,
            or noise whose strategy has columns of negative inner product (sliding sums).
        """
        if relation == "replace_anywhere" and add_up:
            return 2 * self.sensitivity("add_remove")
        return moments_sensitivity(
            self.reach, self.height, relation, self.targets, self.with_squares
        )

    def accumulate(self, rows: Floats, cells: Ints, n_cells: int) -> Ints:
        """Exact moments per cell.

        Args:
          rows: (n, d + k) float64 whole numbers of at most 2^bits; columns lie together best.
          cells: (n,) in [0, n_cells).

        Returns:
          (n_cells, D) int64.

        Raises:
          ValueError: shapes that do not fit, or a cell outside.
        """
        if rows.ndim != 2 or rows.shape != (len(cells), self.width):
            raise ValueError(f"rows {rows.shape} do not fit {len(cells)} cells.")
        out = np.zeros((n_cells, self.dimension), dtype=np.int64)
        for result, values in self.by_cell(rows, cells, n_cells):
            out[result] = values
        return out

    def by_cell(self, rows: Floats, cells: Ints, n_cells: int) -> Iterator[tuple[Ints, Ints]]:
        """The same for cells that have rows, some at a time: (m,) cells, (m, D) int64."""
        if not len(cells):
            return
        low, high = extremes(cells)
        if low < 0 or high >= n_cells:
            raise ValueError("a cell is outside the block.")
        if low == high:
            yield cells[:1], self._sums(rows)[None]
            return
        rows, cells = by_cells(rows, cells)
        starts = np.flatnonzero(np.concatenate([[True], cells[1:] != cells[:-1]]))
        counts = np.diff(starts, append=len(cells))
        most = max(1, PRODUCTS // self.width**2)
        for count in np.unique(counts[counts < _MANY]).tolist():
            where = starts[counts == count]
            for at in range(0, len(where), most):
                some = where[at : at + most]
                stacked = rows[some[:, None] + np.arange(count)]
                yield cells[some], self._places_of(np.matmul(stacked.transpose(0, 2, 1), stacked))
        where = np.flatnonzero(counts >= _MANY)
        for at in range(0, len(where), most):
            some = where[at : at + most]
            begin, end = starts[some], starts[some] + counts[some]
            yield cells[begin], self._by_slices(rows, begin.tolist(), end.tolist())

    def _by_slices(self, rows: Floats, low: list[int], high: list[int]) -> Ints:
        """Cells that are rows [low, high): (m, D)."""
        products = np.empty((len(low), self.width, self.width))
        large: dict[int, Ints] = {}
        for place, (first, last) in enumerate(zip(low, high, strict=True)):
            part = rows[first:last]
            if last - first > self.together:
                large[place] = self._sums(part)
            else:
                np.matmul(part.T, part, out=products[place])
        products[list(large)] = 0.0
        out = self._places_of(products)
        for place, sums in large.items():
            out[place] = sums
        return out

    def _places_of(self, products: Floats) -> Ints:
        """(m, width, width) whole numbers -> (m, D)."""
        flat = products.reshape(len(products), -1)
        return np.asarray(np.take(flat, self._places, axis=1).astype(np.int64))

    def _sums(self, rows: Floats) -> Ints:
        """One cell: (count, width) -> (D,)."""
        out = np.zeros(self.dimension, dtype=np.int64)
        for at in range(0, len(rows), self.together):
            part = rows[at : at + self.together]
            out += np.take((part.T @ part).ravel(), self._places).astype(np.int64)
        return out

    def unpack(self, values: Floats) -> Statistics:
        """Sums in scaled units: (..., D) -> matrices. ``values`` are lattice sums, noisy or not."""
        d, k = self.features, self.targets
        size = d * (d + 1) // 2
        scaled = values * self.resolution
        i, j = np.triu_indices(d)
        matrix = np.empty((*values.shape[:-1], d, d))
        matrix[..., i, j] = scaled[..., :size]
        matrix[..., j, i] = scaled[..., :size]
        right = scaled[..., size : size + d * k].reshape(*values.shape[:-1], k, d)
        squares = scaled[..., size + d * k :] if self.with_squares else None
        return Statistics(matrix, right, squares)

    def labels(self, features: tuple[str, ...], targets: tuple[str, ...]) -> tuple[str, ...]:
        """(D,) what each coordinate is the sum of: names of its two factors."""
        i, j = np.triu_indices(self.features)
        names = [f"{features[a]} {features[b]}" for a, b in zip(i, j, strict=True)]
        names += [f"{feature} {target}" for target in targets for feature in features]
        if self.with_squares:
            names += [f"{target} {target}" for target in targets]
        return tuple(names)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {
            "features": self.features,
            "targets": self.targets,
            "squares": self.with_squares,
            "reach": self.reach.hex(),
            "height": self.height.hex(),
            "bits": self.bits,
            "entry": self.entry.hex(),
        }


def by_cells(rows: Floats, cells: Ints) -> tuple[Floats, Ints]:
    """Rows in order of their cells, and the cells in that order.

    A row is in one piece then, unless rows come in order and long runs of a cell need no moving.
    """
    changes = np.count_nonzero(cells[1:] != cells[:-1])
    sorted_ = bool((cells[1:] >= cells[:-1]).all())
    if sorted_ and _LONG * changes < len(cells):
        return rows, cells
    packed = np.empty(rows.shape)
    for first in range(0, len(rows), _TURNED):  # a turned piece stays in the cache
        packed[first : first + _TURNED] = rows[first : first + _TURNED]
    if sorted_:
        return packed, cells
    few = int(cells.max()) < 1 << 16  # radix sort
    order = np.argsort(cells.astype(np.uint16) if few else cells, kind="stable")
    return np.take(packed, order, axis=0), cells[order]


def leaf_of(moments: Moments, over: int | None, terms: Terms) -> FixedLeaf:
    """Scales, and sensitivity in units of them.

    Formal guarantees:
      Under the scales a leaf's l2 norm is that of (svec(x x^T), x y^T[, y^2]) in units of the data:
      ``Moments.sensitivity``. An event that is filtered out after a change is the zero event, which
      is among the neighbours that it covers. Of a user, at most e rows a cell: e times one event,
      attained by e equal ones.
    """
    times = 1 if terms.person is None else terms.person.caps.events
    in_squares, added_up = (
        round_up(times * moments.sensitivity(terms.cell_relation, add_up))
        for add_up in (False, True)
    )
    rounded = {scale: round_up(scale) for scale in set(moments.scales)}
    scales = tuple(map(rounded.__getitem__, moments.scales))
    return FixedLeaf(scales, (over,), in_squares, added_up)
