"""Hashes by number: as they first came, with a kernel and without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weir.dpcore.leaves import hash_sets
from weir.dpcore.leaves.hash_sets import HashNumbers


@pytest.fixture(params=["kernel", "numpy"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "numpy":
        monkeypatch.setattr(hash_sets, "kernels", None)
    else:
        request.getfixturevalue("compiled")


def pool(kind: str, n: int, rng: np.random.Generator) -> Any:
    """n different hashes."""
    found = rng.integers(0, 2**64, (n, 2), dtype=np.uint64)
    if kind == "one slot":
        found[:, 1] &= np.uint64(3)
    elif kind == "last slot":
        found[:, 1] |= np.uint64(2**64 - 2**34)
    elif kind == "one first word":
        found[:, 0] = 7
    elif kind == "one half":
        found[:, 1] = (np.uint64(5) << np.uint64(32)) | np.arange(n, dtype=np.uint64)
    return found


@pytest.mark.parametrize("kind", ["any", "one slot", "last slot", "one first word", "one half"])
def test_hashes_are_numbered_as_they_come(kind: str, way: None) -> None:
    rng = np.random.default_rng(1)
    for n in (1, 40, 900, 9000 if kind == "any" else 900):
        given, seen = pool(kind, n, rng), HashNumbers()
        place: dict[bytes, int] = {}
        for size in (0, 1, 7, n, 3 * n, 20):
            hashes = given[rng.integers(0, n, size)]
            numbers, fresh = seen.add(hashes)
            wanted, new = [], []
            for one in hashes:
                new.append(one.tobytes() not in place)
                wanted.append(place.setdefault(one.tobytes(), len(place)))
            assert numbers.tolist() == wanted and fresh.tolist() == new
            assert len(seen) == len(place)


def test_zero_is_a_hash_like_others(way: None) -> None:
    seen = HashNumbers()
    numbers, fresh = seen.add(np.zeros((3, 2), dtype=np.uint64))
    assert numbers.tolist() == [0, 0, 0] and fresh.tolist() == [True, False, False]


def test_columns_of_other_arrays_are_taken(way: None) -> None:
    seen, whole = HashNumbers(), np.arange(40, dtype=np.uint64).reshape(10, 4)
    assert seen.add(whole[::-1, 1:3])[0].tolist() == list(range(10))
    assert seen.add(whole[:, 1:3].copy())[0].tolist() == list(range(10))[::-1]


def test_many_pieces(compiled: Any) -> None:
    """What is known fills several pieces, and a table that grows."""
    rng = np.random.default_rng(2)
    given, seen = pool("any", 600_000, rng), HashNumbers()
    for start in range(0, len(given), 70_000):
        assert seen.add(given[start : start + 70_000])[1].all()
    again = rng.permutation(len(given))
    numbers, fresh = seen.add(given[again])
    assert np.array_equal(numbers, again) and not fresh.any() and len(seen) == len(given)


def test_buffers_that_do_not_fit_are_refused(compiled: Any) -> None:
    kernel = compiled
    hashes, slots, count = np.ones((3, 2), np.uint64), np.zeros(8, np.uint64), np.zeros(1, np.int64)
    numbers, fresh, piece = np.zeros(3, np.int64), np.zeros(3, bool), np.zeros((1 << 18, 2), "u8")
    right = [hashes, slots, count, numbers, fresh, (piece,)]
    kernel.number(*right)
    assert numbers.tolist() == [0, 0, 0] and count.tolist() == [1]
    wrong: dict[int, Any] = {
        0: hashes[:2].copy(), 1: np.zeros(7, np.uint64), 2: np.array([-1]), 3: numbers[:2].copy(),
        4: np.zeros(4, bool), 5: (),
    }  # fmt: skip
    for place, other in wrong.items():
        given = list(right)
        given[place] = other
        with pytest.raises(ValueError, match="hashes must be"):
            kernel.number(*given)
    for known in ((piece[:5].copy(),), (piece, b"x" * piece.nbytes)):
        with pytest.raises((ValueError, BufferError)):
            kernel.number(*right[:5], known)
    with pytest.raises(TypeError, match="a tuple of buffers"):
        kernel.number(*right[:5], piece)
    with pytest.raises(ValueError, match="powers of two"):
        kernel.renumber(slots, np.zeros(8, np.uint64))
