"""Normal, exponential and K-norm noise from random bits.

Uniform bits to normals and exponentials, with the same bits on every CPU.

Only + - * / and square roots, comparisons and integer operations are used, one rounding each: IEEE
754 fixes their results. numpy's ``exp`` and ``log`` differ between CPU feature sets, and scipy's
``ndtri`` goes through the platform's ``log``, so neither may appear here.

Normals within a known error of those that are released, for a third of the time.

Who wants to know only whether noise comes near a bound looks at these first, and draws the
others where it does. They are read off a table by the first 16 of their 64 bits; the few behind the
table's ends are drawn as they are.

Public normals: random, known to everybody, and the same wherever and whenever they are drawn.

For what must be random but not secret: a random projection, Monte-Carlo. Never noise of a release.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import positive
from weir.dpcore.native import kernels
from weir.dpcore.noise.streams import NORMALS, Aes, Streams

CHUNK = 8192
"""Samples worked on at once: six buffers of this length stay in a second-level cache."""

_LN2_HIGH = float.fromhex("0x1.62e42fefa0000p-1")  # 37 bits: exact times any exponent
_LN2_LOW = float.fromhex("0x1.cf79abc9e3b3ap-40")
_ROOT_HALF_BITS = np.int64(0x3FE6A09E667F3BCD)  # bits of sqrt(1/2)


def _constants(values: Iterable[float]) -> tuple[Floats, ...]:
    """Each as an array of no dimensions: numpy takes these twice as fast as Python's floats."""
    return tuple(np.array(value) for value in values)


_SERIES = _constants([*(2.0 / (2 * k + 1) for k in range(9, 0, -1)), 0.0])

# Wichura (1988), Algorithm AS 241, PPND16: rational approximations of the inverse normal CDF.
_CENTRE = (
    _constants((2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
     4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
     1.3314166789178437745e2, 3.3871328727963666080e0)),
    _constants((5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
     2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
     4.2313330701600911252e1, 1.0)),
)  # fmt: skip
_MIDDLE = (
    _constants((7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
     1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0,
     4.63033784615654529590e0, 1.42343711074968357734e0)),
    _constants((1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
     1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0,
     2.05319162663775882187e0, 1.0)),
)  # fmt: skip
_FAR = (
    _constants((2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
     2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e0,
     5.46378491116411436990e0, 6.65790464350110377720e0)),
    _constants((2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
     7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
     5.99832206555887937690e-1, 1.0)),
)  # fmt: skip


def _horner(coefficients: tuple[Floats, ...], x: Floats, out: Floats) -> Floats:
    """Polynomial by Horner's rule, highest coefficient first, into ``out`` (same shape as x)."""
    np.multiply(x, coefficients[0], out)
    for coefficient in coefficients[1:-1]:
        np.add(out, coefficient, out)
        np.multiply(out, x, out)
    return np.add(out, coefficients[-1], out)


def _log_near_one(f: Floats) -> Floats:
    """log(1 + f) for f in [sqrt(1/2) - 1, sqrt(2) - 1], relative error about 2^-52.

    With s = f / (2 + f): log(1 + f) = 2 atanh(s) = f - s (f - R), R = 2 (s^2/3 + s^4/5 + ...);
    nine terms leave less than 2^-54 of it.
    """
    s = f / (f + 2.0)
    z = s * s
    series = _horner(_SERIES, z, np.empty_like(z))
    np.subtract(f, series, out=series)
    series *= s
    return np.subtract(f, series, out=series)


def exact_log(x: Floats) -> Floats:
    """Natural logarithm of positive normal floats to about 2^-52, the same on every CPU.

    The only thing exact about it is its reproducibility. x: any shape.
    """
    if kernels is not None:
        x = np.ascontiguousarray(x, dtype=np.float64)
        logs = np.empty(x.shape)
        kernels.logarithm(x, logs)
        return logs
    bits = np.ascontiguousarray(x).view(np.int64)
    exponent = bits - _ROOT_HALF_BITS
    exponent >>= 52
    fraction = (bits - (exponent << 52)).view(np.float64)  # in [sqrt(1/2), sqrt(2))
    power = exponent.astype(np.float64)
    out = _log_near_one(fraction - 1.0)
    out += power * _LN2_LOW
    out += power * _LN2_HIGH
    return out


