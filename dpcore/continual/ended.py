"""Running totals on a clock that ends: decaying buffers with public gains and scales per tick."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.continual.blt import BufferState, check_room, correlated
from weir.dpcore.continual.columns import (
    MOST_CELLS,
    Knots,
    Values,
    between,
    too_many,
    variances,
)
from weir.dpcore.continual.curves import fit, units_of, units_of_periods
from weir.dpcore.continual.exact import (
    VARIANCE_BITS,
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
from weir.dpcore.continual.rational import Rational
from weir.dpcore.continual.unit import (
    SumRequest,
    fine_variances,
    loss_of_units,
    noisy_coordinates,
    spread,
    to_lattice,
    within_horizon,
)
from weir.dpcore.errors import ConfigError
from weir.dpcore.neighbours import Family
from weir.dpcore.noise.noise import Noise, label

LONGEST = 1 << 20
"""Ticks of the longest clock: up to here the powers of ratios keep 2^-32 of their value."""


class EndedState(NamedTuple):
    """State of a key.

    Attributes:
      buffers: (K, a, m) float64, of each noisy coordinate.
      carried: (K, a) float64, the sum of (r_s - r_{s+1}) y_s over past ticks s.
    """

    buffers: Floats
    carried: Floats


@dataclass(frozen=True)
class EndedSum(ContinualSum):
    """Running totals on a clock of n ticks: within 1 % of the least worst error of any mechanism.

    With xi_t ~ N(0, sigma^2), public gains e_t > 0 and scales r_t > 0:

        y_t = xi_t / e_t + sum_j omega_j u_j;  u_j <- theta_j u_j + xi_t / e_t
        z_t = r_t y_t + q;                     q <- q + (r_t - r_{t+1}) y_t
        release v_1 + ... + v_t + z_t

    In matrices B = M D^-1 T_b E^-1 and C = E T_c D, with D = diag(1 / r), M the running sum and
    B C = M; both are lower-triangular.

    **Formal guarantees**
      Unit: one event. Relation: that under which ``sensitivity`` was derived.
      Sensitivity: Delta = ``sensitivity``, the l2 norm of what one neighbour changes in
        (leaf / scales), at one tick. Column t of C within k rows has the squared norm
        h_t(k) / r_t^2, h_t(k) = sum_{x < k} e_{t+x}^2 c_x^2. Any positive r and e are private at
        the maximum over t, which is what is charged.
      Guarantee: mu-GDP, adaptively: outputs up to tick t are a function of rows 0 .. t of
        C v + xi, and a record of tick i moves row t by C[t, i], fixed before xi_t is drawn. So
        mu = (Delta / sigma) max_t sqrt(h_t(n)) / r_t against everything that is ever released. A
        record of the last tick loses all of it at once: there is no graded expiration.
      Window: with W ticks, n / 2 <= W < n, r_t is the norm of column t within W rows, and mu holds
        within W ticks of the arrival. Larger windows cost max_t h_t(n) / r_t^2.
      A user (``pattern``): the squared change of one key by contributions at i_0 < ... < i_b, each
        g ticks or more apart, is at most the sum of phi_a(i_a), where phi_a(i) is the square of
        column i plus twice the largest products of column i with columns g, 2 g, .., a g or more
        before it. One forward pass with a running maximum gives the largest sum for each count; the
        maximum is taken over the count too, since fewer contributions may lie where more have no
        room. No product is negative (c, e and r are positive), so keys add up as ``over_keys``
        says, adaptively as long as contribution bounds hold on every path.
      Late keys start with empty buffers under the clock's gains: their loss is the same, their
        variance at most that of a key from the first tick on.
      Noise: in integers and exact, mu of the same change and of roundings, as
        ``dpcore.continual.exact`` proves. Where these would take more than a thousandth of the
        budget, or the noise of a tick is more than 16 sigma, as it is for many contributions of a
        user, it is made of doubles, which are not exactly Gaussian.
      Source: matrix mechanisms for running sums under adaptive input: Denisov, McMahan, Rush,
        Smith, Thakurta (2022); buffered linear Toeplitz noise: Dvijotham, McMahan, Pillutla,
        Steinke, Thakurta (2024). Gains and scales for a clock that ends: derived in this project.

    Attributes:
      form: of b and c, from a table. horizon: n.
      knots: ticks at which gains and scales are given, the first and the last included.
      gains, scales_of_ticks: e and r at the knots, linear between them; float32 values.
      window: W; None: n or more.
      exact: where noise is in integers (``exact``); None: in floating point.
    """

    form: Rational
    horizon: int
    knots: tuple[int, ...]
    gains: tuple[float, ...]
    scales_of_ticks: tuple[float, ...]
    window: int | None
    exact: Exact | None = field(default=None, kw_only=True)

    name: ClassVar[str] = "ended"
    kinds: ClassVar[tuple[str, ...]] = ("gaussian",)
    signed: ClassVar[bool] = False
    neighbours: ClassVar[Family] = Family(
        ("first", "last", "window"), "corners", "all columns of the clock have the same norm"
    )
    patterned: ClassVar[bool] = True
    caveat: ClassVar[str] = "no graded expiration"
    title: ClassVar[str] = "Correlated noise fitted to a clock that ends"
    source: ClassVar[str] = "this project, on Dvijotham et al. (2024)"

    @classmethod
    def fitted(cls, request: SumRequest) -> Self:
        """The noise whose loss against everything of the window is the budget.

        Raises:
          ConfigError: the clock has no end or is too long, the window is shorter than half of it,
            or a user has too many contributions.
        """
        n, pattern = request.horizon, request.pattern
        if n is None:
            raise ConfigError(
                "clock.end", None, f"is missing, and {cls.name} serves a clock that ends; set it."
            )
        if n > LONGEST:
            raise ConfigError(
                "clock.end",
                n,
                f"ends a clock of more than {LONGEST:,} ticks, the most of {cls.name}; take blt.",
            )
        window = None if request.rows is None or request.rows >= n else request.rows
        if window is not None and (pattern is not None or 2 * window < n):
            raise ConfigError(
                "privacy.protect_for",
                window,
                f"is shorter than {cls.name} serves on a clock of {n:,} ticks; take all, or blt.",
            )
        if pattern is not None and pattern.longest_key * n > MOST_CELLS:
            raise too_many(pattern.longest_key, n)
        form, knots, gains, scales = fit(n, window, pattern)
        units = units_of(form, n, knots, gains, scales, window, pattern)
        rows = n if pattern is not None or window is None else window
        try:
            fixed = fixed_of(form, n, knots, gains, scales)
            scale = noise_scale(request, units, rows, fixed, Exact(request.keys))
            fields = request.fields_at(scale) | {"exact": Exact(request.keys)}
        except ConfigError:
            if request.exact:
                raise
            fields = request.fields(units)
        ended = cls(
            **fields,
            form=form,
            horizon=n,
            knots=knots,
            gains=gains,
            scales_of_ticks=scales,
            window=window,
        )
        check_room(cls.name, ended.noise_scale, ended.scales, ended._largest_square)
        return ended

    @property
    def _parts(self) -> tuple[Rational, int, tuple[int, ...], tuple[float, ...], tuple[float, ...]]:
        return self.form, self.horizon, self.knots, self.gains, self.scales_of_ticks

    @property
    def _largest_square(self) -> float:
        return float(variances(*self._parts, None).max())

    @property
    def real_noise(self) -> tuple[str, float]:
        """The noise of the worst tick is rounded."""
        worst = math.sqrt(self._largest_square)
        return "gaussian", self.noise_scale * max(self.scales, default=0.0) * worst

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """mu against everything released within ``ticks`` of arrival (None: for ever)."""
        units = units_of(*self._parts, ticks, self.pattern)
        rows = self.horizon if ticks is None or self.pattern is not None else ticks
        return self._loss_of(units, min(rows, self.horizon), 1)

    def _loss_of(self, units: float, rows: int, periods: int) -> PrivacyLoss:
        """Loss of so many units within so many rows, in so many periods."""
        if self.exact is None:
            return loss_of_units("gaussian", units, self.sensitivity, self.noise_scale)
        return exact_loss(self, self.exact, self.fixed, units, rows, periods)

    def loss_of_periods(self, periods: int, ticks: int | None, among: int) -> PrivacyLoss:
        """The smaller of the sum over periods and what the distances between them allow."""
        assert self.pattern is not None
        units = units_of_periods(*self._parts, periods, self.pattern)
        near = self._loss_of(units, self.horizon, periods)
        return min(near, super().loss_of_periods(periods, ticks, among), key=lambda x: x.value)

    def factor(self, ticks: Ints, over: int | None) -> Floats:
        """Variance of z_t, or of z_t - z_{t - over}, in units of sigma^2: (m,)."""
        at = np.minimum(np.asarray(ticks), self.horizon - 1)
        return np.asarray(variances(*self._parts, over)[at])

    def ratios(self, ticks: Ints) -> Floats:
        """Standard deviation of what is drawn in integers at ticks (m,), r_t / e_t sigma: (m,)."""
        scales = between(self.knots, self.scales_of_ticks, ticks)
        return np.asarray(scales / between(self.knots, self.gains, ticks))

    def drawn_variances(self, scale: float, ticks: Ints) -> tuple[int, ...]:
        """Variances of what is drawn of a coordinate of this scale, on its fine grid: (m,)."""
        ratios = self.ratios(ticks).tolist()
        each = [fine_variances(self.noise_scale, (scale,), r, VARIANCE_BITS) for r in ratios]
        return tuple(variance for (variance,) in each)

    @property
    def drawn_exactly(self) -> bool:
        """Unless its roundings take too much."""
        return self.exact is not None

    @property
    def fixed(self) -> FixedPoint:
        """The arithmetic of exact noise."""
        return fixed_of(*self._parts)

    @property
    def oversize(self) -> float:
        """Variances that change with the tick are rounded up."""
        return super().oversize if self.exact is None else 1 + 2.0 ** (1 - VARIANCE_BITS)

    def init_noise(self, n_keys: int) -> EndedState | FixedState:
        """Empty buffers."""
        active, buffers = len(noisy_coordinates(self.scales)), len(self.form.poles)
        if self.exact is not None:
            return self.fixed.state(n_keys, active)
        return EndedState(np.zeros((n_keys, active, buffers)), np.zeros((n_keys, active)))

    def draw(
        self, own: Any, chain: Digests, leaf_digests: Digests, noise: Noise
    ) -> tuple[Any, Ints]:
        """Correlates one unit a tick, keyed with the tick and all of the key's leaves so far.

        One operation at a time, elementwise, in the order of ticks: the same bits however ticks are
        split into strides and keys into blocks.
        """
        n, keys = leaf_digests.shape[:2]
        first = noise.first_tick
        within_horizon(self.name, self.horizon, first, n)
        active = list(noisy_coordinates(self.scales))
        if not active or self.noise_scale == 0:
            return own, np.zeros((n, keys, self.dimension), dtype=np.int64)
        ticks = np.arange(first, first + n + 1)
        gains = between(self.knots, self.gains, ticks)[:n, None, None]
        scales = between(self.knots, self.scales_of_ticks, ticks)
        if self.exact is not None:
            some = tuple(self.scales[i] for i in active)
            ratios = self.ratios(ticks[:n])
            zeta = discrete_units(noise, chain[1:], self.noise_scale, some, ratios)
            curves = curves_of(scales / max(self.scales_of_ticks))
            own, fine = filtered_units(self.fixed, own, zeta, curves)
            return own, spread(to_lattice(fine, self.noise_scale, some), active, self.dimension)
        units = noise.gaussian(label(0, ticks[:n]), chain[1:], len(active))
        units /= gains
        buffers, drawn = correlated(self.form, BufferState(own.buffers), units)
        carried = np.empty((n + 1, *own.carried.shape))
        carried[0] = own.carried
        np.multiply(drawn, (scales[:n] - scales[1:])[:, None, None], out=carried[1:])
        np.add.accumulate(carried, axis=0, out=carried)
        drawn *= scales[:n, None, None]
        drawn += carried[:n]
        drawn *= self.noise_scale * np.asarray(self.scales)[active]
        whole = np.rint(drawn, out=drawn).astype(np.int64)
        after = EndedState(buffers.buffers, carried[n].copy())
        return after, spread(whole, active, self.dimension)

    def materialize(self, n: int) -> Floats:
        """(n, n) matrix B. For tests only."""
        ticks = np.arange(n)
        gains = between(self.knots, self.gains, ticks)
        scales = between(self.knots, self.scales_of_ticks, ticks)
        b = self.form.noise_coefficients(n)
        lag = ticks[:, None] - ticks[None, :]
        toeplitz = np.where(lag >= 0, b[np.maximum(lag, 0)], 0.0) / gains
        return np.cumsum(scales[:, None] * np.diff(toeplitz, axis=0, prepend=0.0), axis=0)


@lru_cache(maxsize=64)
def fixed_of(form: Rational, n: int, knots: Knots, gains: Values, scales: Values) -> FixedPoint:
    """Fixed point for buffers under gains and scales."""
    ticks = np.arange(n)
    return fixed_point(form, n, between(knots, gains, ticks), between(knots, scales, ticks))
