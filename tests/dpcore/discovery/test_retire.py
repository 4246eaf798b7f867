"""Keys that go again: by their own releases, at a period's end, and found again as any other."""

from __future__ import annotations

import numpy as np
import pytest

from tests.dpcore.discovery.world import Ring, leaves_of, program_of, rule_of, stepped
from weir.dpcore.config.key import RetireConfig
from weir.dpcore.discovery.reference import lives

TICKS, PER = 32, 4
NAMES = [f"key {i}".encode() for i in range(30)]


def waves(program, seed: int):
    """Leaves of keys that are busy in some periods and silent in others."""
    leaves = leaves_of(program, seed, TICKS, len(NAMES), crowd=240)
    busy = np.random.default_rng(seed).random((TICKS // PER, len(NAMES))) < 0.5
    return leaves * np.repeat(busy, PER, axis=0)[:, :, None]


def flat(pieces):
    return {
        (key, tick): tuple(array[tick - piece.first, row].tobytes() for array in piece.arrays)
        for piece in pieces
        for row, key in enumerate(piece.keys)
        for tick in range(piece.first + int(piece.births[row]), piece.stop)
    }


def long_way(program, rule, noises, leaves, stride=128):
    return {
        (NAMES[life.key], first + i): tuple(array[i, 0].tobytes() for array in arrays)
        for life in lives(program, rule, noises, NAMES, leaves, stride)
        for first, arrays in life.strides
        for i in range(len(arrays[0]))
    }


@pytest.mark.parametrize("after", [1, 2])
@pytest.mark.parametrize("mechanism", ["blt", "tree"])
def test_by_and_by_is_the_long_way(mechanism: str, after: int) -> None:
    program = program_of(mechanism, ticks=TICKS, epsilon=20)
    rule = rule_of(program, TICKS, PER, min_users=2, retire=RetireConfig(below=6, after=after))
    noises, leaves = Ring([(11, bytes(32))]), waves(program, 3)
    expected = long_way(program, rule, noises, leaves)
    lived = [life.key for life in lives(program, rule, noises, NAMES, leaves, 5)]
    again = [key for key in set(lived) if lived.count(key) > 1]
    assert len(again) > 2, "some keys have several lives"
    ticks = {key: sorted(t for name, t in expected if name == NAMES[key]) for key in again}
    assert any(t[-1] - t[0] + 1 > len(t) for t in ticks.values()), "and are silent between"
    for edges in ((), range(TICKS), (3, 7, 9, 20)):
        assert flat(stepped(program, rule, noises, NAMES, leaves, edges)[1]) == expected


def test_a_key_goes_by_what_it_releases() -> None:
    """Who goes, and when, is computed here from releases alone."""
    program = program_of("blt", ticks=TICKS, epsilon=20)
    rule, noises = rule_of(program, TICKS, PER, retire=RetireConfig(below=6)), Ring()
    leaves = waves(program, 4)
    _, pieces = stepped(program, rule, noises, NAMES, leaves, ())
    total = {
        (key, tick): float(piece.arrays[rule.array][tick - piece.first, row, rule.coordinate])
        for piece in pieces
        for row, key in enumerate(piece.keys)
        for tick in range(piece.first + int(piece.births[row]), piece.stop)
    }
    gone = 0
    for key in {key for key, _ in total}:
        before = 0.0  # totals begin with the period that found the key
        for end in range(PER, TICKS, PER):
            if (key, end - 1) not in total:
                continue
            went = total[key, end - 1] - before < 6 * rule.step
            before = 0.0 if went else total[key, end - 1]
            assert went or (key, end) in total
            if went:  # only found again may it be there, with a total that began again
                gone += 1
                later = [t for t in range(end, end + PER) if (key, t) in total]
                counts = np.cumsum(leaves[end : end + PER, NAMES.index(key), 0])
                for tick in later:
                    noise = total[key, tick] - counts[tick - end]
                    assert abs(noise) < 12 * float(
                        rule.mechanism.stddev(np.array([tick]), None)[0, 0]
                    )
    assert gone > 5


def test_noise_of_another_life_is_other_noise() -> None:
    """Ticks of a period are drawn once: the same leaves in two lives have different noise."""
    program = program_of("blt", ticks=TICKS, epsilon=20, spent=False)
    rule, noises = rule_of(program, TICKS, PER, retire=RetireConfig(below=6)), Ring()
    leaves = np.zeros((TICKS, len(NAMES), program.dimension), dtype=np.int64)
    busy = [period for period in range(TICKS // PER) if period % 2 == 0]
    for period in busy:
        leaves[period * PER : (period + 1) * PER, :, 0] = 50 * rule.step
    found = list(lives(program, rule, noises, NAMES, leaves, 128))
    assert len(found) == len(busy) * len(NAMES), "each is found and goes in turn"
    ends = {
        (life.key, life.birth // PER): np.concatenate([a[0] for _, a in life.strides])[
            PER - 1, 0, 0
        ]
        for life in found
        if life.birth % PER == 0
    }
    for key in range(len(NAMES)):
        mine = [ends[key, period] for period in busy if (key, period) in ends]
        assert len(set(mine)) == len(mine) > 2


def test_without_a_rule_nobody_goes() -> None:
    program = program_of("blt", ticks=TICKS, epsilon=20)
    rule, leaves = rule_of(program, TICKS, PER), waves(program, 3)
    block, pieces = stepped(program, rule, Ring(), NAMES, leaves, ())
    shown = flat(pieces)
    assert all((key, TICKS - 1) in shown for key, _ in shown)
    assert not len(block.watched.quiet) and "retire" not in rule.canonical()
    rule = rule_of(program, TICKS, PER, retire=RetireConfig(below=6, after=2))
    assert rule.canonical()["retire"] == {"below": 6, "after": 2}
