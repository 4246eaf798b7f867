from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.lattice import clip_l2, clip_values

anything = st.floats(allow_nan=True, allow_infinity=True)


@settings(max_examples=100)
@given(st.lists(anything, max_size=30), anything, anything)
def test_every_value_ends_inside(raw: list[float], a: float, b: float) -> None:
    values = np.array(raw, dtype=np.float64)
    before = values.tobytes()
    if not (math.isfinite(a) and math.isfinite(b) and a <= b):
        with pytest.raises(ConfigError):
            clip_values(values, a, b)
        return
    result = clip_values(values, a, b)
    assert values.tobytes() == before
    assert all(a <= x <= b for x in result.values)
    finite = [x for x in raw if math.isfinite(x)]
    assert result.non_finite == len(raw) - len(finite)
    assert result.clipped == sum(not a <= x <= b for x in finite)
    assert [x for x, y in zip(result.values, raw, strict=True) if math.isfinite(y)] == [
        min(max(x, a), b) for x in finite
    ]


def test_non_finite_becomes_the_fill() -> None:
    values = np.array([1.0, math.nan, math.inf, -math.inf, 500.0])
    assert clip_values(values, 0, 200).values.tolist() == [1, 0, 0, 0, 200]
    assert clip_values(values, 0, 200, fill=100).values.tolist() == [1, 100, 100, 100, 200]
    assert clip_values(values, 5, 200).values.tolist() == [5, 5, 5, 5, 200]  # still inside
    assert clip_values(values, 0, 200)[1:] == (1, 3)
    with pytest.raises(ConfigError):
        clip_values(values, 0, 1, fill=math.nan)


def exact_square(row: np.ndarray) -> Fraction:
    return sum((Fraction(float(x)) ** 2 for x in row), Fraction(0))


@settings(max_examples=100)
@given(
    st.integers(1, 5).flatmap(lambda d: arrays(np.float64, (4, d), elements=anything)),
    st.floats(1e-6, 1e6),
)
def test_exact_norm_never_exceeds_bound_or_input(rows: np.ndarray, bound: float) -> None:
    result = clip_l2(rows, bound)
    for before, after in zip(rows, result.values, strict=True):
        size = exact_square(after)
        assert size <= Fraction(bound) ** 2
        if not np.isfinite(before).all():
            assert size == 0
        else:
            assert size <= exact_square(before)
            if exact_square(before) < (Fraction(bound) * (1 - Fraction(1, 2**40))) ** 2:
                assert after.tobytes() == before.tobytes()
    assert result.non_finite == int((~np.isfinite(rows).all(1)).sum())


def test_direction_is_kept() -> None:
    result = clip_l2(np.array([[3.0, 4.0], [30.0, 40.0], [0.0, 0.0]]), 5.0)
    np.testing.assert_allclose(result.values, [[3, 4], [3, 4], [0, 0]], rtol=1e-14)
    assert result.clipped == 1 and result.non_finite == 0


def test_rows_do_not_depend_on_their_chunk() -> None:
    rows = np.random.default_rng(1).normal(size=(1000, 7)) * 3
    whole = clip_l2(rows, 2.0).values
    parts = [clip_l2(rows[a : a + 37], 2.0).values for a in range(0, 1000, 37)]
    assert whole.tobytes() == np.concatenate(parts).tobytes()
    assert clip_l2(np.asfortranarray(rows), 2.0).values.tobytes() == whole.tobytes()


@pytest.mark.parametrize("bound", [0.0, -1.0, math.inf, math.nan])
def test_refuses_bound(bound: float) -> None:
    with pytest.raises(ConfigError):
        clip_l2(np.zeros((1, 1)), bound)
