from __future__ import annotations

import numpy as np
import pytest
from scipy import stats


@pytest.mark.slow
def test_right_scale_passes_and_wrong_ones_fail(draw):
    sample = draw("gaussian", 4).reshape(-1)
    assert sample.size == 200_000
    assert stats.kstest(sample, "norm").pvalue > 1e-3
    for wrong in (1.05, 0.95):
        assert stats.kstest(sample * wrong, "norm").pvalue < 1e-9
    assert abs(sample.var() - 1) < 5 * np.sqrt(2 / sample.size)


def test_tails(draw):
    sample = np.abs(draw("gaussian", 5, rows=200)).reshape(-1)
    for at in (3.0, 4.0):
        expected = 2 * stats.norm.sf(at) * sample.size
        assert abs((sample > at).sum() - expected) < 5 * np.sqrt(expected)


def test_dimensions(draw):
    for dimension in (0, 1, 2, 3, 33):
        assert draw("gaussian", dimension, rows=2, keys=3).shape == (2, 3, dimension)
    three, four = (draw("gaussian", d, rows=2, keys=3) for d in (3, 4))
    assert np.array_equal(three, four[..., :3])
