"""A secret that changes from a tick on: bits before stay, bits after differ, no unit twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.contracts.cases import KEYS, SCALES, Case, cases
from weir.dpcore.arrays import arrays_of
from weir.dpcore.noise.key_ring import MARK_BYTES, KeyRing
from weir.dpcore.noise.prf import KeyedNoise, RootKey

ONE, TWO, THREE = (bytes([value]) * 32 for value in (1, 2, 3))
PLAN = bytes(range(32))
TICKS, SWITCH, AGAIN = 40, 13, 30
LEAVES = np.random.default_rng(5).integers(-9, 9, (TICKS, len(KEYS), len(SCALES)))
LEAVES[::4] = 0
LEAVES[20:26] = 0


class Recorder(KeyedNoise):
    """Notes which units of noise are drawn."""

    drawn: set[tuple[int, ...]]

    def _streams(self, purpose: int, labels: Any, digests: Any) -> Any:
        for row in labels.tolist():
            assert (purpose, *row) not in self.drawn
            self.drawn.add((purpose, *row))
        return super()._streams(purpose, labels, digests)


def released(case: Case, ring: KeyRing, strides: list[int]) -> tuple[np.ndarray, list[Any]]:
    """(overs, TICKS, K, d) and the last state, in strides that end where a secret begins."""
    mechanism = case.build()
    state, pieces = mechanism.init(len(KEYS)), []
    edges = sorted({0, TICKS, *strides, *ring.edges(0, TICKS)})
    drawn: set[tuple[int, ...]] = set()
    for low, high in zip(edges, edges[1:], strict=False):
        noise = Recorder(ring.at(low), 0, KEYS, low)
        noise.drawn = drawn
        state, out = mechanism.step(state, LEAVES[low:high], noise)
        pieces.append(np.stack(out))
    return np.concatenate(pieces, axis=1), arrays_of(state)


@pytest.mark.slow
@pytest.mark.parametrize("case", cases(), ids=str)
def test_bits_stay_before_a_rotation_and_differ_after_it(case: Case) -> None:
    plain, _ = released(case, KeyRing.derive(ONE, "r", PLAN), [])
    ring = KeyRing.derive(ONE, "r", PLAN, [(SWITCH, TWO), (AGAIN, THREE)])
    once, _ = released(case, KeyRing.derive(ONE, "r", PLAN, [(SWITCH, TWO)]), [])
    rotated, state = released(case, ring, [])
    np.testing.assert_array_equal(rotated[:, :SWITCH], plain[:, :SWITCH])
    np.testing.assert_array_equal(rotated[:, :AGAIN], once[:, :AGAIN])
    noisy = [i for i, scale in enumerate(SCALES) if scale]
    differs = (rotated != plain)[..., noisy].any(axis=(0, 3))
    assert not differs[:SWITCH].any() and differs[SWITCH:].all()
    for strides in (list(range(TICKS)), [5, 12, 14, 29, 31], [SWITCH - 1, AGAIN + 1]):
        again, same = released(case, ring, strides)
        np.testing.assert_array_equal(again, rotated)
        for left, right in zip(same, state, strict=True):
            np.testing.assert_array_equal(left, right)


def test_a_ring_knows_its_secrets_by_their_ticks() -> None:
    ring = KeyRing.derive(ONE, "r", PLAN, [(SWITCH, TWO), (AGAIN, THREE)])
    identities = [ring.at(tick).identity for tick in (0, 12, 13, 29, 30, 99)]
    expected = [RootKey.derive(s, "r", PLAN).identity for s in (ONE, ONE, TWO, TWO, THREE, THREE)]
    assert identities == expected
    assert ring.edges(0, 100) == (13, 30) and ring.edges(13, 30) == () == ring.edges(30, 99)


def test_a_mark_tells_which_secrets_are_behind_a_tick_and_nothing_of_them() -> None:
    plain = KeyRing.derive(ONE, "r", PLAN)
    ring = KeyRing.derive(ONE, "r", PLAN, [(SWITCH, TWO)])
    assert plain.mark(0) == plain.mark(50) == ring.mark(SWITCH) != ring.mark(SWITCH + 1)
    others = [
        KeyRing.derive(TWO, "r", PLAN),
        KeyRing.derive(ONE, "s", PLAN),
        KeyRing.derive(ONE, "r", bytes(32)),
        KeyRing.derive(ONE, "r", PLAN, [(SWITCH - 1, TWO)]),
        ring,
    ]
    marks = {other.mark(50) for other in others} | {plain.mark(50)}
    assert len(marks) == 6 and all(len(mark) == MARK_BYTES for mark in marks)
    assert not any(secret[:4] in mark for mark in marks for secret in (ONE, TWO))


def test_a_later_secret_is_not_read_before_it_is_needed() -> None:
    asked: list[int] = []

    def maker(value: int) -> Any:
        def make() -> RootKey:
            asked.append(value)
            return RootKey.derive(bytes([value]) * 32, "r", PLAN)

        return make

    ring = KeyRing([(0, maker(1)), (SWITCH, maker(2))])
    assert ring.edges(0, 20) == (SWITCH,) and asked == []
    ring.at(SWITCH - 1), ring.mark(SWITCH)
    assert asked == [1]
    ring.at(SWITCH), ring.at(99), ring.mark(99)
    assert asked == [1, 2]


@pytest.mark.parametrize("ticks", [[], [1], [0, 0], [0, 5, 5], [0, 6, 5]])
def test_a_ring_begins_at_tick_0_and_goes_on(ticks: list[int]) -> None:
    with pytest.raises(ValueError, match="later ticks"):
        KeyRing([(tick, lambda: RootKey.derive(ONE, "r", PLAN)) for tick in ticks])
