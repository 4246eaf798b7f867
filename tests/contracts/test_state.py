"""State: pure steps, bounded size, survives pickling, and no release is silent."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from tests.contracts.cases import KEYS, SCALES, cases, gaussian_cases, leaves, noise, run, same
from weir.dpcore.arrays import arrays_of


@pytest.mark.slow
@pytest.mark.parametrize("case", cases(), ids=str)
def test_pickling_changes_nothing(case):
    mechanism = case.build()
    copied = pickle.loads(pickle.dumps(mechanism))
    assert copied == mechanism and hash(copied) == hash(mechanism)
    data = leaves(17)
    state, _ = run(mechanism, data[:9])
    restored = pickle.loads(pickle.dumps(state))
    assert same(state, restored)
    one, out = run(mechanism, data[9:], state=state, first=9)
    two, again = run(copied, data[9:], state=restored, first=9)
    assert same(one, two)
    assert all(np.array_equal(a, b) for a, b in zip(out, again, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("case", cases(), ids=str)
def test_a_step_changes_no_input_and_shares_no_memory(case):
    mechanism = case.build()
    data = leaves(24)
    state, _ = run(mechanism, data[:5])
    before = pickle.dumps((state, data))
    for array in (*arrays_of(state), data):
        array.flags.writeable = False
    new, released = mechanism.step(state, data[5:], noise(5))
    assert pickle.dumps((state, data)) == before
    kept = arrays_of(new)
    for array in (*arrays_of(state), data, *released):
        assert not any(np.shares_memory(array, mine) for mine in kept)
    for i, array in enumerate(kept):
        assert not any(np.shares_memory(array, other) for other in kept[:i])
        assert array.shape[0] == len(KEYS)


@pytest.mark.slow
@pytest.mark.parametrize("case", gaussian_cases(), ids=str)
def test_the_state_does_not_grow(case):
    mechanism = case.build()
    start = mechanism.init(len(KEYS))
    end, _ = run(mechanism, leaves(500), (128, 128, 128, 116))
    shapes = [[(a.shape, a.dtype) for a in arrays_of(state)] for state in (start, end)]
    assert shapes[0] == shapes[1]
    assert mechanism.state_bytes() * len(KEYS) == sum(a.nbytes for a in arrays_of(end))


@pytest.mark.parametrize("case", cases(), ids=str)
def test_empty_ticks_release_noise_and_public_coordinates_none(case):
    mechanism = case.build()
    _, released = run(mechanism, np.zeros((20, len(KEYS), len(SCALES)), dtype=np.int64))
    for values in released:
        assert (values[:, :, 1] == 0).all()
        assert (values[:, :, [0, 2]] != 0).all()
        assert (values == np.rint(values)).all()


@pytest.mark.parametrize("case", gaussian_cases(), ids=str)
def test_a_key_that_appears_later_starts_from_zero_state(case):
    mechanism = case.build()
    data = leaves(13)
    _, released = run(mechanism, data, first=37)
    for over, values in zip(mechanism.overs, released, strict=True):
        assert (values[:, :, [0, 2]] != 0).all()
        assert mechanism.stddev(np.arange(37, 50), over).shape == (13, len(SCALES))
