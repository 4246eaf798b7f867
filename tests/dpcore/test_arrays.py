"""Running sums along axis 0, however wide the rows, and numbers without their last bits."""

from __future__ import annotations

import numpy as np
import pytest

from weir.dpcore.arrays import WIDE, accumulate, reproducible


@pytest.mark.parametrize("shape", [(0, WIDE, 2), (1, WIDE), (9, 3, 2), (9, WIDE - 1), (9, WIDE, 2)])
@pytest.mark.parametrize("name", ["add", "bitwise_xor"])
def test_rows_of_any_width_add_up_to_the_same_bits(name: str, shape: tuple[int, ...]) -> None:
    operation = getattr(np, name)
    values = np.random.default_rng(1).integers(-(2**63), 2**63, shape)
    before = np.full((1, *shape[1:]), 7)
    found = np.concatenate([before, values])
    with np.errstate(over="ignore"):
        right = operation.accumulate(found.copy(), axis=0)
        accumulate(operation, found)
    assert found.tobytes() == right.tobytes()
    accumulate(operation, values)
    assert values.shape == shape


def test_the_last_bits_of_a_number_do_not_show() -> None:
    values = np.concatenate([[0.0, 1.0, 5e-324, 1e-300, 1e300], 2 ** np.linspace(-60, 60, 1001)])
    rounded = reproducible(values)
    assert (np.abs(rounded - values) <= values * 2.0**-32).all()
    assert rounded.tolist() == reproducible(rounded).tolist()
    assert (reproducible(np.nextafter(values, np.inf)) == rounded).mean() > 0.995
