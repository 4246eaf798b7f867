"""Tick on a streaming runner: heartbeats, overdue leaves, several ticks at once, drains."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from tests.transforms.blocks import Block, bytes_of
from tests.transforms.cells import Bag, Cell, One
from tests.transforms.doubles import MINUTE, START, FakePlan, Silent
from tests.transforms.running import KEPT, keep
from weir.dpcore.errors import CodecError
from weir.dpcore.leaves.keys import Keys
from weir.dpcore.users.unit import ContributionBounds, Periods, UserUnit
from weir.transforms.beam import assemble, deduplicate, heartbeat, tick, train
from weir.transforms.beam import bound_users as cap
from weir.transforms.beam import write_files as folder
from weir.transforms.beam.assemble import AssembleDoFn
from weir.transforms.beam.tick import Tick, TickDoFn
from weir.transforms.beam.train import TrainDoFn
from weir.transforms.operators import partial_sums as partial
from weir.transforms.operators.partial_sums import PartialLeaf
from weir.transforms.operators.progress import SPANS, bag_of, bags_due
from weir.transforms.operators.stride import NoisyStride, boundaries
from weir.transforms.operators.timed_cells import RING
from weir.transforms.operators.user_cells import BAGS
from weir.transforms.runtime.codec import pack
from weir.transforms.runtime.dead_letters import rows

TestStream.__test__ = False  # not a test of ours
ENDLESS = replace(FakePlan(), clock=replace(FakePlan().clock, end=None))
OBSERVED = replace(ENDLESS, keys=Keys.make("k", None, True, None))


def at(tick: int) -> Timestamp:
    """End of a tick."""
    return Timestamp(micros=START + (tick + 1) * MINUTE)


def beat(last: int, block: int = 0) -> TimestampedValue:
    return TimestampedValue((block, heartbeat.encode(last)), at(last) - 1)


def leaf(cells: dict[int, int], names: tuple[bytes, ...] = ()) -> bytes:
    ticks = np.array(sorted(cells), dtype=np.int64)
    counts = np.array([cells[t] for t in ticks.tolist()], dtype=np.int64)
    zeros = np.zeros(len(ticks), dtype=np.int64)
    values = np.stack([counts, counts * 16], axis=1)
    return partial.encode(PartialLeaf(ticks, zeros, counts, values, names))


def gathered(cells: dict[int, int], block: int = 0) -> TimestampedValue:
    return TimestampedValue((block, leaf(cells)), at(min(cells)) - 2)


def stream(plan: Any, stream: TestStream, every: int = 128) -> tuple[list[NoisyStride], Any]:
    options = PipelineOptions(["--streaming"])
    pipeline = beam.Pipeline(runner=BundleBasedDirectRunner(), options=options)
    source = pipeline | stream
    pieces = source | beam.Map(lambda pair: pair).with_output_types(tuple[int, bytes])
    out = pieces | Tick(plan, Silent(), every, bounded=False)
    noisy, dead = keep(out.noisy, "noisy"), keep(out.dead, "dead")
    pipeline.run().wait_until_finish()
    letters = [letter for batch in KEPT.pop(dead) for letter in rows(batch)]
    return KEPT.pop(noisy), letters


def counts(strides: Sequence[NoisyStride]) -> dict[int, float]:
    """Tick -> noisy count of the first key."""
    found: dict[int, float] = {}
    for stride in strides:
        for i in range(stride.ticks):
            assert stride.first_tick + i not in found
            found[stride.first_tick + i] = float(stride.arrays[0][i, 0, 0])
    return found


class Never:
    def set(self, *_: Any, **__: Any) -> None:
        pass


class Blocked:
    """State of one block, as a runner keeps it, and the calls that a runner makes."""

    def __init__(self, dofn: TickDoFn) -> None:
        dofn.setup()
        self._dofn = dofn
        self.bags = Bag(), Bag(), Bag()
        self.stored = One(), One(), Bag(), Bag()
        self.progress = One()

    def take(self, payload: bytes) -> list[Any]:
        """An element."""
        return list(self._dofn.process((0, payload), *self.bags, self.progress, Never()))

    def fire(self, moment: Timestamp) -> list[NoisyStride]:
        """A timer."""
        return list(self._dofn.on_tick(0, moment, *self.stored, *self.bags, self.progress))


def stepped(dofn: TickDoFn, payloads: Sequence[bytes], ticks: int, near: bool) -> dict[int, float]:
    """Steps tick by tick; ``near``: all leaves in the first bag, as earlier builds had them."""
    block = Blocked(dofn)
    for payload in payloads:
        if near:
            block.bags[0].add(payload)
        else:
            assert not block.take(payload)
    found: list[NoisyStride] = []
    for t in range(ticks):
        assert not block.take(heartbeat.encode(t))
        found += block.fire(at(t))
    return counts(found)


@pytest.mark.slow
@pytest.mark.parametrize("near", [True, False])
def test_leaves_of_a_far_future_are_not_moved_at_every_tick(near: bool) -> None:
    plan: Any = ENDLESS
    layout = bytes.fromhex(plan.layout).hex()
    dofn = TickDoFn(plan.program, plan.clock, plan.keys, layout, Silent(), 128, 64)
    spread = [*range(0, 1100, 7), *range(5_000, 9_000, 2)]
    Cell.moved = 0
    found = stepped(dofn, [leaf({t: 1}) for t in spread], 1100, near)
    gathered = np.cumsum([t in range(0, 1100, 7) for t in range(1100)])
    assert [found[t] for t in range(1100)] == gathered.tolist()
    near_by = 1100 / 7 * 2 * 2 * 32  # read and written once in each tick of two turns
    assert Cell.moved < near_by + 2 * 3 * len(spread), "what is for later was moved at every tick"


@pytest.mark.parametrize("first", [0, 5, 31, 32, 1000, 1023, 1024, 5000])
@pytest.mark.parametrize("ticks", [1, 2, 31, 32, 33, 1024, 3000])
def test_a_bag_that_is_not_read_holds_nothing_that_is_due_or_belongs_nearer(
    first: int, ticks: int
) -> None:
    stop = first + ticks
    for due in [*range(first, first + 4200, 13), stop - 1, stop, stop + 1]:
        bag = bag_of(due, first)
        if bag >= bags_due(first, stop):
            assert due >= stop and bag_of(due, stop) == bag
    assert all(low == 1 or high % low == 0 for low, high in zip(SPANS, SPANS[1:], strict=False))


def test_ticks_are_released_when_their_time_is_over_and_not_before() -> None:
    events = (
        TestStream()
        .advance_watermark_to(START / 1e6)
        .add_elements([gathered({0: 2, 2: 1}), beat(0)])
        .advance_watermark_to(at(0))
        .add_elements([beat(1)])
        .advance_watermark_to(at(1))
        .add_elements([beat(2), gathered({2: 4})])
        .advance_watermark_to(at(2))
        .advance_watermark_to_infinity()
    )
    strides, dead = stream(ENDLESS, events)
    assert counts(strides) == {0: 2, 1: 2, 2: 7} and dead == []


@pytest.mark.slow
@pytest.mark.parametrize("flink, before, overdue", [(0, 1, 0), (1, 1, 1), (1, 2, 0)])
def test_on_flink_a_timer_is_set_one_millisecond_before_the_end(
    flink: int, before: int, overdue: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There it fires when the watermark is beyond it; this runner fires it at its time."""
    monkeypatch.setattr(tick, "on_flink", lambda _: bool(flink))
    events = (
        TestStream()
        .advance_watermark_to(START / 1e6)
        .add_elements([beat(0), gathered({0: 2})])
        .advance_watermark_to(Timestamp(micros=at(0).micros - before * 1000))
        .add_elements([gathered({0: 1})])
        .advance_watermark_to(at(0))
        .advance_watermark_to_infinity()
    )
    strides, dead = stream(ENDLESS, events)
    assert counts(strides) == {0: 3 - overdue} and len(dead) == overdue


