from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import special, stats

from weir.dpcore.noise.gaussian import exact_log, exponential_from_bits, normal_from_bits


def words(n: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 2**64, n, dtype=np.uint64)


def left_words(u: np.ndarray) -> np.ndarray:
    """Words of probability u in (0, 1/2)."""
    return (u * 2.0**64).astype(np.uint64) ^ np.uint64(1 << 63)


def test_inverse_normal_cdf():
    u = np.concatenate([np.linspace(1e-4, 0.49, 10_001), 2.0 ** -np.linspace(2, 63.9, 5_000)])
    bits = left_words(u)
    exact = ((bits ^ np.uint64(1 << 63)) | np.uint64(1)) * 2.0**-64
    np.testing.assert_allclose(normal_from_bits(bits), special.ndtri(exact), rtol=2e-15)


def test_full_precision_at_the_median():
    distance = 2 ** np.arange(0, 50, dtype=np.uint64) | np.uint64(1)
    expected = math.sqrt(2 * math.pi) * distance * 2.0**-64
    np.testing.assert_allclose(normal_from_bits(distance), expected, rtol=2e-9)
    np.testing.assert_allclose(normal_from_bits(distance[:30]), expected[:30], rtol=1e-15)


def test_symmetric_ordered_and_bounded():
    bits = np.sort(words(50_000) ^ np.uint64(1 << 63)) ^ np.uint64(1 << 63)
    x = normal_from_bits(bits)
    opposite = (-(bits | np.uint64(1)).view(np.int64)).view(np.uint64)
    assert np.array_equal(normal_from_bits(opposite), -x)
    assert (np.diff(x) > -1e-15).all()
    ends = normal_from_bits(np.array([1 << 63, (1 << 63) - 1], dtype=np.uint64))
    np.testing.assert_allclose(ends, [special.ndtri(2.0**-64), -special.ndtri(2.0**-64)])


def test_the_branches_meet():
    for edge in (0.075, math.exp(-25)):
        bits = left_words(edge + edge * np.linspace(-1e-12, 1e-12, 1001))
        x = normal_from_bits(bits)
        assert np.ptp(x) < 1e-10


@pytest.mark.parametrize("n", [0, 1, 2, 8191, 8192, 8193, 20_000])
def test_chunks_and_given_room(n):
    bits = words(n)
    out = np.empty(n)
    assert normal_from_bits(bits, out) is out
    one_by_one = [normal_from_bits(bits[i : i + 1])[0] for i in range(0, n, 997)]
    assert np.array_equal(out[::997], one_by_one)


def test_logarithm_against_decimal():
    values = np.concatenate(
        [2.0 ** np.linspace(-65, 10, 300), 1 + np.linspace(-0.4, 0.6, 301), [1.0, 0.5, 2.0]]
    )
    with localcontext() as context:
        context.prec = 40
        exact = np.array([float(Decimal(float(value)).ln()) for value in values])
    np.testing.assert_allclose(exact_log(values), exact, rtol=5e-16)
    assert exact_log(np.array([[1.0]])) == 0.0


@pytest.mark.slow
def test_exponentials():
    j = np.array([0, 1, 2**20, 2**60, 2**61 - 1, 2**61, 2**62, 2**63 - 1])
    exact = []
    with localcontext() as context:
        context.prec = 60
        for one in j.tolist():
            u = (Decimal(one) + Decimal("0.5")) / Decimal(2**63)
            exact.append(float(-(1 - u).ln()))
    bits = j.astype(np.uint64) << np.uint64(1)
    np.testing.assert_allclose(exponential_from_bits(bits), exact, rtol=1e-15)
    sample = exponential_from_bits(words(200_000))
    assert stats.kstest(sample, "expon").pvalue > 1e-3
    assert stats.kstest(sample * 1.05, "expon").pvalue < 1e-9
    assert stats.kstest(sample / 1.05, "expon").pvalue < 1e-9
