"""Kernels next to the paths in numpy: both of each pair in one test."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="session")
def hard_words() -> np.ndarray[Any, Any]:
    """Random words, and those at the edges of every piece of the approximations."""
    rng = np.random.default_rng(5)
    edges = np.array([0.5, 0.925, 0.075, 1 - 2.0**-36, 2.0**-36, 1 - 1.4e-11, 1.3e-11])
    near = ((edges - 0.5) * 2.0**64).astype(np.int64)[:, None] + np.arange(-3000, 3000)
    powers = np.uint64(1) << np.arange(64, dtype=np.uint64)
    tails = rng.integers(0, 2**44, 20_000, dtype=np.uint64)
    end, quarter = np.uint64(2**63), np.uint64(2**62)
    return np.concatenate(
        [
            rng.integers(0, 2**64, 200_000, dtype=np.uint64),
            near.ravel().view(np.uint64),
            *(powers + np.uint64(shift) for shift in (0, 1, 2)),
            ~powers,
            *(end + tails, end - tails, quarter + tails, quarter - tails),
            tails,
            ~tails,
        ]
    )
