"""One fit by private selections, with its rows in hand."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from weir.dpcore.arrays import Digests, Floats
from weir.dpcore.models.blocks.fitter import Draws, FitResult
from weir.dpcore.models.kit.rows import STEP
from weir.dpcore.models.optimize.linear import Linear, total
from weir.dpcore.models.optimize.rows import RowMatrix, on_lattice
from weir.dpcore.models.optimize.vertices import VertexCandidates
from weir.dpcore.noise.noise import label
from weir.dpcore.noise.selection import select

AT_ONCE = 1 << 16
"""Numbers of noise that are drawn at once, where steps need fewer."""
MANY = 1 << 12
"""Candidates from which on logarithms are taken of few of them only: the same choices."""
TOGETHER = 1 << 10
"""Columns up to which all moments are made at once: as many would be asked for one by one."""
KEPT = 1 << 23
"""Numbers of moments that are kept of more columns than that."""
STEP_BITS = 20
"""Bits of a noise label's level that tell the steps of a fit apart."""


class Selects(Protocol):
    """Public numbers of a fit, as ``Selection`` has them."""

    @property
    def linear(self) -> Linear: ...

    @property
    def candidates(self) -> VertexCandidates: ...

    @property
    def sizes(self) -> tuple[int, int]: ...

    @property
    def quadratic(self) -> bool: ...

    @property
    def divisor(self) -> float: ...

    @property
    def steps(self) -> int: ...

    @property
    def noise(self) -> str: ...

    @property
    def scale(self) -> float: ...

    @property
    def unit(self) -> float: ...

    @property
    def steepest(self) -> int: ...


class Selecting:
    """See ``Fit`` and ``Selection``.

    Slices carry z, the sum of the weights t + 1 of what step t chose (whole numbers, negative for a
    negative sign), and of a squared loss h, the same sum of columns of X^T X. From z the sums of
    what is predicted follow exactly, whether added up step by step or made again: so a fit gives
    the same bits however it is cut.

    Gradients: of a squared loss from h, a column of X^T X a step (one product with the rows, none
    where a vertex is chosen again or all moments are there); of others from all slopes, one
    product a step. Either way a step costs one pass over the rows, and no (d, d) array is made
    unless d is small.
    """

    def __init__(
        self,
        made: Selects,
        rows: RowMatrix,
        targets: Floats,
        draws: Draws,
        weights: Floats | None = None,
    ) -> None:
        self._made, self._rows, self._targets, self._draws = made, rows, targets, draws
        self._weights = weights
        self._columns: dict[int, Floats] = {}
        self._against: Floats | None = None
        self._sums: Floats | None = None

    def start(self) -> tuple[Floats, Floats]:
        """Nothing is chosen yet: the first step is taken from 0, or where that is no point of the
        set from the first vertex, and leaves nothing of it (mu_0 = 1)."""
        first, second = self._made.sizes
        return np.zeros(first), np.zeros(second)

    def advance(self, z: Floats, h: Floats, done: int, steps: int) -> tuple[Floats, Floats]:
        z, h = z.copy(), h.copy()
        made, columns = self._made, self._made.candidates.columns
        many = made.candidates.count >= MANY and made.noise == "gumbel"
        ahead = max(1, AT_ONCE // made.candidates.count)
        signs = np.empty((2 if made.candidates.signed else 1, columns))
        for first in range(done, done + steps, ahead):
            count = min(ahead, done + steps - first)
            noise = None if many else self._noise(first, count)
            for t in range(first, first + count):
                np.multiply(self.gradient(z, h, t), made.candidates.radius, out=signs[0])
                for other in signs[1:]:
                    np.negative(signs[0], out=other)
                scores = signs.reshape(-1)
                if noise is None:
                    named = self._named(t, 1)
                    (chosen,) = self._draws.noise.select(*named, scores[None], made.scale).tolist()
                else:
                    chosen = int(select(scores, made.scale, noise[t - first]))
                self._take(z, h, t, chosen % columns, -1.0 if chosen >= columns else 1.0)
        return z, h

    def finish(self, z: Floats, h: Floats) -> FitResult:
        return FitResult(self._made.candidates.model(z / total(self._made.steps)))

    def gradient(self, z: Floats, h: Floats, t: int) -> Floats:
        """Of the mean loss along each column, at the model of step t: (J,)."""
        if t == 0:
            z, h = self._from(z, h)
        weight, radius = 1.0 / total(max(t, 1)), self._made.candidates.radius
        if self._made.quadratic:
            if self._against is None:
                self._against = self._rows.down(self._targets, STEP).astype(np.float64)
            sums = h * (radius * weight) - self._against
            return np.asarray(sums * (STEP * STEP / self._made.divisor))
        if self._sums is None or t == 0:
            self._sums = self._made_sums(z)
        predicted = self._sums * (radius * weight)
        slopes = self._made.linear.loss.derivative(predicted, self._targets)
        unit = self._made.unit
        slopes = on_lattice(slopes, unit, self._made.steepest, self._weights)
        exact = self._rows.down(slopes, unit)
        return np.asarray(exact * (STEP * unit / self._made.divisor))

    def _from(self, z: Floats, h: Floats) -> tuple[Floats, Floats]:
        """Where the first gradient is taken."""
        if self._made.candidates.signed:
            return z, h
        z, h = z.copy(), h.copy()
        z[0] = 1.0
        if self._made.quadratic:
            h += self._column(0)
        return z, h

    def _take(self, z: Floats, h: Floats, t: int, j: int, sign: float) -> None:
        """A step to a vertex."""
        weight = sign * (t + 1)
        z[j] += weight
        if self._made.quadratic:
            h += weight * self._column(j)
        elif t == 0:
            self._sums = weight * self._rows.column(j)
        elif self._sums is not None:
            self._sums += weight * self._rows.column(j)

    def _made_sums(self, z: Floats) -> Floats:
        """Sum of the chosen columns by their weights: (n,), exact."""
        out = np.zeros(self._rows.n)
        for j in np.flatnonzero(z).tolist():
            out += z[j] * self._rows.column(j)
        return out

    def _column(self, j: int) -> Floats:
        """Column j of X^T X: (J,) float64, in steps of ``STEP``^2."""
        if self._rows.p <= TOGETHER:
            return np.asarray(self._rows.moments[j])
        if j not in self._columns:
            if len(self._columns) * self._rows.p > KEPT:
                self._columns.clear()
            self._columns[j] = self._rows.against(j)
        return self._columns[j]

    def _noise(self, first: int, count: int) -> Floats:
        """(count, candidates), of steps from one on: named by fit and step, keyed by the data."""
        draws, size = self._draws, self._made.candidates.count
        drawn = draws.noise.gumbel if self._made.noise == "gumbel" else draws.noise.laplace
        return np.asarray(drawn(*self._named(first, count), size)[:, 0])

    def _named(self, first: int, count: int) -> tuple[Digests, Digests]:
        """Labels and digests of the noise of steps from one on."""
        draws = self._draws
        level = (draws.place << STEP_BITS) + np.arange(first + 1, first + count + 1)
        labels = np.concatenate([label(int(one), draws.complete) for one in level])
        return labels, np.broadcast_to(draws.digest, (count, 1, 2)).astype(np.uint64)
