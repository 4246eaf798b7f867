"""Pure noise: no outcome is more than e^epsilon times likelier; the density is the stated one.

Where the cover of the first ticks has as many nodes as ticks, the noisy sum of every node can be
read off the releases, and the log-likelihood ratio of what was released is a sum over nodes.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.audit.verdict import MAY_ERR, epsilon_bound, tampered
from tests.audit.world import Neighbours, Placed, World, make
from tests.constant_noise import NoNoise

COUNT = " n: {count: events}"
PURE = ("independent", "tree", "window_tree", "merging_tree", "hybrid")


def log_ratios(world: World, pair: Neighbours) -> tuple[np.ndarray, np.ndarray]:
    """log P_here(outcome) / P_there(outcome) of every trial, in either world."""
    (part,) = world.program.parts
    stated = world.plan.program.parts[0].mechanism  # type: ignore[attr-defined]
    dense = stated.materialize(world.ticks)
    assert np.linalg.matrix_rank(dense) == dense.shape[1]
    unmix = np.linalg.pinv(dense)
    unit = np.asarray(stated.scales)
    noisy = [scale > 0 for scale in unit]

    def units(placed, secret, noise=None):
        (sums,) = world.sums(world.events(placed, pair.slots), secret, noise)
        return np.einsum("ut,tkd->ukd", unmix, sums)[:, :, noisy] / unit[noisy]

    clean = [units(placed, 0, NoNoise(0)) for placed in (pair.here, pair.there)]
    found = []
    for secret, placed in enumerate((pair.here, pair.there)):
        drawn = units(placed, 17 + secret)
        order = 1 if stated.kind == "laplace" else 2
        here, there = (np.linalg.norm(drawn - means, order, axis=2) for means in clean)
        total = (there - here).sum(axis=0) / stated.noise_scale
        found.append(sum(total[slot :: pair.slots] for slot in range(pair.slots)))
    return found[0], found[1]


@pytest.mark.parametrize("relation", ["add_remove", "replace_one", "replace_anywhere"])
@pytest.mark.parametrize(
    ("mechanism", "noise"), [*((name, "k_norm") for name in PURE), ("tree", "laplace")]
)
def test_no_outcome_is_worth_more_than_epsilon(mechanism: str, noise: str, relation: str) -> None:
    # Four ticks: one block of the window tree, two levels of the merging tree are not invertible.
    ticks = 2 if mechanism == "merging_tree" else 4
    plan = make(mechanism, noise, relation, keys=2000, ticks=ticks, epsilon=2.0, delta=0,
                window=ticks)  # fmt: skip
    world = World.of(plan)
    pair = world.worst(relation, False, ticks)
    here, there = log_ratios(world, pair)
    epsilon = plan.guarantee.epsilon
    assert plan.program.loss(ticks).value <= epsilon
    # Every single outcome: rounding to the lattice moves a ratio by next to nothing.
    assert max(np.abs(here).max(), np.abs(there).max()) <= epsilon * (1 + 1e-4)
    # The density is the stated one: a likelihood ratio has mean 1 in the other world.
    for ratios in (np.exp(there), np.exp(-here)):
        assert abs(ratios.mean() - 1) < 4.5 * ratios.std() / math.sqrt(ratios.size)


@pytest.mark.parametrize("mechanism", PURE)
def test_one_tick_thresholds(mechanism: str) -> None:
    """Counts of one tick: Laplace noise, where a threshold attains epsilon."""
    plan = make(mechanism, "k_norm", keys=8000, ticks=1, window=1, epsilon=1.5, delta=0,
                aggregates=COUNT)  # fmt: skip
    pair = Neighbours((Placed(0, 0, 0),), ())
    # The columns of COUNT are none: candidate 0 is "an event".
    here, there = log_ratios(World.of(plan), pair)
    bound = epsilon_bound(here > 0, there > 0, 0.0)
    mirrored = epsilon_bound(there < 0, here < 0, 0.0)
    assert 0.5 < min(bound, mirrored) <= max(bound, mirrored) <= 1.5
    top = plan.guarantee.epsilon * (1 - 1e-4)
    best = epsilon_bound(here > top, there > top, 0.0)
    assert 1.2 < best <= 1.5

    less = tampered(plan.program, noise_scale=lambda scale: 0.75 * scale)
    here, there = log_ratios(World.of(plan, less), pair)
    assert epsilon_bound(here > top, there > top, 0.0) > 1.5
    assert MAY_ERR < 1e-3


def test_laplace_noise_per_coordinate_would_be_found() -> None:
    """The classical mistake: an l2 scale for independent coordinates."""
    rng = np.random.default_rng(0)
    d, epsilon = 7, 1.0
    moved = np.full(d, 1 / math.sqrt(d))  # l2 norm 1, l1 norm sqrt(d)
    noise = rng.laplace(0, 1 / epsilon, (4000, d))
    ratio = (np.abs(noise - moved) - np.abs(noise)).sum(axis=1) * -epsilon
    assert np.abs(ratio).max() > 1.5 * epsilon
