"""Orders of words: those of a plain lexicographic sort, whatever is tied."""

from __future__ import annotations

import numpy as np
import pytest

from weir.dpcore.leaves.hash_sets import changes, order_of


@pytest.mark.parametrize("distinct", [1, 3, 50, 1 << 40])
@pytest.mark.parametrize("columns", [1, 2, 3])
def test_the_order_is_stable_and_by_all_columns(columns: int, distinct: int) -> None:
    rng = np.random.default_rng(columns)
    for n in (1, 2, 7, 1000):
        # Words that differ in their last bits alone are where places have taken these bits.
        words = [
            (np.uint64(5 << 60) | rng.integers(0, distinct, n, dtype=np.uint64))
            for _ in range(columns)
        ]
        found = order_of(words)
        rows = list(zip(*(word.tolist() for word in words), strict=True))
        assert found.tolist() == sorted(range(n), key=rows.__getitem__)


def test_the_largest_words_are_in_order() -> None:
    words = np.array([2**64 - 1, 0, 2**64 - 2, 2**63, 2**63 - 1], dtype=np.uint64)
    assert order_of((words,)).tolist() == [1, 4, 3, 2, 0]


def test_changes_look_at_both_words() -> None:
    words = np.array([[1, 1], [1, 1], [1, 2], [3, 2], [3, 2]], dtype=np.uint64)
    assert changes(words).tolist() == [True, False, True, True, False]
