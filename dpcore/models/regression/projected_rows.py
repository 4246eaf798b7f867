"""Events as rows of projected features: fewer numbers, of the same length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.moments import Moments
from weir.dpcore.models.regression.membership import Inputs
from weir.dpcore.models.regression.projection import RandomProjection
from weir.dpcore.models.regression.rows import EventRows, fit, room_for
from weir.dpcore.program import Bounded

_NUMBERS = 1 << 22
"""In a table of features, at most (32 MB)."""
_DIGITS = 20
"""Bits of a projected row, so that its squared length is a whole number below 2^53."""


@dataclass(frozen=True)
class ProjectedRows:
    """(x, y) -> ((|x| / |Phi x|) Phi x, [1], y) on the lattice; the zero event if x is outside G.

    The constant, where there is one, is not projected: it stays the last feature, of value 1.

    Formal guarantees:
      An event's row depends on that event alone (and on what is public), and ``moments`` hold
      ||x||_2 <= reach and ||y||_2 <= height exactly, whatever Phi does: the length that Phi changed
      is restored, the row rounded, and what is then too long is shortened (``rows.fit``).
      Source: Kasiviswanathan, Nissim, Jin (2017), Algorithm 3, steps 4 to 6, and section 5.2.

    Bits are the same on every machine: products with Phi are whole numbers, each row is then cut to
    20 bits, and what follows is one rounding at a time.

    Attributes:
      events: columns and ranges, before the projection. projection: Phi, of the features without
        the constant. inputs: G. moments: after it.
    """

    events: EventRows
    projection: RandomProjection
    inputs: Inputs
    moments: Moments

    def __post_init__(self) -> None:
        m = self.projection.dimension + self.events.intercept
        if self.projection.size != len(self.events.features) or self.moments.features != m:
            raise ConfigError(
                "model.projection", self.projection.dimension, "does not fit the features."
            )
        if m > 1 << 13:
            raise ConfigError("model.projection.dimension", m, f"must be at most {1 << 13:,}.")

    @property
    def columns(self) -> tuple[str, ...]:
        """Numeric columns that are read."""
        return self.events.columns

    def bound(self, columns: Mapping[str, NDArray[Any]], n_events: int) -> Bounded:
        """Events -> rows (n_events, m + k) float64, whole numbers within the bounds; and counts.

        ``out_of_range`` counts events outside G.
        """
        table = room_for(self.moments.width, n_events)[:, :n_events]
        clipped = non_finite = outside = 0
        step = max(256, _NUMBERS // self.events.moments.width)
        for first in range(0, n_events, step):
            at = slice(first, min(first + step, n_events))
            some = {name: columns[name][at] for name in self.columns}
            wide = self.events.bound(some, at.stop - first)
            member = self._project(np.asarray(wide.rows).T, table[:, at])
            clipped += wide.clipped
            non_finite += wide.non_finite
            outside += int(np.count_nonzero(~member))
        clipped += fit(table, self.moments)
        return Bounded(table.T, clipped, non_finite, outside)

    def _project(self, wide: Floats, out: Floats) -> NDArray[np.bool_]:
        """(d + k, n) whole numbers -> (m + k, n) into ``out``; (n,) which are in G."""
        p, m = self.projection.size, self.projection.dimension
        x = wide[:p]
        member = self.inputs.contains(x, self.moments.bits)
        if not member.all():
            wide = wide * member
            x = wide[:p]
        product = self.projection.multiply(x)
        exponent = np.frexp(np.max(np.abs(product), axis=0, initial=0.0))[1]
        cut = np.rint(np.ldexp(product, _DIGITS - exponent))
        length = np.einsum("ij,ij->j", x, x)
        projected = np.einsum("ij,ij->j", cut, cut)
        lost = (projected == 0) & (length > 0)  # Phi x = 0: the zero event
        scale = np.sqrt(length) / np.sqrt(np.maximum(projected, 1.0))
        np.multiply(cut, scale, out=out[:m])
        out[m:] = wide[p:]
        out[:, lost] = 0.0
        return member

    def coefficients(self, theta: Floats) -> Floats:
        """Lifted models in the user's units: (..., k, d) -> (..., k, p + 1)."""
        return self.events.coefficients(theta)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a row."""
        return {
            "events": self.events.canonical(),
            "projection": self.projection.canonical(),
            "inputs": self.inputs.canonical(),
            "moments": self.moments.canonical(),
        }
