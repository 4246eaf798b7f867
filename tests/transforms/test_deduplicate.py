from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Sequence

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.coders import registry
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import TimestampedValue

from tests.transforms.running import KEPT, cut, keep, shuffled
from weir.dpcore.leaves import hash_sets
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.leaves.hash_sets import TimedSet, sort_hashes
from weir.dpcore.leaves.hashes import id_hashes
from weir.transforms.beam import deduplicate
from weir.transforms.beam.deduplicate import Deduplicate, dedupe_key, prepare
from weir.transforms.columns.names import HIGH, LOW
from weir.transforms.decode.lists import from_python
from weir.transforms.operators import deduplicate as local
from weir.transforms.operators import hash_partition as spread
from weir.transforms.operators import seen_ids
from weir.transforms.operators.deduplicate import which_count
from weir.transforms.operators.seen_ids import look, remember
from weir.transforms.runtime import counters
from weir.transforms.runtime.codec import batch_from_bytes
from weir.transforms.runtime.dead_letters import rows
from weir.transforms.runtime.secret import SecretRef

LAYOUT = "cd" * 32
CLOCK = Clock(start=1_600_000_000_000_000, period=1_000_000)
STREAMING = PipelineOptions(["--streaming"])
KEY = bytes(range(16))


def batch(
    ids: Sequence[str | None], ticks: Sequence[int] | None = None, v: float = 1.0
) -> pa.RecordBatch:
    n = len(ids)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(list(ids), pa.string()),
            pa.array(np.zeros(n, dtype=np.int64) if ticks is None else list(ticks), pa.int64()),
            pa.array(np.full(n, v)),
            pa.array(np.arange(n, dtype=np.int64)),
        ],
        schema=pa.schema(
            [("@id", pa.string()), ("@tick", pa.int64()), ("v", pa.float64())]
            + [("@position", pa.int64())],
            metadata={"source": "here"},
        ),
    )


def run(
    batches: list[pa.RecordBatch],
    horizon: int | None = None,
    shards: int = 8,
    repeats: int = 0,
    here: bool = False,
) -> tuple[list[dict], list]:
    counters.reset()
    if here:
        letters: list[pa.RecordBatch] = []
        step = local.DropDuplicates(KEY, False, letters.append)
        with contextlib.closing(step):
            found = [*itertools.chain.from_iterable(map(step.process, batches)), *step.finish()]
        events = [row for one in found for row in one.to_pylist()]
        return events, sorted(letter for one in letters for letter in rows(one))
    options = PipelineOptions([f"--direct_runner_bundle_repeat={repeats}"])
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=options)
    source = pipeline | beam.Create(batches, reshuffle=False).with_output_types(pa.RecordBatch)
    unique = Deduplicate(SecretRef.fresh(), CLOCK, LAYOUT, horizon, shards=shards)
    found = source | unique
    kept, dead = keep(found.events, "kept"), keep(found.dead, "dead")
    pipeline.run().wait_until_finish()
    events = [row for one in KEPT.pop(kept) for row in one.to_pylist()]
    return events, sorted(letter for one in KEPT.pop(dead) for letter in rows(one))


def test_each_id_counts_once_and_the_id_goes_no_further() -> None:
    ids = [f"id-{i % 700}" for i in range(1000)]
    events, dead = run(cut(batch(ids), 3))
    assert len(events) == 700 and len(dead) == 300
    assert set(events[0]) == {"@tick", "v", "@position"}
    assert {reason for *_, reason in dead} == {"duplicate"} and dead[0][0] == "here"
    assert counters.snapshot()["duplicate"] == 300


