"""Buffered linear Toeplitz noise: a few decaying buffers for running totals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from weir.dpcore.accounting.contributions import Pattern
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.continual.exact import (
    Exact,
    FixedPoint,
    FixedState,
    curves_of,
    discrete_units,
    exact_loss,
    filtered_units,
    fixed_point,
    noise_scale,
)
from weir.dpcore.continual.rational import (
    Rational,
    repeated_squares,
    round_up,
    user_units,
    user_units_of_periods,
)
from weir.dpcore.continual.tables import PERPETUAL, WINDOWS
from weir.dpcore.continual.unit import (
    SumRequest,
    loss_of_units,
    noisy_coordinates,
    spread,
    to_lattice,
    within_horizon,
)
from weir.dpcore.errors import ConfigError
from weir.dpcore.native import kernels
from weir.dpcore.neighbours import Family
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
            f"asks {mechanism} for noise that may reach {largest:.3g} steps of the fixed-point "
            "grid, and "
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
      exact: where noise is in integers (``exact``); None: in floating point.
    """

    form: Rational
    horizon: int | None
    exact: Exact | None = field(default=None, kw_only=True)

    kinds: ClassVar[tuple[str, ...]] = ("gaussian",)
    ages: ClassVar[bool] = True
    settings: ClassVar[dict[str, str]] = {"buffers": "vectors of state per key, at most (1 to 8)"}

    @classmethod
    def of(cls, request: SumRequest, units: float, form: Rational, horizon: int | None) -> Self:
        """The sum that costs the budget for so many units.

        Raises:
          ConfigError: its noise could outgrow the lattice's integers.
        """
        built = cls(**request.fields(units), form=form, horizon=horizon)
        check_room(cls.name, built.noise_scale, built.scales, float(form.noise_squares(horizon)))
        return built

    def rows(self, ticks: int | None, periods: int = 1) -> int | None:
        """Rows that are looked at within ``ticks``: of so many periods in a row, if of any."""
        rows = ticks
        if self.pattern is not None:
            rows = self.pattern.rows(ticks, periods)
        if self.horizon is None:
            return rows
        return self.horizon if rows is None else min(rows, self.horizon)

    @cached_property
    def real_noise(self) -> tuple[str, float]:
        """The sum over all buffers is rounded: its standard deviation at the last tick."""
        squares = float(self.form.noise_squares(self.horizon))
        return "gaussian", self.noise_scale * max(self.scales, default=0.0) * math.sqrt(squares)

    @property
    def drawn_exactly(self) -> bool:
        """Unless its roundings take too much."""
        return self.exact is not None

    @property
    def fixed(self) -> FixedPoint:
        """The arithmetic of exact noise."""
        return fixed_of(self.form, self.horizon)

    def init_noise(self, n_keys: int) -> BufferState | FixedState:
        """Empty buffers."""
        if self.exact is not None:
            return self.fixed.state(n_keys, len(noisy_coordinates(self.scales)))
        return self.buffers(n_keys)

    def buffers(self, n_keys: int) -> BufferState:
        """Empty buffers of Gaussian noise."""
        active, buffers = len(noisy_coordinates(self.scales)), len(self.form.poles)
        return BufferState(np.zeros((n_keys, active, buffers), dtype=np.float64))

    def draw(
        self, own: Any, chain: Digests, leaf_digests: Digests, noise: Noise
    ) -> tuple[Any, Ints]:
        """Correlates one unit a tick, keyed with the tick and all of the key's leaves so far."""
        n, keys = leaf_digests.shape[:2]
        if self.horizon is not None:
            within_horizon(self.name, self.horizon, noise.first_tick, n)
        active = list(noisy_coordinates(self.scales))
        if not active or self.noise_scale == 0:
            return own, np.zeros((n, keys, self.dimension), dtype=np.int64)
        if self.exact is not None:
            scales = tuple(self.scales[i] for i in active)
            own, fine = self._filtered(own, noise, chain[1:], scales)
            whole = to_lattice(fine, self.noise_scale, scales)
        else:
            labels = label(0, noise.first_tick + np.arange(n))
            units = noise.gaussian(labels, chain[1:], len(active))
            own, drawn = correlated(self.form, own, units)
            drawn *= self.noise_scale * np.asarray(self.scales)[active]
            whole = np.rint(drawn, out=drawn).astype(np.int64)
        return own, spread(whole, active, self.dimension)

    def _filtered(
        self, own: FixedState, noise: Noise, chain: Digests, scales: tuple[float, ...]
    ) -> tuple[FixedState, Ints]:
        """Exact noise on the fine grids of the noisy coordinates."""
        zeta = discrete_units(noise, chain, self.noise_scale, scales)
        return filtered_units(self.fixed, own, zeta, curves_of(np.ones(len(chain) + 1)))

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


@lru_cache(maxsize=256)
def fixed_of(form: Rational, horizon: int | None) -> FixedPoint:
    """Fixed point for a form without gains and scales."""
    return fixed_point(form, horizon)


FOREVER = 2**40
"""Ticks that a guarantee without end is calibrated for: 34,865 years of seconds."""


