"""Noise from exponentially decaying buffers: the stream that BLT sums and sliding sums share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.continual.rational import Rational, round_up
from weir.dpcore.continual.unit import noisy_coordinates, within_horizon
from weir.dpcore.errors import ConfigError
from weir.dpcore.native import kernels
from weir.dpcore.noise.noise import Noise, label

ROOM = 2.0**61
"""Noise must stay below this many lattice units, FAR standard deviations out."""
FAR = 40.0

ENOUGH = Decimal("1.004")
"""More buffers are taken only for more than this factor of the variance."""


class BufferState(NamedTuple):
    """buffers: (K, a, m) float64, u_j of each key and noisy coordinate."""

    buffers: Floats


def correlated(form: Rational, state: BufferState, units: Floats) -> tuple[BufferState, Floats]:
    """Runs z = xi + sum_j omega_j u_j; u_j <- theta_j u_j + xi over a stride.

    One multiplication and one addition at a time, elementwise, in a fixed order: the same bits
    however ticks are split into strides and keys into blocks, on every CPU.

    Args:
      form: the coefficients.
      state: before the stride.
      units: (n, K, a) float64, xi.

    Returns:
      State after the stride, and z: (n, K, a) float64.
    """
    theta = np.asarray(form.theta)[:, None, None]
    omega = np.asarray(form.omega)[:, None, None]
    # Buffer by buffer in memory, in the state too: a tick then goes along whole rows.
    before = np.ascontiguousarray(np.moveaxis(state.buffers, 2, 0))
    if kernels is not None and before.size:
        after, noise = before.copy(), np.empty(units.shape)
        kernels.correlate(np.ascontiguousarray(units), noise, after, theta, omega)
        return BufferState(np.moveaxis(after, 0, 2)), noise
    buffers = np.empty_like(before)
    scaled = np.empty_like(before)
    noise = units.copy()
    for unit, total in zip(units, noise, strict=True):
        np.multiply(before, omega, out=scaled)
        for part in scaled:
            total += part
        np.multiply(before, theta, out=buffers)
        buffers += unit
        before = buffers
    return BufferState(np.moveaxis(before, 0, 2)), noise


def check_room(mechanism: str, noise_scale: float, scales: Sequence[float], squares: float) -> None:
    """Raises ConfigError unless noise of variance ``squares`` units fits the lattice's integers."""
    largest = FAR * noise_scale * max(scales, default=0.0) * math.sqrt(squares)
    if not largest < ROOM:
        raise ConfigError(
            "privacy.epsilon",
            None,
            f"asks {mechanism} for noise that may reach {largest:.3g} steps of the lattice, and "
            "integers end at 2^61; raise epsilon or delta, or protect for a shorter time.",
        )


@dataclass(frozen=True)
class BufferedSum(ContinualSum):
    """A continual sum whose noise is b(x) xi(x), b rational: one buffer a pole at any window.

    A key that appears later starts from empty buffers: as at tick 0 no unit of noise lies behind
    it, its records find the same c ahead of them, and its variance is that of its own age.

    Attributes:
      form: the coefficients, from a table.
      horizon: number of ticks of the clock; None without end.
    """

    form: Rational
    horizon: int | None

    kinds: ClassVar[tuple[str, ...]] = ("gaussian",)
    ages: ClassVar[bool] = True
    settings: ClassVar[dict[str, str]] = {"buffers": "vectors of state per key, at most (1 to 8)"}

    def rows(self, ticks: int | None, periods: int = 1) -> int | None:
        """Rows that are looked at within ``ticks``: of so many periods in a row, if of any."""
        rows = ticks
        if self.pattern is not None:
            rows = self.pattern.rows(ticks, periods)
        if self.horizon is None:
            return rows
        return self.horizon if rows is None else min(rows, self.horizon)

    @property
    def real_noise(self) -> tuple[str, float]:
        """The sum over all buffers is rounded: its standard deviation at the last tick."""
        squares = float(self.form.noise_squares(self.horizon))
        return "gaussian", self.noise_scale * max(self.scales, default=0.0) * math.sqrt(squares)

    def init_noise(self, n_keys: int) -> BufferState:
        """Empty buffers."""
        active, buffers = len(noisy_coordinates(self.scales)), len(self.form.poles)
        return BufferState(np.zeros((n_keys, active, buffers), dtype=np.float64))

    def draw(
        self, own: BufferState, chain: Digests, leaf_digests: Digests, noise: Noise
    ) -> tuple[BufferState, Ints]:
        """Correlates one unit a tick, keyed with the tick and all of the key's leaves so far."""
        n, keys = leaf_digests.shape[:2]
        if self.horizon is not None:
            within_horizon(self.name, self.horizon, noise.first_tick, n)
        active = list(noisy_coordinates(self.scales))
        if not active or self.noise_scale == 0:
            return own, np.zeros((n, keys, self.dimension), dtype=np.int64)
        labels = label(0, noise.first_tick + np.arange(n))
        units = noise.gaussian(labels, chain[1:], len(active))
        own, drawn = correlated(self.form, own, units)
        drawn *= self.noise_scale * np.asarray(self.scales)[active]
        np.rint(drawn, out=drawn)
        if len(active) == self.dimension:
            return own, drawn.astype(np.int64)
        out = np.zeros((n, keys, self.dimension), dtype=np.int64)
        out[:, :, active] = drawn.astype(np.int64)
        return own, out

    def materialize(self, n: int) -> Floats:
        """(n, n) lower-triangular Toeplitz matrix of b. For tests only."""
        return toeplitz_matrix(self.form.noise_coefficients(n))


def toeplitz_matrix(coefficients: Floats) -> Floats:
    """(n,) -> (n, n) lower-triangular Toeplitz matrix. For tests only."""
    n = coefficients.size
    difference = np.arange(n)[:, None] - np.arange(n)[None, :]
    return np.where(difference >= 0, coefficients[np.maximum(difference, 0)], 0.0)


@lru_cache(maxsize=4096)
def record_units(form: Rational, count: int | None, lag: int | None) -> float:
    """``form.record_squares`` rounded up to a float: units of noise that one record moves."""
    return round_up(form.record_squares(count, lag))


def best_form(
    forms: Sequence[Rational], moved: Callable[[Rational], Decimal], horizon: int | None
) -> Rational:
    """The form of least worst-tick error among those with the fewest buffers that are ENOUGH.

    Args:
      forms: what to choose from.
      moved: squares of what is protected moves under a form.
      horizon: the worst tick is the last; None: of all ticks.
    """
    squares = [moved(form) * form.noise_squares(horizon) for form in forms]
    enough = min(squares) * ENOUGH
    fewest = min(
        len(form.poles) for form, square in zip(forms, squares, strict=True) if square <= enough
    )
    few = [(square, i) for i, square in enumerate(squares) if len(forms[i].poles) == fewest]
    return forms[min(few)[1]]


def with_buffers(
    mechanism: str, forms: Sequence[Rational], buffers: int | None
) -> Sequence[Rational]:
    """The forms with at most so many buffers.

    Raises:
      ConfigError: buffers is below 1.
    """
    if buffers is None:
        return forms
    if buffers < 1:
        raise ConfigError("mechanism.buffers", buffers, f"{mechanism} needs 1 buffer or more.")
    return [form for form in forms if len(form.poles) <= buffers]
