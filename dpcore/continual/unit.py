"""One unit of noise: how it is drawn, what it costs, and how large it must be."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import numpy as np

from weir.dpcore.accounting.contributions import Pattern
from weir.dpcore.accounting.guarantee import LossKind, PrivacyLoss
from weir.dpcore.arrays import Digests, Floats, Ints, accumulate
from weir.dpcore.errors import ConfigError, WeirError
from weir.dpcore.noise.discrete_gaussian import WIDER
from weir.dpcore.noise.noise import Noise, k_norm_variance, kind_of

NOISE_OF: Mapping[LossKind, str] = {
    "gdp": "gaussian",
    "zcdp": "discrete_gaussian",
    "pure": "k_norm",
}
"""The noise that meets a budget of each kind."""

BITS = 34
"""A standard deviation of exact Gaussian noise is 2^34 steps of its grid or more."""
WIDEST = 2.0**39
"""From so many steps of the lattice on the sampler ends, and Gaussian noise is made of doubles."""


@dataclass(frozen=True, kw_only=True)
class SumRequest:
    """What a continual sum is calibrated for.

    Attributes:
      dimension, scales, sensitivity, overs, pattern: as of a ``ContinualSum``.
      window: protection horizon in ticks; None: for ever.
      horizon: ticks of the clock; None: no end.
      budget: its kind decides the noise, and where it is pure, the norm does.
      options: of the mechanism, by field of its section.
      norm: in which ``sensitivity`` is measured. 2: K-norm noise where the budget is pure. 1:
        independent Laplace noise.
      keys: most keys that two neighbours differ in, within one period.
      exact: whether noise in floating point is refused.
    """

    dimension: int
    scales: tuple[float, ...]
    sensitivity: float
    overs: tuple[int | None, ...]
    window: int | None
    horizon: int | None
    budget: PrivacyLoss
    pattern: Pattern | None
    options: Mapping[str, Any]
    norm: int = 2
    keys: int = 2
    exact: bool = False

    @property
    def kind(self) -> str:
        """The noise."""
        return "laplace" if self.norm == 1 else NOISE_OF[self.budget.kind]

    @property
    def rows(self) -> int | None:
        """Rows against which a neighbour's change is protected; None: all."""
        return self.window if self.pattern is None else self.pattern.rows(self.window)

    @property
    def end(self) -> int | None:
        """Those rows, or the ticks of a shorter clock; None: neither has an end."""
        return min((n for n in (self.rows, self.horizon) if n is not None), default=None)

    def fields(self, units: float) -> dict[str, Any]:
        """The fields of any ``ContinualSum`` that costs the budget for so many units of noise."""
        return self.fields_at(noise_scale_for(units, self.sensitivity, self.budget))

    def fields_at(self, scale: float) -> dict[str, Any]:
        """The fields of any ``ContinualSum`` with such a noise scale."""
        return {
            "dimension": self.dimension,
            "scales": self.scales,
            "sensitivity": self.sensitivity,
            "noise_scale": scale,
            "overs": self.overs,
            "pattern": self.pattern,
        }


@lru_cache(maxsize=1024)
def noisy_coordinates(scales: tuple[float, ...]) -> tuple[int, ...]:
    """Coordinates that get noise: those whose scale is not 0."""
    return tuple(i for i, scale in enumerate(scales) if scale != 0)


