"""Exact discrete Gaussians from keyed streams."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import ConfigError
from dpcore.mechanism import Floats, Ints
from dpcore.noise.aes import Words, block_buffer
from dpcore.noise.envelope import HEIGHT_BITS, Envelope, envelope, settle
from dpcore.noise.streams import Streams

MAX_VARIANCE = 1 << 80
"""Largest sigma^2: every magnitude that can be proposed without extension stays below 2^46."""

_MARGIN = 2.0**-36
_ELEMENTS = 4096
_MOST_ATTEMPTS = 32
_COORDINATE_SHIFT = 24
_EXTENSION_SHIFT = 48

_LN2_HIGH = float.fromhex("0x1.62e42fefa0000p-1")
_LN2_LOW = float.fromhex("0x1.cf79abc9e3b3ap-40")
_LOG2_E = float.fromhex("0x1.71547652b82fep+0")
_TAYLOR = tuple((-1.0) ** k / math.factorial(k) for k in range(10, -1, -1))


def discrete_gaussian(streams: Streams, variances: Sequence[int]) -> Ints:
    """Exact samples of P(x) ~ exp(-x^2 / 2 S) on the integers, S = variances[i] for coordinate i.

    **Method.** Rejection, each attempt on one 16-byte block of the sample's own stream: u uniform
    in [0, t) and a sign from its low bits; v = number of trailing zeros of the bits above, P(v) =
    2^-(v + 1); y = u + t v; x = y, or -1 - y when the sign is set; accept with probability p =
    height 2^(v - 62) exp(-x^2 / 2 S).

    **Exactness.** An attempt returns x with probability (1/2) (1/t) 2^-(v + 1) p, which is height
    2^-64 / t times exp(-x^2 / 2 S): v cancels, and each integer x comes from exactly one (u, v,
    sign). p <= 1, because |x| >= t v, by the certificate of ``envelope``. Acceptance compares p
    with a uniform number whose first 64 bits are the block's second word. First in floats: both
    sides carry an error below 2^-38 (derived in ``_chances``), so outside a margin of 2^-36 the
    comparison is decided right whatever the rounding. Inside it (once in 3e10 attempts), and where
    all bits for v are zero, the attempt is settled by ``settle`` in integers, with as many further
    bits as it takes. No event is cut off, so the distribution is exact given random bits, and the
    same on every CPU.

    About 2 attempts a sample. How many are tried at once changes the speed, never the result: the
    result is the first accepted one, and attempt n of a coordinate is the same block in whatever
    batch.

    **Formal guarantees**: added to an integer-valued function of l2 sensitivity D, D^2 / (2 S) -
    zCDP.

    Args:
      streams: of (label, user key) pairs.
      variances: d whole numbers in [0, 2^80]; 0 gives 0.

    Returns:
      (m, K, d) int64.

    Raises:
      ConfigError: a variance outside the range.

    Source: Canonne, Kamath and Steinke, The Discrete Gaussian for Differential Privacy (2020), for
    the distribution and its guarantee; the envelope is ours.
    """
    checked = [operator.index(variance) for variance in variances]
    for variance in checked:
        if not 0 <= variance <= MAX_VARIANCE:
            raise ConfigError("variance", variance, "must lie in [0, 2^80] lattice units squared.")
    out = np.zeros((*streams.shape, len(checked)), dtype=np.int64)
    live = [i for i, variance in enumerate(checked) if variance]
    if not live:
        return out
    envelopes = [envelope(checked[i]) for i in live]
    table = _Table.of(envelopes)
    coordinates = np.array(live, dtype=np.int64)
    for where, seeds in streams.chunks(max(1, _ELEMENTS // len(live))):
        samples = _sample(streams, seeds, coordinates, envelopes, table)
        piece = out[where]
        piece[..., coordinates] = samples.reshape(*piece.shape[:2], len(live))
    return out


class _Table(NamedTuple):
    """Constants of each live coordinate, for the vectorised attempts; each (C,)."""

    # inverse: 1 / (2 variance), rounded once; height: in units of 1
    shift: NDArray[np.uint64]
    mask: NDArray[np.uint64]
    height: Floats
    inverse: Floats

    @classmethod
    def of(cls, envelopes: list[Envelope]) -> _Table:
        shift = np.array([one.shift for one in envelopes], dtype=np.uint64)
        return cls(
            shift,
            (np.uint64(1) << shift) - np.uint64(1),
            np.array([one.height / (1 << HEIGHT_BITS) for one in envelopes]),
            np.array([float(Fraction(1, 2 * one.variance)) for one in envelopes]),
        )

    def at(self, column: Ints) -> _Table:
        """Constants of each element. column: (n,) index of a live coordinate."""
        if self.shift.size == 1:
            return self
        return _Table(
            self.shift[column], self.mask[column], self.height[column], self.inverse[column]
        )


def _sample(
    streams: Streams,
    seeds: Words,
    coordinates: Ints,
    envelopes: list[Envelope],
    table: _Table,
) -> Ints:
    """Samples of a piece. seeds: (P, 2); coordinates: (C,) -> (P * C,) int64."""
    n_live = coordinates.size
    out = np.empty(seeds.shape[0] * n_live, dtype=np.int64)
    waiting = np.arange(out.size)
    first = 0
    limit = max(_ELEMENTS, out.size) + _MOST_ATTEMPTS
    room = (block_buffer(limit), block_buffer(limit))
    while waiting.size:
        tries = min(_MOST_ATTEMPTS, max(1, _ELEMENTS // waiting.size))
        pair, column = np.divmod(waiting, n_live)
        n = waiting.size
        source = room[0][: tries * n].reshape(tries, n, 2)
        base = seeds[pair, 0] ^ (coordinates[column] << _COORDINATE_SHIFT).astype(np.uint64)
        attempts = np.arange(first, first + tries, dtype=np.uint64)
        np.bitwise_xor(base, attempts[:, None], out=source[:, :, 0])
        source[:, :, 1] = seeds[pair, 1]
        words = streams.encrypt(room[0][: tries * n], room[1]).reshape(tries, n, 2)
        here = table.at(column)
        values, accepted, hard = _attempt(words, here)
        for attempt, element in zip(*np.nonzero(hard), strict=True):
            at = int(column[element])
            extend = functools.partial(
                _extension,
                streams,
                seeds[pair[element]],
                int(coordinates[at]),
                first + int(attempt),
            )
            low, high = (int(word) for word in words[attempt, element])
            x = settle(envelopes[at], low, high, extend)
            accepted[attempt, element] = x is not None
            values[attempt, element] = x or 0
        which = accepted.argmax(axis=0)
        everyone = np.arange(n)
        done = accepted[which, everyone]
        out[waiting[done]] = values[which[done], everyone[done]]
        waiting = waiting[~done]
        first += tries
    return out


def _attempt(words: Words, table: _Table) -> tuple[Ints, NDArray[np.bool_], NDArray[np.bool_]]:
    """One attempt per block: (A, n, 2) -> proposals, accepted, undecided, each (A, n)."""
    bits = words[:, :, 0]
    offset = (bits & table.mask).view(np.int64)
    rest = bits >> table.shift
    sign = (rest & np.uint64(1)).view(np.int64)
    rest >>= np.uint64(1)
    zeros = rest.view(np.int64)  # below 2^63
    lowest = (zeros & -zeros).astype(np.float64)  # a power of two, or 0 where bits ran out
    bucket = (lowest.view(np.int64) >> 52) - 1023
    endless = bucket < 0
    np.maximum(bucket, 0, out=bucket)
    y = offset + (bucket << table.shift.view(np.int64))
    chance = _chances(y + sign, bucket, table)
    chance -= words[:, :, 1] * 2.0**-64
    accepted = chance > _MARGIN
    hard = np.abs(chance) <= _MARGIN
    hard |= endless
    return y ^ -sign, accepted, hard


def _chances(magnitude: Ints, bucket: Ints, table: _Table) -> Floats:
    """height 2^(bucket - 62) exp(-magnitude^2 / 2 S), within 2^-38.

    magnitude < 2^47 is exact; g = magnitude^2 / 2 S has three roundings and is below 64^2 * 1.44 /
    2 < 2950, so its error is below 2950 * 3.1 * 2^-53 < 2^-39; g = k ln 2 + f: k < 2^13 times 40
    bits is exact, what is rounded there and in the Horner steps is below 2^-48; ten terms of
    exp(-f), |f| < 0.35, leave less than 2^-41. These are relative errors of a result that is at
    most 1.
    """
    g = magnitude.astype(np.float64)
    g *= g
    g *= table.inverse
    power = np.rint(g * _LOG2_E)
    g -= power * _LN2_HIGH
    g -= power * _LN2_LOW
    out = g * _TAYLOR[0]
    for coefficient in _TAYLOR[1:-1]:
        out += coefficient
        out *= g
    out += _TAYLOR[-1]
    exponent = bucket - power.astype(np.int64)
    np.maximum(exponent, -1000, out=exponent)
    exponent += 1023
    exponent <<= 52
    out *= exponent.view(np.float64)
    out *= table.height
    return out


def _extension(
    streams: Streams, seed: Words, coordinate: int, attempt: int, number: int
) -> tuple[int, int]:
    """Two more words of an attempt: (for the trailing zeros, for the uniform). number >= 1."""
    if attempt >= 1 << _COORDINATE_SHIFT or number >= 1 << (64 - _EXTENSION_SHIFT):
        raise OverflowError("an attempt ran out of its stream, which never happens.")
    counter = number << _EXTENSION_SHIFT | coordinate << _COORDINATE_SHIFT | attempt
    source = np.array([[int(seed[0]) ^ counter, int(seed[1])]], dtype=np.uint64)
    words = streams.encrypt(source, block_buffer(1))
    return int(words[0, 0]), int(words[0, 1])
