"""Keys found in private, in the pipeline and in its cells: the bits of ``simulate``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from tests.dpcore.discovery.world import rule_of
from tests.transforms.blocks import bytes_of, copied, no_cells
from tests.transforms.running import KEPT, SECRET, Ran, keep, run
from weir import Events, simulate
from weir.dpcore.config.key import RetireConfig
from weir.dpcore.errors import CodecError, WeirError
from weir.dpcore.leaves.keys import Keys
from weir.dpcore.plan import Plan
from weir.transforms.beam import heartbeat
from weir.transforms.beam.tick import Tick
from weir.transforms.operators import partial_sums as partial
from weir.transforms.operators.discovered_cells import DiscoveredCells
from weir.transforms.operators.discovered_shard import DiscoveredShard
from weir.transforms.operators.noise_source import KeyedNoiseSource
from weir.transforms.operators.partial_sums import PartialLeaf
from weir.transforms.operators.pending import due
from weir.transforms.operators.state_cache import StateCache
from weir.transforms.operators.stride import NoisyStride
from weir.transforms.runtime.secret import SecretRef

TestStream.__test__ = False  # not a test of ours
TICKS, PER, MINUTE = 60, 20, 60_000_000
CONFIG = """
name: found
schema: {time: t}
key: {column: k, observed_keys_are_public: true}
clock: {start: 2024-01-01T00:00:00Z, period: 1m, end: 2024-01-01T01:00:00Z}
privacy: {epsilon: 8.0, delta: 1e-6, protect_for: all}
aggregates:
  users: {count: events}
  paid: {sum: v, clip: [0, 10], over: [all, 6]}
mechanism: {continual_sum: blt}
"""


def plan_of(blocks: int = 1, min_users: int = 3, longest: int = 12, **more: Any) -> Plan:
    """A plan in which every event is of another user: its count is the count of users."""
    plan = Plan.from_yaml(CONFIG)
    rule = rule_of(plan.program, TICKS, None, min_users, **more)  # type: ignore[arg-type]
    periods = replace(rule.periods, clock=plan.clock, per=PER * MINUTE)
    keys = Keys(("k",), (), True, blocks, longest)
    return replace(plan, keys=keys, discovery=replace(rule, periods=periods))


def events_of(seed: int, n: int = 1500) -> Events:
    """Few keys with many events, many with few, in any order."""
    rng = np.random.default_rng(seed)
    times = 1_704_067_200_000_000 + rng.integers(0, TICKS * MINUTE, n)
    keys = [f"key {i}" for i in np.minimum(rng.geometric(0.05, n), 80).tolist()]
    keys[:3] = ["a name that is too long"] * 3
    return Events(times, keys, {"v": rng.uniform(0, 12, n)})


def simulated(plan: Plan, events: Events) -> dict[tuple[str, int, str, int | None], float]:
    found = {}
    for one in simulate(plan, events, SECRET):
        for out in one.released:
            for tick, value in enumerate(out.value[:, 0, 0].tolist(), one.first_tick):
                found[one.key, tick, out.name, out.over] = value
    return found


def piped(plan: Plan, events: Events, secret: SecretRef, seed: int) -> Ran:
    order = np.random.default_rng(seed).permutation(len(events.times))
    assert events.keys is not None
    times = events.times.astype("datetime64[us]")
    rows = [
        {"t": times[i].item(), "k": events.keys[i], "v": events.columns["v"][i].item()}
        for i in order.tolist()
    ]
    return run(plan, rows, secret=secret, kind=dict)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [1, 16])
def test_the_pipeline_releases_what_is_simulated(blocks: int, secret: SecretRef) -> None:
    plan, events = plan_of(blocks), events_of(3)
    expected = simulated(plan, events)
    births = {key: min(t for k, t, _, _ in expected if k == key) for key, *_ in expected}
    assert 8 < len(births) < 60 and len(set(births.values())) > 5
    assert max(births.values()) >= PER, "some are found in a later period"
    ran = piped(plan, events, secret, blocks)
    found = {(r["key"], r["tick"], r["name"], r["over"]): r["value"][0] for r in ran.rows}
    assert found == expected
    assert [reason for *_, reason in ran.dead] == ["key_too_long"] * 3


class Block:
    """One block as a worker steps it; ``forgets``: each batch of ticks reads its cells."""

    def __init__(self, plan: Plan, secret: SecretRef, forgets: bool, cells: Any = None) -> None:
        assert plan.discovery is not None
        self.plan, self.rule = plan, plan.discovery
        self.noise = KeyedNoiseSource(secret, plan.name, plan.digest)
        self.cells = no_cells() if cells is None else cells
        self._shelf: StateCache[Any] = StateCache(room=0 if forgets else 1 << 30)

    def stored(self) -> DiscoveredCells:
        layout = bytes.fromhex(self.plan.layout)
        return DiscoveredCells(self.plan.program, self.noise, layout, 0, self.cells, self._shelf)

    def advance(self, payloads: Sequence[bytes], first: int, stop: int) -> Iterator[Any]:
        stored = self.stored()
        before = stored.read(first)
        block = DiscoveredShard(self.plan.program, self.rule, self.noise, 0, 128, before)
        leaves, later = due(payloads, stop)
        yield from later
        yield from block.advance(leaves, first, stop)
        stored.write(block.content, stop)


def payloads(seed: int) -> list[bytes]:
    """Partial leaves of some ticks, in no order; those of a cell in several."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(300):
        tick, n = int(rng.integers(TICKS)), int(rng.integers(1, 6))
        names = sorted({b"key %d" % i for i in np.minimum(rng.geometric(0.1, n), 30).tolist()})
        rows = np.arange(len(names))
        values = rng.integers(0, 1 << 20, (len(names), 2))
        values[:, 0] = 1 << 20
        ticks, ones = np.full(len(names), tick), np.ones(len(names), dtype=np.int64)
        found.append(partial.encode(PartialLeaf(ticks, rows, ones, values, tuple(names))))
    return found