def test_a_drain_ends_at_the_last_announced_tick() -> None:
    events = (
        TestStream()
        .advance_watermark_to(START / 1e6)
        .add_elements([beat(3), gathered({1: 1, 3: 2, 7: 9})])
        .advance_watermark_to(at(1))
        .advance_watermark_to(at(60))
        .advance_watermark_to_infinity()
    )
    assert counts(stream(ENDLESS, events)[0]) == {0: 0, 1: 1, 2: 1, 3: 3}


def test_catching_up_goes_in_strides_and_cuts_at_files() -> None:
    events = (
        TestStream()
        .advance_watermark_to(START / 1e6)
        .add_elements([beat(999), gathered({500: 1})])
        .advance_watermark_to(at(600))
        .advance_watermark_to(at(999))
        .advance_watermark_to_infinity()
    )
    strides, _ = stream(ENDLESS, events, every=100)
    found = counts(strides)
    assert sorted(found) == list(range(1000)) and found[499] == 0 and found[999] == 1
    for stride in strides:
        assert stride.first_tick // 100 == (stride.first_tick + stride.ticks - 1) // 100


def test_what_comes_behind_a_released_tick_is_overdue() -> None:
    events = (
        TestStream()
        .advance_watermark_to(START / 1e6)
        .add_elements([beat(1), gathered({0: 1})])
        .advance_watermark_to(at(1))
        .add_elements([beat(2), gathered({0: 3, 1: 2, 2: 5})])
        .advance_watermark_to(at(2))
        .advance_watermark_to_infinity()
    )
    strides, dead = stream(ENDLESS, events)
    assert counts(strides) == {0: 1, 1: 1, 2: 6}
    assert dead == [("", -1, "", "overdue")] * 5