@dataclass(frozen=True)
class Blt(BufferedSum):
    """Running totals with correlated noise from a few decaying buffers; expiration is graded.

    Release s_t = v_1 + ... + v_t + z_t with z = B xi, xi_t independent Gaussians of scale sigma,
    and B lower-triangular Toeplitz with b_0 = 1, b_k = sum_j omega_j theta_j^(k-1).

    **Formal guarantees**
      Unit: one event. Relation: that under which ``sensitivity`` was derived.
      Sensitivity: Delta = ``sensitivity``, the l2 norm of what one neighbour changes in
        (leaf / scales), at one tick. The coefficients c of C = B^-1 M, M the running sum, are
        positive and non-increasing for ever, because poles and zeros interlace.
      Guarantee: mu-GDP, adaptively and exactly: against everything released within n ticks of its
        arrival, mu_n = (Delta / sigma) sqrt(c_0^2 + ... + c_{n-1}^2). For releases up to tick
        i + n - 1 are a function of the first i + n - 1 rows of (C v + xi), and a record at tick i
        moves rows i .. i + n - 1 of C v by c_0 .. c_{n-1} times its change. mu_n grows slowly after
        the window that it was calibrated for, and has no limit: without an end of the clock nothing
        is guaranteed for ever. Nothing is released after ``horizon``, so mu_n = mu_horizon beyond
        it. A user (``pattern``): mu^2 = (Delta / sigma)^2 times ``over_keys`` of F(j), what j
        contributions of a key move within the rows from the start of the period to the end of the
        window after it; columns have no negative inner products, so it holds adaptively as long as
        caps do on every path (Choquette-Choo et al. 2023; Smith, Thakurta 2022).
      Without window and without end: calibrated for 2^40 ticks, which is then the horizon.
      Error: at tick t (from 0) sigma^2 (b_0^2 + ... + b_t^2), bounded for all t.
      Noise: in integers and exact, mu_n plus what roundings of n rows move, as
        ``dpcore.continual.exact`` proves. Where that would take more than a thousandth of the
        budget, as on a clock without end, it is made of doubles, which are not exactly Gaussian.
      Source: matrix mechanisms for running sums under adaptive input: Denisov, McMahan, Rush,
        Smith, Thakurta (2022); buffered linear Toeplitz noise: Dvijotham, McMahan, Pillutla,
        Steinke, Thakurta (2024). The loss within n ticks is derived in this project.
    """

    name: ClassVar[str] = "blt"
    signed: ClassVar[bool] = False
    neighbours: ClassVar[Family] = Family(
        ("first", "last", "window"), "corners", "columns are alike but for how many rows follow"
    )
    patterned: ClassVar[bool] = True
    kinds: ClassVar[tuple[str, ...]] = ("gaussian",)
    title: ClassVar[str] = "Correlated noise from a few decaying buffers"
    source: ClassVar[str] = "Dvijotham, McMahan, Pillutla, Steinke, Thakurta (2024)"

    @classmethod
    def fitted(cls, request: SumRequest) -> Blt:
        """The least noise whose loss(window) is at most the budget.

        With a ``pattern`` the window begins with the last tick of the user's period. The option
        ``buffers`` is the most vectors of state.

        Raises:
          ConfigError: it cannot serve this.
        """
        buffers, pattern = request.options.get("buffers"), request.pattern
        form, count, end = chosen(request.window, request.horizon, buffers, pattern)
        units = units_of(form, count, pattern)
        try:
            exact = Exact(request.keys)
            scale = noise_scale(request, units, count, fixed_of(form, end), exact)
        except ConfigError:
            if request.exact:
                raise
            return cls.of(request, units, form, end)
        return cls(**request.fields_at(scale), form=form, horizon=end, exact=exact)

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """mu against everything released within ``ticks`` of arrival (None: for ever)."""
        rows = self.rows(ticks)
        return self._loss_of(units_of(self.form, rows, self.pattern), rows, 1)

    def _loss_of(self, units: float, rows: int | None, periods: int) -> PrivacyLoss:
        """Loss of so many units within so many rows, in so many periods."""
        if self.exact is None:
            return loss_of_units("gaussian", units, self.sensitivity, self.noise_scale)
        return exact_loss(self, self.exact, self.fixed, units, rows, periods)

    def loss_of_periods(self, periods: int, ticks: int | None, among: int) -> PrivacyLoss:
        """The smaller of the sum over periods and what the distances between them allow."""
        assert self.pattern is not None
        rows = self.rows(ticks, among)
        units = user_units_of_periods(self.form, periods, rows, self.pattern)
        near = self._loss_of(units, rows, periods)
        return min(near, super().loss_of_periods(periods, ticks, among), key=lambda x: x.value)

    def factor(self, ticks: Ints, over: int | None) -> Floats:
        """sum_{k <= t} (b_k - b_{k - over})^2: (m,)."""
        return self.form.noise_squares_at(np.asarray(ticks) + 1, over)


def units_of(form: Rational, rows: int | None, pattern: Pattern | None) -> float:
    """Units of noise that a record, or a user's contributions of a period, move within so many
    rows."""
    if pattern is not None:
        return user_units(form, rows, pattern)
    return 0.0 if rows is not None and rows <= 0 else record_units(form, rows, None)


@lru_cache(maxsize=1024)
def chosen(
    window: int | None,
    horizon: int | None,
    buffers: int | None = None,
    pattern: Pattern | None = None,
) -> tuple[Rational, int, int | None]:
    """The form of least worst-tick error.

    Returns:
      The form; the number of rows to calibrate for; the horizon.
    """
    rows = window if pattern is None else pattern.rows(window)
    if rows is None and horizon is None:
        perpetual = with_buffers(Blt.name, (PERPETUAL,), buffers)
        if perpetual:
            return perpetual[0], FOREVER, FOREVER
        horizon = FOREVER
    count = min(end for end in (rows, horizon) if end is not None)
    forms = with_buffers(Blt.name, (Rational((), ()), *WINDOWS, PERPETUAL), buffers)

    def moved(form: Rational) -> Decimal:
        if pattern is None:
            return form.record_squares(count)
        return repeated_squares(form, pattern.key_ticks, pattern.spacing, count)

    return best_form(forms, moved, horizon), count, horizon
