from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir.dpcore.errors import CodecError, ConfigError
from weir.dpcore.leaves.hashes import hashes_of_users
from weir.dpcore.leaves.rows import RowLeaf

KEY = bytes(range(16))
Event = tuple[int, int, int, int, tuple[int, ...]]  # key, time, two words of hash, row


def leaf_of(events: list[Event], n_keys: int, width: int, dtype: type = np.float64) -> RowLeaf:
    column = [list(x) for x in zip(*events, strict=True)] or [[], [], [], [], []]
    return RowLeaf.from_events(
        np.array(column[0], dtype=np.int64),
        np.array(column[4], dtype=dtype).reshape(len(events), width),
        np.array(column[1], dtype=np.int64),
        np.array([column[2], column[3]], dtype=np.uint64).T.reshape(-1, 2),
        n_keys,
    )


def events_of(leaf: RowLeaf) -> list[Event]:
    return [
        (int(k), int(t), int(h[0]), int(h[1]), tuple(int(x) for x in row))
        for k, t, h, row in zip(leaf.keys, leaf.event_time, leaf.id_hash, leaf.rows, strict=True)
    ]


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[list[Event]], int, int, type]:
    """Events in several bundles; small ranges, so that everything ties often."""
    n_keys, width = draw(st.integers(1, 4)), draw(st.integers(0, 3))
    word = st.one_of(st.integers(0, 2), st.just(2**64 - 1))
    event = st.tuples(
        st.integers(0, n_keys - 1),
        st.integers(-1, 2),
        word,
        word,
        st.tuples(*[st.integers(0, 2)] * width),
    )
    bundles = draw(st.lists(st.lists(event, max_size=8), min_size=1, max_size=4))
    return bundles, n_keys, width, draw(st.sampled_from([np.float64, np.int64]))


@pytest.mark.slow
@settings(max_examples=150)
@given(batches(), st.randoms(use_true_random=False), st.integers(1, 4))
def test_cuts_orders_and_early_caps_give_the_same_bytes(
    batch: tuple[list[list[Event]], int, int, type],
    random: object,
    cap: int,
) -> None:
    bundles, n_keys, width, dtype = batch
    everything = sum(bundles, [])
    random.shuffle(everything)  # type: ignore[attr-defined]
    whole = leaf_of(everything, n_keys, width, dtype)
    parts = [leaf_of(bundle, n_keys, width, dtype) for bundle in bundles]
    assert RowLeaf.merge(parts).to_bytes() == whole.to_bytes()
    random.shuffle(parts)  # type: ignore[attr-defined]
    assert RowLeaf.merge(parts).to_bytes() == whole.to_bytes()

    late, dropped = whole.capped(cap)
    early = [part.capped(cap) for part in parts]
    merged, more = RowLeaf.merge([part.leaf for part in early]).capped(cap)
    assert merged.to_bytes() == late.to_bytes()
    assert sum(part.dropped for part in early) + more == dropped
    half = RowLeaf.merge([part.leaf for part in early[:2]]).capped(cap).leaf
    again = RowLeaf.merge([half, *(part.leaf for part in early[2:])]).capped(cap).leaf
    assert again.to_bytes() == late.to_bytes()


def bits(row: tuple[int, ...], dtype: type) -> list[int]:
    return [int(x) for x in np.array(row, dtype=dtype).view(np.uint64)]


@pytest.mark.slow
@settings(max_examples=100)
@given(batches(), st.integers(1, 4))
def test_order_and_cap_against_plain_python(
    batch: tuple[list[list[Event]], int, int, type], cap: int
) -> None:
    bundles, n_keys, width, dtype = batch
    everything = sum(bundles, [])
    leaf = leaf_of(everything, n_keys, width, dtype)
    canonical: Callable[[Event], tuple[object, ...]] = lambda e: (*e[:4], bits(e[4], dtype))  # noqa: E731
    assert events_of(leaf) == sorted(everything, key=canonical)
    assert leaf.counts.tolist() == [sum(e[0] == k for e in everything) for k in range(n_keys)]
    kept = []
    for k in range(n_keys):
        mine = [e for e in everything if e[0] == k]
        mine.sort(key=lambda e: (e[2], e[3], e[1], bits(e[4], dtype)))
        kept += mine[:cap]
    result = leaf.capped(cap)
    assert events_of(result.leaf) == sorted(kept, key=canonical)
    assert result.dropped == len(everything) - len(kept)
    assert all(len(result.leaf.of(k)) <= cap for k in range(n_keys))


@pytest.mark.slow
@settings(max_examples=60)
@given(batches())
def test_bytes_round_trip(batch: tuple[list[list[Event]], int, int, type]) -> None:
    bundles, n_keys, width, dtype = batch
    leaf = leaf_of(sum(bundles, []), n_keys, width, dtype)
    again = RowLeaf.from_bytes(leaf.to_bytes())
    assert again.to_bytes() == leaf.to_bytes()
    assert again.rows.dtype == leaf.rows.dtype and again.width == width
    assert events_of(again) == events_of(leaf)
    assert RowLeaf.merge([again, again]).counts.tolist() == (2 * leaf.counts).tolist()


def small() -> RowLeaf:
    return leaf_of([(1, 5, 9, 9, (1, 2)), (0, 7, 3, 3, (3, 4)), (1, 4, 8, 8, (5, 6))], 3, 2)


