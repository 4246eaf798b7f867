"""Keys found by and by are found as the long way finds them, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from tests.dpcore.discovery.world import Ring, by_key, leaves_of, program_of, rule_of, stepped
from weir.dpcore.discovery import step as stepping
from weir.dpcore.discovery.reference import lives

TICKS = 24
NAMES = [f"key {i}".encode() for i in range(30)]

CASES = [
    ("blt", "gaussian", "all"),
    ("blt", "gaussian", "[all, 5]"),
    ("toeplitz", "gaussian", "all"),
    ("tree", "discrete_gaussian", "all"),
    ("hybrid", "gaussian", "[all, 3]"),
    ("window_tree", "gaussian", "all"),
    ("merging_tree", "k_norm", "all"),
    ("independent", "discrete_gaussian", "[all, 1]"),
    ("separate", "gaussian", "[all, 5, 1]"),
]


def whole(program, rule, noises, leaves, stride=128):
    found = {}
    for life in lives(program, rule, noises, NAMES, leaves, stride):
        arrays = [np.concatenate(a)[:, 0] for a in zip(*(s[1] for s in life.strides), strict=True)]
        found[NAMES[life.key]] = (life.birth, arrays)
    return found


def same(one, other):
    assert one.keys() == other.keys()
    for key, (birth, arrays) in one.items():
        assert birth == other[key][0], key
        for a, b in zip(arrays, other[key][1], strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("min_users", [1, 4])
@pytest.mark.parametrize(("mechanism", "noise", "over"), CASES)
def test_by_and_by_is_the_long_way(mechanism, noise, over, min_users) -> None:
    program = program_of(mechanism, noise, TICKS, over, epsilon=8)
    rule = rule_of(program, TICKS, min_users=min_users)
    noises, leaves = Ring([(11, bytes(32))]), leaves_of(program, 5, TICKS, len(NAMES))
    expected = whole(program, rule, noises, leaves)
    births = {birth for birth, _ in expected.values()}
    assert len(births) > 1 and 3 < len(expected) < len(NAMES)
    for edges in ((), range(TICKS), (3, 7, 9, 20)):
        _, pieces = stepped(program, rule, noises, NAMES, leaves, edges)
        same(by_key(pieces), expected)


def test_the_size_of_groups_does_not_show(monkeypatch) -> None:
    program = program_of("blt", epsilon=8)
    rule, noises = rule_of(program, min_users=2), Ring()
    leaves = leaves_of(program, 6, TICKS, len(NAMES))
    expected = whole(program, rule, noises, leaves, stride=5)
    for numbers, swept in ((1, 0), (128 * 2 * 7, 1000)):
        monkeypatch.setattr(stepping, "NUMBERS", numbers)
        monkeypatch.setattr(stepping, "SWEPT", swept)
        same(by_key(stepped(program, rule, noises, NAMES, leaves, range(TICKS))[1]), expected)


def test_pieces_follow_each_other_and_rows_are_in_order_of_discovery() -> None:
    program = program_of("blt", epsilon=8)
    rule, noises = rule_of(program), Ring()
    leaves = leaves_of(program, 7, TICKS, len(NAMES))
    block, pieces = stepped(program, rule, noises, NAMES, leaves, (4, 13))
    assert pieces[0].first == 0 and pieces[-1].stop == TICKS
    assert all(a.stop == b.first for a, b in zip(pieces, pieces[1:], strict=False))
    for before, after in zip(pieces, pieces[1:], strict=False):
        assert after.keys[: len(before.keys)] == before.keys
    found = by_key(pieces)
    assert list(block.live) == sorted(found, key=lambda key: (found[key][0], key))
    assert all(len(array) == piece.stop - piece.first for piece in pieces for array in piece.arrays)


def test_a_key_that_waits_is_forgotten_at_the_end_of_a_period() -> None:
    program = program_of("blt", epsilon=8)
    rule, noises = rule_of(program, min_users=5), Ring()
    leaves = np.zeros((TICKS, 30, program.dimension), dtype=np.int64)
    leaves[7, :20, 0] = 4 * rule.step
    leaves[8, :20, 0] = 4 * rule.step  # of another period
    block, pieces = stepped(program, rule, noises, NAMES, leaves, ())
    assert not by_key(pieces) and not block.faint.names and not block.tested.names
    leaves[8, :20, 0] = 400 * rule.step
    _, pieces = stepped(program, rule, noises, NAMES, leaves, ())
    found = by_key(pieces)
    assert found.keys() == set(NAMES[:20])
    first = np.array([arrays[0][0, 0] for _, arrays in found.values()]) / rule.step
    assert abs(first.mean() - 400) < 20, "totals begin with the period that finds the key"


def test_a_sample_of_keys_can_be_found_and_no_other() -> None:
    program = program_of("blt", epsilon=8)
    noises = Ring()
    leaves = leaves_of(program, 7, TICKS, len(NAMES), crowd=5000)
    every = by_key(stepped(program, rule_of(program), noises, NAMES, leaves, ())[1])
    some = rule_of(program, sample=0.5)
    half = by_key(stepped(program, some, noises, NAMES, leaves, ())[1])
    chosen = {n for n, is_in in zip(NAMES, noises.sampled(NAMES, 0.5), strict=True) if is_in}
    same(half, {key: one for key, one in every.items() if key in chosen})
    assert 0 < len(half) < len(every)


def test_more_keys_than_the_limit_stop_the_job() -> None:
    program = program_of("blt", epsilon=8)
    leaves = leaves_of(program, 7, TICKS, len(NAMES))
    rule = rule_of(program, max_tracked=5)
    with pytest.raises(Exception, match=r"more than 5 keys of one block wait"):
        stepped(program, rule, Ring(), NAMES, leaves, ())


def test_other_keys_do_not_show() -> None:
    """One user more at some key changes no other key's rows, births or order."""
    rng = np.random.default_rng(4)
    program = program_of("blt", epsilon=8)
    rule, noises = rule_of(program, min_users=3), Ring()
    leaves = leaves_of(program, 8, TICKS, len(NAMES))
    _, pieces = stepped(program, rule, noises, NAMES, leaves, (4,))
    before = by_key(pieces)
    for _ in range(5):
        key, tick = int(rng.integers(len(NAMES))), int(rng.integers(TICKS))
        more = leaves.copy()
        more[tick, key, 0] += rule.step
        block, pieces = stepped(program, rule, noises, NAMES, more, (4,))
        after = by_key(pieces)
        others = [name for name in NAMES if name != NAMES[key]]
        same(
            {n: before[n] for n in others if n in before},
            {n: after[n] for n in others if n in after},
        )
        rest = [name for name in block.live if name != NAMES[key]]
        assert rest == [
            n for n in sorted(before, key=lambda n: (before[n][0], n)) if n != NAMES[key]
        ]
