"""Exact discrete Gaussians from keyed streams."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from fractions import Fraction
from typing import cast

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Ints
from weir.dpcore.errors import ConfigError
from weir.dpcore.native import ciphers
from weir.dpcore.noise.acceptance import (
    MARGIN,
    POWERS,
    PROBABILITY_BITS,
    Constants,
    HalvingEnvelope,
    acceptance,
    envelope,
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

_ZERO, _ONE, _ENDLESS = np.uint64(0), np.uint64(1), np.uint8(64)
_UNIFORM_DROP = np.uint64(64 - PROBABILITY_BITS)
_MARGIN = np.uint64(MARGIN)
_UNDECIDED = np.iinfo(np.int64).min


def discrete_gaussian(
    streams: Streams, variances: Sequence[int] | Sequence[tuple[int, ...]]
) -> Ints:
    """Exact samples of P(x) ~ exp(-x^2 / 2 S) on the integers, S = variances[i] for coordinate i.

    **Method.** Rejection, each attempt on one 16-byte block of the sample's own stream: u uniform
    in [0, t) and a sign from its low bits; v = number of trailing zeros of the bits above, P(v) =
    2^-(v + 1); y = u + t v; x = y, or -1 - y when the sign is set; accept with probability p =
    height 2^(v - 62) exp(-x^2 / 2 S).

    **Exactness.** An attempt returns x with probability (1/2) (1/t) 2^-(v + 1) p, which is height
    2^-64 / t times exp(-x^2 / 2 S): v cancels, and each integer x comes from exactly one (u, v,
    sign). p <= 1, because |x| >= t v, by the certificate of ``envelope``. Acceptance compares p
    with a uniform number whose first 64 bits are the block's second word. First with 32 of them,
    in vectorised 64-bit integers: ``acceptance`` bounds p from both sides, 2^-23 apart, and outside
    these bounds the comparison is decided. Inside them (once in 8 million attempts), and where all
    bits for v are zero, the attempt is settled by ``settle`` in long integers, with as many further
    bits as it takes. There is no floating point anywhere and no event is cut off, so the
    distribution is exact given random bits, and the same on every CPU.

    About 2 attempts a sample. How many are tried at once changes the speed, never the result: the
    result is the first accepted one, and attempt n of a coordinate is the same block in whatever
    batch.

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
    coordinates, envelopes, constants = _prepared(variances)
    shape = *streams.shape, len(variances)
    width = coordinates.size
    if ciphers is not None and width:
        samples = _by_kernel(streams, coordinates, envelopes, constants)
        if width == len(variances):
            return samples
        out = np.zeros(shape, dtype=np.int64)
        out[..., coordinates] = samples
        return out
    out = np.zeros(shape, dtype=np.int64)
    if width:
        for where, seeds in streams.chunks(max(1, _ELEMENTS // width)):
            samples = _sample(streams, seeds, coordinates, envelopes, constants)
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
    samples = _by_kernel(streams, coordinates, list(map(envelope, every)), Constants.of(every))
    if coordinates.size == shape[-1]:
        return samples
    out[..., coordinates] = samples
    return out


def _prepared(variances: Sequence[int]) -> tuple[Ints, list[HalvingEnvelope], Constants]:
    """Coordinates that have noise, and their envelopes and constants: one where all are alike."""
    sizes = {operator.index(variance) for variance in set(variances)}
    for variance in sizes:
        if not 0 <= variance <= MAX_VARIANCE:
            raise ConfigError("variance", variance, "must lie in [0, 2^80] grid steps squared.")
    if len(sizes) > 1 or 0 in sizes:
        return _unlike(tuple(variances))
    return np.arange(len(variances)), list(map(envelope, sizes)), Constants.of(list(sizes))


@functools.lru_cache(maxsize=256)
def _unlike(variances: tuple[int, ...]) -> tuple[Ints, list[HalvingEnvelope], Constants]:
    coordinates = np.flatnonzero([variance > 0 for variance in variances])
    coordinates.setflags(write=False)
    some = [int(variances[i]) for i in coordinates.tolist()]
    return coordinates, [envelope(variance) for variance in some], Constants.of(some)


def _by_kernel(
    streams: Streams, coordinates: Ints, envelopes: list[HalvingEnvelope], constants: Constants
) -> Ints:
    """All samples; those whose attempts need more than the kernel's integers are made again
    here."""
    assert ciphers is not None
    named = streams.named
    out = np.empty((*streams.shape, coordinates.size), dtype=np.int64)
    table = np.stack(constants)
    places = coordinates.astype(np.uint64)
    if ciphers.discrete(*named, out, places, table, POWERS):
        for where in zip(*np.nonzero(out == _UNDECIDED), strict=True):
            label, key, at = (int(place) for place in where)
            row = at + (label * coordinates.size if len(envelopes) > coordinates.size else 0)
            alone = streams.part(slice(label, label + 1), slice(key, key + 1))
            _, seeds = next(alone.chunks(1))
            here = slice(row, row + 1)
            own = Constants(*(field[here] if field.size > 1 else field for field in constants))
            shape = envelopes[here] if len(envelopes) > 1 else envelopes
            out[where] = _sample(alone, seeds, coordinates[at : at + 1], shape, own)[0]
    return out


def _sample(
    streams: Streams,
    seeds: Words,
    coordinates: Ints,
    envelopes: list[HalvingEnvelope],
    constants: Constants,
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
        values, accepted, hard = _attempt(words, constants.at(column))
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
            x = settle(envelopes[at if len(envelopes) > 1 else 0], low, high, extend)
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
    words: Words, constants: Constants
) -> tuple[Ints, NDArray[np.bool_], NDArray[np.bool_]]:
    """One attempt per block: (A, n, 2) -> proposals, accepted, undecided, each (A, n).

    The uniform number lies in [w, w + 1) 2^-32, w = what leads the second word: below the
    probability for certain if w < q, above it for certain if w >= q + MARGIN.
    """
    low = words[:, :, 0]
    rest = low >> constants.shift
    sign = rest & _ONE
    rest >>= _ONE
    zeros = np.bitwise_count(~rest & (rest - _ONE))  # 64 where bits ran out
    bucket = zeros.astype(np.uint64)
    reach = low & constants.mask
    value = bucket << constants.shift
    value += reach
    value ^= _ZERO - sign
    reach += sign
    uniform = words[:, :, 1] >> _UNIFORM_DROP
    chance = acceptance(reach, bucket, constants)
    accepted = uniform < chance
    uniform -= chance  # wraps around, far beyond the margin, where accepted
    hard = uniform < _MARGIN
    hard |= zeros == _ENDLESS
    return value.view(np.int64), accepted, hard


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
