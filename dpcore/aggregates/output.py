"""An output: what is computed from noisy channels, with its error. Post-processing only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpcore.arrays import Floats

OutputKind = Literal["count", "sum", "mean", "variance", "histogram"]

Noisy = Callable[[int], tuple[Floats, Floats]]
"""Channel index -> (value (n, K, m), stddev (n, 1, m)) in the user's units, for one ``over``."""


@dataclass(frozen=True)
class Output:
    """One aggregate as the user named it.

    Attributes:
      name: the user's name for it. kind: what it is. column: what it reads.
      overs: which windows are released (None: since the start).
      weight: how much its accuracy counts when the noise is split.
      count, value, square, bins: indices of the channels it uses; -1 where it does not use that
        one.
      low, high: public clip; half, centre: of the centred channels.
      labels: of the components of a histogram; ("",) otherwise.
    """

    name: str
    kind: OutputKind
    column: str | None
    overs: tuple[int | None, ...]
    weight: float = 1.0
    count: int = -1
    value: int = -1
    square: int = -1
    bins: int = -1
    low: float = 0.0
    high: float = 0.0
    centre: float = 0.0
    half: float = 0.0
    labels: tuple[str, ...] = ("",)

    @property
    def channels(self) -> tuple[int, ...]:
        """Channels it reads."""
        return tuple(c for c in (self.count, self.value, self.square, self.bins) if c >= 0)

    def importance(self) -> dict[int, float]:
        """Channel -> weight of its noise variance in this output's squared relative error.

        The relative error is in units of one event's largest effect: 1 for a count or a bin, the
        clip for a sum, half the clip's width for a mean (times N), its square for a variance (times
        N), and the worst case over the true mean m and second moment q, which are private
        (privacy.md, Accounting 4, with the square centred at half^2 / 2: the coefficient of sigma_N
        is at most 1.5 half^2).
        """
        w, h = self.weight, self.half
        if self.kind == "count":
            return {self.count: w}
        if self.kind == "histogram":
            return {self.bins: w}
        if self.kind == "sum":
            bound = max(abs(self.low), abs(self.high))
            parts = {self.value: w / bound**2}
            if self.count >= 0:
                parts[self.count] = w * self.centre**2 / bound**2
            return parts
        if self.kind == "mean":
            return {self.value: w / h**2, self.count: w}
        return {self.square: w / h**4, self.value: 4 * w / h**2, self.count: 2.25 * w}

    def solve(self, noisy: Noisy) -> tuple[Floats, Floats]:
        """Noisy channels -> (value, stddev), each (n, K, m)."""
        if self.kind in ("count", "histogram"):
            value, stddev = noisy(self.count if self.kind == "count" else self.bins)
            return value, np.broadcast_to(stddev, value.shape)
        total, total_std = noisy(self.value)
        if self.kind == "sum":
            if self.count < 0:
                return total, np.broadcast_to(total_std, total.shape)
            n, n_std = noisy(self.count)
            std = np.sqrt(total_std**2 + (self.centre * n_std) ** 2)
            return total + self.centre * n, np.broadcast_to(std, total.shape)
        n, n_std = noisy(self.count)
        # Dividing by a noisy count near 0 explodes: its floor is public (one event, or the noise
        # itself).
        floor = np.maximum(n, np.maximum(1.0, n_std))
        mean = np.clip(total / floor, self.low - self.centre, self.high - self.centre)
        if self.kind == "mean":
            std = np.sqrt(total_std**2 + (mean * n_std) ** 2) / floor
            return mean + self.centre, np.minimum(std, self.high - self.low)
        square, square_std = noisy(self.square)
        q = square / floor
        variance = np.clip(q + self.half**2 / 2 - mean**2, 0.0, self.half**2)
        std = (
            np.sqrt(square_std**2 + 4 * (mean * total_std) ** 2 + ((2 * mean**2 - q) * n_std) ** 2)
            / floor
        )
        return variance, np.minimum(std, self.half**2)
