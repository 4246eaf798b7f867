"""Kernels that encrypt give the bits of the library's AES and of numpy next to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from weir.dpcore.leaves import hashes
from weir.dpcore.native import ciphers
from weir.dpcore.noise import discrete_gaussian, gaussian, prf, streams
from weir.dpcore.noise.acceptance import POWERS, Rows
from weir.dpcore.noise.noise import label
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.noise.streams import Aes, block_buffer

Draw = Callable[[KeyedNoise, Any, Any], Any]
UNDECIDED = 8
"""The first label with such an attempt."""
ROOT = RootKey.derive(bytes(range(32)), "kernels", bytes(32))


@pytest.fixture(autouse=True)
def able(encrypting: Any) -> None:
    """All here needs them."""


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Any, Any]]:
    """Calls with kernels, and again without any."""

    def call(work: Callable[..., Any], *of: Any) -> tuple[Any, Any]:
        fast = work(*of)
        with monkeypatch.context() as patch:
            for module in (streams, discrete_gaussian, hashes, prf):
                patch.setattr(module, "ciphers", None)
            patch.setattr(gaussian, "kernels", None)
            return fast, work(*of)

    return call


def named(ticks: int, keys: int, seed: int = 1) -> tuple[KeyedNoise, Any, Any]:
    rng = np.random.default_rng(seed)
    noise = KeyedNoise(ROOT, 3, tuple(b"key %d" % i for i in range(keys)), 7)
    digests = rng.integers(0, 2**64, (ticks, keys, 2), dtype=np.uint64)
    return noise, label(seed, np.arange(ticks)), digests


def same(pair: tuple[Any, Any]) -> bool:
    fast, slow = pair
    return (
        fast.dtype == slow.dtype and fast.shape == slow.shape and fast.tobytes() == slow.tobytes()
    )


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 31, 32, 33, 64, 1000, 20_000])
def test_blocks_are_encrypted_as_by_the_library(both: Any, n: int) -> None:
    source = np.random.default_rng(n).integers(0, 2**64, (n, 2), dtype=np.uint64)
    room = block_buffer(n)
    room[n:] = 5
    key = os.urandom(16)
    assert same(both(lambda: Aes(key).encrypt(source, room).copy()))


def draws() -> Iterator[Any]:
    """Every kind of draw, of few words and of many."""
    for count in (1, 2, 3, 4, 16, 17, 129, 511, 512, 513, 3001):
        yield pytest.param(lambda n, *a, c=count: n.gaussian(*a, c), id=f"gaussian-{count}")
        yield pytest.param(lambda n, *a, c=count: n.bits(*a, c), id=f"bits-{count}")
        yield pytest.param(lambda n, *a, c=count: n.gumbel(*a, c), id=f"gumbel-{count}")
        yield pytest.param(lambda n, *a, c=count: n.laplace(*a, c), id=f"laplace-{count}")
        yield pytest.param(lambda n, *a, c=count: n.k_norm(*a, c), id=f"k_norm-{count}")
    yield pytest.param(lambda n, *a: n.generalised_gaussian(*a, 5, 3.0), id="generalised")


@pytest.mark.slow
@pytest.mark.parametrize("draw", draws())
@pytest.mark.parametrize(("ticks", "keys"), [(1, 1), (3, 1), (2, 131), (5, 40)])
def test_draws_are_the_same_to_the_bit(both: Any, draw: Draw, ticks: int, keys: int) -> None:
    assert same(both(lambda: draw(*named(ticks, keys))))


def test_a_hundred_thousand_normals(both: Any) -> None:
    """Far tails among them."""
    at = named(30, 1000)
    assert same(both(at[0].gaussian, *at[1:], 4))


def test_no_streams_and_no_words(both: Any) -> None:
    for ticks, keys in ((0, 3), (3, 0), (0, 0)):
        noise, labels, digests = named(ticks, keys)
        assert same(both(noise.gaussian, labels, digests, 4))
        assert same(both(noise.discrete_gaussian, labels, digests, [5, 6]))
        assert same(both(noise.leaf_digests, np.zeros((ticks, keys, 2), dtype=np.int64)))
    noise, labels, digests = named(2, 3)
    assert same(both(noise.gaussian, labels, digests, 0))


def test_arrays_need_not_be_contiguous(both: Any) -> None:
    noise, labels, digests = named(6, 50)
    some = noise.at(7, slice(10, 40, 3))
    pieces = labels[::2], digests[::2, 10:40:3]
    for work in (
        lambda: some.gaussian(*pieces, 3),
        lambda: some.discrete_gaussian(*pieces, [9, 0, 10**9]),
        lambda: noise.leaf_digests(np.arange(6 * 50 * 6).reshape(6, 50, 6)[:, :, ::2]),
        lambda: noise.cell_digests(np.arange(12)[::2], np.arange(48).reshape(6, 8)[:, 1::3]),
    ):
        assert same(both(work))
    assert np.array_equal(
        some.gaussian(*pieces, 3), noise.gaussian(labels, digests, 3)[::2, 10:40:3]
    )


@pytest.mark.parametrize(
    "variances",
    [[1], [7] * 3, [1, 2, 3, 4, 10, 1000], [10**6, 0, 10**12 + 7, 2**62, 2**80], [50] * 1500],
    ids=["one", "alike", "small", "unlike", "wide"],
)
@pytest.mark.parametrize(("ticks", "keys"), [(1, 1), (3, 130)])
def test_discrete_gaussians_are_the_same(
    both: Any, variances: list[int], ticks: int, keys: int
) -> None:
    noise, labels, digests = named(ticks, keys if len(variances) < 1000 else min(keys, 7))
    assert same(both(noise.discrete_gaussian, labels, digests, variances))


@pytest.mark.parametrize(
    "each",
    [
        [(4,), (10**6,), (2**80,)],
        [(50, 50), (7, 9), (7, 9)],
        [(3, 3)] * 3,
        [(0, 5), (8, 2), (1, 0)],
    ],
    ids=["one", "two", "alike", "some without"],
)
@pytest.mark.parametrize("keys", [1, 300])
def test_discrete_gaussians_of_labels_are_those_of_each_label(
    both: Any, each: list[tuple[int, ...]], keys: int
) -> None:
    noise, labels, digests = named(3, keys)
    whole = both(noise.discrete_gaussian, labels, digests, each)
    assert same(whole)
    for i, row in enumerate(each):
        here = slice(i, i + 1)
        assert (whole[0][here] == noise.discrete_gaussian(labels[here], digests[here], row)).all()


def test_a_hundred_thousand_discrete_gaussians(both: Any) -> None:
    noise, labels, digests = named(25, 1000)
    assert same(both(noise.discrete_gaussian, labels, digests, [10**6, 10**6, 3, 2**70]))


def test_leaves_have_the_same_digests(both: Any) -> None:
    rng = np.random.default_rng(3)
    for ticks, keys, width in ((1, 1, 1), (4, 70, 2), (3, 50, 3), (2, 2, 301), (1, 1, 5000)):
        noise = KeyedNoise(ROOT, 1, tuple(b"%d" % i for i in range(keys)), 9)
        leaves = rng.integers(-(2**63), 2**63 - 1, (ticks, keys, width))
        for some in (leaves, leaves * 0, leaves * (rng.random((ticks, keys, 1)) < 0.2)):
            assert same(both(noise.leaf_digests, some))
        tick, key = np.nonzero(leaves.any(axis=2))
        cells = both(noise.cell_digests, tick, leaves[tick, key])
        assert same(cells)
        assert np.array_equal(cells[0], noise.leaf_digests(leaves)[tick, key])


def test_undecided_attempts_are_settled(both: Any) -> None:
    """One attempt in a million; one of this label."""
    noise, labels, digests = named(UNDECIDED + 1, 100, seed=4)
    at = labels[UNDECIDED:], digests[UNDECIDED:]
    own = noise._streams(streams.DISCRETE_GAUSSIAN, *at)
    rows = Rows.for_variances([100] * 100)
    places, out = np.arange(100, dtype=np.uint64), np.empty((1, 100, 100), dtype=np.int64)
    assert ciphers is not None
    assert ciphers.discrete(*own.named, out, places, *rows[:3], POWERS) == 1
    assert (out == np.iinfo(np.int64).min).sum() == 1
    assert same(both(noise.discrete_gaussian, *at, [100] * 100))
    both_labels = labels[UNDECIDED - 1 :], digests[UNDECIDED - 1 :]
    each = [(3,) * 100, (100,) * 100]
    assert same(both(noise.discrete_gaussian, *both_labels, each))


def test_what_does_not_fit_is_refused(compiled: Any) -> None:
    key, two = bytes(16), np.zeros((2, 2), dtype=np.uint64)
    wide = np.zeros((2, 2, 2), dtype=np.uint64)
    with pytest.raises(ValueError, match="a key has 16 bytes"):
        compiled.encrypt(key[1:], two, two.copy())
    with pytest.raises(ValueError, match="as many blocks"):
        compiled.encrypt(key, two, np.zeros(2))
    with pytest.raises(ValueError, match=r"digests \(m, K, 2\)"):
        compiled.draw(key, key, two, two, two, np.zeros(8), b"\1")
    with pytest.raises(ValueError, match=r"out \(m, K, count\)"):
        compiled.draw(key, key, two, two, wide, np.zeros(7), b"\1")
    with pytest.raises(ValueError, match="keys must have 16 bytes"):
        compiled.draw(key, key, two, two, wide, np.zeros(8), b"\x09")
    with pytest.raises(ValueError, match=r"leaves \(n, K, d\)"):
        compiled.leaf_digests(key, two, np.zeros(5), wide.copy())
    ticks = np.array([0, 2])
    with pytest.raises(ValueError, match="below n"):
        compiled.cell_digests(key, two, ticks, np.zeros((2, 1)), two.copy())
    rows = Rows.for_variances([7, 2**80])
    none = np.zeros(2, dtype=np.int64)
    for some, tables, of in (
        (rows.numbers[:, :523], rows.tables, none),
        (rows.numbers, rows.tables[:1], none),
        (rows.numbers, rows.tables[:, 1:], none),
        (rows.numbers, rows.tables, none + 2),
        (rows.numbers, rows.tables, none - 1),
        (rows.numbers, rows.tables, none[:1]),
    ):
        given = np.ascontiguousarray(some), np.ascontiguousarray(tables), of
        with pytest.raises(ValueError, match="coordinates"):
            compiled.discrete(key, key, two, two, wide, np.zeros(8), np.zeros(2), *given, POWERS)
    with pytest.raises(ValueError, match=r"out \(n, d\)"):
        compiled.vectors(np.zeros((3, 4)), np.zeros((3, 1)), 2)


@pytest.mark.parametrize("longest", [0, 1, 7, 8, 9, 15, 16, 17, 33, 511, 700])
def test_spans_are_hashed_as_in_numpy(both: Any, longest: int) -> None:
    rng = np.random.default_rng(longest)
    for n in (0, 1, 2, 127, 128, 129, 400):
        for spare in (0, 1, 30):
            ends = np.cumsum(rng.integers(0, longest + 1, n))
            offsets = np.concatenate([[0], ends]) + spare // 2
            data = rng.integers(0, 256, int(offsets[-1]) + spare, dtype=np.uint8)
            assert same(both(hashes.hash_spans, offsets, data, os.urandom(16)))
