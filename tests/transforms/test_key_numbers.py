"""Names of keys as numbers, in one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from weir.dpcore.leaves.hashes import id_hashes
from weir.transforms.operators import key_numbers as names_module
from weir.transforms.operators.key_numbers import KeyNumbers


def test_names_are_numbers() -> None:
    names = KeyNumbers()
    texts = [["a", "", "b", "a"], ["c", "b", "\u00e9", "c"]]
    columns = [pa.array(part).dictionary_encode() for part in texts]
    hashes = [id_hashes(column.dictionary, bytes(16)).hashes for column in columns]
    coded = [names.coded(*both) for both in zip(columns, hashes, strict=True)]
    assert [numbers.to_pylist() for numbers in coded] == [[0, 1, 2, 0], [3, 2, 4, 3]]
    assert [names.decoded(numbers).to_pylist() for numbers in coded] == texts
    for column, own, numbers in zip(columns, hashes, coded, strict=True):
        assert np.array_equal(names.hashes_of(numbers), own[column.indices.to_numpy()])


@pytest.mark.parametrize("by_kernel", [True, False])
def test_many_names_find_their_numbers_whatever_their_slots(
    by_kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not by_kernel:
        monkeypatch.setattr(names_module, "kernels", None)
    names, texts = KeyNumbers(), [f"name {i}" for i in range(800)]
    rng = np.random.default_rng(3)
    numbers: dict[str, int] = {}
    for size in (3, 500, 10, 2_500, 2_500):
        some = rng.choice(texts, size).tolist()
        column = pa.array(some).dictionary_encode()
        hashes = id_hashes(column.dictionary, bytes(16)).hashes
        hashes[:, 1] &= np.uint64(7)  # they all want the same few slots
        found = names.coded(column, hashes)
        assert names.decoded(found).to_pylist() == some
        for text, number in zip(some, found.to_pylist(), strict=True):
            assert numbers.setdefault(text, number) == number
    assert sorted(numbers.values()) == list(range(len(numbers)))
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["new", "new", "other"]))
    hashes = id_hashes(twice.dictionary, bytes(16)).hashes
    assert names.decoded(names.coded(twice, hashes)).to_pylist() == ["new", "new", "other"]


def test_a_table_that_is_none_is_refused(compiled: Any) -> None:
    slots, known = np.array([0, -1, 1, -1], dtype=np.int32), np.array([[1, 0], [2, 2]], np.uint64)
    asked, out = np.array([[2, 2], [3, 0], [4, 3]], np.uint64), np.zeros(3, dtype=np.int32)
    compiled.lookup(slots, known, asked, out)
    assert out.tolist() == [1, -1, -1]
    for bad in (slots[:3], slots + np.int32(1), np.zeros(4, dtype=np.int32), slots[:0]):
        with pytest.raises(ValueError, match="power of two"):
            compiled.lookup(bad, known, asked, out)