def walk(block: Block, cuts: Sequence[int], leaves: Sequence[bytes]) -> list[NoisyStride]:
    strides, left = [], list(leaves)
    for first, stop in zip(cuts, cuts[1:], strict=False):
        out = list(block.advance(left, first, stop))
        left = [one for one in out if isinstance(one, bytes)]
        strides += [one for one in out if not isinstance(one, bytes)]
    assert not left
    return strides


def flat(strides: Sequence[NoisyStride]) -> dict[tuple[bytes, int], list[bytes]]:
    return {
        (key, stride.first_tick + i): [array[i, row].tobytes() for array in stride.arrays]
        for stride in strides
        for row, key in enumerate(stride.keys)
        for i in range(int(stride.births[row]), stride.ticks)
    }


def live_at(strides: Sequence[NoisyStride]) -> dict[int, tuple[bytes, ...]]:
    """Tick -> keys that are live, in order."""
    found = {}
    for stride in strides:
        for i in range(stride.ticks):
            live = np.flatnonzero(stride.births <= i).tolist()
            found[stride.first_tick + i] = tuple(stride.keys[row] for row in live)
    return found


EVERY = list(range(TICKS + 1))


@pytest.mark.slow
def test_strides_memory_and_order_change_no_bit(secret: SecretRef) -> None:
    plan, leaves = plan_of(), payloads(2)
    whole = walk(Block(plan, secret, False), [0, TICKS], leaves)
    assert len({key for key, _ in flat(whole)}) > 3
    order = live_at(whole)
    assert len(set(order.values())) > 3
    for cuts, forgets in ((EVERY, True), (EVERY, False), ([0, 7, 8, 33, TICKS], True)):
        shuffled = [leaves[i] for i in np.random.default_rng(len(cuts)).permutation(len(leaves))]
        block = Block(plan, secret, forgets)
        again = walk(block, cuts, shuffled)
        assert flat(again) == flat(whole)
        assert live_at(again) == order


@pytest.mark.slow
def test_a_stream_finds_keys_tick_by_tick(secret: SecretRef) -> None:
    """Timers, heartbeats and cells of a streaming runner: the strides of one go."""
    plan, leaves = plan_of(), payloads(2)
    start = plan.clock.start

    def at(tick: int) -> Timestamp:
        return Timestamp(micros=start + (tick + 1) * MINUTE)

    events = TestStream().advance_watermark_to(start / 1e6)
    for tick in range(TICKS):
        due = [one for one in leaves if partial.tick_range(one)[0] == tick]
        pieces = [TimestampedValue((0, one), at(tick) - 2) for one in due]
        beat = TimestampedValue((0, heartbeat.encode(tick)), at(tick) - 1)
        events = events.add_elements([*pieces, beat]).advance_watermark_to(at(tick))
    pipeline = beam.Pipeline(
        runner=BundleBasedDirectRunner(), options=PipelineOptions(["--streaming"])
    )
    noise = KeyedNoiseSource(secret, plan.name, plan.digest)
    found = (
        pipeline | events.advance_watermark_to_infinity() | "Tick" >> Tick(plan, noise, 128, False)
    )
    kept = keep(found.noisy, "noisy")
    pipeline.run().wait_until_finish()
    strides = sorted(KEPT.pop(kept), key=lambda stride: stride.first_tick)
    assert len(strides) >= TICKS
    assert flat(strides) == flat(walk(Block(plan, secret, False), [0, TICKS], leaves))