def test_digests_belong_to_the_key() -> None:
    leaf = small()
    digests = leaf.digests(12, KEY)
    assert not digests[2].any() and digests[:2].any(axis=1).all()
    # Another key's data, and other keys in the block, change nothing.
    other = leaf_of([(1, 5, 9, 9, (1, 2)), (1, 4, 8, 8, (5, 6)), (0, 7, 3, 3, (3, 5))], 2, 2)
    assert (other.digests(12, KEY)[1] == digests[1]).all()
    assert (other.digests(12, KEY)[0] != digests[0]).any()
    assert (leaf.digests(13, KEY)[:2] != digests[:2]).any(axis=1).all()
    assert (leaf.digests(12, bytes(16))[:2] != digests[:2]).any(axis=1).all()
    for changed in ((1, 6, 9, 9, (1, 2)), (1, 5, 8, 9, (1, 2)), (1, 5, 9, 8, (1, 2))):
        events = [changed, (1, 4, 8, 8, (5, 6))]
        assert (leaf_of(events, 2, 2).digests(12, KEY)[1] != digests[1]).any()


def test_canonical_bytes() -> None:
    offsets, data = small().canonical_bytes(12)
    words = data.view(np.uint64)
    assert offsets.tolist() == [0, 56, 56 + 96, 56 + 96 + 16]
    assert words[:5].tolist() == [12, 1, 7, 3, 3]
    assert words[5:7].view(np.float64).tolist() == [3, 4]
    assert words[7:9].tolist() == [12, 2] and words[-2:].tolist() == [12, 0]


def test_empty() -> None:
    leaf = RowLeaf.empty(3, 2)
    assert leaf.counts.tolist() == [0, 0, 0] and leaf.capped(1).dropped == 0
    assert RowLeaf.from_bytes(leaf.to_bytes()).to_bytes() == leaf.to_bytes()
    assert RowLeaf.merge([leaf, small()]).to_bytes() == small().to_bytes()
    assert not leaf.digests(0, KEY).any()


def test_golden_bytes() -> None:
    leaf = leaf_of([(0, 1, 2, 3, (4,))], 1, 1, np.int64)
    header = "57524c01" + "3c693800" + "0100000000000000" * 3
    body = "".join(n.to_bytes(8, "little").hex() for n in (0, 1, 1, 2, 3, 4))
    assert leaf.to_bytes().hex() == header + body


def test_refuses_damage() -> None:
    data = small().to_bytes()
    for broken in (b"", data[:10], data[:-1], data + b"\0", b"XXXX" + data[4:]):
        with pytest.raises(CodecError):
            RowLeaf.from_bytes(broken)
    offsets = bytearray(data)
    offsets[32 + 8] = 200
    with pytest.raises(CodecError):
        RowLeaf.from_bytes(bytes(offsets))


def test_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError):
        leaf_of([(3, 0, 0, 0, (0,))], 3, 1)
    with pytest.raises(ValueError):
        leaf_of([(0, 0, 0, 0, (0,))], 1, 1, np.float32)
    with pytest.raises(ValueError):
        RowLeaf.merge([small(), RowLeaf.empty(3, 1)])
    with pytest.raises(ValueError):
        RowLeaf.merge([])
    with pytest.raises(ConfigError):
        small().capped(0)


@pytest.mark.slow
@settings(max_examples=150)
@given(batches(), st.integers(1, 4))
def test_users_stay_whole_whatever_the_cuts(
    batch: tuple[list[list[Event]], int, int, type], users: int
) -> None:
    """Against plain Python, at once and of bundles that were capped before."""
    bundles, n_keys, width, dtype = batch
    everything = leaf_of(sum(bundles, []), n_keys, width, dtype)
    kept = everything.capped_users(users)
    parts = [leaf_of(b, n_keys, width, dtype).capped_users(users) for b in bundles]
    again = RowLeaf.merge([part.leaf for part in parts]).capped_users(users)
    assert kept.leaf.to_bytes() == again.leaf.to_bytes()
    assert kept.dropped == again.dropped + sum(part.dropped for part in parts)
    stay = {
        key: sorted({e[2:4] for e in events_of(everything) if e[0] == key})[:users]
        for key in range(n_keys)
    }
    expected = [e for e in events_of(everything) if e[2:4] in stay[e[0]]]
    assert events_of(kept.leaf) == expected


def test_other_users_stay_at_other_ticks() -> None:
    rng = np.random.default_rng(1)
    high, low = rng.integers(0, 2**63, (2, 200)).astype(np.uint64)
    kept = []
    for tick in range(40):
        hashes = hashes_of_users(high, low, np.full(200, tick))
        assert len(np.unique(hashes, axis=0)) == 200
        keys, rows = np.zeros(200, dtype=np.int64), np.arange(200.0)[:, None]
        leaf = RowLeaf.from_events(keys, rows, np.zeros(200, dtype=np.int64), hashes, 1)
        kept.append(set(leaf.capped_users(20).leaf.rows[:, 0].tolist()))
    assert len(set.union(*kept)) > 120
    assert max(sum(user in some for some in kept) for user in range(200)) < 20


def test_stored_rows_of_a_width_that_no_array_has_are_refused() -> None:
    none = np.zeros(0, dtype=np.int64)
    hashes = np.zeros((0, 2), dtype=np.uint64)
    data = bytearray(RowLeaf.from_events(none, np.zeros((0, 1)), none, hashes, 1).to_bytes())
    data[24:32] = (0x38 << 56).to_bytes(8, "little")
    with pytest.raises(CodecError, match="stored bytes cannot be read by RowLeaf.from_bytes"):
        RowLeaf.from_bytes(bytes(data))
