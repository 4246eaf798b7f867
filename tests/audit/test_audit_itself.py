"""The audit finds what is wrong: too little noise, lost correlation, clips that do not hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.audit.verdict import audit, tampered
from tests.audit.world import WINDOW, World, make
from weir.dpcore.continual.rational import Rational

KEYS = 3000
"""So many that what is wrong stands out by 7 standard errors beyond the 4 that are chance."""


def measured(mechanism: str, noise: str, program_of, relation: str = "add_remove") -> bool:
    plan = make(mechanism, noise, relation, keys=KEYS, epsilon=8.0)
    world = World.of(plan, program_of(plan.program))
    return audit(world, world.worst(relation, False, WINDOW), WINDOW).violated()


@pytest.mark.parametrize(
    ("mechanism", "noise"),
    [("blt", "gaussian"), ("toeplitz", "gaussian"), ("tree", "discrete_gaussian")],
)
def test_too_little_noise_is_found(mechanism: str, noise: str) -> None:
    def less(program):
        return tampered(program, noise_scale=lambda scale: 0.8 * scale)

    assert not measured(mechanism, noise, lambda program: program)
    assert measured(mechanism, noise, less)


def test_noise_that_is_not_correlated_as_priced_is_found() -> None:
    """The scale is right, the sums of its squares are not: b = [1] moves c_k = 1 for ever."""
    assert measured("blt", "gaussian", lambda p: tampered(p, form=Rational((), ())))


def test_a_clip_that_does_not_hold_is_found() -> None:
    def wide(program):
        channels = tuple(
            replace(c, low=2 * c.low, high=2 * c.high) if c.column == "a" else c
            for c in program.channels
        )
        return replace(program, channels=channels)

    assert measured("blt", "gaussian", wide)


def test_the_wrong_relation_is_found() -> None:
    """Priced for add_remove, attacked by a replacement."""
    plan = make("blt", keys=KEYS, epsilon=8.0)
    world = World.of(plan)
    pair = world.worst("replace_anywhere", False, WINDOW)
    assert audit(world, pair, WINDOW).violated()