@pytest.mark.slow
@pytest.mark.parametrize("retire", [None, RetireConfig(below=90)])
def test_every_moment_can_be_gone_on_from(retire: RetireConfig | None, secret: SecretRef) -> None:
    """A worker that is lost after any batch, and one whose batch is lost: the same bytes."""
    plan, leaves = plan_of(retire=retire), payloads(4)
    first = Block(plan, secret, False)
    expected = flat(walk(first, [0, TICKS], leaves))
    lived = {key for key, tick in expected if (key, tick + 1) not in expected}
    assert (lived != {key for key, tick in expected if tick == TICKS - 1}) is (retire is not None)
    for stop in range(7, TICKS, 7):
        cells = no_cells()
        walked = Block(plan, secret, True, cells)
        left, strides = list(leaves), []
        for low, high in ((0, stop), (stop, TICKS)):
            lost = Block(plan, secret, True, copied(cells))
            list(lost.advance(left, low, high))
            out = list(walked.advance(left, low, high))
            assert bytes_of(lost.cells) == bytes_of(cells)
            left = [one for one in out if isinstance(one, bytes)]
            strides += [one for one in out if not isinstance(one, bytes)]
        assert flat(strides) == expected


def test_damage_is_noticed_and_other_secrets_are_refused(secret: SecretRef, tmp_path: Any) -> None:
    plan, leaves = plan_of(), payloads(2)
    block = Block(plan, secret, True)
    list(block.advance(leaves, 0, 11))
    older = Block(plan, secret, True)
    list(older.advance(leaves, 0, 9))
    mixed = copied(block.cells)
    mixed.names.values[:] = older.cells.names.values
    with pytest.raises(CodecError, match="damaged"):
        list(Block(plan, secret, True, mixed).advance([], 11, 12))
    other = tmp_path / "two.key"
    other.write_text("08" * 32)
    other.chmod(0o600)
    with pytest.raises(CodecError, match="other secrets"):
        list(Block(plan, SecretRef(file=str(other)), True, block.cells).advance([], 11, 12))


def test_how_many_keys_wait_shapes_no_stride(secret: SecretRef) -> None:
    """A block full of names of one user each leaves as an empty one does."""
    plan = plan_of(min_users=1)
    junk = [b"%d" % i for i in range(5000)]
    ones = np.ones(len(junk), dtype=np.int64)
    values = np.tile(np.array([[1 << 20, 0]]), (len(junk), 1))
    leaf = PartialLeaf(3 * ones, np.arange(len(junk)), ones, values, tuple(sorted(junk)))
    # A threshold that nobody reaches: what is found by chance is told, as it must be.
    far = replace(plan.discovery, delta=1e-300)  # type: ignore[type-var]
    plan = replace(plan, discovery=far)
    full = walk(Block(plan, secret, True), [0, TICKS], [partial.encode(leaf)])
    empty = walk(Block(plan, secret, True), [0, TICKS], [])
    shapes = [
        [(s.first_tick, s.ticks, s.keys, len(s.arrays)) for s in one] for one in (full, empty)
    ]
    assert shapes[0] == shapes[1]


def test_a_limit_stops_the_block(secret: SecretRef) -> None:
    plan = plan_of(max_tracked=4)
    with pytest.raises(WeirError, match="more than 4 keys of one block"):
        walk(Block(plan, secret, True), [0, TICKS], payloads(2))


@pytest.mark.parametrize("stops", [[0, TICKS], [0, 5, TICKS]])
def test_keys_that_are_put_aside_wait_too(secret: SecretRef, stops: list[int]) -> None:
    """Ten names of one user each: none can be found, stepped by and by or looked at at once."""
    names = tuple(sorted(f"junk {i}".encode() for i in range(10)))
    ones = np.ones(len(names), dtype=np.int64)
    values = np.tile(np.array([[1 << 20, 0]]), (len(names), 1))
    leaf = partial.encode(PartialLeaf(3 * ones, np.arange(len(names)), ones, values, names))
    with pytest.raises(WeirError, match="more than 9 keys of one block"):
        walk(Block(plan_of(max_tracked=9), secret, True), stops, [leaf])
    assert not any(
        stride.keys for stride in walk(Block(plan_of(max_tracked=10), secret, True), stops, [leaf])
    )
