"""Correlated noise in integers: discrete Gaussians through buffers in fixed point.

**Formal guarantees.** On a grid 2^g times as fine as the lattice, with whole numbers zeta_t from a
discrete Gaussian of deviation sigma_t s (1 + 2^-17) or more, a release is a function of

    x_t = S_t + zeta_t + P_t(zeta_0, .., zeta_{t-1}),

S the exact sum and P a deterministic whole number: a linear filter, with roundings that are off by
eta at most. Sums are multiples of 2^g there, and rounding x to the lattice is post-processing.

- *Given all x so far*, x_t is a shifted discrete Gaussian, and neighbours shift it by the whole
  number D_t = zeta'_t - zeta_t. So mu^2 = the largest sum of (D_t / sigma_t)^2, adaptively
  (``dpcore.noise.discrete_gaussian``; rows in the order of ticks).
- *How large D is.* Let z = B zeta be the filter without roundings, of unit diagonal. Both runs have
  the same x, so B D = dS + de with |de_t| <= 2 eta, and D = C dv + B^-1 de: what Gaussian noise
  pays for, and the roundings. Without scales B^-1 has the coefficients of (1 - x) c(x): 1, then
  c_k - c_{k-1} <= 0 with a sum of -1 at least. So a rounding moves a row by 4 eta at most. With
  gains e and scales r (``ended``), weighted by 1 / sigma_t, it is E T_{1/b} M R^-1 (1 - x) de,
  and summation by parts gives 4 eta G, G = max over s <= t of e_t (1 / r_s + the variation of 1 / r
  until s).
- *Any number of rows.* A difference in rounding need not die out: each row counts, from the first
  that a unit moves. For n rows of K keys with d coordinates, sizes add up in l2 to
  4 eta G sqrt(n K d), in steps; a step is at most 2^-34 sigma. ||D|| is at most the sum of both.
- *Coefficients* are rounded to 2^-53, which is linear: B becomes B + F, and D grows by
  1 / (1 - ||B^-1 F||) at most, which is charged too (``widening``).
- *Size.* Buffers are sub-Gaussian, as discrete Gaussians are, and 2^61 units are 40 standard
  deviations. That a number of any release is beyond has a probability below 2^-1000, which delta
  leaves out.

Source: derived in this project.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.continual.rational import Rational
from weir.dpcore.continual.unit import (
    BITS,
    WIDEST,
    SumRequest,
    fine_variances,
    fits_sampler,
    loss_of_units,
    noise_scale_for,
    noisy_coordinates,
)
from weir.dpcore.errors import ConfigError
from weir.dpcore.native import kernels
from weir.dpcore.noise.noise import Noise, label

POINT = 53
"""Bits after the point of a coefficient."""
LIMIT = 61
"""Buffers stay below 2^61 units, FAR standard deviations out."""
FAR = 40.0
MOST = 2.0**-10
"""Share of the budget that roundings may take: where they take more, noise is made of doubles."""
VARIANCE_BITS = 11
"""A variance that changes with the tick is rounded up to so many bits, by 0.1 % at most: ticks
share tables."""


class FixedState(NamedTuple):
    """buffers: (K, a, m + 1) int64, those of each noisy coordinate, then what is carried."""

    buffers: Ints


@dataclass(frozen=True)
class FixedPoint:
    """Coefficients in fixed point, and what rounding costs.

    Attributes:
      theta, omega: (m,) units of 2^-53. fraction: bits after the point of a buffer.
      rounding: what roundings move a row and coordinate by at most, in sigmas.
      widening: what changes of sums grow by through rounded coefficients: a factor.
      most: noise of the largest tick, in sigmas.
    """

    theta: tuple[int, ...]
    omega: tuple[int, ...]
    fraction: int
    rounding: float
    widening: float
    most: float

    def state(self, n_keys: int, coordinates: int) -> FixedState:
        """Empty buffers."""
        return FixedState(np.zeros((n_keys, coordinates, len(self.theta) + 1), dtype=np.int64))

    def rounded(self, rows: int, keys: int, coordinates: int) -> float:
        """What roundings move so many rows of so many keys by, in sigmas."""
        return self.rounding * math.sqrt(float(rows) * keys * coordinates) * (1 + 2.0**-40)

    def loss(self, moved: float, rounded: float) -> PrivacyLoss:
        """mu of what sums and what roundings move, both in sigmas."""
        return PrivacyLoss("gdp", moved * self.widening + rounded)


@dataclass(frozen=True)
class Exact:
    """That noise is in integers. keys: most keys that a unit moves in one period."""

    keys: int


def fixed_point(
    form: Rational, horizon: int | None, gains: Floats | None = None, scales: Floats | None = None
) -> FixedPoint:
    """Fixed point for buffers of a form; gains and scales (n,) of every tick, where there are any.

    Raises:
      ConfigError: sums of so many ticks leave no bits after the point.
    """
    with_curves = gains is not None and scales is not None
    e = gains if with_curves else np.ones(1)
    r = scales if with_curves else np.ones(1)
    assert e is not None and r is not None
    ends = math.inf if horizon is None else float(horizon)
    lasting = [min(1 / pole, ends) for pole in form.poles]
    omega = tuple(round(weight * 2.0**POINT) for weight in form.omega)
    most, least = float((r / e).max()), float((r / r.max()).min())
    varied = float(np.abs(np.diff(r)).sum() + r[-1]) / float(r.max())
    # Variances of y and of buffers over those of what they take in; then of anything that is added.
    squares = [min(1 / (pole * (2 - pole)), ends) for pole in form.poles]
    longest = max(*squares, float(form.noise_squares(horizon)), 1.0)
    taken = WIDEST * max(1.0, float((r.max() / e).max()) / most)
    size = (1 + varied) * FAR * taken * math.sqrt(longest)
    fraction = min(LIMIT - 1 - BITS, math.floor(LIMIT - math.log2(size)))
    reach = sum(weight * 2.0**-POINT * last for weight, last in zip(omega, lasting, strict=True))
    of_sum = len(omega) / 2 + reach  # in units: of products, and what buffers add up
    carried = (len(r) / 2 + varied * (of_sum + 0.5)) if with_curves else 0.0
    eta = 0.5 + 2.0**-fraction * (0.5 + of_sum + carried) if omega else 0.0
    parts = np.maximum.accumulate(1 / r + np.cumsum(np.abs(np.diff(1 / r, prepend=1 / r[0]))))
    rounding = 4 * eta * float((e * parts).max()) * 2.0**-BITS * (1 + 2.0**-30)
    ratio = float(e.max() / e.min()) / least
    kappa = ratio**2 * 2.0 ** (1 - POINT) * (64 * (1 + math.sqrt(len(r))) + sum(lasting))
    # The sampler ends at 2^40 steps, its price begins at 2^28; ``times`` ends at 2^59.
    uneven = least < 2.0**-6 or float((r / e).min()) < 2.0**-6 or most > 2.0**4
    if fraction < 1 or kappa > 2.0**-10 or uneven:
        raise too_long(horizon)
    theta = tuple(int(value * 2.0**POINT) for value in form.theta)
    return FixedPoint(theta, omega, fraction, rounding, 1 + 2 * kappa + 2.0**-30, most)


def too_long(horizon: int | None) -> ConfigError:
    """The error where so many ticks leave no room."""
    shown = "no end" if horizon is None or horizon >= 2**40 else f"{horizon:,} ticks"
    return ConfigError(
        "mechanism.noise",
        "discrete_gaussian",
        f"cannot be correlated over {shown}: its roundings would take too much of the guarantee, "
        "or its ticks differ too much in size. "
        "Set clock.end or privacy.protect_for to fewer ticks, raise epsilon or delta, or leave "
        "mechanism out.",
    )


def noise_scale(
    request: SumRequest, units: float, rows: int, fixed: FixedPoint, exact: Exact
) -> float:
    """sigma at which so many units and the roundings of so many rows cost the budget.

    Raises:
      ConfigError: roundings would take more than ``MOST`` of it, or the noise is too large.
    """
    plain = noise_scale_for(units, request.sensitivity, request.budget)
    if plain == 0:
        return plain
    budget = request.budget.value
    rounded = fixed.rounded(rows, exact.keys, len(noisy_coordinates(request.scales)))
    if rounded > MOST * budget:
        raise too_long(request.horizon)
    change = request.sensitivity * math.sqrt(units)
    sigma = change * fixed.widening / (budget - rounded)
    while fixed.loss(change / sigma, rounded).value > budget:
        sigma = math.nextafter(sigma, math.inf)
    if not fits_sampler(sigma * fixed.most, request.scales):
        raise ConfigError(
            "privacy.epsilon",
            None,
            f"asks for correlated exact noise of {WIDEST:.2g} steps of the fixed-point grid or "
            "more; raise epsilon or delta, or protect for a shorter time.",
        )
    return sigma


def exact_loss(
    mechanism: Any, exact: Exact, fixed: FixedPoint, units: float, rows: int | None, periods: int
) -> PrivacyLoss:
    """mu of so many units within so many rows (None: all), in so many periods.

    Args:
      mechanism: has sensitivity, noise_scale and scales.
    """
    plain = loss_of_units("gaussian", units, mechanism.sensitivity, mechanism.noise_scale)
    if plain.value == 0:
        return plain
    if rows is None or math.isinf(plain.value):
        return PrivacyLoss("gdp", math.inf)
    active = len(noisy_coordinates(mechanism.scales))
    rounded = fixed.rounded(rows, exact.keys * periods, active)
    return fixed.loss(mechanism.sensitivity * math.sqrt(units) / mechanism.noise_scale, rounded)


def discrete_units(
    noise: Noise,
    chain: Digests,
    sigma: float,
    scales: tuple[float, ...],
    ratios: Floats | None = None,
) -> Ints:
    """zeta of each tick on the fine grids: (n, K, a) int64.

    The variance of a tick follows from that tick alone, however ticks are cut into strides.

    Args:
      chain: (n, K, 2), digests of all leaves until each tick. scales: of the noisy coordinates.
      ratios: (n,) sigma_t / sigma; None: 1 at every tick there is.
    """
    labels = label(0, noise.first_tick + np.arange(len(chain)))
    if ratios is None:
        return noise.discrete_gaussian(labels, chain, fine_variances(sigma, scales))
    each = [fine_variances(sigma, scales, ratio, VARIANCE_BITS) for ratio in ratios.tolist()]
    return noise.discrete_gaussian(labels, chain, each)


def curves_of(scales: Floats) -> Ints:
    """1 / r_t, r_t and r_t - r_{t+1} in units of 2^-53: (3, n) int64.

    Args:
      scales: (n + 1,) r over its largest value, of each tick and of the next.
    """
    whole = np.rint(np.ldexp(scales, POINT))
    inverse = np.rint(np.ldexp(1 / np.ldexp(whole[:-1], -POINT), POINT))
    return np.stack([inverse, whole[:-1], whole[:-1] - whole[1:]]).astype(np.int64)


def times(values: Ints, coefficient: int | np.int64) -> Ints:
    """(values coefficient + 2^52) >> 53, exactly: |values| < 2^61, |coefficient| < 2^59."""
    high, low = coefficient >> 32, coefficient & 0xFFFFFFFF
    above, below = values >> 32, values & 0xFFFFFFFF
    carry = (below.view(np.uint64) * np.uint64(low)) >> np.uint64(32)
    middle = above * low + below * high + carry.view(np.int64)
    return np.asarray(above * high * 2048 + ((middle + (1 << 20)) >> 21))


def filtered_units(
    fixed: FixedPoint, state: FixedState, zeta: Ints, curves: Ints
) -> tuple[FixedState, Ints]:
    """zeta + P over a stride, as the module's docstring has it.

    Integers alone, in the order of ticks: the same however ticks are split into strides, on every
    machine.

    Args:
      zeta: (n, K, a) int64, which are written over. curves: (3, n), of ``curves_of``.

    Returns:
      State after the stride, and (n, K, a) int64.
    """
    before = np.ascontiguousarray(np.moveaxis(state.buffers, 2, 0))
    after, out = before.copy(), np.ascontiguousarray(zeta, dtype=np.int64)
    bits, half = fixed.fraction, np.int64(1 << (fixed.fraction - 1))
    if kernels is not None and zeta.size:
        numbers = np.asarray([fixed.theta, fixed.omega], dtype=np.int64)
        rows = np.ascontiguousarray(curves.T)
        kernels.correlate_exact(out, after, numbers, rows, np.asarray([bits], dtype=np.int64))
        return FixedState(np.moveaxis(after, 0, 2)), out
    for own, (inverse, scale, step) in zip(out, curves.T, strict=True):
        taken = times(own << bits, inverse)
        total = np.zeros_like(own)
        for u, omega in zip(after, fixed.omega, strict=False):
            total += times(u, omega)
        past = times(total, scale) + after[-1]
        own += (past + half) >> bits
        after[-1] += times(taken + total, step)
        for u, theta in zip(after, fixed.theta, strict=False):
            u[...] = times(u, theta) + taken
    return FixedState(np.moveaxis(after, 0, 2)), out
