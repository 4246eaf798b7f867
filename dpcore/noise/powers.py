"""Exponentials and powers with the same bits on every CPU."""

from __future__ import annotations

import math

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.noise.inverse_normal import exact_log

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
