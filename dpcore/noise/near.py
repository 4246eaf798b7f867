"""Normals within a known error of those that are released, for a third of the time.

Whoever wants to know only whether noise comes near a bound looks at these first, and draws the
others where it does. They are read off a table by the first 16 of their 64 bits; the few behind the
table's ends are drawn as they are.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.native import ciphers
from weir.dpcore.noise.inverse_normal import normal_from_bits
from weir.dpcore.noise.streams import Streams

Singles = NDArray[np.float32]

BINS: Final = 1 << 16
EDGE: Final = 256
"""Bins on either side that are too wide to be read off: 0.8 % of all normals."""
ERROR: Final = 0.0007
"""How far one may be from the normal that it stands for; a test holds the table to it."""


@cache
def table() -> Singles:
    """(BINS,) the middle of each bin, by the first bits read without a sign; NaN at the edges."""
    ends = np.arange(-BINS // 2 + 1, BINS // 2, dtype=np.int64) << 48
    normals = normal_from_bits(ends.view(np.uint64))
    middles = np.full(BINS, np.nan, dtype=np.float32)
    middles[1:-1] = (normals[1:] + normals[:-1]) / 2
    middles[:EDGE] = middles[-EDGE:] = np.nan
    return np.roll(middles, BINS // 2)


def near_gaussian(streams: Streams, coordinate: int) -> Singles:
    """The normals of one coordinate, within ``ERROR``: (m, K) float32."""
    out = np.empty(streams.shape, dtype=np.float32)
    middles = table()
    if ciphers is not None:
        ciphers.near(*streams.named, out, np.array([coordinate], dtype=np.uint64), middles)
        return out
    for where, words in streams.words(coordinate + 1):
        bits = np.ascontiguousarray(words[:, coordinate])
        first = bits.view(np.uint16)[3::4]
        found = middles[first]
        outside = np.flatnonzero((first - np.uint16(BINS // 2 - EDGE)) < 2 * EDGE)
        found[outside] = normal_from_bits(bits[outside])
        piece = out[where]
        piece[...] = found.reshape(piece.shape)
    return out
