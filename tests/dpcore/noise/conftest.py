"""Fixed keys: every statistical test here is deterministic."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.dpcore.noise.reference import PLAN, SECRET
from weir.dpcore.noise.noise import label
from weir.dpcore.noise.prf import KeyedNoise, RootKey


@pytest.fixture(scope="session")
def root() -> RootKey:
    """The root key of all tests."""
    return RootKey.derive(SECRET, "shop", PLAN)


@pytest.fixture(scope="session")
def draw(root: RootKey) -> Callable[..., np.ndarray]:
    """draw(method, argument, rows=50, keys=1000) -> (rows, keys, d): many keyed draws."""

    def call(method: str, argument: object, rows: int = 50, keys: int = 1000) -> np.ndarray:
        noise = KeyedNoise(root, 0, tuple(b"user %d" % i for i in range(keys)), 0)
        digests = np.zeros((rows, keys, 2), dtype=np.uint64)
        return getattr(noise, method)(label(0, np.arange(rows)), digests, argument)

    return call
