"""The noise of the K-norm mechanism for the l2 norm: pure differential privacy in R^d."""

from __future__ import annotations

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.native import kernels
from weir.dpcore.noise.inverse_normal import exponential_from_bits, normal_from_bits
from weir.dpcore.noise.streams import Streams


def k_norm(streams: Streams, dimension: int) -> Floats:
    """Vectors of density proportional to exp(-||x||_2): (m, K, dimension) float64.

    The direction is uniform on the sphere (normals over their norm), the radius Gamma(dimension,
    1), the sum of ``dimension`` exponentials. Variance per coordinate: dimension + 1. In one
    dimension it is the Laplace distribution.

    **Formal guarantees**: added with scale b to a function of l2 sensitivity D, pure eps = D / b.
    Independent Laplace noise per coordinate at the same scale is not private for that sensitivity.

    Source: Hardt and Talwar, On the Geometry of Differential Privacy (STOC 2010), for the l2 ball.
    """
    out = np.empty((*streams.shape, dimension))
    for where, words in streams.words(2 * dimension):
        if kernels is not None:
            made = np.empty((len(words), dimension))
            kernels.vectors(words, made, dimension)
            out[where] = made.reshape(out[where].shape)
            continue
        normals = normal_from_bits(np.ascontiguousarray(words[:, :dimension]).reshape(-1))
        normals = normals.reshape(-1, dimension)
        radius = sum_last(exponential_from_bits(words[:, dimension:]))
        radius /= np.sqrt(sum_last(normals * normals))
        normals *= radius[:, None]
        out[where] = normals.reshape(out[where].shape)
    return out


def sum_last(values: Floats) -> Floats:
    """Sums (n, d) over d >= 1 in an order that depends on d alone: (n,). ``values`` is overwritten.

    Halves are added elementwise. numpy's own reductions may take another order for another n.
    """
    width = values.shape[1]
    while width > 1:
        half = width // 2
        values[:, :half] += values[:, width - half : width]
        width -= half
    return values[:, 0].copy()
