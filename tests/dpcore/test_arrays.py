"""Running sums along axis 0, however wide the rows."""

from __future__ import annotations

import numpy as np
import pytest

from weir.dpcore.arrays import WIDE, accumulate


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