@lru_cache(maxsize=256)
def _noisy(scales: tuple[float, ...]) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Those coordinates, and their scales: made once, as models have thousands."""
    active = noisy_coordinates(scales)
    return active, scales if len(active) == len(scales) else tuple(scales[i] for i in active)


@lru_cache(maxsize=4096)
def lattice_variances(
    noise_scale: float, scales: tuple[float, ...], multiplier: float = 1.0
) -> tuple[int, ...]:
    """sigma^2 of the discrete Gaussian per coordinate, rounded up; 0 where the scale is 0."""
    sigma = Fraction(noise_scale) * Fraction(multiplier)
    # A model's d^2 moments share few scales; exact fractions are expensive.
    results = {0.0: 0}
    for scale in set(scales) - {0.0}:
        results[scale] = max(1, math.ceil((sigma * Fraction(scale)) ** 2))
    return tuple(results[scale] for scale in scales)


def finer(stddev: float) -> int:
    """Bits that the grid of exact Gaussian noise is finer than the lattice.

    stddev: in steps of the lattice.
    """
    return max(0, BITS + 1 - math.frexp(stddev)[1])


def fine_variances(
    sigma: float, scales: tuple[float, ...], ratio: float = 1.0, bits: int = 0
) -> tuple[int, ...]:
    """Variance of exact Gaussian noise of each coordinate on its grid, rounded up.

    Larger than (ratio sigma scale)^2 by ``WIDER``^2, with which it costs no more than Gaussian
    noise of that size. bits: significant ones to which it is rounded up in addition; 0: all.
    """
    results = {scale: _fine_variance(sigma, scale, ratio, bits) for scale in set(scales)}
    if len(results) == 1:  # in wide models, by the hundred thousand
        return tuple(results.values()) * len(scales)
    return tuple(results[scale] for scale in scales)


@lru_cache(maxsize=1 << 12)
def _fine_variance(sigma: float, scale: float, ratio: float, bits: int) -> int:
    size = Fraction(sigma) * Fraction(scale) * Fraction(ratio) * 2 ** finer(sigma * scale)
    square = math.ceil((size * WIDER) ** 2)
    drop = max(0, square.bit_length() - bits) if bits else 0
    return int(-(-square >> drop) << drop)


def _shifts(sigma: float, scales: tuple[float, ...]) -> Ints:
    """Bits that grids are finer: (a,), or (1,) where all are alike."""
    sizes = {scale: min(finer(sigma * scale), 62) for scale in set(scales)}
    some = scales[:1] if len(set(sizes.values())) == 1 else scales
    return np.array([sizes[scale] for scale in some], dtype=np.int64)


def to_lattice(fine: Ints, sigma: float, scales: tuple[float, ...]) -> Ints:
    """Fine steps (n, K, a), which are written over, to the nearest steps of the lattice: that is
    post-processing."""
    bits = _shifts(sigma, scales)
    fine += (np.int64(1) << bits) >> 1
    fine >>= bits
    return fine


def spread(noise: Ints, active: Sequence[int], dimension: int) -> Ints:
    """Noise of some coordinates (n, K, a) -> of all of them (n, K, d), 0 of the others."""
    if len(active) == dimension:
        return noise
    out = np.zeros((*noise.shape[:2], dimension), dtype=np.int64)
    out[:, :, active] = noise
    return out


def chained(before: Digests, digests: Digests) -> Digests:
    """XOR of all digests before each tick of a stride, and behind it: (n + 1, K, 2).

    Args:
      before: (K, 2). digests: (n, K, 2), of the leaves.
    """
    result = np.concatenate([before[None], digests])
    accumulate(np.bitwise_xor, result)
    return result


def draw_units(
    kind: str,
    noise: Noise,
    labels: Digests,
    digests: Digests,
    noise_scale: float,
    scales: tuple[float, ...],
    multipliers: Floats | None = None,
) -> Ints:
    """Independent units of noise on the lattice, all in one bulk call.

    Args:
      kind: "gaussian" (exact on a finer grid, real-valued from ``WIDEST`` on), "k_norm" and
        "laplace" (real-valued), all rounded to the lattice, which is post-processing; or
        "discrete_gaussian" (on the lattice from the start).
      noise: the keyed noise of the stride.
      labels: (m, 2) uint64. digests: (m, K, 2) uint64.
      noise_scale: sigma or b. scales: (d,) lattice units; coordinates of scale 0 get no noise.
      multipliers: (m,) factors on noise_scale, one a unit; None: all 1.

    Returns:
      (m, K, d) int64.
    """
    m, keys, d = digests.shape[0], digests.shape[1], len(scales)
    active, some = _noisy(scales)
    if not active or noise_scale == 0:
        return np.zeros((m, keys, d), dtype=np.int64)
    if kind in ("gaussian", "discrete_gaussian"):
        draw = partial(_whole, kind, noise, noise_scale, some)
        drawn = _by_size(draw, labels, digests, multipliers, len(some))
    else:
        drawn = _rounded(_real(kind, noise, labels, digests, noise_scale, some), multipliers)
    if len(active) == d:
        return drawn
    out = np.zeros((m, keys, d), dtype=np.int64)
    out[:, :, list(active)] = drawn
    return out


def real_units(
    kind: str,
    noise: Noise,
    labels: Digests,
    digests: Digests,
    noise_scale: float,
    scales: tuple[float, ...],
) -> Floats:
    """Those of real-valued noise before they are rounded, of the coordinates that get noise.

    Returns:
      (m, K, a) float64, lattice units.
    """
    active, some = _noisy(scales)
    if not active or noise_scale == 0:
        return np.zeros((*digests.shape[:2], len(active)))
    return _real(kind, noise, labels, digests, noise_scale, some)


def _real(
    kind: str,
    noise: Noise,
    labels: Digests,
    digests: Digests,
    noise_scale: float,
    scales: tuple[float, ...],
) -> Floats:
    if kind == "gaussian":
        sample = noise.gaussian
    else:
        sample = noise.laplace if kind == "laplace" else noise.k_norm
    return sample(labels, digests, len(scales)) * (noise_scale * np.asarray(scales))


def _rounded(raw: Floats, multipliers: Floats | None) -> Ints:
    if multipliers is not None:
        raw *= multipliers[:, None, None]
    return np.rint(raw, out=raw).astype(np.int64)


def _by_size(
    draw: Callable[[float, Digests, Digests], Ints],
    labels: Digests,
    digests: Digests,
    multipliers: Floats | None,
    width: int,
) -> Ints:
    """Units of whole numbers: one bulk call for each distinct multiplier."""
    if multipliers is None or (multipliers == multipliers[:1]).all():
        item = 1.0 if multipliers is None or not multipliers.size else float(multipliers[0])
        return draw(item, labels, digests)
    out = np.empty((*digests.shape[:2], width), dtype=np.int64)
    for multiplier in np.unique(multipliers):
        rows = np.flatnonzero(multipliers == multiplier)
        out[rows] = draw(float(multiplier), labels[rows], digests[rows])
    return out


def _whole(
    kind: str,
    noise: Noise,
    noise_scale: float,
    scales: tuple[float, ...],
    multiplier: float,
    labels: Digests,
    digests: Digests,
) -> Ints:
    """Discrete Gaussians on the lattice, or Gaussian noise: on a finer grid, and rounded."""
    if kind == "discrete_gaussian":
        variances = lattice_variances(noise_scale, scales, multiplier)
        return noise.discrete_gaussian(labels, digests, variances)
    sigma = noise_scale * multiplier
    if not fits_sampler(sigma, scales):
        return _rounded(_real(kind, noise, labels, digests, sigma, scales), None)
    fine = noise.discrete_gaussian(labels, digests, fine_variances(sigma, scales))
    return to_lattice(fine, sigma, scales)


def fits_sampler(sigma: float, scales: Sequence[float]) -> bool:
    """Whether Gaussian noise of such a size is drawn exactly."""
    return sigma * max(scales, default=0.0) < WIDEST


def unit_variance(kind: str, noise_scale: float, scales: Sequence[float]) -> float:
    """Variance of one coordinate of one unit, in units of scales^2 (before rounding)."""
    square = noise_scale * noise_scale  # infinite, not an error, where it is out of range
    if kind == "laplace":
        return 2 * square
    if kind != "k_norm":
        return square
    return square * k_norm_variance(sum(scale != 0 for scale in scales))


def loss_of_units(kind: str, units: float, sensitivity: float, noise_scale: float) -> PrivacyLoss:
    """Loss of a record that moves ``units`` units of noise by its whole sensitivity, adaptively.

    Gaussian: mu^2 = units (Delta / sigma)^2, drawn in whole numbers too
    (``dpcore.noise.discrete_gaussian``). Discrete Gaussian: rho = units Delta^2 / (2 sigma^2).
    K-norm and Laplace: eps = units Delta / b, Delta in l2 and in l1. Sources: Dong, Roth,
    Su (2022); Canonne, Kamath, Steinke (2020); Hardt, Talwar (2010); Dwork, McSherry, Nissim,
    Smith (2006).
    """
    kind_ = kind_of(kind)
    if units == 0 or sensitivity == 0:
        return PrivacyLoss(kind_, 0.0)
    if noise_scale == 0 or math.isinf(units):
        return PrivacyLoss(kind_, math.inf)
    ratio = sensitivity / noise_scale
    if kind_ == "gdp":
        return PrivacyLoss(kind_, math.sqrt(units) * ratio)
    return PrivacyLoss(kind_, units * ratio * ratio / 2 if kind_ == "zcdp" else units * ratio)


def noise_scale_for(units: float, sensitivity: float, budget: PrivacyLoss) -> float:
    """Smallest noise scale, rounded toward privacy, at which the units cost at most the budget.

    Raises:
      ConfigError: the budget is not a number above 0.
    """
    if not budget.value > 0 or math.isnan(budget.value):
        raise ConfigError("privacy.epsilon", None, "leaves no budget; raise epsilon or delta.")
    if sensitivity == 0 or math.isinf(budget.value):
        return 0.0
    if budget.kind == "gdp":
        scale = sensitivity * math.sqrt(units) / budget.value
    elif budget.kind == "zcdp":
        scale = sensitivity * math.sqrt(units / (2 * budget.value))
    else:
        scale = sensitivity * units / budget.value
    noise = NOISE_OF[budget.kind]
    while loss_of_units(noise, units, sensitivity, scale).value > budget.value:
        scale = math.nextafter(scale, math.inf)
    return scale


def check_request(
    mechanism: str,
    kinds: Sequence[str],
    request: SumRequest,
    served: bool,
    unknown: Mapping[str, Any],
) -> None:
    """Raises ConfigError unless the mechanism serves what is requested.

    Args:
      kinds: noises that it has. served: whether it serves the sums. unknown: settings that it does
        not have.
    """
    for name, value in unknown.items():
        if value is not None:
            raise ConfigError(
                f"mechanism.{name}", value, f"{mechanism} has no such setting; remove it."
            )
    if not served:
        shown = ["all" if over is None else over for over in request.overs]
        raise ConfigError(
            "over", shown, f"{mechanism} cannot serve this; choose another mechanism."
        )
    if request.norm == 1 and request.budget.kind != "pure":
        raise ConfigError(
            "mechanism.noise",
            "laplace",
            "takes a pure budget; set the budget's kind to pure, or the norm to 2.",
        )
    if request.kind not in kinds:
        raise ConfigError(
            "mechanism.noise",
            request.kind,
            f"{mechanism} serves {', '.join(kinds)}; choose another mechanism.",
        )


def within_horizon(mechanism: str, horizon: int, first_tick: int, n: int) -> None:
    """Raises WeirError when a stride leaves the clock that the mechanism was calibrated for."""
    if first_tick < 0 or first_tick + n > horizon:
        raise WeirError(
            f"{mechanism} was calibrated for {horizon} ticks, got ticks {first_tick} to "
            f"{first_tick + n - 1}."
        )
