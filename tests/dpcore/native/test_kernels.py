"""Kernels in C give the bits of the paths in numpy beside them: workers may lack them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from dpcore.native import kernels
from dpcore.noise import inverse_normal


@pytest.fixture(autouse=True)
def compiled() -> Any:
    """Fails in continuous integration where the module is missing: what is tested is the pair."""
    if kernels is None and not os.environ.get("CI"):
        pytest.skip("no compiler was at hand when Weir was installed")
    assert kernels is not None, "install Weir with a C compiler: dpcore.native._kernels is missing"
    return kernels


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Modules of the list fall back to numpy."""
    monkeypatch.setattr(inverse_normal, "kernels", None)
    return monkeypatch


def hard_words() -> np.ndarray[Any, Any]:
    """Random words, and those at the edges of every piece of the approximation."""
    rng = np.random.default_rng(5)
    edges = np.array([0.5, 0.925, 0.075, 1 - 2.0**-36, 2.0**-36, 1 - 1.4e-11, 1.3e-11])
    near = ((edges - 0.5) * 2.0**64).astype(np.int64)[:, None] + np.arange(-3000, 3000)
    powers = np.uint64(1) << np.arange(64, dtype=np.uint64)
    tails = rng.integers(0, 2**44, 20_000, dtype=np.uint64)
    ends = np.uint64(2**63)
    return np.concatenate(
        [
            rng.integers(0, 2**64, 200_000, dtype=np.uint64),
            near.ravel().view(np.uint64),
            *(powers + np.uint64(shift) for shift in (0, 1, 2)),
            ~powers,
            ends + tails,
            ends - tails,
            tails,
            ~tails,
        ]
    )


def test_normals_are_the_same_to_the_bit(compiled: Any, without: pytest.MonkeyPatch) -> None:
    words = hard_words()
    fast = np.empty(words.size)
    compiled.normal(words, fast)
    slow = inverse_normal.normal_from_bits(words)
    assert np.abs(slow).max() > 9  # both tails were there
    assert np.array_equal(fast.view(np.uint64), slow.view(np.uint64))


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 1000])
def test_normals_of_any_length(compiled: Any, without: pytest.MonkeyPatch, n: int) -> None:
    words = np.random.default_rng(n).integers(0, 2**64, n, dtype=np.uint64)
    room = np.full(n + 2, 7.0)
    compiled.normal(words, room[1:-1])
    assert room[0] == room[-1] == 7.0
    assert np.array_equal(room[1:-1], inverse_normal.normal_from_bits(words))


def test_buffers_that_do_not_fit_are_refused(compiled: Any) -> None:
    with pytest.raises(ValueError, match="as long as each other"):
        compiled.normal(np.zeros(4, dtype=np.uint64), np.zeros(3))
    with pytest.raises((BufferError, TypeError)):
        compiled.normal(np.zeros(4, dtype=np.uint64), np.zeros(8)[::2])
    frozen = np.zeros(4)
    frozen.flags.writeable = False
    with pytest.raises((BufferError, TypeError)):
        compiled.normal(np.zeros(4, dtype=np.uint64), frozen)
