"""Every continual sum that serves running totals serves discovery: with each of its noises, keys
that are found by and by have the bits of keys that were there all along."""

from __future__ import annotations

import pytest

from tests.dpcore.discovery.test_step import NAMES, TICKS, same, whole
from tests.dpcore.discovery.world import Ring, by_key, leaves_of, program_of, rule_of, stepped
from weir.dpcore.registry import CONTINUAL_SUMS

SERVED = [
    (name, noise)
    for name in CONTINUAL_SUMS.own
    for noise in CONTINUAL_SUMS[name].kinds
    if CONTINUAL_SUMS[name].serves((None,))
]


def test_all_but_sliding_sums_serve() -> None:
    assert {name for name, _ in SERVED} == set(CONTINUAL_SUMS.own) - {"sliding", "kary_window"}


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "noise"), SERVED)
def test_discovery_has_the_bits_of_the_long_way(mechanism: str, noise: str) -> None:
    program = program_of(mechanism, noise, TICKS, "[all, 4]", epsilon=8)
    rule, noises = rule_of(program, TICKS, min_users=3), Ring([(13, bytes(32))])
    leaves = leaves_of(program, 9, TICKS, len(NAMES), crowd=90)
    expected = whole(program, rule, noises, leaves)
    assert 2 < len(expected) < len(NAMES)
    for edges in (range(TICKS), (5, 14)):
        same(by_key(stepped(program, rule, noises, NAMES, leaves, edges)[1]), expected)
