"""The noise has the size that is stated: the right scale is accepted, a wrong one rejected."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.contracts.cases import Case, cases, run

N_KEYS = 4000
MANY = tuple(b"%d" % k for k in range(N_KEYS))
CHOSEN = tuple(case for case in cases() if case.window == 8)


def ratios(case: Case, factor: float) -> np.ndarray:
    """Measured over stated variance, for each over at three ticks, noise_scale off by factor."""
    mechanism = case.build((300.0, 450.0))
    wrong = replace(mechanism, noise_scale=mechanism.noise_scale * factor)
    _, released = run(wrong, np.zeros((13, N_KEYS, 2), dtype=np.int64), keys=MANY)
    ticks = np.array([2, 7, 12])
    found = []
    for over, values in zip(mechanism.overs, released, strict=True):
        stated = mechanism.stddev(ticks, over)
        assert abs(values[ticks].mean(axis=1) / stated).max() < 5 / np.sqrt(N_KEYS)
        found.append((values[ticks] ** 2).mean(axis=1).mean(axis=1) / (stated**2).mean(axis=1))
    return np.concatenate(found)


@pytest.mark.slow
@pytest.mark.parametrize("case", CHOSEN, ids=str)
def test_the_right_scale_is_accepted_and_a_wrong_one_rejected(case):
    # 8,000 squares: one standard deviation is 1.6 % (Gaussian) to 2.5 % (K-norm).
    assert abs(ratios(case, 1.0) - 1).max() < 0.1
    assert (ratios(case, 0.9) < 0.9).all()
    assert (ratios(case, 1.1) > 1.1).all()


@pytest.mark.slow
@pytest.mark.parametrize("case", cases(), ids=str)
def test_factors_are_the_row_norms_of_the_dense_matrix(case):
    mechanism, n = case.build(), 70
    dense = mechanism.materialize(n)
    for over in mechanism.overs:
        rows = dense.copy()
        if over is not None and not hasattr(mechanism, "response"):
            rows[over:] -= dense[:-over]
        np.testing.assert_allclose(
            mechanism.factor(np.arange(n), over), (rows**2).sum(axis=1), rtol=1e-9
        )
