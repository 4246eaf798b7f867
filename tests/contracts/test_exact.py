"""With the noise off the sums are exact, negative and huge ones included."""

from __future__ import annotations

import numpy as np
import pytest

from tests.constant_noise import NoNoise
from tests.contracts.cases import cases, exact, gaussian_cases, leaves, run


def silent(mechanism, data, strides):
    """Releases without noise."""
    state, at, out = mechanism.init(data.shape[1]), 0, []
    for stride in strides:
        state, released = mechanism.step(state, data[at : at + stride], NoNoise(at))
        out.append(released)
        at += stride
    return [np.concatenate(parts) for parts in zip(*out, strict=True)]


@pytest.mark.parametrize("case", cases(), ids=str)
def test_without_noise_sums_are_numpy_s(case):
    mechanism = case.build()
    data = leaves(30)
    for over, values in zip(mechanism.overs, silent(mechanism, data, (11, 1, 18)), strict=True):
        assert np.array_equal(values, exact(data, over).astype(np.float64))


@pytest.mark.parametrize("case", gaussian_cases(), ids=str)
@pytest.mark.parametrize("sign", [1, -1])
def test_sums_beyond_63_bits_are_exact(case, sign):
    mechanism = case.build()
    data = sign * np.random.default_rng(3).integers(2**58, 2**59, (60, 2, 3))
    for over, values in zip(mechanism.overs, silent(mechanism, data, (25, 35)), strict=True):
        clean = exact(data, over)
        assert over is not None or abs(clean[-1]).min() > 2**63
        np.testing.assert_allclose(values, clean.astype(np.float64), rtol=2**-51)


@pytest.mark.parametrize("case", cases(), ids=str)
def test_the_noise_does_not_depend_on_where_the_sum_is(case):
    mechanism = case.build()
    rounds = leaves(12)
    _, released = run(mechanism, rounds)
    for over, values in zip(mechanism.overs, released, strict=True):
        drawn = values - exact(rounds, over).astype(np.float64)
        assert (drawn == np.rint(drawn)).all() and (drawn[:, :, 1] == 0).all()
