"""Discovery of keys, attacked: what a user changes in (tick found, release there, last release).

Every key of a run is a sample, since noise belongs to the key. The event that tells most is chosen
on one half of the samples and measured on the other. Its broken twins are caught through the
pipeline (twins/discovery.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.dpcore.discovery.world import Ring, program_of, rule_of, stepped
from weir.dpcore.accounting.calibrate import gdp_delta

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
    """Whether the guarantee of (mu, delta) = bound is seen to be broken, either way."""
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
