"""Whether the noise of recorded runs has the size that is declared."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.stats import chi2

from weir.dpcore.arrays import Floats
from weir.dpcore.audit.replay import Recorded, Replayed

ERROR = 1e-10
"""Chance that sound noise is called wrong, of one mechanism."""


@dataclass
class NoiseSize:
    """Squares of the noise that was drawn, in its declared variances, by mechanism.

    Attributes:
      seen: (mechanism, kind of noise) -> squares and how many. zeros: mechanism -> numbers whose
        noise was 0, and how many of these are expected.
    """

    seen: dict[tuple[str, str], tuple[float, int]] = field(default_factory=dict)
    zeros: dict[str, tuple[int, float]] = field(default_factory=dict)

    def add(self, run: Recorded) -> None:
        """Takes the noise of a run. Runs that are added have secrets of their own."""
        for part, pairs in Replayed(run, run.session).sums:
            calls = [one for one, _ in pairs]
            active = np.asarray(part.scales) > 0
            if part.noise_scale > 0 and active.any() and not any(calls[0].where):
                drawn = np.concatenate([call.own for call in calls])
                size = math.sqrt(part.unit_variance) * np.asarray(part.scales)[active]
                # One sum of each key and coordinate, or several over different ticks.
                several = drawn.shape[2] // len(part.scales)
                spread = np.split(part.materialize(len(drawn)), several)
                for factor, own in zip(spread, np.split(drawn, several, axis=2), strict=True):
                    some = own[..., active]
                    root = np.linalg.cholesky(factor @ factor.T)
                    flat = (some / size).reshape(len(some), -1)
                    self._zeros(part.name, some, float(size.min()))
                    self._count(part.name, calls[0].kind, solve_triangular(root, flat, lower=True))
        for call in run.session.calls:
            if call.mechanism is None and call.kind in ("gaussian", "discrete_gaussian"):
                assert isinstance(call.scale, float)
                drawn = call.own - call.clean
                self._count(call.name, call.kind, drawn / call.scale)
                self._zeros(call.name, drawn, call.scale if drawn.dtype == np.int64 else math.inf)

    def _count(self, name: str, kind: str, values: Floats) -> None:
        squares, count = self.seen.get((name, kind), (0.0, 0))
        self.seen[name, kind] = squares + float((values**2).sum()), count + values.size

    def _zeros(self, name: str, drawn: NDArray[Any], stddev: float) -> None:
        count, expected = self.zeros.get(name, (0, 0.0))
        count += int((drawn == 0).sum())
        self.zeros[name] = count, expected + drawn.size / stddev

    @property
    def faults(self) -> tuple[str, ...]:
        """Mechanisms whose noise is not what they declare."""
        results = [
            f"noise of {name} is 0 at {count} places"
            for name, (count, expected) in self.zeros.items()
            if count > 8 * expected + 16
        ]
        for (name, kind), (squares, count) in self.seen.items():
            # Squares of Laplace and K-norm variables vary at most 2.5 times as much as normal ones.
            wide = 1.0 if kind in ("gaussian", "discrete_gaussian") else 4.0
            low, high = chi2.ppf(ERROR, count / wide), chi2.isf(ERROR, count / wide)
            if not wide * low <= squares <= wide * high:
                ratio = math.sqrt(squares / count)
                results.append(f"noise of {name} has {ratio:.3g} times the declared deviation")
        return tuple(results)