def test_events_without_an_id_all_count() -> None:
    events, dead = run([batch([None, "a", None, "a", ""]), batch(["", None])])
    assert len(events) == 5 and len(dead) == 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_here_and_by_shards_the_same_copies_count(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies that differ in every column, in several batches and flushes, some without an id."""
    for module in (local, spread):
        monkeypatch.setattr(module, "ROWS", 150 if seed % 2 else 1 << 20)
    monkeypatch.setattr(
        deduplicate, "HashPartition", functools.partial(spread.HashPartition, together=1)
    )
    if seed == 5:
        monkeypatch.setattr(hash_sets, "kernels", None)
    rng = np.random.default_rng(seed)
    batches = []
    for i in range(9):
        n = int(rng.integers(1, 120))
        ids = [None if j == 0 else f"id-{j}" for j in rng.integers(0, 200, n)]
        one = batch(ids, ticks=rng.integers(0, 3, n).tolist())
        keys = pa.array([f"k{k}" for k in rng.integers(0, 3, n)]).dictionary_encode()
        values = pa.array([None if v == 2 else float(v) for v in rng.integers(0, 3, n)])
        one = one.append_column("@key", keys).set_column(2, "v", values)
        if i % 3 == 0:
            source = pa.array([f"s{k}" for k in rng.integers(0, 2, n)])
            one = one.append_column("@source", source.dictionary_encode())
        batches.append(one)
    alike = [one for one in batches if "@source" not in one.schema.names]
    for some in (alike, [one for one in batches if "@source" in one.schema.names]):
        ours, sent = (run(some, here=here, shards=1) for here in (True, False))
        assert sorted(map(str, ours[0])) == sorted(map(str, sent[0]))
        assert ours[1] == sent[1] and ours[1]


def test_row_leaves_are_given_the_hashes() -> None:
    secret, given, digest = SecretRef.fresh(), batch([None, "a", "b", "a"]), "ab" * 32
    pipeline = beam.Pipeline(runner=FnApiRunner())
    source = pipeline | beam.Create([given]).with_output_types(pa.RecordBatch)
    unique = Deduplicate(secret, CLOCK, LAYOUT, None, digest)
    kept = keep((source | unique).events, "kept")
    pipeline.run().wait_until_finish()
    step = local.DropDuplicates(dedupe_key(secret.resolve(), digest), True, lambda _: None)
    with contextlib.closing(step):
        ours = [*step.process(given), *step.finish()]
    found = []
    for batches in (KEPT.pop(kept), ours):
        rows = [sorted(row.items()) for one in batches for row in one.to_pylist()]
        found.append(sorted(map(str, rows)))
    assert found[0] == found[1] and len(found[0]) == 3
    assert sum(HIGH in row for row in found[0]) == 2


def test_what_fails_here_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object, hashes: object) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(hash_sets.HashNumbers, "add", broken)
    with pytest.raises(RuntimeError, match="no room"):
        run([batch(["a"])], here=True)


def held_of(numbers: list[int], known: set[int], first: int) -> local._Held:
    """A batch whose ids have these numbers, as it is held."""
    fresh = np.array([n not in known and numbers.index(n) == i for i, n in enumerate(numbers)])
    news = [n for n, new in zip(numbers, fresh, strict=True) if new]
    known.update(news)
    again = np.flatnonzero(~fresh)
    own = np.array(numbers, dtype=np.int64)[again]
    events = batch(["x"] * len(numbers)).drop_columns(["@id"])
    hashes = np.zeros((len(numbers), 2), dtype=np.uint64)
    return local._Held(events, hashes, fresh, min(news, default=first), again, own)


def test_copies_of_another_bundle_count_there() -> None:
    """Two bundles at once: numbers of one stand between those of the other."""
    known = {0, 1, 5, 6}  # 5 and 6: first seen by another bundle while this one gathered
    held = [held_of([2, 3, 0, 2, 4], known, 2), held_of([5, 7, 3, 8, 6, 7], known, 2)]
    counted = which_count(held)
    assert np.flatnonzero(counted).tolist() == [0, 1, 4, 6, 8]
    assert which_count([held_of([5, 6, 5], known, 2)]).tolist() == [False] * 3


def test_an_id_is_forgotten_by_the_public_clock_and_by_nothing_else() -> None:
    """Copies behind an event far ahead still count once; behind the watermark they count again."""
    seconds = CLOCK.period / 1e6

    def at(tick: int) -> float:
        return CLOCK.start / 1e6 + tick * seconds

    def stamped(*ids: str, tick: int) -> TimestampedValue:
        return TimestampedValue(batch(list(ids), [tick] * len(ids)), at(tick))

    stream = (
        TestStream(coder=registry.get_coder(pa.RecordBatch))
        .advance_watermark_to(at(0))
        .add_elements([stamped("a", "b", tick=0)])
        .add_elements([stamped("far", tick=900)])
        .add_elements([stamped("a", tick=0)])
        .advance_watermark_to(at(5))
        .add_elements([stamped("a", tick=5)])
        .advance_watermark_to(at(20))
        .add_elements([stamped("a", "far", tick=20)])
        .advance_watermark_to_infinity()
    )
    counters.reset()
    pipeline = beam.Pipeline(runner=BundleBasedDirectRunner(), options=STREAMING)
    source = pipeline | stream
    found = source | Deduplicate(SecretRef.fresh(), CLOCK, LAYOUT, 5)
    kept = keep(found.events, "kept")
    pipeline.run().wait_until_finish()
    ticks = sorted(row["@tick"] for one in KEPT.pop(kept) for row in one.to_pylist())
    assert ticks == [0, 0, 20, 900]
    assert counters.snapshot()["duplicate"] == 3


def test_bounded_input_is_remembered_whole() -> None:
    events, _ = run([batch(["a"], [0]), batch(["b"], [900]), batch(["a"], [1])])
    assert len(events) == 2


def test_of_copies_in_one_batch_the_smallest_stays_whatever_their_order() -> None:
    parts = [batch(["a", "b"], v=3.0), batch(["a", "c"], v=2.0), batch(["a"], v=float("nan"))]
    whole = pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
    whole = whole.replace_schema_metadata({"source": "here"})
    for seed in range(5):
        mixed = shuffled(whole, seed)
        hashes = id_hashes(mixed.column("@id"), KEY).hashes
        fresh, new = remember(look(prepare(mixed, hashes)), TimedSet(), None)
        left = mixed.filter(pa.array(fresh)).to_pylist()
        kept = sorted((r["@position"], r["v"]) for r in left)
        assert kept == [(0, 2.0), (1, 2.0), (1, 3.0)] and len(new.high) == 3


@pytest.mark.parametrize("seed", range(5))
def test_copies_are_ordered_column_after_column(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 400
    columns = {
        HIGH: rng.integers(0, 150, n).astype(np.uint64),  # one, two and more copies
        LOW: np.zeros(n, dtype=np.uint64),
        "v": pa.array([None if v == 2 else float(v) for v in rng.integers(0, 3, n)]),
        "@tick": rng.integers(0, 3, n),
        "@key": pa.array([f"k{k}" for k in rng.integers(0, 2, n)]).dictionary_encode(),
        "@position": rng.permutation(n),
    }
    rows = pa.RecordBatch.from_pydict(columns)
    order = sort_hashes(columns[HIGH], columns[LOW])
    first = np.diff(columns[HIGH][order], prepend=np.uint64(999)) != 0
    names = ["@tick", "@key", "v", "@position"]
    ranks = [seen_ids.rank(rows.column(name)) for name in reversed(names)]
    expected = np.lexsort((*ranks, columns[HIGH]))
    assert np.array_equal(seen_ids.first_cell_first(rows, order, first), expected)


LISTS = [None, {}, {"1": 2.0}, {"1": 2.0, "3": 1.0}, {"1": 2.5}, {"2": 2.0}, {"1": None}]


def test_lists_are_ranked_by_what_is_in_them() -> None:
    column, _ = from_python([*LISTS, *LISTS], 4)
    ranks = seen_ids.rank(column)
    assert ranks[:7].tolist() == ranks[7:].tolist() and len(set(ranks.tolist())) == 7
    order = np.random.default_rng(0).permutation(14)
    assert np.array_equal(np.argsort(np.argsort(seen_ids.rank(column.take(order)), kind="stable")),
                          np.argsort(np.argsort(ranks[order], kind="stable")))  # fmt: skip
    piece = column.slice(3, 8)
    assert len(set(seen_ids.rank(piece).tolist())) == 7


@pytest.mark.slow
def test_copies_with_lists_count_once() -> None:
    """Whatever their lists are, and in any order: the cell is the first, then the content."""
    ids = ["a", "b", "a", "c", "a", "b", "d"]
    column, _ = from_python([{"1": 2.0}, None, {"1": 1.0}, {}, {"1": 2.0}, {"0": 1.0}, {}], 4)
    plain = batch(ids)
    whole = pa.RecordBatch.from_arrays(
        [*plain.columns, column],
        schema=plain.schema.append(pa.field("x", column.type)),
    )
    found = []
    for seed in range(3):
        events, dead = run(cut(shuffled(whole, seed), 1), 3)
        assert len(events) == 4 and len(dead) == 3
        found.append(sorted(repr(row["x"]) for row in events))
    assert found[0] == found[1] == found[2]


def test_hashes_that_share_their_first_word_are_told_apart() -> None:
    high = np.array([7, 7, 7, 9, 7], dtype=np.uint64)
    low = np.array([3, 1, 2, 1, 1], dtype=np.uint64)
    order = sort_hashes(high, low)
    assert list(zip(high[order].tolist(), low[order].tolist(), strict=True)) == [
        (7, 1), (7, 1), (7, 2), (7, 3), (9, 1),
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("shards", [1, 40])
def test_what_counts_is_the_same_in_any_shards_bundles_orders_and_repeats(shards: int) -> None:
    rng = np.random.default_rng(3)
    whole = batch([f"{i}" for i in rng.integers(0, 700, 1000)], rng.integers(0, 9, 1000).tolist())
    columns = ("@tick", "v", "@position")

    def counted(**how: int) -> list[tuple]:
        events, dead = run(cut(shuffled(whole, shards), 4), 3, shards, **how)
        found = sorted(tuple(row[name] for name in columns) for row in events)
        assert len(found) + len(dead) == 1000 * (1 + how.get("repeats", 0))
        return found[:: 1 + how.get("repeats", 0)]

    events, _ = run([whole], 3)
    expected = sorted(tuple(row[name] for name in columns) for row in events)
    assert counted() == counted(repeats=1) == expected


def test_the_key_of_the_hashes_is_its_own() -> None:
    secret = bytes(32)
    assert len(dedupe_key(secret, LAYOUT)) == 16
    assert dedupe_key(secret, LAYOUT) != dedupe_key(secret, "ab" * 32)
    assert dedupe_key(secret, LAYOUT) not in secret


@pytest.mark.slow
@pytest.mark.parametrize("limit", [10, 1 << 21])
def test_a_long_bundle_is_sent_on_in_between(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "ROWS", limit)
    monkeypatch.setattr(spread, "SPREAD", min(limit, 20))
    events, dead = run(cut(batch([f"{i % 50}" for i in range(100)]), 10))
    assert len(events) == 50 and len(dead) == 50


def test_a_shard_gets_the_keys_of_its_own_events_only() -> None:
    """A slice would bring all that the bundle has, to every shard."""
    rng = np.random.default_rng(4)
    keys = pa.array([f"key {i}" for i in range(5000)])
    slots = pa.array(rng.integers(0, 5000, 600).astype(np.int32))
    columns = {
        "@id": pa.array([f"{i}" for i in range(600)]),
        "@tick": pa.array(np.zeros(600, dtype=np.int64)),
        "@position": pa.array(np.arange(600)),
        "@key": pa.DictionaryArray.from_arrays(slots, keys),
        "of": pa.array([None, "a"] * 300).dictionary_encode(),
    }
    whole = pa.RecordBatch.from_pydict(columns)
    sharding = deduplicate.ToShards(SecretRef.fresh(), LAYOUT, 6)
    sharding.setup()
    sharding.start_bundle()
    assert list(sharding.process(whole, CLOCK.start)) == []
    found = {}
    for shard, data in sharding._spread.flush():
        part = batch_from_bytes(data)
        assert len(data) < 20_000 and len(part.column("@key").dictionary) <= part.num_rows
        for row in part.select(["@position", "@key", "of"]).to_pylist():
            found[row.pop("@position")] = (shard, row)
    rows = whole.select(["@key", "of"]).to_pylist()
    assert [found[i][1] for i in range(600)] == rows and len({s for s, _ in found.values()}) == 6


def test_it_works_in_a_graph_of_its_own() -> None:
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        source = pipeline | beam.Create([batch(["a", "a"])]).with_output_types(pa.RecordBatch)
        found = source | Deduplicate(SecretRef.fresh(), CLOCK, LAYOUT)
        counts = found.events | beam.Map(lambda one: one.num_rows)
        assert_that(counts, equal_to([1]))
