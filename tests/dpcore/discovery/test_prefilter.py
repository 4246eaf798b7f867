"""Keys that are rejected before they are stepped are such as no step would find."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.dpcore.discovery.world import Ring, by_key, leaves_of, program_of, rule_of, stepped
from weir.dpcore.discovery import prefilter as looking
from weir.dpcore.discovery.prefilter import Filtered, curves_of, error, prefilter, strides_of
from weir.dpcore.discovery.waiting import KeyCells

TICKS, KEYS = 70, 900
NAMES = [f"key {i}".encode() for i in range(KEYS)]


def world(mechanism="blt", min_users=1, **more):
    program = program_of(mechanism, ticks=TICKS, epsilon=3)
    rule = rule_of(program, TICKS, None, min_users, delta=0.01, touched=1, **more)
    leaves = leaves_of(program, 3, TICKS, KEYS, crowd=12)
    tick, key = np.nonzero(leaves.any(axis=2))
    return program, rule, leaves, KeyCells(tick, key, leaves[tick, key])


@pytest.mark.parametrize("mechanism", ["blt", "ended"])
@pytest.mark.parametrize("min_users", [1, 6])
def test_no_key_that_is_found_is_ruled_out_and_most_others_are(
    mechanism: str, min_users: int
) -> None:
    program, rule, leaves, cells = world(mechanism, min_users=min_users)
    out = prefilter(rule, Ring(), NAMES, cells, 0, TICKS)
    _, pieces = stepped(program, rule, Ring(), NAMES, leaves, (17, 40))
    live = set(by_key(pieces))
    found = np.array([name in live for name in NAMES])
    assert 30 < found.sum() < KEYS / 2
    assert not (out & found).any()
    few = leaves[:, :, 0].sum(axis=0) < looking.LIKELY * rule.thresholds(0, TICKS).min()
    assert out[few & ~found].mean() > 0.8, "of those that are looked at few remain"


@pytest.mark.parametrize("mechanism", ["blt", "ended"])
def test_a_bound_without_its_margin_would_rule_out_what_is_found(mechanism, monkeypatch) -> None:
    """The comparison is with the noise that is drawn: thresholds a little higher are missed."""
    program, rule, leaves, cells = world(mechanism)
    monkeypatch.setattr(looking, "LIKELY", 1.0)
    monkeypatch.setattr(looking, "error", lambda mechanism, strides: -0.5)
    out = prefilter(rule, Ring(), NAMES, cells, 0, TICKS)
    _, pieces = stepped(program, rule, Ring(), NAMES, leaves, ())
    assert any(out[NAMES.index(name)] for name in by_key(pieces))


def test_other_sums_and_other_noise_are_only_asked_for_their_users() -> None:
    _, rule, leaves, cells = world("toeplitz", min_users=6)
    out = prefilter(rule, Ring(), NAMES, cells, 0, TICKS)
    np.testing.assert_array_equal(out, leaves[:, :, 0].sum(axis=0) < rule.users)
    _, rule, leaves, cells = world(min_users=6)
    again = prefilter(rule, Ring([(11, bytes(32))]), NAMES, cells, 0, TICKS)
    np.testing.assert_array_equal(again, leaves[:, :, 0].sum(axis=0) < rule.users)
    assert not prefilter(replace(rule), Ring(), [], cells.pick(slice(0, 0)), 0, TICKS).size


@pytest.mark.parametrize("mechanism", ["blt", "ended"])
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("first", [0, 23])
def test_strides_are_the_noise_of_running_totals_within_the_error(
    mechanism: str, exact: bool, first: int
) -> None:
    """Of keys that begin at a tick: the draws of the mechanism, and what it makes of them."""
    program = program_of(mechanism, ticks=700, epsilon=3)
    found = program.parts[0].mechanism
    assert isinstance(found, Filtered) and found.exact is not None
    if not exact:
        found = replace(found, exact=None)
    keys = tuple(name.encode() for name in "abcdefghi")
    ticks, noise = 656, Ring().noise_of(keys, first)(0)
    chain = np.random.default_rng(1).integers(0, 2**63, (ticks + 1, 9, 2)).astype(np.uint64)
    _, drawn = found.draw(found.init_noise(9), chain, chain[1:], noise)
    unit = found.noise_scale * found.scales[0]
    strides = strides_of(*curves_of(found), first, first + ticks)
    assert len(strides) == ticks // looking.TICKS
    state, worst = np.zeros((len(strides[0].after), 9), dtype=np.float32), 0.0
    for at, stride in enumerate(strides):
        own = slice(at * looking.TICKS, (at + 1) * looking.TICKS)
        draws = looking.drawn(found, noise, 0, chain[1:][own], first + own.start)
        both = np.concatenate([draws.astype(np.float32), state])
        assert np.abs(both[: looking.TICKS]).max() < looking.LARGEST
        worst = max(worst, np.abs(stride.within @ both - drawn[own, :, 0] / unit).max())
        state = stride.after @ both
    bound = error(found, strides)
    assert worst < bound / 10 + 1 / unit and bound < 0.02
    assert error(found, strides[:1]) < bound
