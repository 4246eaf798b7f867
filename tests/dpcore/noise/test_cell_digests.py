"""Digests of single cells."""

from __future__ import annotations

import numpy as np

from weir.dpcore.noise.prf import KeyedNoise, RootKey


def test_digests_of_cells_are_those_of_leaves() -> None:
    root = RootKey.derive(bytes(32), "near", bytes(32))
    noise = KeyedNoise(root, 0, [b"a", b"b"], 3)
    for dimension in (1, 2, 5):
        leaves = np.random.default_rng(dimension).integers(0, 3, (40, 2, dimension))
        tick, key = np.nonzero(leaves.any(axis=2))
        found = noise.cell_digests(tick, leaves[tick, key])
        np.testing.assert_array_equal(found, noise.leaf_digests(leaves)[tick, key])
