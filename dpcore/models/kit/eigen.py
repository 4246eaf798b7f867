"""Eigenvectors of a symmetric matrix, the same bits on every CPU.

Libraries of linear algebra order and fuse operations as the CPU likes, so that their eigenvectors
differ in last bits, and by whole turns where eigenvalues are equal. A fit whose noise is keyed by
what it did must not: here every sum is in a fixed order or rounded once, and only + - * / and
square roots occur.
"""

from __future__ import annotations

import math

import numpy as np

from weir.dpcore.arrays import Floats

MOST_TURNS = 64
"""Rotations of a whole matrix for one eigenvalue, at most; two are usual."""
SMALL = 2.0**-52


def combination(weights: Floats, rows: Floats) -> Floats:
    """sum_i weights_i rows_i, in order: (n,), (n, m) -> (m,)."""
    total = np.zeros(rows.shape[1])
    part = np.empty_like(total)
    for weight, row in zip(weights.tolist(), rows, strict=True):
        total += np.multiply(row, weight, out=part)
    return total


def spectral(weights: Floats, rows: Floats) -> Floats:
    """sum_i weights_i r_i r_i^T of rows r_i, in order: (n,), (n, m) -> (m, m)."""
    matrix = np.zeros_like(rows)
    for weight, row in zip(weights.tolist(), rows, strict=True):
        if weight:
            matrix += np.multiply.outer(row * weight, row)
    return matrix


def dot(left: Floats, right: Floats) -> float:
    """Inner product of products that are rounded, summed exactly and rounded once."""
    return math.fsum((left * right).tolist())


def eigen(matrix: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues (n,), not ordered, and eigenvectors as rows (n, n) of a symmetric matrix.

    Args:
      matrix: (n, n), finite.

    Source: Householder's reduction and the implicit QL method (Martin, Wilkinson 1968).
    """
    diagonal, off, rows = _tridiagonal(matrix)
    _rotate(diagonal, off, rows)
    return np.array(diagonal), rows


def _tridiagonal(matrix: Floats) -> tuple[list[float], list[float], Floats]:
    """d, e and R with R matrix R^T tridiagonal: d its diagonal, e what is next to it."""
    a, n = np.array(matrix, dtype=np.float64), len(matrix)
    rows = np.eye(n)
    for k in range(n - 2):
        v = a[k, k + 1 :].copy()
        size = math.sqrt(dot(v, v))
        if size == 0.0:
            continue
        v[0] += math.copysign(size, v[0])
        factor = 2.0 / dot(v, v)
        rest = a[k + 1 :, k + 1 :]
        p = combination(v, rest) * factor
        p -= v * (0.5 * factor * dot(p, v))
        rest -= np.multiply.outer(v, p)
        rest -= np.multiply.outer(p, v)
        a[k, k + 1] = -math.copysign(size, a[k, k + 1])
        turned = rows[k + 1 :]
        turned -= np.multiply.outer(v * factor, combination(v, turned))
    return np.diagonal(a).tolist(), [*np.diagonal(a, 1).tolist(), 0.0], rows


def _rotate(d: list[float], e: list[float], rows: Floats) -> None:
    """Makes e vanish by rotations, which rows take too; all in place."""
    n = len(d)
    for low in range(n):
        for _ in range(MOST_TURNS):
            high = low
            while high < n - 1 and abs(e[high]) > SMALL * (abs(d[high]) + abs(d[high + 1])):
                high += 1
            if high == low:
                break
            g = (d[low + 1] - d[low]) / (2.0 * e[low])
            r = math.sqrt(g * g + 1.0)
            g = d[high] - d[low] + e[low] / (g + math.copysign(r, g))
            sine, cosine, shift = 1.0, 1.0, 0.0
            for i in range(high - 1, low - 1, -1):
                f, b = sine * e[i], cosine * e[i]
                r = math.sqrt(f * f + g * g)
                e[i + 1] = r
                if r == 0.0:
                    d[i + 1] -= shift
                    e[high] = 0.0
                    break
                sine, cosine = f / r, g / r
                g = d[i + 1] - shift
                r = (d[i] - g) * sine + 2.0 * cosine * b
                shift = sine * r
                d[i + 1] = g + shift
                g = cosine * r - b
                upper = rows[i + 1].copy()
                rows[i + 1] = sine * rows[i] + cosine * upper
                rows[i] = cosine * rows[i] - sine * upper
            else:
                d[low] -= shift
                e[low] = g
                e[high] = 0.0
