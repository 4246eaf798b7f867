"""Private selection: the least of noisy scores, by Gumbel noise or by Laplace noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.arrays import Floats, Ints
from dpcore.errors import positive
from dpcore.noise.inverse_normal import exact_log, exponential_from_bits
from dpcore.noise.streams import Streams


def gumbel(streams: Streams, dimension: int) -> Floats:
    """Standard Gumbel variables -log(-log U): (m, K, dimension) float64, from -3.8 to 44.4."""
    out = np.empty((*streams.shape, dimension))
    for where, words in streams.words(dimension):
        out[where] = -exact_log(exponential_from_bits(words)).reshape(out[where].shape)
    return out


def laplace(streams: Streams, dimension: int) -> Floats:
    """Standard Laplace variables, density exp(-|x|) / 2: (m, K, dimension) float64.

    The lowest bit of a word is the sign, which the size does not read.
    """
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
