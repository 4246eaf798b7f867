"""Standard normals from keyed streams."""

from __future__ import annotations

import numpy as np

from dpcore.mechanism import Floats
from dpcore.noise.aes import block_buffer
from dpcore.noise.normal import normal_from_bits
from dpcore.noise.streams import Streams

WORK = 16384
"""Words drawn at once: what is worked on stays in the cache."""


def gaussian(streams: Streams, dimension: int) -> Floats:
    """Standard normals, word i of a stream for coordinate i: (m, K, dimension) float64."""
    n_labels, n_keys = streams.shape
    out = np.empty((n_labels, n_keys, dimension))
    blocks = (dimension + 1) // 2
    counters = np.arange(blocks, dtype=np.uint64)
    pairs = max(1, WORK // max(1, dimension))
    room: tuple[np.ndarray, np.ndarray] | None = None
    for where, seeds in streams.chunks(pairs):
        if room is None:  # the first piece is the largest
            room = (block_buffer(seeds.shape[0] * blocks), block_buffer(seeds.shape[0] * blocks))
        words = streams.blocks(seeds, counters, room).reshape(seeds.shape[0], 2 * blocks)
        piece = out[where]
        bits = np.ascontiguousarray(words[:, :dimension]).reshape(-1)
        if piece.flags.c_contiguous:
            normal_from_bits(bits, piece.reshape(-1))
        else:
            out[where] = normal_from_bits(bits).reshape(piece.shape)
    return out