def exponential_from_bits(bits: NDArray[np.uint64]) -> Floats:
    """Exponential variables of mean 1 from 64 random bits each (63 are used), same shape.

    -log(1 - u) with u = (j + 1/2) 2^-63: relative precision is kept near 0 as well; the largest
    value is 64 ln 2 = 44.4 (mass 2^-63 lies beyond).
    """
    if kernels is not None:
        bits = np.ascontiguousarray(bits)
        drawn = np.empty(bits.shape)
        kernels.exponential(bits, drawn)
        return drawn
    j = (np.ascontiguousarray(bits) >> np.uint64(1)).astype(np.int64)
    u = (j.astype(np.float64) + 0.5) * 2.0**-63
    rest = ((np.int64(2**63 - 1) - j).astype(np.float64) + 0.5) * 2.0**-63  # 1 - u
    near = u < 0.25
    return np.asarray(np.where(near, -_log_near_one(np.where(near, -u, 0.0)), -exact_log(rest)))


def normal_from_bits(bits: NDArray[np.uint64], out: Floats | None = None) -> Floats:
    """Standard normals from 64 random bits each, by inversion.

    The word, read as a signed integer and made odd, v, stands for the probability 1/2 + v 2^-64:
    one bit of sign and 62 bits of distance from the median, so that the distribution is exactly
    symmetric, floats near 0 keep their full precision, and tails reach 9.08 standard deviations (a
    mass of 2^-64 on either side, what lies beyond, is gathered in the last atoms). Relative error
    about 2^-51, tested against ``scipy.special.ndtri``.

    Args:
      bits: (n,) uint64, C-contiguous.
      out: (n,) float64, C-contiguous, or None for a new array.

    Returns:
      (n,) float64.

    Source: Wichura, Algorithm AS 241, Applied Statistics 37 (1988).
    """
    if out is None:
        out = np.empty(bits.shape, dtype=np.float64)
    if kernels is not None:
        kernels.normal(bits, out)
        return out
    signed = bits.view(np.int64)
    n = bits.shape[0]
    length = min(n, CHUNK)
    room = np.empty((3, length))
    odd, outside = np.empty(length, dtype=np.int64), np.empty(n, dtype=np.bool_)
    for start in range(0, n, CHUNK):
        stop = min(start + CHUNK, n)
        size = stop - start
        r, denominator, q = room[:, :size]
        piece = slice(start, stop)
        _centre(signed[piece], out[piece], r, denominator, q, odd[:size], outside[piece])
    tails = np.flatnonzero(outside)  # 15 %: those of several chunks at once
    for start in range(0, tails.size, CHUNK):
        at = tails[start : start + CHUNK]
        out[at] = _tail(signed[at] | 1)
    return out


def _centre(
    v: NDArray[np.int64],
    out: Floats,
    r: Floats,
    denominator: Floats,
    q: Floats,
    odd: NDArray[np.int64],
    outside: NDArray[np.bool_],
) -> None:
    """One chunk of ``normal_from_bits`` but its tails, which ``outside`` tells.

    v: bits. out: results. The others but ``outside`` are room to work in.
    """
    np.bitwise_or(v, 1, out=odd)
    np.multiply(odd, 2.0**-64, out=q)  # probability - 1/2, in (-1/2, 1/2)
    np.multiply(q, q, out=r)
    np.subtract(0.180625, r, out=r)
    _horner(_CENTRE[0], r, out)
    _horner(_CENTRE[1], r, denominator)
    out /= denominator
    out *= q
    np.less(r, 0.0, out=outside)  # |q| > 0.425


