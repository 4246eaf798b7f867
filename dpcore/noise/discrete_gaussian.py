"""Exact discrete Gaussians from keyed streams."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Ints
from weir.dpcore.errors import ConfigError
from weir.dpcore.native import ciphers
from weir.dpcore.noise.acceptance import (
    MARGIN,
    NUMBERS,
    POWERS,
    PROBABILITY_BITS,
    TABLE,
    TABLE_BITS,
    Rows,
    exponential,
    settle,
)
from weir.dpcore.noise.streams import Streams, Words, block_buffer

MAX_VARIANCE = 1 << 80
"""Largest sigma^2: every magnitude that can be proposed without extension stays below 2^46."""

WIDER = 1 + Fraction(1, 1 << 17)
"""Discrete noise wider by this costs what Gaussian noise does."""

_ELEMENTS = 4096
_MOST_ATTEMPTS = 32
_COORDINATE_SHIFT = 24
_EXTENSION_SHIFT = 48

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_LAST_ENTRY = np.uint64(TABLE - 1)
_SIGN, _OFFSET = np.uint64(TABLE_BITS), np.uint64(TABLE_BITS + 1)
_UNIFORM_DROP = np.uint64(64 - PROBABILITY_BITS)
_HALF, _LAST_HALF = np.uint64(32), np.uint64((1 << 32) - 1)
_MARGIN = np.uint64(MARGIN)
_UNDECIDED = np.iinfo(np.int64).min


def discrete_gaussian(
    streams: Streams, variances: Sequence[int] | Sequence[tuple[int, ...]]
) -> Ints:
    """Exact samples of P(x) ~ exp(-x^2 / 2 S) on the integers, S = variances[i] for coordinate i.

    **Method.** Rejection, each attempt on one 16-byte block of the sample's own stream, under an
    envelope in 241 strips of width g or fewer, sigma / g near 32 or g = 1. 13 bits choose one of
    8192 entries of a table, n_i of which stand for strip i and n_t, one or more, for the tail from
    A = B g on; a bit is the sign; 50 bits give an offset u, uniform in [0, g): its last bits are
    bits, those above the leading part of b bits times a number below 2^8, rejected where the rest
    of the product is below 2^b mod that number, which leaves each offset equally many (Lemire
    2019). y = i g + u; x = y, or -1 - y when the sign is set; accept with probability
    p = n_0 exp(-x^2 / 2 S) / n_i. In the tail y = A + (4 v + w) g + u, w two bits of further blocks
    and v the number of trailing zeros of the bits above, P(v) = 2^-(v + 1), and
    p = n_0 2^(v + 3) exp(-x^2 / 2 S) / n_t.

    **Exactness.** Given that u is not rejected, an attempt returns x with probability (1/2)
    (n_i / 8192) (1/g) p, in the tail (1/2) (n_t / 8192) 2^-(v + 1) (1/4) (1/g) p: both are
    n_0 / (16384 g) times exp(-x^2 / 2 S), and each integer x comes from exactly one (i, u, sign) or
    (v, w, u, sign). p <= 1: in strips by the certificate of ``Envelope``, as |x| >= i g. In the
    tail S <= R g^2 and A >= 7.5 sqrt(R) g, R <= 1024, so that exp(-x^2 / 2 S) is at most
    exp(-A^2 / 2 S - 4 v A g / S) <= exp(-225 / 8) exp(-30 v / 32) < 2^-40.5 2^-v, and as
    n_0 < 2^12.4, p < 2^-25 < ``MARGIN`` / 2^32. Acceptance compares p with a uniform number whose
    first 64 bits are the block's second word. First with 32 of them, in 64-bit integers: with the
    least and the largest p of the strip, and between these, one attempt in 40, with bounds of p by
    ``exponential``, MARGIN n_0 / n_i 2^-32 apart. Inside them (once in a million attempts) the
    attempt is settled by ``settle`` in long integers, with as many further bits as it takes. There
    is no floating point anywhere and no event is cut off, so the distribution is exact given random
    bits, and the same on every CPU.

    About 1.04 attempts a sample, 1.5 at most. How many are tried at once changes the speed, never
    the result: the result is the first accepted one, and attempt n of a coordinate is the same
    block in whatever batch.

    **Formal guarantees**: added to an integer-valued function of l2 sensitivity D:

    - D^2 / (2 S)-zCDP (Canonne, Kamath and Steinke 2020);
    - mu-GDP, mu = ``WIDER`` D / s, for s = sqrt(S) >= 2^28: what a Gaussian of that standard
      deviation costs, and 2^-17 of it more. Adaptively too: by the lemma each coordinate is a
      function of a Gaussian whose mean moves by mu_i, so that all are one of adaptive Gaussians.

    *Lemma.* Let X be discrete Gaussian, u = 1 / s, and q(m) = Phi^-1(P[X < m]). Then
    q(m + 1) - q(m) <= (1 + 2^-17) u for every integer m. Best tests of X against X + D reject from
    some m on, with errors P[X >= m] and P[X < m - D], and q(m) - q(m - D) <= (1 + 2^-17) u D puts
    these on or above the trade-off of Gaussians that far apart, at every m; between them theirs is
    linear, and that of Gaussians convex.

    *Proof.* By symmetry for m >= 0. For real m let T(m) = (1 / Z) sum over j >= 0 of
    exp(-(m + j)^2 u^2 / 2), v = m u, Q = 1 - Phi, phi = Phi', y(m) = Q^-1(T(m)); at integers y = q.
    Poisson summation has s sqrt(2 pi) <= Z <= s sqrt(2 pi) (1 + e^-1000).

    - m >= 1, v <= 2^9. -T'(m) = (u / (u Z)) sum of u x exp(-x^2 / 2) over x = v, v + u, ..: a left
      sum of a function that rises until 1 and falls from there on, at most (1 + u max(v, 1))
      exp(-v^2 / 2). And T(m) >= Q(v) (1 - e^-1000), as a left sum of a falling function, so y <= v
      but for e^-900. Hence y' = -T' / phi(y) <= u (1 + 2^-19 + e^-900).
    - v > 2^9. Terms fall by exp(-m u^2) at least from one to the next, so -T' / T <= u (v + 1 / v)
      and T <= phi(v) (u + 1 / v). Q(x) >= phi(x) / (x + 1 / x) at x = v - 2 u - 2 / v^3 is larger
      than that, so y >= v - 2 u - 2 / v^3. With Q(y) <= phi(y) / y: y' <= u (v + 1 / v) / y
      <= u (1 + 2^-18 + 2^-33).
    - m = 0: T(1) = 1/2 - 1 / (2 Z) and 1 / Z <= u phi(0), so q(1) - q(0) = 2 y(1) <= u (1 + u^2).

    The other way round P[X = m] is at most exp(1 / (8 S)) times the chance that a Gaussian of the
    same s is rounded to m, as cosh >= 1 in the integral over the step: an event of n draws is as
    likely as under rounded Gaussians, but for a factor exp(n / (8 S)).

    Args:
      streams: of (label, user key) pairs.
      variances: d whole numbers in [0, 2^80]; 0 gives 0. Or m tuples of them, one a label.

    Returns:
      (m, K, d) int64.

    Raises:
      ConfigError: a variance outside the range.

    Source: Canonne, Kamath and Steinke, The Discrete Gaussian for Differential Privacy (2020), for
    the distribution and its zCDP; Dong, Roth and Su (2022) for GDP. Envelope and lemma are ours.
    """
    if variances and isinstance(variances[0], tuple):
        return _of_labels(streams, cast("Sequence[tuple[int, ...]]", variances))
    variances = cast("Sequence[int]", variances)
    coordinates, rows = _prepared(variances)
    shape = *streams.shape, len(variances)
    width = coordinates.size
    if ciphers is not None and width:
        samples = _by_kernel(streams, coordinates, rows)
        if width == len(variances):
            return samples
        out = np.zeros(shape, dtype=np.int64)
        out[..., coordinates] = samples
        return out
    out = np.zeros(shape, dtype=np.int64)
    if width:
        for where, seeds in streams.chunks(max(1, _ELEMENTS // width)):
            samples = _sample(streams, seeds, coordinates, rows)
            piece = out[where]
            piece[..., coordinates] = samples.reshape(*piece.shape[:2], width)
    return out


def _of_labels(streams: Streams, variances: Sequence[tuple[int, ...]]) -> Ints:
    """Samples where every label has variances of its own."""
    shape = *streams.shape, len(variances[0])
    out = np.zeros(shape, dtype=np.int64)
    coordinates = np.flatnonzero([any(column) for column in zip(*variances, strict=True)])
    if 0 in streams.shape or not coordinates.size:
        return out
    every = [row[at] for row in variances for at in coordinates.tolist()]
    if ciphers is None or not 0 < min(every) <= max(every) <= MAX_VARIANCE:
        keys = slice(None)
        parts = [streams.part(slice(i, i + 1), keys) for i in range(len(variances))]
        own = [discrete_gaussian(part, row) for part, row in zip(parts, variances, strict=True)]
        return np.concatenate(own)
    samples = _by_kernel(streams, coordinates, Rows.for_variances(every))
    if coordinates.size == shape[-1]:
        return samples
    out[..., coordinates] = samples
    return out


def envelopes(variances: Sequence[int]) -> tuple[NDArray[Any], ...]:
    """What a kernel samples by, of variances in [1, 2^80]; of none, where it is to draw normals."""
    return (*(Rows.for_variances(variances)[:3] if variances else (np.zeros(0),) * 3), POWERS)


def _prepared(variances: Sequence[int]) -> tuple[Ints, Rows]:
    """Coordinates that have noise, and their rows."""
    sizes = {operator.index(variance) for variance in set(variances)}
    for variance in sizes:
        if not 0 <= variance <= MAX_VARIANCE:
            raise ConfigError("variance", variance, "must lie in [0, 2^80] grid steps squared.")
    if len(sizes) > 1 or 0 in sizes:
        return _unlike(tuple(variances))
    n, (_, rows) = len(variances), _unlike(tuple(sizes))
    return np.arange(n), rows._replace(of=np.zeros(n, dtype=np.int64))


@functools.lru_cache(maxsize=256)
def _unlike(variances: tuple[int, ...]) -> tuple[Ints, Rows]:
    coordinates = np.flatnonzero([variance > 0 for variance in variances])
    coordinates.setflags(write=False)
    return coordinates, Rows.for_variances([int(one) for one in variances if one] or [1])


def _by_kernel(streams: Streams, coordinates: Ints, rows: Rows) -> Ints:
    """All samples; those whose attempts need more than the kernel's integers are made again
    here."""
    assert ciphers is not None
    out = np.empty((*streams.shape, coordinates.size), dtype=np.int64)
    places = coordinates.astype(np.uint64)
    if ciphers.discrete(*streams.named, out, places, *rows[:3], POWERS):
        for place in np.flatnonzero(out == _UNDECIDED).tolist():
            label, key, at = map(int, np.unravel_index(place, out.shape))
            row = at + (label * coordinates.size if rows.of.size > coordinates.size else 0)
            alone = streams.part(slice(label, label + 1), slice(key, key + 1))
            _, seeds = next(alone.chunks(1))
            out[label, key, at] = _sample(alone, seeds, coordinates[at : at + 1], rows.alone(row))[
                0
            ]
    return out


def _sample(streams: Streams, seeds: Words, coordinates: Ints, rows: Rows) -> Ints:
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
        values, accepted, hard = _attempt(words, rows, column)
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
            x = settle(rows.shapes[rows.of[at]], low, high, extend)
            accepted[attempt, element] = x is not None
            values[attempt, element] = x or 0
        which = accepted.argmax(axis=0)
        everyone = np.arange(n)
        done = accepted[which, everyone]
        out[waiting[done]] = values[which[done], everyone[done]]
        waiting = waiting[~done]
        first += tries
    return out


def _attempt(
    words: Words, rows: Rows, column: Ints
) -> tuple[Ints, NDArray[np.bool_], NDArray[np.bool_]]:
    """One attempt per block: (A, n, 2) -> proposals, accepted, undecided, each (A, n).

    The uniform number lies in [w, w + 1) 2^-32, w = what leads the second word: below the
    probability for certain if w + 1 is at most 2^32 times it, above it if w is that or more.
    """
    of = rows.of[column]
    shift, fine, bits, part, step, excess, width, table, tail, *curve = rows.numbers[of, :NUMBERS].T
    low, uniform = words[:, :, 0], words[:, :, 1] >> _UNIFORM_DROP
    strip = rows.tables[table, low & _LAST_ENTRY]
    bounds, count = rows.bounds[of, strip], rows.counts[of, strip]
    rest, sign = low >> _OFFSET, low >> _SIGN & _ONE
    product = (rest >> shift) * step
    y = strip * width + (product >> bits << shift) + (rest & fine)
    even = product & part >= excess
    accepted = even & (uniform < bounds >> _HALF)
    hard = even & ~accepted & (uniform <= bounds & _LAST_HALF)
    between = np.nonzero(hard & (strip != tail))
    if between[0].size:
        own, here = between[1], uniform[between]
        chance = exponential((y + sign)[between], *(one[own] for one in curve))
        top, count = rows.counts[of[own], 0], count[between]
        accepted[between] = sure = (here + _ONE) * count <= chance * top
        hard[between] = ~sure & (here * count < (chance + _MARGIN) * top)
    y ^= _ZERO - sign
    return y.view(np.int64), accepted, hard


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
