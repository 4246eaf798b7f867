"""Units of noise: which coordinates, which size, and what they cost."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.continual.unit import (
    draw_units,
    lattice_variances,
    loss_of_units,
    noise_scale_for,
    unit_variance,
)
from weir.dpcore.noise.noise import KINDS, label
from weir.dpcore.noise.prf import KeyedNoise, RootKey

KEYS = tuple(b"%d" % k for k in range(3000))
NOISE = KeyedNoise(RootKey.derive(bytes(range(32)), "unit", bytes(32)), 0, KEYS, 0)
SIZES = np.array([1.0, 3.0, 1.0, 0.5])


def draw(kind, scales, sizes=None):
    digests = np.zeros((4, len(KEYS), 2), dtype=np.uint64)
    return draw_units(kind, NOISE, label(0, np.arange(4)), digests, 200.0, scales, sizes)


@pytest.mark.parametrize("kind", list(KINDS))
def test_units_have_their_size_and_public_coordinates_none(kind):
    scales = (2.0, 0.0, 1.0)
    units = draw(kind, scales, SIZES)
    assert units.dtype == np.int64 and (units[:, :, 1] == 0).all()
    variance = unit_variance(kind, 200.0, scales) * SIZES[:, None] ** 2 * np.square(scales)[None]
    measured = units.astype(np.float64).var(axis=1)
    np.testing.assert_allclose(measured[:, [0, 2]], variance[:, [0, 2]], rtol=0.2)


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_public_coordinate_changes_nothing_for_the_others(kind):
    with_public, without = draw(kind, (2.0, 0.0, 1.0)), draw(kind, (2.0, 1.0))
    assert np.array_equal(with_public[:, :, [0, 2]], without)
    assert not draw(kind, (0.0, 0.0)).any()


def test_discrete_units_of_one_size_do_not_depend_on_the_others():
    mixed, plain = draw("discrete_gaussian", (1.0,), SIZES), draw("discrete_gaussian", (1.0,))
    assert np.array_equal(mixed[[0, 2]], plain[[0, 2]])


def test_lattice_variances_round_up_exactly():
    assert lattice_variances(0.1, (1.0, 0.0, 100.0, 1000.0)) == (1, 0, 101, 10001)
    assert lattice_variances(3.0, (2.0, 1.0), 2.0) == (144, 36)


def test_losses_of_units():
    assert loss_of_units("gaussian", 4, 3.0, 2.0) == PrivacyLoss("gdp", 3.0)
    assert loss_of_units("discrete_gaussian", 4, 3.0, 2.0) == PrivacyLoss("zcdp", 4.5)
    assert loss_of_units("laplace", 4, 3.0, 2.0) == PrivacyLoss("pure", 6.0)
    assert loss_of_units("k_norm", 4, 3.0, 2.0) == PrivacyLoss("pure", 6.0)
    assert loss_of_units("k_norm", 0, 3.0, 0.0).value == 0
    assert loss_of_units("k_norm", 1, 3.0, 0.0).value == math.inf
    assert loss_of_units("gaussian", math.inf, 3.0, 1.0).value == math.inf
    assert noise_scale_for(3, 0.0, PrivacyLoss("gdp", 1.0)) == 0.0
    assert noise_scale_for(3, 2.0, PrivacyLoss("pure", 0.5)) == 12.0
