"""Learners that count events in private: sensitivity, noise, weight, and that they learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.dpcore.models.online.test_fading import EVENTS, P, error, plan, stream
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.gradients import RowCounts
from weir.dpcore.models.online.second_order import CountedLeader
from weir.dpcore.noise.prf import KeyedNoise, RootKey

ROOT = RootKey.derive(bytes(range(32)), "counted", bytes(32))


def leaf(rows: Any, users: Any) -> RowLeaf:
    rows, n = np.asarray(rows, dtype=float).reshape(-1, P + 1), len(users)
    hashes = np.stack([np.asarray(users, dtype=np.uint64)] * 2, axis=1)
    zeros = np.zeros(n, dtype=np.int64)
    return RowLeaf.from_events(zeros, rows, zeros, hashes, 1)


@pytest.mark.parametrize("users", [False, True])
def test_a_neighbour_moves_a_leaf_by_no_more_than_is_paid_for(users: bool) -> None:
    rng, counts, worst = np.random.default_rng(1), RowCounts(users), 0
    for _ in range(200):
        n = int(rng.integers(1, 7))
        rows, own = rng.uniform(-1, 1, (n, P + 1)), rng.integers(1, 4 if users else 1 << 40, n)
        rows[rng.random(n) < 0.3, P] = np.nan  # void: counts as a row, and says nothing
        other, gone = rows.copy(), own == own[0] if users else np.arange(n) == 0
        other[gone] = rng.uniform(-1, 1, (int(gone.sum()), P + 1))
        other[gone, P] = rng.choice([np.nan, 0.5], int(gone.sum()))
        base = counts.sums(leaf(rows, own))[0, 0]
        for near in (leaf(other, own), leaf(rows[~gone], own[~gone])):
            moved = abs(int(counts.sums(near)[0, 0] - base))
            assert moved <= counts.change
            worst = max(worst, moved)
    assert worst == 1
    three = leaf(np.full((3, P + 1), 0.5), [7, 7, 7])  # a mutant: rows of a user, one by one
    assert RowCounts(True).sums(three)[0, 0] == 1 and RowCounts(False).sums(three)[0, 0] == 3


def test_gradients_and_count_cost_what_is_priced_together() -> None:
    learner: Any = plan(clip={"loss": 1}).program
    part, gradients = learner.mechanism, learner.gradients
    gradient = 2 * gradients.clip / gradients.lattice.resolution / part.scales[0]
    loss = gradients.loss_lattice.steps(gradients.loss_bound) / part.scales[P + 1]
    count = 1 / part.scales[-1]
    exact = gradient**2 + loss**2 + count**2
    assert exact <= part.sensitivity**2 <= exact * (1 + 1e-6)
    assert count**2 / exact == pytest.approx(0.02, rel=1e-6)
    assert len(part.scales) == learner.dimension == P + 3


def test_the_count_has_its_noise() -> None:
    learner: Any = plan().program
    empty = RowLeaf.from_events(
        np.zeros(0, np.int64), np.zeros((0, P + 1)), np.zeros(0, np.int64),
        np.zeros((0, 2), np.uint64), 2000,
    )  # fmt: skip
    keyed = KeyedNoise(ROOT, 0, tuple(b"%d" % i for i in range(2000)), 0)
    own = learner.of_rows(np.zeros((2000, P + 1)), empty, None)
    _, (released,) = learner.mechanism.step(learner.mechanism.init(2000), own[None], keyed)
    drawn = learner.for_rule(released[0])[:, -1]
    spread = float(learner.mechanism.stddev(np.array([0]), None)[0, -1])
    ratio = drawn.std() / spread
    assert ratio == pytest.approx(1, abs=0.08) and not 0.9 < ratio / 1.3 < 1.1
    worst = learner.mechanism.stddev(np.arange(200), None)[:, -1].max()
    assert learner.rule.deviation == pytest.approx(worst, rel=1e-6) and worst >= spread > 0


def test_the_weight_is_that_of_the_events_that_were_counted() -> None:
    made: Any = plan(epsilon=1e5, momentum=0.6).program
    rule = made.rule
    known: Any = plan(EVENTS, epsilon=1e5, schedule="constant").program.rule
    assert isinstance(rule, CountedLeader)
    ticks, sums = np.array([10.0, 10.0, 4.0]), np.zeros((3, P + 2))
    sums[:, -1] = [10 * EVENTS + rule.deviation, -50.0, 4 * EVENTS + rule.deviation]
    weights = rule.weight(sums, ticks)
    assert weights == pytest.approx([known.curvature, rule.curvature, known.curvature], rel=1e-3)
    clean = made.for_rule(np.ones((1, P + 2)))
    assert clean[0, -1] == 1.0 and clean.shape == (1, P + 2)


@pytest.mark.slow
def test_models_learn_without_knowing_how_many_events_there_are() -> None:
    """Over 16 streams and secrets a standard error is 0.03."""
    counted, known, linear = 0.0, 0.0, []
    for seed in range(16):
        data, secret = stream(seed), bytes([seed]) * 32
        counted += error(plan(), data, secret=secret)
        known += (own := error(plan(EVENTS, schedule="constant"), data, secret=secret))
        if seed < 3:
            linear.append(error(plan(schedule="linear"), data, secret=secret) / own)
    assert counted / known < 1.03 + 2.5 * 0.03 < min(linear)


def test_the_plan_says_that_events_are_counted() -> None:
    made = plan()
    facts = dict(made.config.algorithm.facts(made.program, {}))
    assert facts["events a tick"].startswith("counted in private, for 0.02 of the squared budget")
    assert "for each event of a tick beyond the first" in facts["curvature"]
    assert "average" in facts["played"]
    assert "count over=all" in made.alternatives[0].stddev
