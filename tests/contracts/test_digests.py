"""One event fewer: releases before it and other keys stay, and the noise of what held it is new."""

from __future__ import annotations

import numpy as np
import pytest

from tests.contracts.cases import KEYS, cases, exact, holds, leaves, run

pytestmark = pytest.mark.slow

TICKS = 40


def noises(mechanism, data, keys=KEYS):
    """(n, K, d) noise of the first output."""
    _, released = run(mechanism, data, keys=keys)
    return released[0] - exact(data, mechanism.overs[0]).astype(np.float64), released


@pytest.mark.parametrize("case", cases(), ids=str)
@pytest.mark.parametrize("record", [0, 6, 13])
def test_a_changed_leaf_draws_again_what_holds_it_and_nothing_else(case, record):
    mechanism = case.build()
    data = leaves(TICKS)
    data[record, 0] = [5, 0, -3]
    changed = data.copy()
    changed[record, 0] = 0
    old, before = noises(mechanism, data)
    new, after = noises(mechanism, changed)
    for a, b in zip(before, after, strict=True):
        assert np.array_equal(a[:record], b[:record])
        assert np.array_equal(a[:, 1:], b[:, 1:])
    if mechanism.overs[0] is not None:
        return
    for tick in range(record, TICKS):
        differs = old[tick, 0, [0, 2]] != new[tick, 0, [0, 2]]
        assert differs.any() == (holds(mechanism, tick, record) > 0)


@pytest.mark.parametrize("case", cases(), ids=str)
def test_two_versions_of_the_data_have_independent_noise(case):
    many = tuple(b"%d" % k for k in range(1500))
    mechanism, record = case.build((300.0, 450.0)), 6
    data = np.zeros((record + 1, len(many), 2), dtype=np.int64)
    changed = data.copy()
    changed[record] = 7
    old, _ = noises(mechanism, data, many)
    new, _ = noises(mechanism, changed, many)
    difference = (new - old)[record] / np.array([300.0, 450.0])
    stated = 2 * holds(mechanism, record, record) * mechanism.unit_variance
    assert (difference**2).mean() == pytest.approx(stated, rel=0.25)
