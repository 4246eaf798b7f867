"""Kept rows: exact, within the limit, a sample that one event changes in one row; and digests."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from weir.dpcore.arrays import concatenate
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.erm.incremental import design_of
from weir.dpcore.models.gradients import Gradients
from weir.dpcore.models.kit.kept import Prefix, row_digests
from weir.dpcore.models.kit.loss_spec import parse_loss
from weir.dpcore.noise.prf import KeyedNoise, RootKey

ROOT = RootKey.derive(bytes(range(32)), "test", bytes(32))
GRADIENTS = Gradients(parse_loss("squared"), 1.0, None, 2, True)


def leaf_of(keys: Any, rows: Any, hashes: Any, n_keys: int) -> RowLeaf:
    keys = np.asarray(keys, dtype=np.int64)
    times = np.arange(len(keys), dtype=np.int64)
    return RowLeaf.from_events(keys, rows, times, hashes, n_keys)


def stream(n: int, k: int, seed: int = 0, most: int = 4) -> tuple[RowLeaf, ...]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        keys = np.repeat(np.arange(k), rng.integers(0, most, k))
        rows = np.rint(rng.uniform(-1, 1, (len(keys), 3)) * 2**20) * 2.0**-20
        hashes = rng.integers(0, 1 << 62, (len(keys), 2)).astype(np.uint64)
        found.append(leaf_of(keys, rows, hashes, k))
    return tuple(found)


def kept(prefix: Prefix, key: int) -> Counter[Any]:
    mine = prefix.keys == key
    return Counter(map(tuple, np.c_[prefix.rows[mine], prefix.hashes[mine]].tolist()))


@pytest.mark.parametrize("limit", [1, 7, 10_000])
def test_any_cut_of_the_ticks_keeps_the_same_rows(limit: int) -> None:
    leaves = stream(40, 3)
    whole = Prefix.empty(3, 3).with_rows(leaves, limit)
    for size in (1, 3, 17):
        part = Prefix.empty(3, 3)
        for start in range(0, 40, size):
            part = part.with_rows(leaves[start : start + size], limit)
        assert all((a == b).all() and a.dtype == b.dtype for a, b in zip(part, whole, strict=True))
    total = sum(leaf.counts for leaf in leaves)
    assert (whole.counts == np.minimum(total, limit)).all()
    design = design_of(whole, GRADIENTS)
    for key in range(3):
        rows = np.concatenate([leaf.of(key) for leaf in leaves])
        if limit > len(rows):  # every row, to the last bit, in order of arrival
            assert (rows[:, :2] == design.points[:2, design.keys == key].T).all()
            assert (design.targets[design.keys == key] == rows[:, 2]).all()


def test_what_stays_are_the_smallest_hashes() -> None:
    leaves = stream(30, 2, seed=1)
    prefix = Prefix.empty(2, 3).with_rows(leaves, 9)
    for key in range(2):
        hashes = np.concatenate([leaf.id_hash[leaf.keys == key] for leaf in leaves])
        smallest = sorted(map(tuple, hashes.tolist()))[:9]
        assert sorted(map(tuple, prefix.hashes[prefix.keys == key].tolist())) == smallest


@pytest.mark.slow
@pytest.mark.parametrize("cap", [2, 50])
@pytest.mark.parametrize("limit", [5, 10_000])
def test_one_event_changes_one_kept_row_of_every_prefix(cap: int, limit: int) -> None:
    rng = np.random.default_rng(2)
    moved = 0
    for trial in range(120):
        leaves = list(stream(12, 1, seed=trial, most=5))
        tick = int(rng.integers(0, 12))
        old = leaves[tick]
        row = np.rint(rng.uniform(-1, 1, (1, 3)) * 2**20) * 2.0**-20
        fresh = rng.integers(0, 1 << 62, (1, 2)).astype(np.uint64)
        base = slice(0, max(0, len(old.rows) - trial % 2))  # added, or replaced by another
        rows = np.concatenate([old.rows[base], row])
        hashes = np.concatenate([old.id_hash[base], fresh])
        other = list(leaves)
        other[tick] = leaf_of(np.zeros(len(rows)), rows, hashes, 1)
        one, two = Prefix.empty(1, 3), Prefix.empty(1, 3)
        for i in range(12):
            one = one.with_rows([leaves[i].capped(cap).leaf], limit)
            two = two.with_rows([other[i].capped(cap).leaf], limit)
            gone, come = kept(one, 0) - kept(two, 0), kept(two, 0) - kept(one, 0)
            assert gone.total() <= 1 and come.total() <= 1
            assert i >= tick or not (gone or come)
            moved += come.total()
    assert moved > 100


def test_blocks_join_and_born_keys_start_without_rows() -> None:
    leaves = stream(10, 5)
    whole = Prefix.empty(5, 3).with_rows(leaves, 6)
    joined = concatenate([Prefix.empty(2, 3), whole, Prefix.empty(1, 3)])
    assert isinstance(joined, Prefix) and joined.counts.tolist() == [0, 0, *whole.counts, 0]
    assert (joined.keys == whole.keys + 2).all()
    more = joined.with_rows([leaf_of([0, 7], np.ones((2, 3)), np.ones((2, 2), np.uint64), 8)], 6)
    assert more.counts[0] == more.counts[7] == 1
    assert kept(more, 3) == kept(whole, 1)


def digests(leaves: Any, first: int = 0, k: int = 2) -> Any:
    keyed = KeyedNoise(ROOT, 0, tuple(b"%d" % i for i in range(k)), first)
    return row_digests(leaves, keyed)


def test_digests_tell_everything_that_a_run_depends_on() -> None:
    row, other = np.array([[0.5, 0.25, -1.0]]), np.array([[0.5, 0.25, -0.5]])
    mark = np.array([[3, 4]], dtype=np.uint64)

    def one(rows: Any, hashes: Any = mark, first: int = 0) -> tuple[int, ...]:
        hashes = np.repeat(hashes, len(rows), axis=0) if len(hashes) == 1 else hashes
        leaf = leaf_of(np.ones(len(rows)), rows, hashes, 2)
        found = digests((leaf,), first)[0]
        assert (found[0] == 0).all()  # the other key has no rows
        return tuple(found[1].tolist())

    twice = np.concatenate([row, row])
    found = [
        one(row),
        one(other),
        one(row, first=1),
        one(row, mark + np.uint64(1)),  # the same row of another id
        one(twice),  # does not cancel
        one(np.concatenate([row, row, row])),
        one(np.concatenate([row, other])),
    ]
    assert len(set(found)) == len(found) and (0, 0) not in found
    assert one(row) == found[0]
    zeros = np.zeros((1, 3))
    assert one(zeros, np.zeros((1, 2), np.uint64)) != (0, 0)  # even of a row of zeros


def test_digests_of_a_key_depend_on_that_key_alone() -> None:
    leaves = stream(9, 4, seed=5)
    whole = digests(leaves, 20, 4)
    for key in range(4):
        mine = [
            leaf_of(np.zeros(len(leaf.of(key))), leaf.of(key), leaf.id_hash[leaf.keys == key], 1)
            for leaf in leaves
        ]
        assert (digests(mine, 20, 1)[:, 0] == whole[:, key]).all()
    split = [digests(leaves[i : i + 1], 20 + i, 4)[0] for i in range(9)]
    assert (np.stack(split) == whole).all()
    assert (digests((RowLeaf.empty(4, 3),) * 2, 0, 4) == 0).all()