def test_blocks_do_not_wait_for_each_other() -> None:
    events = (
        TestStream()
        .advance_watermark_to(START / 1e6)
        .add_elements([beat(0, 0), beat(0, 1), gathered({0: 4}, 1)])
        .advance_watermark_to(at(0))
        .advance_watermark_to_infinity()
    )
    strides, _ = stream(ENDLESS, events)
    assert {s.block: float(s.arrays[0][0, 0, 0]) for s in strides} == {0: 0, 1: 4}


def test_discovered_keys_keep_their_rows_and_live_from_their_first_event() -> None:
    one = Block(OBSERVED, Silent())
    payloads = [leaf({5: 1}, (b"m",)), leaf({2: 1}, (b"z",)), leaf({5: 1}, (b"c",))]
    strides = list(one.advance([*payloads, leaf({9: 1}, (b"a",))], 0, 8))
    assert strides[0] == leaf({9: 1}, (b"a",))
    assert [(s.first_tick, s.ticks, s.keys) for s in strides[1:]] == [
        (0, 2, ()),
        (2, 3, (b"z",)),
        (5, 3, (b"z", b"c", b"m")),
    ]
    two = Block(OBSERVED, Silent(), one.cells)
    (stride,) = two.advance([leaf({8: 1}, (b"m",))], 8, 9)
    assert isinstance(stride, NoisyStride)
    assert stride.keys == (b"z", b"c", b"m")
    np.testing.assert_array_equal(stride.arrays[0][0, :, 0], [1, 1, 2])


def test_stored_state_of_another_plan_is_refused_and_both_are_named() -> None:
    one = Block(ENDLESS, Silent())
    list(one.advance([], 0, 3))
    other = replace(ENDLESS, layout="ef" * 32)
    with pytest.raises(CodecError, match="cd" * 32 + ".*" + "ef" * 32):
        Block(other, Silent(), one.cells).read(3)
    one.cells.machine.write(pack(b"M", [], bytes.fromhex(ENDLESS.layout))[:-1])
    with pytest.raises(CodecError):
        one.read(3)


def test_one_stride_is_many_small_ones() -> None:
    payloads = [leaf({3: 1, 70: 2}), leaf({40: 1})]
    whole, steps = Block(ENDLESS, Silent()), Block(ENDLESS, Silent())
    at_once = counts(list(whole.advance(payloads, 0, 100)))
    slowly: dict[int, float] = {}
    held = payloads
    for t in range(100):
        found = list(steps.advance(held, t, t + 1))
        held = [item for item in found if isinstance(item, bytes)]
        slowly |= counts([item for item in found if not isinstance(item, bytes)])
    assert at_once == slowly and bytes_of(whole.cells) == bytes_of(steps.cells)


