"""The same bits however keys are put into blocks and ticks into strides, and every time."""

from __future__ import annotations

import numpy as np
import pytest

from tests.contracts.cases import KEYS, cases, leaves, run, same
from weir.dpcore.arrays import arrays_of


@pytest.mark.slow
@pytest.mark.parametrize("case", cases(), ids=str)
def test_a_stride_of_n_is_n_strides_of_one(case):
    mechanism = case.build()
    data = leaves(40)
    state, whole = run(mechanism, data)
    for strides in ((1,) * 40, (3, 1, 13, 7, 16)):
        other, split = run(mechanism, data, strides)
        assert same(state, other)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(whole, split, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("case", cases(), ids=str)
def test_a_block_is_its_keys_one_by_one_in_any_order(case):
    mechanism = case.build()
    data = leaves(21)
    state, block = run(mechanism, data)
    for k, key in enumerate(KEYS):
        alone, single = run(mechanism, data[:, k : k + 1], keys=(key,))
        assert same(alone, type(state)(*rows(state, [k])))
        for a, b in zip(block, single, strict=True):
            assert a[:, k].tobytes() == b[:, 0].tobytes()
    order = [2, 0, 1]
    moved, permuted = run(mechanism, data[:, order], keys=tuple(KEYS[k] for k in order))
    assert same(moved, type(state)(*rows(state, order)))
    for a, b in zip(block, permuted, strict=True):
        assert a[:, order].tobytes() == b.tobytes()


def rows(state, order):
    """The parts of a state, these keys only."""
    return [
        part[order] if isinstance(part, np.ndarray) else type(part)(*rows(part, order))
        for part in state
    ]


@pytest.mark.parametrize("case", cases(), ids=str)
def test_a_repeated_run_is_identical(case):
    data = leaves(19)
    one, out = run(case.build(), data)
    two, again = run(case.build(), data.copy())
    assert same(one, two) and len(arrays_of(one)) == len(arrays_of(two))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(out, again, strict=True))
