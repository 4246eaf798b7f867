"""Normals read off a table lie within ERROR of those that are drawn."""

from __future__ import annotations

import numpy as np

from weir.dpcore.noise.gaussian import BINS, EDGE, ERROR, normal_from_bits, table
from weir.dpcore.noise.noise import label
from weir.dpcore.noise.prf import KeyedNoise, RootKey


def test_the_table_holds_its_error_at_both_ends_of_every_bin() -> None:
    first = np.arange(BINS, dtype=np.uint64)
    middles = table()
    inside = ~np.isnan(middles)
    assert inside.sum() == BINS - 2 * EDGE
    worst = 0.0
    for last in (np.uint64(0), np.uint64((1 << 48) - 1)):
        ends = normal_from_bits(first << np.uint64(48) | last)
        worst = max(worst, np.abs(ends - middles)[inside].max())
    assert ERROR / 2 < worst < ERROR, "and it is no larger than it must be"


def test_they_are_near_the_normals_of_the_same_streams() -> None:
    root = RootKey.derive(bytes(32), "near", bytes(32))
    noise = KeyedNoise(root, 1, [b"a", b"b", b"c"], 7)
    labels = label(0, np.arange(20_000))
    digests = np.zeros((20_000, 3, 2), dtype=np.uint64)
    digests[:, 1, 0] = 5
    drawn = noise.gaussian(labels, digests, 3)
    for coordinate in range(3):
        near = noise.float32_gaussian(labels, digests, coordinate)
        assert near.dtype == np.float32
        assert np.abs(near - drawn[:, :, coordinate]).max() < ERROR
    assert np.abs(drawn).max() > 4, "the edges are met too"


def test_digests_of_cells_are_those_of_leaves() -> None:
    root = RootKey.derive(bytes(32), "near", bytes(32))
    noise = KeyedNoise(root, 0, [b"a", b"b"], 3)
    for dimension in (1, 2, 5):
        leaves = np.random.default_rng(dimension).integers(0, 3, (40, 2, dimension))
        tick, key = np.nonzero(leaves.any(axis=2))
        found = noise.cell_digests(tick, leaves[tick, key])
        np.testing.assert_array_equal(found, noise.leaf_digests(leaves)[tick, key])
