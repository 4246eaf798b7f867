"""Keys that are rejected before they are stepped are such as no step would find."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.dpcore.discovery.world import Ring, by_key, leaves_of, program_of, rule_of, stepped
from weir.dpcore.continual.blt import BufferedSum, correlated
from weir.dpcore.discovery import prefilter as looking
from weir.dpcore.discovery.prefilter import error, prefilter, stride
from weir.dpcore.discovery.waiting import KeyCells

TICKS, KEYS = 70, 900
NAMES = [f"key {i}".encode() for i in range(KEYS)]


def world(mechanism="blt", min_users=1, **more):
    program = program_of(mechanism, ticks=TICKS, epsilon=3)
    rule = rule_of(program, TICKS, None, min_users, delta=0.01, touched=1, **more)
    leaves = leaves_of(program, 3, TICKS, KEYS, crowd=12)
    tick, key = np.nonzero(leaves.any(axis=2))
    return program, rule, leaves, KeyCells(tick, key, leaves[tick, key])


@pytest.mark.parametrize("min_users", [1, 6])
def test_no_key_that_is_found_is_ruled_out_and_most_others_are(min_users: int) -> None:
    program, rule, leaves, cells = world(min_users=min_users)
    out = prefilter(rule, Ring(), NAMES, cells, 0, TICKS)
    _, pieces = stepped(program, rule, Ring(), NAMES, leaves, (17, 40))
    live = set(by_key(pieces))
    found = np.array([name in live for name in NAMES])
    assert 30 < found.sum() < KEYS / 2
    assert not (out & found).any()
    few = leaves[:, :, 0].sum(axis=0) < looking.LIKELY * rule.thresholds(0, TICKS).min()
    assert out[few & ~found].mean() > 0.8, "of those that are looked at few remain"


def test_a_bound_without_its_margin_would_rule_out_what_is_found(monkeypatch) -> None:
    """The comparison is with the noise that is drawn: thresholds a little higher are missed."""
    program, rule, leaves, cells = world()
    monkeypatch.setattr(looking, "LIKELY", 1.0)
    monkeypatch.setattr(looking, "error", lambda mechanism, ticks: -0.5)
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


def test_strides_are_the_noise_of_running_totals_within_the_error() -> None:
    program, *_ = world()
    mechanism = program.parts[0].mechanism
    assert isinstance(mechanism, BufferedSum)
    ticks, keys = 16 * 40, 9
    units = np.random.default_rng(1).standard_normal((ticks, keys, 1))
    state = type(mechanism.init_noise(keys))(np.zeros((keys, 1, len(mechanism.form.poles))))
    _, noise = correlated(mechanism.form, state, units)
    within, after = stride(mechanism)
    buffers, worst = np.zeros((len(after), keys), dtype=np.float32), 0.0
    for first in range(0, ticks, looking.TICKS):
        part = units[first : first + looking.TICKS, :, 0].astype(np.float32)
        both = np.concatenate([part, buffers])
        worst = max(worst, np.abs(within @ both - noise[first : first + 16, :, 0]).max())
        buffers = after @ both
    assert worst < error(mechanism, ticks) / 10
