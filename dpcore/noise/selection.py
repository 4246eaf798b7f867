"""Private selection: the least of noisy scores, by Gumbel noise or by Laplace noise."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.errors import positive
from weir.dpcore.noise.gaussian import exact_log, exponential_from_bits
from weir.dpcore.noise.streams import GUMBELS, LAPLACES, Streams, Words


def gumbel(streams: Streams, dimension: int) -> Floats:
    """Standard Gumbel variables -log(-log U): (m, K, dimension) float64, from -3.8 to 44.4."""
    drawn = streams.drawn(dimension, GUMBELS)
    if drawn is not None:
        return drawn
    out = np.empty((*streams.shape, dimension))
    for where, words in streams.words(dimension):
        out[where] = -exact_log(exponential_from_bits(words)).reshape(out[where].shape)
    return out


def select_gumbel(streams: Streams, scores: Floats, scale: float) -> Ints:
    """``select`` with the noise of ``gumbel``, to the last bit, by few logarithms.

    A variable falls as its word grows. With w the least noisy score of two likely candidates, one
    that is as small has score <= w + scale * (the largest noise), and noise >= (the least score -
    w) / scale: a bound on its word. Only of candidates within both are logarithms taken.

    Args:
      streams: of m selections for one key. scores: (m, J), finite. scale: b > 0.

    Returns:
      (m,) int64; the first of equals.

    Raises:
      ConfigError: scale is not a positive number.
    """
    positive(scale=scale)
    chosen = np.empty(len(scores), dtype=np.int64)
    for where, words in streams.words(scores.shape[1]):
        for i, own in zip(range(*where[0].indices(len(scores))), words, strict=True):
            chosen[i] = _least(scores[i], scale, own)
    return chosen


def _least(scores: Floats, scale: float, words: Words) -> int:
    """The first of the least ``scores - scale * noise``."""
    some = np.array([np.argmin(scores), np.argmin(words)])
    noise = _gumbel_of(words[some])
    least = float((scores[some] - scale * noise).min())
    # Both bounds are loosened by more than rounding moves them.
    room = 2.0**-40 * (abs(least) + scale * 64)
    needed = (float(scores[some[0]]) - least - room) / scale
    places = np.flatnonzero(words <= _word_of(needed))
    places = places[scores[places] <= least + scale * float(noise[1]) + room]
    result = scores[places] - scale * _gumbel_of(words[places])
    return int(places[np.argmin(result)])


def _gumbel_of(words: Words) -> Floats:
    return np.asarray(-exact_log(exponential_from_bits(words)))


def _word_of(noise: float) -> np.uint64:
    """A word above all whose variable is larger than this."""
    # -log(-log(1 - u)) > g where u < 1 - exp(-exp(-g)).
    share = -math.expm1(-math.exp(-min(max(noise, -5.0), 60.0))) * (1 + 2.0**-30) + 2.0**-60
    return np.uint64(min(int(share * 2.0**64), 2**64 - 1))


def laplace(streams: Streams, dimension: int) -> Floats:
    """Standard Laplace variables, density exp(-|x|) / 2: (m, K, dimension) float64.

    The lowest bit of a word is the sign, which the size does not read.
    """
    drawn = streams.drawn(dimension, LAPLACES)
    if drawn is not None:
        return drawn
    out = np.empty((*streams.shape, dimension))
    for where, words in streams.words(dimension):
        size = exponential_from_bits(words)
        out[where] = np.where(words & np.uint64(1), -size, size).reshape(out[where].shape)
    return out


def select(scores: NDArray[np.floating], scale: float, noise: Floats) -> Ints:
    """Index of a candidate with a small score, chosen privately: argmin(scores - scale * noise).

    Index v is chosen with probability proportional to exp(-scores[v] / scale): the exponential
    mechanism.

    **Formal guarantees**: let the *range* sensitivity be D = max over neighbours of (max_v c_v -
    min_v c_v), c_v the change of score v. One selection is pure eps = D / scale, and (D / scale)^2
    / 8 - zCDP. If each score moves by at most s, D <= 2 s; if all move the same way, D <= s. The
    expected score of the choice exceeds the best by at most scale * ln(candidates).
    With standard Laplace variables in place of Gumbel ones, one selection is pure eps = D / scale
    (as scores that move by D / 2 each way, and a shift of all, which chooses the same), and
    no more is known of it: (D / scale)^2 / 2 - zCDP, four times as much.

    Args:
      scores: (..., J), finite.
      scale: b > 0, in the units of the scores.
      noise: (..., J) standard Gumbel variables, used for this selection only.

    Returns:
      (...) int64; the first of equals.

    Raises:
      ConfigError: scale is not a positive number.

    Source: McSherry and Talwar (FOCS 2007); Cesar and Rogers, Bounding, Concentrating and
    Truncating (ALT 2021), for the zCDP bound.
    """
    positive(scale=scale)
    return np.asarray(np.argmin(scores - scale * noise, axis=-1), dtype=np.int64)
