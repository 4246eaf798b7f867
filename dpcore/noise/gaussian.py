"""Standard normals from keyed streams."""

from __future__ import annotations

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.noise.inverse_normal import normal_from_bits
from weir.dpcore.noise.streams import NORMALS, Streams


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
