"""Generalised Gaussian noise, and powers with the same bits on every CPU."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.errors import ConfigError, at_least_one, positive
from weir.dpcore.noise.gaussian import exact_log, normal_from_bits, sum_last
from weir.dpcore.noise.streams import Streams, Words, block_buffer

_LN2_HIGH = float.fromhex("0x1.62e42fefa0000p-1")  # 37 bits: exact times any exponent
_LN2_LOW = float.fromhex("0x1.cf79abc9e3b3ap-40")
_SERIES = tuple(1.0 / math.factorial(k) for k in range(14, -1, -1))


def exact_exp(x: Floats) -> Floats:
    """exp(x) for x <= 0 to about 2^-51, the same bits on every CPU (which is what is exact here).

    x = k ln 2 + r, |r| <= 0.35: a Taylor polynomial in r, then an exact shift. Below -745: 0.
    """
    x = np.maximum(x, -800.0)
    power = np.rint(x * (1.0 / math.log(2.0)))
    rest = (x - power * _LN2_HIGH) - power * _LN2_LOW
    out = np.full_like(rest, _SERIES[0])
    for coefficient in _SERIES[1:]:
        out *= rest
        out += coefficient
    return np.asarray(np.ldexp(out, power.astype(np.int64)))


def exact_power(x: Floats, exponent: float) -> Floats:
    """x^exponent for 0 < x <= 1 (normal floats) and exponent >= 0, to about 2^-50 (1 + exponent
    |ln x|) of itself."""
    return exact_exp(np.minimum(exponent * exact_log(x), 0.0))


def exact_exp_of(x: float) -> float:
    """``exact_exp`` of one float: the same bits."""
    x = max(x, -800.0)
    power = float(round(x * (1.0 / math.log(2.0))))
    rest = (x - power * _LN2_HIGH) - power * _LN2_LOW
    out = _SERIES[0]
    for coefficient in _SERIES[1:]:
        out = out * rest + coefficient
    return math.ldexp(out, int(power))


_ELEMENTS = 4096
_COORDINATE_SHIFT = 24
_RADIUS, _ATTEMPT = 1 << 56, 1 << 57
_UNIT = 2.0**-63
_UP = 1 + 2.0**-40


def generalised_gaussian(streams: Streams, dimension: int, exponent: float) -> Floats:
    """Vectors of density proportional to exp(-||x||_r^2 / 2): (m, K, dimension) float64.

    **Method.** Direction and radius are independent. X_i = S_i U_i G_i^(1/r), S_i a sign, U_i
    uniform, G_i ~ Gamma(1 + 1/r): then |X_i|^r ~ Gamma(1/r), and X / ||X||_r has the *cone* measure
    of the sphere of ||.||_r, which is what polar coordinates of this density need (not the surface
    measure, unless r is 2 or infinite). The radius is the root of a chi^2 variable of ``dimension``
    degrees, the sum of squares of as many normals. G_i is found by rejection (Marsaglia, Tsang:
    0.95 or more are taken), each attempt on a block of its own, as many as it takes: what is
    returned is the first that is accepted, however many are tried at once.

    The same bits on every CPU: only +, -, *, /, square roots and ``exact_log``, ``exact_exp``.

    **Formal guarantees**: see ``GeneralisedGaussian``.

    Args:
      streams: of (label, user key) pairs. exponent: r, 2 or more, finite.

    Raises:
      ConfigError: another exponent.

    Source: Bassily, Guzman, Nandi (2022), section 3, for the distribution; Schechtman, Zinn (1990)
    for the cone measure; Marsaglia, Tsang (2000) for Gamma variables.
    """
    at_least_one(dimension=dimension)
    if not 2 <= exponent < math.inf:
        raise ConfigError("exponent", exponent, "must be a finite number, 2 or more.")
    out = np.empty((*streams.shape, dimension))
    for where, seeds in streams.chunks(max(1, _ELEMENTS // dimension)):
        out[where] = _sample(streams, seeds, dimension, exponent).reshape(out[where].shape)
    return out


def _sample(streams: Streams, seeds: Words, d: int, exponent: float) -> Floats:
    """(P, 2) seeds -> (P, d)."""
    n = len(seeds)
    counters = np.arange(d, dtype=np.uint64) | np.uint64(_RADIUS)
    room = block_buffer(n * d), block_buffer(n * d)
    words = streams.blocks(seeds, counters, room)
    normals = normal_from_bits(np.ascontiguousarray(words[:, :, 0]).reshape(-1)).reshape(n, d)
    sign = 1.0 - 2.0 * (words[:, :, 1] & np.uint64(1)).astype(np.float64)
    uniform = ((words[:, :, 1] >> np.uint64(1)).astype(np.float64) + 0.5) * _UNIT
    uniform = np.minimum(uniform, 1.0)
    radius = np.sqrt(sum_last(normals * normals))
    gamma = _gammas(streams, seeds, d, 1 + 1 / exponent).reshape(n, d)
    # Only ratios count: ln |X_i|, then over the largest.
    size = exact_log(uniform) + exact_log(gamma) * (1.0 / exponent)
    size -= size.max(axis=1, keepdims=True)
    total = sum_last(exact_exp(size * exponent))  # in [1, d]: the largest is 1
    shrink = exact_power(1.0 / total, 1.0 / exponent)
    return np.asarray(sign * exact_exp(size) * (shrink * radius)[:, None])


def _gammas(streams: Streams, seeds: Words, d: int, shape: float) -> Floats:
    """Gamma variables of a shape of 1 or more, one a seed and coordinate: (P * d,).

    With x normal and v = (1 + c x)^3, m v is taken where ln u < x^2 / 2 + m - m v + m ln v.
    """
    middle = shape - 1 / 3
    c = 1 / math.sqrt(9 * middle)
    out = np.empty(len(seeds) * d)
    waiting, attempt = np.arange(out.size), 0
    buffers = block_buffer(out.size), block_buffer(out.size)
    while waiting.size:
        pair, coordinate = np.divmod(waiting, d)
        source = buffers[0][: waiting.size]
        counter = (coordinate << _COORDINATE_SHIFT) + (_ATTEMPT + attempt)
        np.bitwise_xor(seeds[pair, 0], counter.astype(np.uint64), out=source[:, 0])
        source[:, 1] = seeds[pair, 1]
        words = streams.encrypt(source, buffers[1])
        x = normal_from_bits(np.ascontiguousarray(words[:, 0]))
        uniform = ((words[:, 1] >> np.uint64(1)).astype(np.float64) + 0.5) * _UNIT
        v = 1.0 + c * x
        inside = v > 0
        v = np.where(inside, v, 1.0)
        v = v * v * v
        bound = 0.5 * x * x + middle * (1.0 - v + exact_log(v))
        done: Ints = np.flatnonzero(inside & (exact_log(np.minimum(uniform, 1.0)) < bound))
        out[waiting[done]] = middle * v[done]
        keep = np.ones(waiting.size, dtype=bool)
        keep[done] = False
        waiting, attempt = waiting[keep], attempt + 1
    return out


def kappa(exponent: float, dual: float, dimension: int) -> float:
    """(r - 1) d^(2/r - 2/q), rounded up: what noise of exponent r pays for an lq sensitivity."""
    power = 2 / exponent - (0.0 if math.isinf(dual) else 2 / dual)
    return (exponent - 1) * math.pow(dimension, power) * _UP


@functools.lru_cache(maxsize=1024)
def best_exponent(dual: float, dimension: int) -> float:
    """r in [2, q] of the least ``kappa``: 2, q, or where its derivative vanishes.

    Bits of a logarithm must not shape a plan: what lies between is rounded to 2^-20, and kappa is
    that of the rounded one.
    """
    result = [2.0] if math.isinf(dual) else [2.0, dual]
    log = math.log(dimension) if dimension > 1 else 0.0
    if log >= 2:
        between = math.ldexp(round(math.ldexp(log + math.sqrt(log * log - 2 * log), 20)), -20)
        if 2 <= between <= dual:
            result.append(between)
    return min(result, key=lambda r: kappa(r, dual, dimension))


@dataclass(frozen=True)
class GeneralisedGaussian:
    """f(D) + Z, Z of density proportional to exp(-||z||_r^2 / (2 sigma^2)).

    **Formal guarantees**
      Unit and relation: those under which ``sensitivity`` was derived.
      Sensitivity: ||f(D) - f(D')||_q <= ``sensitivity`` for neighbours D, D'; q >= 2 the dual
        exponent of the geometry.
      Guarantee: rho-zCDP with rho = kappa s^2 / (2 sigma^2), kappa = (r - 1) d^(2/r - 2/q), for
        every r in [2, q]: ||.||_r^2 / 2 is (r - 1)-smooth, so Renyi divergences of order a are at
        most a (r - 1) ||v||_r^2 / (2 sigma^2), and ||v||_r <= d^(1/r - 1/q) ||v||_q. kappa belongs
        to the r that is sampled.
      Source: Bassily, Guzman, Nandi (2022), section 3, as re-derived in zCDP.

    Attributes:
      dimension: d. dual: q, infinite where p = 1. exponent: r. sensitivity: s. sigma: of the noise.
    """

    dimension: int
    dual: float
    exponent: float
    sensitivity: float
    sigma: float

    def __post_init__(self) -> None:
        at_least_one(dimension=self.dimension)
        positive(sensitivity=self.sensitivity, sigma=self.sigma)
        if not 2 <= self.exponent <= self.dual or math.isinf(self.exponent):
            raise ConfigError(
                "exponent", self.exponent, f"must be finite and lie in [2, {self.dual:g}]."
            )

    @classmethod
    def calibrated(
        cls,
        dimension: int,
        dual: float,
        sensitivity: float,
        rho: float,
        exponent: float | None = None,
    ) -> GeneralisedGaussian:
        """The least noise of rho-zCDP, of the best exponent unless one is given."""
        positive(rho=rho)
        r = best_exponent(dual, dimension) if exponent is None else exponent
        sigma = sensitivity * math.sqrt(kappa(r, dual, dimension) / (2 * rho)) * _UP
        return cls(dimension, dual, r, sensitivity, sigma)

    @property
    def kappa(self) -> float:
        """Of the exponent that is sampled."""
        return kappa(self.exponent, self.dual, self.dimension)

    @property
    def rho(self) -> float:
        """What it costs, rounded up."""
        ratio = self.sensitivity / self.sigma
        return self.kappa * ratio * ratio / 2 * (1 + 2.0**-50)

    @property
    def stddev(self) -> float:
        """Of one coordinate: E x_1^2 = sigma^2 d E (|X_1| / ||X||_r)^2, the share Beta(1/r, (d - 1)
        / r) to the power 2 / r."""
        d, r = self.dimension, self.exponent
        if d == 1:
            return self.sigma
        log = math.lgamma(3 / r) - math.lgamma(1 / r)
        log += math.lgamma(d / r) - math.lgamma((d + 2) / r)
        return self.sigma * math.sqrt(d * math.exp(log))