def test_how_far_a_block_is_has_a_checksum() -> None:
    layout, plan = bytes.fromhex(ENDLESS.layout), ENDLESS
    dofn = TickDoFn(plan.program, plan.clock, plan.keys, layout.hex(), Silent(), 128, 64)
    block = Blocked(dofn)
    block.take(heartbeat.encode(6))
    assert len(block.fire(at(4))) == 1
    assert not block.fire(at(4)) and not block.take(heartbeat.encode(6))
    assert [(s.first_tick, s.ticks) for s in block.fire(at(9))] == [(5, 2)]
    (stored,) = block.progress.values
    for bit in range(8 * len(stored)):
        flipped = bytearray(stored)
        flipped[bit // 8] ^= 1 << bit % 8
        block.progress.write(bytes(flipped))
        with pytest.raises(CodecError):
            block.fire(at(9))


@pytest.mark.parametrize("every", [1, 7, 100, 128, 1000])
@pytest.mark.parametrize("width", [1, 200, 1 << 18, 1 << 30])
def test_strides_cover_everything_once_and_cross_no_file(every: int, width: int) -> None:
    cuts = list(boundaries(13, 517, every, width))
    assert cuts[0][0] == 13 and cuts[-1][1] == 517
    for (low, high), (after, _) in zip(cuts, [*cuts[1:], (517, 0)], strict=True):
        assert low < high == after and low // every == (high - 1) // every
        longest = max(1, min(128, (1 << 22) // width), min(1024, (1 << 17) // width))
        assert high - low <= longest
        whole = low % every == 0 or (low % every) % longest == 0
        assert high - low == longest or not whole or high % every == 0 or high == 517


def test_names_that_runners_find_state_by_never_change() -> None:
    golden = json.loads((Path(__file__).parent / "state_names.json").read_text())
    assert golden == {
        tick.STEP_NAME: sorted(
            [TickDoFn.MACHINE.name, TickDoFn.PENDING.name, TickDoFn.FAR.name]
            + [TickDoFn.BEYOND.name]
            + [TickDoFn.TIMER.name]
            + [TickDoFn.NAMES.name, TickDoFn.PAST_0.name, TickDoFn.PAST_1.name]
            + [TickDoFn.PROGRESS.name]
        ),
        train.STEP_NAME: sorted(
            [TrainDoFn.RUN.name, TrainDoFn.KEPT.name]
            + [TrainDoFn.WAITING.name, TrainDoFn.TIMER.name]
        ),
        assemble.STEP_NAME: [AssembleDoFn.EARLY.name, AssembleDoFn.HELD.name],
        deduplicate.STEP_NAME: sorted(
            [deduplicate.DropSeen.HEAD.name]
            + [getattr(deduplicate.DropSeen, f"SLICE_{place}").name for place in range(RING)]
            + [deduplicate.DropSeen.FORGET.name]
        ),
        cap.STEP_NAME: sorted(
            [cap.CloseTicks.CLOSED.name, cap.CloseTicks.CLOSE.name]
            + [cap.CloseTicks.GONE_0.name, cap.CloseTicks.GONE_1.name]
            + [cap.CloseTicks.USERS.name, cap.CloseTicks.USERS_LOG.name]
            + [cap.CloseTicks.PAIRS.name, cap.CloseTicks.PAIRS_LOG.name]
            + [cap.CloseTicks.SEEN.name, cap.CloseTicks.SEEN_LOG.name]
            + [getattr(cap.CloseTicks, f"WAITING_{place}").name for place in range(BAGS)]
        ),
        folder.STEP_NAME: sorted(
            [folder.RangeDoFn.PARTS.name, folder.RangeDoFn.SEEN.name]
            + [folder.RangeDoFn.DONE.name, folder.RangeDoFn.END.name]
            + [folder.RangeDoFn.FORGET.name]
        ),
        "steps": step_names(),
        "training_steps": step_names(training=True),
        "users_steps": step_names(users=True),
    }


def step_names(training: bool = False, users: bool = False) -> list[str]:
    """Full names of the stateful steps of a job with everything in it; or of one that trains."""
    from tests.transforms.doubles import FakeConfig, FakeSchema
    from tests.transforms.test_erm_pipeline import plan as training_plan
    from weir.transforms.beam.private_releases import PrivateReleases
    from weir.transforms.beam.write_files import WriteRanges
    from weir.transforms.sinks.targets import folder

    plan: Any = replace(FakePlan(), config=FakeConfig(FakeSchema("id")))
    if users:
        plan = replace(
            plan, person=UserUnit(ContributionBounds(1, 1, 1), Periods(plan.clock, None))
        )
    pipeline = beam.Pipeline()
    source = pipeline | beam.Create([0]).with_output_types(pa.RecordBatch)
    if training:
        plan = training_plan(schema="{time: t}")
        source | "Release" >> PrivateReleases(plan)
    else:
        found = source | "Release" >> PrivateReleases(plan)
        found.releases | "Write" >> WriteRanges(folder(plan, "out"))
    names: list[str] = []

    class Visitor(beam.pipeline.PipelineVisitor):
        def visit_transform(self, node: Any) -> None:
            fn = getattr(node.transform, "fn", None)
            if fn is not None and beam.transforms.userstate.is_stateful_dofn(fn):
                names.append(node.full_label)

    pipeline.visit(Visitor())
    return sorted(names)
