"""A key that passes ``min_users`` in the middle of a period has the noise of its period's start."""

from __future__ import annotations

import numpy as np

from tests.dpcore.discovery.world import Ring, program_of, rule_of, stepped

TICKS, PER, LATE, KEYS = 24, 12, 7, 20_000


def residuals(mechanism: str) -> tuple[np.ndarray, object]:
    """(KEYS, 3) noise at three ticks of the second period from the birth on, in units."""
    program = program_of(mechanism, ticks=TICKS, spent=False)
    rule = rule_of(program, TICKS, PER, min_users=3)
    names = [b"%d" % i for i in range(KEYS)]
    leaves = np.zeros((TICKS, KEYS, 1), dtype=np.int64)
    birth = PER + LATE
    leaves[PER + 2, :, 0] = rule.step  # one user early, a crowd at the birth
    leaves[birth, :, 0] = 10**6 * rule.step
    _, pieces = stepped(program, rule, Ring(), names, leaves, (PER + 4,))
    piece = next(piece for piece in pieces if piece.keys)
    at = birth - piece.first
    assert (piece.births == at).all() and len(piece.keys) == KEYS
    exact = (10**6 + 1) * rule.step
    unit = rule.mechanism.noise_scale * rule.mechanism.scales[0]
    return (piece.arrays[0][at : at + 3, :, 0].T - exact) / unit, rule.mechanism


def covariance(b: np.ndarray, ages: list[int]) -> np.ndarray:
    rows = np.zeros((len(ages), max(ages) + 1))
    for row, age in enumerate(ages):
        rows[row, : age + 1] = b[: age + 1][::-1]
    return rows @ rows.T


def fits(sample: np.ndarray, expected: np.ndarray) -> bool:
    """Whether a covariance is the sample's, to 5 standard errors in every entry."""
    found = sample.T @ sample / len(sample)
    diagonal = np.diag(expected)
    error = np.sqrt((np.outer(diagonal, diagonal) + expected**2) / len(sample))
    return bool((abs(found - expected) < 5 * error).all())


def test_noise_at_birth_is_that_of_the_periods_start() -> None:
    for name in ("blt", "toeplitz"):
        sample, mechanism = residuals(name)
        b = mechanism.materialize(400)[:, 0]
        ages = [LATE, LATE + 1, LATE + 2]
        assert fits(sample, covariance(b, ages))
        assert not fits(sample, covariance(b, [0, 1, 2])), "empty buffers at birth"
        if name == "blt":
            far = [LATE + 300, LATE + 301, LATE + 302]
            assert not fits(sample, covariance(b, far)), "the stationary law"
        assert not fits(1.05 * sample, covariance(b, ages)), "a wrong scale"
