"""Keys that are rejected before they are stepped are such as no step would find."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.dpcore.discovery.world import Ring, by_key, leaves_of, program_of, rule_of, stepped
from weir.dpcore.arrays import Floats
from weir.dpcore.discovery import prefilter as looking
from weir.dpcore.discovery.prefilter import Filtered, drawn, error, filter_of, prefilter
from weir.dpcore.discovery.waiting import KeyCells
from weir.dpcore.noise.discrete_gaussian import envelopes
from weir.dpcore.noise.noise import label

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
    monkeypatch.setattr(looking, "error", lambda mechanism, own: -0.5)
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
def test_the_filter_is_the_noise_of_running_totals_within_the_error(
    mechanism: str, exact: bool, first: int
) -> None:
    """Of keys that begin at a tick: the noise that the mechanism makes of its draws."""
    program = program_of(mechanism, ticks=700, epsilon=3)
    sums = program.parts[0].mechanism
    assert isinstance(sums, Filtered) and sums.exact is not None
    if not exact:
        sums = replace(sums, exact=None)
    keys = tuple(name.encode() for name in "abcdefghi")
    ticks, noise = 656, Ring().noise_of(keys, first)(0)
    chain = np.random.default_rng(1).integers(0, 2**63, (ticks + 1, 9, 2)).astype(np.uint64)
    _, released = sums.draw(sums.init_noise(9), chain, chain[1:], noise)
    unit = sums.noise_scale * sums.scales[0]
    own = filter_of(sums, 0, first, first + ticks)
    draws = drawn(own, noise, label(0, first + np.arange(ticks)), chain[1:])
    assert 3 < np.abs(draws).max() < looking.LARGEST and abs(draws.std() - 1) < 0.05
    made = noise_of(own, draws)
    bound = error(sums, own)
    worst = np.abs(made - released[:, :, 0] / unit).max()
    assert worst < bound / 10 + 1 / unit and bound < 0.02
    assert error(sums, filter_of(sums, 0, first, first + 9)) < bound
    assert own.reach >= np.abs(noise_of(own, np.ones((ticks, 1)))).max()


def noise_of(own: looking.NoiseFilter, draws: Floats) -> Floats:
    """As matrices have it: (n, K) of draws (n, K)."""
    noise, buffers = np.empty_like(draws), np.zeros((own.poles.shape[1], draws.shape[1]))
    carried = np.zeros(draws.shape[1])
    for t, (_, inverse, scale, fall) in enumerate(own.curves):
        y = draws[t] * inverse + own.poles[1] @ buffers
        noise[t] = scale * y + carried
        carried = carried + fall * y
        buffers = own.poles[0][:, None] * buffers + draws[t] * inverse
    return noise


@pytest.mark.parametrize("mechanism", ["blt", "ended"])
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("place", [0, 1, 2, 5])
def test_the_kernel_gives_the_bits_of_numpy(
    mechanism, exact, place, encrypting, monkeypatch
) -> None:
    """All but keys with an attempt that it does not decide: one of a million."""
    program, rule, _, cells = world(mechanism)
    sums = program.parts[0].mechanism
    if not exact:
        sums = replace(sums, exact=None)
    monkeypatch.setattr(looking, "noisy_coordinates", lambda _: (*(-1,) * place, rule.coordinate))
    filter_of.cache_clear()
    noise, bars = Ring().noise_of(NAMES, 5)(0), np.arange(TICKS - 5) * 1000 + 10**6
    later = cells.pick(cells.ticks >= 5)
    both = []
    for ciphers in (encrypting, None):
        monkeypatch.setattr(looking, "ciphers", ciphers)
        both.append(looking.excess(rule, sums, noise, later, bars, 5, KEYS))
        none = later.pick(slice(0, 0))
        both.append(looking.excess(rule, sums, noise, none, bars, 5, KEYS))
    differ = both[0] != both[2]
    assert both[0].shape == (KEYS,) and np.isfinite(both[2]).all() and differ.sum() <= 1
    assert np.isinf(both[0][differ]).all() and both[1].tobytes() == both[3].tobytes()
    assert (both[0] > both[1]).mean() > 0.9, "counts of users raise it"
    filter_of.cache_clear()


def test_a_draw_that_is_too_large_rules_nothing_out(monkeypatch) -> None:
    _, rule, _, cells = world("ended")
    assert prefilter(rule, Ring(), NAMES, cells, 0, TICKS).any()
    monkeypatch.setattr(looking, "LARGEST", 1.0)
    assert not prefilter(rule, Ring(), NAMES, cells, 0, TICKS).any()


def test_cells_out_of_order_or_outside_are_refused(encrypting) -> None:
    sources = bytes(16), bytes(16), np.zeros((3, 2), "u8"), np.zeros((4, 2), "u8")
    rest = np.ones((4, 5)), np.ones((2, 1)), np.zeros(1, "u8"), np.ones(1), *envelopes(())

    def call(ticks: list[int], keys: list[int], *rest: Any) -> None:
        m = len(ticks)
        cells = np.array(ticks), np.array(keys), np.zeros((m, 2), "u8"), np.zeros(m)
        encrypting.excess(*sources, np.empty(3), *cells, *rest)

    call([0, 2, 2], [1, 2, 0], *rest)
    wrong = [([2, 1], [0, 0]), ([0, 4], [0, 0]), ([0, 1], [0, 3]), ([-1], [0]), ([0], [-1])]
    for ticks, keys in wrong:
        with pytest.raises(ValueError, match="sorted by tick"):
            call(ticks, keys, *rest)
    for place in range(4):
        shorter = [one[:-1] if i == place else one for i, one in enumerate(rest)]
        with pytest.raises(ValueError, match=r"curves \(n, 5\)"):
            call([0], [0], *shorter)
    rows = envelopes([9])
    for of in ([0, 0, 0, 1], [0, 0, 0, -1], [0] * 3):
        with pytest.raises(ValueError, match=r"of \(n,\)"):
            call([0], [0], *rest[:4], *rows[:2], np.array(of), rows[3])


def test_no_matter_how_many_keys_are_looked_at_together(monkeypatch) -> None:
    _, rule, _, cells = world("ended")
    out = prefilter(rule, Ring(), NAMES, cells, 0, TICKS)
    monkeypatch.setattr(looking, "DRAWS", 100 * TICKS)
    assert np.array_equal(prefilter(rule, Ring(), NAMES, cells, 0, TICKS), out) and out.any()
