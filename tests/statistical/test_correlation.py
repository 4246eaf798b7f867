"""Noise is correlated over ticks as B B^T says, and with nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from tests.audit.world import EVERYTHING, Placed, World, make
from tests.constant_noise import NoNoise
from tests.statistical.samples import SURE
from weir.dpcore.registry import CONTINUAL_SUMS

KEYS, TICKS = 2500, 18
CASES = [(name, noise) for name, cls in CONTINUAL_SUMS.items() for noise in cls.kinds]


def world_of(mechanism: str, noise: str = "gaussian", over: str = "all", **more: object) -> World:
    delta = 0.0 if noise == "k_norm" else 1e-4
    options: dict[str, object] = {"keys": KEYS, "ticks": TICKS, "epsilon": 3.0, "delta": delta}
    return World.of(make(mechanism, noise, over=over, **(options | more)))  # type: ignore[arg-type]


def noise_of(world: World, secret: int = 1, placed: tuple[Placed, ...] = ()) -> list[np.ndarray]:
    """Per part, the noise of a release in units: (n, K, d), coordinates of variance 1 a unit."""
    events = world.events(placed, 1)
    noisy, clean = world.sums(events, secret), world.sums(events, secret, NoNoise(0))
    found = []
    for (part, *_), values, exact in zip(world._parts, noisy, clean, strict=True):
        unit = np.asarray(part.mechanism.scales) * np.sqrt(part.mechanism.unit_variance)
        found.append((values - exact) / unit)
    return found


def covariance(drawn: np.ndarray) -> np.ndarray:
    """(n, n) over keys and coordinates, means known to be 0."""
    rows = drawn.reshape(len(drawn), -1)
    return np.asarray(rows @ rows.T / rows.shape[1])


@pytest.mark.parametrize(("mechanism", "noise"), CASES)
def test_covariance_over_ticks_is_b_b_transposed(mechanism: str, noise: str) -> None:
    world = world_of(mechanism, noise, {"sliding": "3", "kary_window": "7"}.get(mechanism, "all"))
    (drawn,), (_, dense, _, _) = noise_of(world), world._parts[0]
    expected, measured = dense @ dense.T, covariance(drawn)
    size = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    # K-norm: coordinates of a unit are uncorrelated but not independent, and have heavier tails.
    error = (3.0 if noise == "k_norm" else np.sqrt(2)) / np.sqrt(drawn[0].size)
    assert (abs(measured - expected) / size < SURE * error).all()
    # And the test can tell: independent noise of the same variances is not this.
    if mechanism != "independent":
        apart = expected - np.diag(expected.diagonal())
        assert (abs(apart) / size > 2 * SURE * error).any()


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    """In units of its standard error."""
    a, b = one.ravel() / one.std(), other.ravel() / other.std()
    product = a * b
    return float(product.mean() / (product.std() / np.sqrt(product.size)))


@pytest.mark.parametrize(
    ("mechanism", "noise"), [("blt", "gaussian"), ("tree", "discrete_gaussian"), ("tree", "k_norm")]
)
def test_keys_and_outputs_share_no_noise(mechanism: str, noise: str) -> None:
    (drawn,) = noise_of(world_of(mechanism, noise))
    assert abs(correlation(drawn[-1, 0::2], drawn[-1, 1::2])) < SURE
    for i in range(drawn.shape[2]):
        for j in range(i):
            assert abs(correlation(drawn[-1, :, i], drawn[-1, :, j])) < SURE


def test_parts_of_a_split_share_no_noise() -> None:
    world = world_of("separate", over="[all, 3, 1]")
    drawn = noise_of(world)
    assert len(drawn) == 3
    for one, other in ((0, 1), (0, 2), (1, 2)):
        for tick in (0, 5, TICKS - 1):
            assert abs(correlation(drawn[one][tick], drawn[other][tick])) < SURE


def test_secrets_and_plans_share_no_noise_and_the_same_run_is_the_same() -> None:
    plan = {"over": "all", "aggregates": EVERYTHING}
    base = noise_of(world_of("blt", **plan))[0]
    assert (noise_of(world_of("blt", **plan))[0] == base).all()
    assert abs(correlation(base[-1], noise_of(world_of("blt", **plan), 2)[0][-1])) < SURE
    for change in ({"epsilon": 3.0001}, {"window": 9}, {"extra": "where: a > -1e9"}):
        other = noise_of(world_of("blt", **(plan | change)))[0]
        assert abs(correlation(base[-1], other[-1])) < SURE


def test_other_data_have_other_noise_from_there_on() -> None:
    world = world_of("independent")
    (base,), (other,) = noise_of(world), noise_of(world, placed=(Placed(0, 7, 0),))
    assert (base[:7] == other[:7]).all()
    steps = np.diff(base, axis=0), np.diff(other, axis=0)
    assert abs(correlation(steps[0][6], steps[1][6])) < SURE
    # Fresh noise a tick, keyed with that tick's own leaf: the next ticks' are the same again.
    assert (abs(steps[0][7:] - steps[1][7:]) < 1e-9).all()
    world = world_of("blt")
    (base,), (other,) = noise_of(world), noise_of(world, placed=(Placed(0, 7, 0),))
    assert (base[:7] == other[:7]).all()
    units = [np.linalg.solve(world._parts[0][1], x.reshape(TICKS, -1)) for x in (base, other)]
    for tick in (7, 8, TICKS - 1):
        assert abs(correlation(units[0][tick], units[1][tick])) < SURE
