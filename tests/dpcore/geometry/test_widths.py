"""Widths of sets that are no convex set of a config, and the pieces of those that are."""

from __future__ import annotations

import numpy as np
import pytest

from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.convex_set import (
    hull_width,
    largest_length_of,
    largest_size_of,
    length_of,
    norm_bound,
    sparse_bound,
    sparse_width,
)

DRAWS = 40_000


def normals(n: int, d: int) -> np.ndarray:
    return np.random.default_rng(d).standard_normal((n, d))


@pytest.mark.parametrize(("n", "k"), [(1, 1), (5, 1), (5, 5), (40, 3), (500, 10), (500, 400)])
def test_sparse_vectors(n: int, k: int) -> None:
    g = normals(DRAWS // max(1, n // 40), n)
    top = np.sqrt(np.sort(g * g, axis=1)[:, n - k :].sum(axis=1))
    mean, error = top.mean(), top.std() / np.sqrt(len(top))
    found = sparse_width(n, k)
    assert abs(found.value - mean) <= 5 * np.hypot(found.error, error)
    assert found.error == pytest.approx(top.std() / np.sqrt(2000), rel=0.15)
    assert mean - 5 * error <= sparse_bound(n, k) <= 1.2 * mean
    assert sparse_width(n, k) == found  # the draws are public, and the same again


@pytest.mark.parametrize("sizes", [(1, 1, 1), (4,), (1, 5, 2), (3,) * 40, (200, 1)])
def test_largest_length(sizes: tuple[int, ...]) -> None:
    parts = np.split(normals(DRAWS // 4, sum(sizes)), np.cumsum(sizes)[:-1], axis=1)
    largest = np.max([np.linalg.norm(part, axis=1) for part in parts], axis=0)
    error = 5 * largest.std() / np.sqrt(len(largest))
    assert largest_length_of(sizes) == pytest.approx(largest.mean(), abs=error)


def test_largest_length_is_what_was_known() -> None:
    assert largest_length_of((1,) * 12) == pytest.approx(largest_size_of(12), abs=1e-8)
    assert largest_length_of((7,)) == pytest.approx(length_of(7), abs=1e-8)


@pytest.mark.parametrize("q", [1.03, 1.5, 2.0, 3.0, 11.0, 21.0])
@pytest.mark.parametrize("n", [1, 10, 300])
def test_norms_are_bounded(q: float, n: int) -> None:
    norms = np.linalg.norm(normals(DRAWS // 10, n), ord=q, axis=1)
    error = 5 * norms.std() / np.sqrt(len(norms))
    assert norms.mean() - error <= norm_bound(n, q) <= 1.6 * norms.mean() + error


def test_hulls() -> None:
    cross = np.vstack([np.eye(30), -np.eye(30)])
    for shift in (0.0, 100.0):
        found = hull_width(cross + shift)
        assert abs(found.value - largest_size_of(30)) <= 5 * found.error
        assert 0 < found.error < 0.02
    assert hull_width(np.array([[1.0, 2.0]])).value == 0
    fine = hull_width(cross, draws=20_000)
    assert fine.error < found.error / 2.5


def test_what_is_refused() -> None:
    with pytest.raises(ConfigError, match="k_sparse"):
        sparse_bound(5, 6)
    with pytest.raises(ConfigError, match="k"):
        sparse_width(5, 0)
    with pytest.raises(ConfigError, match="draws"):
        hull_width(np.eye(2), draws=1)