def _tail(v: NDArray[np.int64]) -> Floats:
    """Normals whose probability lies outside 0.075 .. 0.925. v: (n,) odd int64."""
    sign = v >> 63  # 0 or -1
    left = (np.int64(2**63 - 1) - (v ^ sign)) + (1 + sign)  # 2^63 - |v|, exactly
    root = exact_log(left * 2.0**-64)
    np.negative(root, out=root)
    np.sqrt(root, out=root)
    x = root - 1.6
    out = _horner(_MIDDLE[0], x, np.empty_like(x))
    out /= _horner(_MIDDLE[1], x, np.empty_like(x))
    far = np.flatnonzero(root > 5.0)
    if far.size:
        x = root[far] - 5.0
        out[far] = _horner(_FAR[0], x, np.empty_like(x)) / _horner(_FAR[1], x, np.empty_like(x))
    out *= 1.0 + 2.0 * sign
    return out


def gaussian(streams: Streams, dimension: int) -> Floats:
    """Standard normals, word i of a stream for coordinate i: (m, K, dimension) float64."""
    drawn = streams.drawn(dimension, NORMALS)
    if drawn is not None:
        return drawn
    out = np.empty((*streams.shape, dimension))
    for where, words in streams.words(dimension):
        piece = out[where]
        if piece.flags.c_contiguous:
            normal_from_bits(words.reshape(-1), piece.reshape(-1))
        else:
            out[where] = normal_from_bits(words.reshape(-1)).reshape(piece.shape)
    return out


def k_norm(streams: Streams, dimension: int) -> Floats:
    """Vectors of density proportional to exp(-||x||_2): (m, K, dimension) float64.

    The direction is uniform on the sphere (normals over their norm), the radius Gamma(dimension,
    1), the sum of ``dimension`` exponentials. Variance per coordinate: dimension + 1. In one
    dimension it is the Laplace distribution.

    **Formal guarantees**: added with scale b to a function of l2 sensitivity D, pure eps = D / b.
    Independent Laplace noise per coordinate at the same scale is not private for that sensitivity.

    Source: Hardt and Talwar, On the Geometry of Differential Privacy (STOC 2010), for the l2 ball.
    """
    out = np.empty((*streams.shape, dimension))
    for where, words in streams.words(2 * dimension):
        if kernels is not None:
            built = np.empty((len(words), dimension))
            kernels.vectors(words, built, dimension)
            out[where] = built.reshape(out[where].shape)
            continue
        normals = normal_from_bits(np.ascontiguousarray(words[:, :dimension]).reshape(-1))
        normals = normals.reshape(-1, dimension)
        radius = sum_last(exponential_from_bits(words[:, dimension:]))
        radius /= np.sqrt(sum_last(normals * normals))
        normals *= radius[:, None]
        out[where] = normals.reshape(out[where].shape)
    return out


def sum_last(values: Floats) -> Floats:
    """Sums (n, d) over d >= 1 in an order that depends on d alone: (n,). ``values`` is overwritten.

    Halves are added elementwise. numpy's own reductions may take another order for another n.
    """
    width = values.shape[1]
    while width > 1:
        half = width // 2
        values[:, :half] += values[:, width - half : width]
        width -= half
    return values[:, 0].copy()


_DOMAIN = b"weir public normals"


class PublicNormals:
    """Standard normals as a function of (purpose, seed, index), the same bits on every CPU.

    Block j of index i is AES(key, (i, j)), its key the BLAKE2b hash of purpose and seed, neither of
    which is a secret.

    Args:
      purpose: what they are for; different ones share nothing.
      seed: in [0, 2^63).
    """

    def __init__(self, purpose: bytes, seed: int = 0) -> None:
        name = seed.to_bytes(8, "little") + purpose
        self._key = hashlib.blake2b(name, digest_size=16, person=_DOMAIN[:16]).digest()

    def draw(self, index: int, n: int, dimension: int) -> Floats:
        """(n, dimension), row by row from the stream of ``index``."""
        positive(n=n, dimension=dimension)
        total = n * dimension
        counters = np.empty((-(-total // 2), 2), dtype=np.uint64)
        counters[:, 0] = index
        counters[:, 1] = np.arange(len(counters), dtype=np.uint64)
        words = Aes(self._key).encrypt_new(counters).reshape(-1)[:total]
        return normal_from_bits(words).reshape(n, dimension)
