"""Private selection: the exponential mechanism by Gumbel noise."""

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


def select(scores: NDArray[np.floating], scale: float, noise: Floats) -> Ints:
    """Index of a candidate with a small score, chosen privately: argmin(scores - scale * noise).

    Index v is chosen with probability proportional to exp(-scores[v] / scale): the exponential
    mechanism.

    **Formal guarantees**: let the *range* sensitivity be D = max over neighbours of (max_v c_v -
    min_v c_v), c_v the change of score v. One selection is pure eps = D / scale, and (D / scale)^2
    / 8 - zCDP. If each score moves by at most s, D <= 2 s; if all move the same way, D <= s. The
    expected score of the choice exceeds the best by at most scale * ln(candidates).

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
