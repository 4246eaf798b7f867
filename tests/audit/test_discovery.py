"""Discovery of keys, attacked: what a user changes in (tick found, release there, last release).

Every key of a run is a sample, since noise belongs to the key. The event that tells most is chosen
on one half of the samples and measured on the other. Five broken twins are caught.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpcore.accounting.calibrate import gdp_delta
from dpcore.discovery import step as stepping
from dpcore.people.discover import Discover
from tests.dpcore.discovery.world import Ring, by_key, program_of, rule_of, stepped

TICKS, BINS, SAMPLES = 6, 24, 120_000
EPSILONS = (0.25, 0.5, 1.0, 2.0)


def world(mu: float, delta: float, min_users: int = 1, touched: int = 1) -> tuple[Any, Any]:
    """A program that releases the users alone at mu, and its rule."""
    made = program_of("toeplitz", ticks=TICKS, spent=False)
    part = made.parts[0]
    scale = part.mechanism.noise_scale * part.mechanism.loss(None).value / mu
    mechanism = replace(part.mechanism, noise_scale=scale)
    program = replace(made, parts=(replace(part, mechanism=mechanism),))
    return program, rule_of(program, TICKS, None, min_users=min_users, delta=delta, touched=touched)


def transcripts(
    program: Any, rule: Any, pattern: Sequence[int], edges: Sequence[int]
) -> np.ndarray:
    """(SAMPLES,) codes of (tick found, release there, last release)."""
    names = [b"%d" % i for i in range(SAMPLES)]
    leaves = np.zeros((TICKS, SAMPLES, 1), dtype=np.int64)
    leaves[:, :, 0] = np.asarray(pattern)[:, None] * rule.step
    _, pieces = stepped(program, rule, Ring(), names, leaves, edges)
    keys = np.array([int(name) for name in pieces[-1].keys], dtype=np.int64)
    births, first = np.zeros(len(keys), dtype=np.int64), np.zeros(len(keys))
    known = 0
    for piece in pieces:
        fresh = slice(known, len(piece.keys))
        if len(piece.keys) > known:
            births[fresh], first[fresh] = piece.first, piece.arrays[0][0, fresh, 0]
            known = len(piece.keys)
    codes = np.full(SAMPLES, TICKS * BINS * BINS)
    if known:
        bar = int(rule.thresholds(0, TICKS)[-1])
        spread = 4 * (bar - rule.users)
        shown = np.stack([first, pieces[-1].arrays[0][-1, :, 0]])
        bins = np.clip(((shown - bar) / spread + 1) / 2 * BINS, 0, BINS - 1).astype(int)
        codes[keys] = (births * BINS + bins[0]) * BINS + bins[1]
    return codes


def measured(one: np.ndarray, other: np.ndarray, epsilon: float) -> tuple[float, float]:
    """Hockey-stick divergence on the halves that did not choose the event, and its error."""
    size, half = (TICKS * BINS + 1) * BINS + 1, SAMPLES // 2
    parts = [
        np.bincount(codes, minlength=size) / half
        for codes in (one[:half], one[half:], other[:half], other[half:])
    ]
    factor = math.exp(epsilon)
    event = parts[0] > factor * parts[2]
    p, q = parts[1][event].sum(), parts[3][event].sum()
    error = math.sqrt((p * (1 - p) + factor**2 * q * (1 - q)) / half)
    return p - factor * q, error


def broken(
    world: Any,
    others: Sequence[int],
    user: Sequence[int],
    bound: tuple[float, float],
    edges: Sequence[int] = (),
) -> bool:
    """Whether the promise of (mu, delta) = bound is seen to be broken, either way."""
    without = transcripts(*world, others, edges)
    with_user = transcripts(*world, list(np.add(others, user)), edges)
    for epsilon in EPSILONS:
        allowed = gdp_delta(bound[0], epsilon) + bound[1]
        for pair in ((with_user, without), (without, with_user)):
            found, error = measured(*pair, epsilon)
            if found - 4 * error > allowed:
                return True
    return False


NOBODY = [0] * TICKS
FIRST = [1, 0, 0, 0, 0, 0]
PATTERNS = [
    (1.0, 0.02, 1, [0, 0, 0, 1, 0, 0], FIRST),
    (1.0, 0.02, 1, NOBODY, FIRST),
    (1.0, 0.02, 1, [0, 0, 0, 12, 0, 0], FIRST),
    (1.0, 0.02, 1, [8, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0]),
    (1.0, 0.02, 5, [4, 0, 0, 0, 3, 0], [0, 0, 1, 0, 0, 0]),
    (0.5, 0.01, 1, NOBODY, FIRST),
    (0.3, 0.002, 1, [0, 0, 0, 0, 0, 40], FIRST),
    (0.5, 0.01, 1, [9, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1]),
]


@pytest.mark.parametrize(("mu", "delta", "min_users", "others", "user"), PATTERNS)
def test_the_promise_holds(mu, delta, min_users, others, user) -> None:
    assert not broken(world(mu, delta, min_users), others, user, (mu, delta))


def test_the_audit_sees_most_of_what_is_promised() -> None:
    """A user alone is found with nearly delta: half of it would be called broken."""
    assert broken(world(0.5, 0.01), NOBODY, FIRST, (0.01, 0.005))


def test_noise_from_birth_is_caught(monkeypatch) -> None:
    def from_birth(program, rule, noises, block, low):
        names, cells, faint = block.faint.split(rule.users)
        if not names:
            return block, cells
        users = np.zeros(len(names), dtype=np.int64)
        born = block.tested.joined(names, users, program.init(len(names)))
        return block._replace(tested=born, faint=faint), cells

    monkeypatch.setattr(stepping, "_ready", from_birth)
    crowd = [0, 0, 0, 0, 0, 40]
    assert broken(world(0.3, 0.002), crowd, FIRST, (0.3, 0.002), edges=range(TICKS))


def gains(rule, counts):
    """(n, K) whether data came."""
    return np.diff(counts, axis=0, prepend=0) > 0


def test_tests_only_when_data_come_are_caught(monkeypatch) -> None:
    right = stepping.passed

    def only_with_data(rule, counts, noisy, bars):
        return right(rule, counts, noisy, bars) & gains(rule, counts)

    monkeypatch.setattr(stepping, "passed", only_with_data)
    assert broken(world(0.5, 0.01), [9, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1], (0.5, 0.01))


def test_silent_keys_that_are_evicted_are_caught(monkeypatch) -> None:
    right = stepping.passed

    def evicted(rule, counts, noisy, bars):
        held, lost = np.zeros_like(counts), np.zeros_like(counts[0])
        came = gains(rule, counts)
        for tick in range(len(counts)):
            before = counts[tick - 1] if tick else np.zeros_like(lost)
            lost = np.where(came[tick], lost, before)
            held[tick] = counts[tick] - lost
        return right(rule, held, noisy - (counts - held), bars)

    monkeypatch.setattr(stepping, "passed", evicted)
    assert broken(world(0.5, 0.01), [9, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0], (0.5, 0.01))


def test_a_threshold_for_fewer_users_is_caught() -> None:
    program, right = world(1.0, 0.02, min_users=5)

    class Low(type(right)):
        def thresholds(self, first, stop):
            return super().thresholds(first, stop) - 4 * self.step

    low = Low(**{name: getattr(right, name) for name in right.__dataclass_fields__})
    assert low.discover == Discover(5)
    assert broken((program, low), [4, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0], (1.0, 0.02))


def test_keys_of_a_tick_in_place_of_a_period_are_caught() -> None:
    """A user alone at six keys, one a tick: found at any of them by far more than delta."""
    delta = 0.02
    program, wrong = world(1.0, delta, touched=1)
    names = [b"%d" % i for i in range(SAMPLES)]
    leaves = np.zeros((TICKS, SAMPLES, 1), dtype=np.int64)
    for tick in range(TICKS):
        leaves[tick, tick::TICKS, 0] = wrong.step
    for rule, holds in ((wrong, False), (replace(wrong, touched=TICKS), True)):
        found = by_key(stepped(program, rule, Ring(), names, leaves, ())[1])
        users = len({int(key) // TICKS for key in found}) / (SAMPLES // TICKS)
        error = 4 * math.sqrt(users / (SAMPLES // TICKS))
        assert (users - error <= delta) is holds
