"""The set against a dictionary: any order, any pieces, hashes that share a word."""

from __future__ import annotations

import numpy as np
import pytest

from weir.dpcore.leaves.hash_sets import Entries, TimedSet, entries, together


def some(seed: int, n: int, notes: int) -> Entries:
    """Entries whose hashes share words, and often all of both."""
    rng = np.random.default_rng(seed)
    high, low = rng.integers(0, [[9], [4]], (2, n)).astype(np.uint64)
    noted = rng.integers(0, 5, (n, notes)).astype(np.uint32)
    return entries(high, low, rng.integers(0, 6, n), noted)


def told(part: Entries) -> dict[tuple[int, int], tuple[int, tuple[int, ...]]]:
    """What the rule says of entries: the newest tick, and of its notes the largest of each."""
    found: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {}
    rows = zip(*(array.tolist() for array in part), strict=True)
    for high, low, tick, notes in rows:
        then, noted = found.get((high, low), (-1, ()))
        if tick > then:
            found[high, low] = tick, tuple(notes)
        elif tick == then:
            found[high, low] = tick, tuple(map(max, notes, noted))
    return found


def sorted_once(part: Entries) -> Entries:
    return TimedSet.of([part], part.notes.shape[1]).runs[0]


def holds(known: TimedSet, expected: dict[tuple[int, int], tuple[int, tuple[int, ...]]]) -> None:
    """Every hash that there could be, asked in an order of no meaning."""
    high, low = np.meshgrid(np.arange(10, dtype=np.uint64), np.arange(5, dtype=np.uint64))
    high, low = high.ravel(), low.ravel()
    found = known.find(high, low)
    for i, name in enumerate(zip(high.tolist(), low.tolist(), strict=True)):
        assert found.there[i] == (name in expected)
        if name in expected:
            assert (found.ticks[i], tuple(found.notes[i].tolist())) == expected[name]


@pytest.mark.parametrize("notes", [0, 2])
@pytest.mark.parametrize("seed", range(8))
def test_it_is_a_dictionary_whatever_the_order_and_the_pieces(seed: int, notes: int) -> None:
    whole = some(seed, 120, notes)
    expected = told(whole)
    rng = np.random.default_rng(seed)
    kept = []
    for pieces in (1, 3, 40, 120):
        mixed, known = whole.take(rng.permutation(120)), TimedSet((), notes)
        for rows in np.array_split(np.arange(120), pieces):
            known = known.add(sorted_once(mixed.take(rows)))
        holds(known, expected)
        kept.append(sorted_once(together(known.runs)))
    for other in kept[1:]:
        for one, two in zip(kept[0], other, strict=True):
            np.testing.assert_array_equal(one, two)
    assert len(kept[0].high) == len(expected)
    holds(known.since(3), told(whole.take(whole.ticks >= 3)))
    for array in (array for run in known.runs for array in run):
        array.flags.writeable = False
    assert len(known.add(sorted_once(some(seed + 90, 200, notes)))) >= len(expected)
    holds(known, expected)


def test_what_it_says_of_a_hash_knows_nothing_of_its_neighbours() -> None:
    """Those of one first word lie side by side, so they are the nearest that there are."""
    mine = some(5, 60, 1).take(np.arange(60))
    for name in told(mine):
        own = (mine.high == name[0]) & (mine.low == name[1])
        alone = TimedSet.of([mine.take(own)], 1)
        beside = TimedSet.of([mine.take(~own)], 1).add(alone.runs[0])
        asked = np.array([[name[0]], [name[1]]], dtype=np.uint64)
        for one, two in zip(alone.find(*asked), beside.find(*asked), strict=True):
            np.testing.assert_array_equal(one, two)


def test_an_empty_set_holds_nothing_and_stays_so() -> None:
    nothing = some(1, 0, 0)
    assert len(TimedSet.of([nothing])) == 0 == len(TimedSet().add(nothing).since(4))
    assert not TimedSet().find(some(1, 9, 0).high, some(1, 9, 0).low).there.any()


def test_entries_are_copied_a_few_times_in_all_however_many_bundles_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from weir.dpcore.leaves import hash_sets

    copied = 0
    plain = hash_sets.merge

    def counting(a: Entries, b: Entries) -> Entries:
        nonlocal copied
        copied += len(a.high) + len(b.high)
        return plain(a, b)

    monkeypatch.setattr(hash_sets, "merge", counting)
    rng = np.random.default_rng(2)
    known, each = TimedSet(), []
    for bundle in range(1, 1025):
        high, low = rng.integers(0, 1 << 63, (2, 4)).astype(np.uint64)
        known = known.add(entries(np.sort(high), low, np.full(4, bundle)))
        if bundle in (64, 1024):
            each.append(copied / len(known))
            assert len(known.runs) <= 1 + np.log2(bundle) / 2
    assert each[1] < 2 * each[0] < 24  # grows by a sum a factor of four, not by what is there
    assert known.nbytes == 24 * len(known) == 24 * 4096
