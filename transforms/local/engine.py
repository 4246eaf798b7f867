"""The local engine: operators in one process, from batches of events to release batches.

Parts of the events are read and added up in parallel where their order does not matter; elsewhere
one thread decodes the next batch while the last is added up (``runtime.prefetch``). When all are
read, blocks of keys are stepped through all ticks, several at a time. What is gathered stays in
memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from weir.dpcore.discovery.waiting import Block
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.hashes import dedupe_key, row_key
from weir.dpcore.leaves.keys import PER_BLOCK, Keys
from weir.dpcore.plan import Plan
from weir.dpcore.program import takes_rows
from weir.dpcore.training import WHOLE, Training
from weir.transforms.local.event_parts import EventParts, located
from weir.transforms.local.memory import give_back
from weir.transforms.operators.accumulate import Accumulate
from weir.transforms.operators.assembly import Assembly, outline
from weir.transforms.operators.block_cells import Content, init
from weir.transforms.operators.bound_users import BoundUsers, Sifted
from weir.transforms.operators.deduplicate import DropDuplicates
from weir.transforms.operators.discovered_shard import DiscoveredShard
from weir.transforms.operators.filter import Assign, Filter, needed_columns
from weir.transforms.operators.job_queue import JobQueue
from weir.transforms.operators.jobs import encode_fitted
from weir.transforms.operators.key_index import KeyIndex
from weir.transforms.operators.noise_source import KeyedNoiseSource, NoiseSource
from weir.transforms.operators.partial_rows import AccumulateRows
from weir.transforms.operators.solve import Solve
from weir.transforms.operators.stride import TICKS, NoisyStride
from weir.transforms.operators.tick import BlockState
from weir.transforms.operators.write import Write
from weir.transforms.runtime import counters, fence
from weir.transforms.runtime.dead_letters import Reject
from weir.transforms.runtime.prefetch import THREADS, ahead, in_turn
from weir.transforms.runtime.secret import SecretRef
from weir.transforms.sinks.dead_letters import WriteDead
from weir.transforms.sinks.targets import ReleaseFiles
from weir.transforms.sources.opened import BoundedEvents

TRIM = 64
"""Batches of bounded events, of some 200,000, after which their memory is given back."""
STATE = 32 << 20
"""Bytes of state that the keys of a block of ``in_few_blocks`` have, at most."""
SMALL = 1 << 15
"""Numbers in the leaves of 128 ticks of all keys up to which one thread steps them: another
would wait for the interpreter's lock longer than it works."""
T = TypeVar("T")
R = TypeVar("R")
In = TypeVar("In", contravariant=True)
Out = TypeVar("Out", covariant=True)


class Operator(Protocol[In, Out]):
    """A step over batches that keeps its state between them."""

    def process(self, batch: In) -> Iterator[Out]:
        """What comes of a batch, as far as it can be said now."""

    def finish(self) -> Iterator[Out]:
        """What is left behind the last batch."""


class LocalEngine:
    """A plan over events that are there from the start.

    Args:
      plan: its clock has an end.
      secret: reference; a fresh one is drawn by ``SecretRef.fresh``.
      rotate: (first tick, reference) of the secrets that follow.
      noise: in tests only, a source of other noise.
      ticks: how many to release; None: all of the clock, which has an end then.
      blocks: those of keys to release; None: all.

    Raises:
      ConfigError: the clock has no end, or the secret cannot be read.
    """

    def __init__(
        self,
        plan: Plan,
        secret: SecretRef,
        rotate: Sequence[tuple[int, SecretRef]] = (),
        noise: NoiseSource | None = None,
        ticks: int | None = None,
        blocks: Sequence[int] | None = None,
    ) -> None:
        ticks = plan.clock.ticks if ticks is None else ticks
        if ticks is None:
            raise ConfigError(
                "clock.end", None, "is missing: say until when the clock runs, because files end."
            )
        self._plan, self._ticks, self._secret = plan, ticks, secret.resolve()
        self._blocks = None if blocks is None else tuple(blocks)
        self._noise = noise or KeyedNoiseSource(secret, plan.name, plan.digest, tuple(rotate))
        self._noise.mark(self._ticks)  # secrets that cannot be read are refused before all else

    def run(
        self, opened: BoundedEvents, target: ReleaseFiles, dead: WriteDead | None = None
    ) -> None:
        """Reads, releases and writes.

        Args:
          opened: the events. target: where releases go. dead: where dead letters go.
        """
        ranges, keys = target.ranges, self._plan.keys
        if self._blocks is None and ranges.parts == 1:
            keys = in_few_blocks(self._plan)
            ranges = replace(ranges, blocks=keys.live_blocks)
        write = Write(ranges, target.writer, fence.current().inner)
        events = EventParts.of(opened, dead, self.in_any_order)
        with contextlib.closing(write):
            for _ in through("Write", self.releases(events, ranges.every, keys), write):
                pass
        if dead is not None:
            dead.finish()

    def releases(
        self, events: EventParts, every: int, keys: Keys | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Events -> release batches; the first comes when all events are read.

        Args:
          every: ticks that no release batch crosses a multiple of.
          keys: the plan's in blocks; None: as the plan has them.
        """
        keys = keys or self._plan.keys
        leaves = dict[int, list[Any]]()
        events = events if self.in_any_order else events.as_one()
        for block, leaf in self._gathered(events, keys):
            leaves.setdefault(block, []).append(leaf)
        strides = located("Tick", lambda: self._strides(keys, leaves, every))
        yield from through("Solve", strides, Solve(self._plan, counted_as(self._plan.keys, keys)))

    @property
    def in_any_order(self) -> bool:
        """Whether the same becomes of events whichever comes first: exact sums alone."""
        return not self._deduplicates and not takes_rows(self._plan.program)

    @property
    def _deduplicates(self) -> bool:
        """Of users each event counts once by their bounds."""
        return self._plan.person is None and self._plan.config.schema_.id is not None

    def _gathered(self, events: EventParts, keys: Keys) -> Iterator[tuple[int, Any]]:
        """Leaves of all events, by block."""
        if self._plan.person is not None:
            yield from self._gathered_of_users(events, keys)
            return
        # What one accumulator has of keys that were found can be stepped group by group; leaves of
        # several would have to be merged.
        several = THREADS if self.in_any_order and not keys.observed else 1
        every = [self._accumulate(keys) for _ in range(several)]
        add = adder(every)

        def work(batches: Iterator[pa.RecordBatch], reject: Reject) -> list[tuple[int, Any]]:
            with contextlib.ExitStack() as stack:
                retained: Iterable[pa.RecordBatch] = self._assigned(batches, reject)
                if self._deduplicates:
                    deduplicate = self._deduplicate(reject)
                    stack.callback(deduplicate.close)
                    retained = through("Deduplicate", retained, deduplicate)
                return [leaf for batch in retained for leaf in add(batch)]

        yield from events.each(work)
        yield from finished(every)

    def _gathered_of_users(self, events: EventParts, keys: Keys) -> Iterator[tuple[int, Any]]:
        """The same of events that the bounds of their users let in, when all are read."""
        bound = BoundUsers(self._plan, self._secret)

        def sift(batches: Iterator[pa.RecordBatch], reject: Reject) -> list[Sifted]:
            return list(through("Bound", self._assigned(batches, reject), bound.sift(reject)))

        sifted = list(events.each(sift))
        every: list[Any] = [self._accumulate(keys)]
        if self.in_any_order:
            program, index = self._plan.program, KeyIndex(keys)
            if keys.observed:
                index.know(bound.names)
            every = [Accumulate(program, keys, True, index, among=THREADS) for _ in range(THREADS)]
        add = adder(every)
        then: Callable[[pa.RecordBatch], Any] = add if self.in_any_order else _same
        for number, passed in enumerate(located("Bound", lambda: bound.let_in(sifted, then)), 1):
            yield from passed if self.in_any_order else add(passed)
            if number % TRIM == 0:
                give_back()
        give_back()
        yield from finished(every)

    def _assigned(
        self, batches: Iterator[pa.RecordBatch], reject: Reject
    ) -> Iterator[pa.RecordBatch]:
        """Events that count, with key and tick."""
        assign = Assign(self._plan, needed_columns(self._plan))
        return through("Filter", batches, Filter(assign, reject))

    def _deduplicate(self, reject: Reject) -> DropDuplicates:
        named = takes_rows(self._plan.program)  # see transforms.beam.deduplicate
        key = dedupe_key(self._secret, self._plan.digest if named else self._plan.layout)
        return DropDuplicates(key, named, reject)

    def _accumulate(self, keys: Keys) -> Operator[pa.RecordBatch, tuple[int, Any]]:
        program = self._plan.program
        if takes_rows(program):
            return AccumulateRows(program, keys, row_key(self._secret, self._plan.digest))
        return Accumulate(program, keys, together=True, ticks=self._plan.clock.ticks or 0)

    def _strides(
        self, keys: Keys, leaves: dict[int, list[Any]], every: int
    ) -> Iterator[NoisyStride]:
        """Noisy strides of all blocks, each block's in order of ticks."""
        blocks = keys.live_blocks if self._blocks is None else self._blocks
        if len(blocks) == 1:
            strides = self._stepped(keys, blocks[0], leaves.pop(blocks[0], []), every)
            return strides if is_small(self._plan) else ahead(strides)

        def stepped(block: int) -> list[NoisyStride]:
            return list(self._stepped(keys, block, leaves.pop(block, []), every))

        return (stride for strides in in_turn(stepped, blocks) for stride in strides)

    def _stepped(
        self, keys: Keys, block: int, leaves: list[Any], every: int
    ) -> Iterator[NoisyStride]:
        """One block through all ticks."""
        plan, program, noise = self._plan, self._plan.program, self._noise
        if plan.discovery is not None:
            none = Block.empty(program.dimension)
            shard = DiscoveredShard(program, plan.discovery, noise, block, every, none)
            return shard.advance(leaves, 0, self._ticks)
        names = () if keys.observed else tuple(keys.block_keys(block))
        content = Content(names, init(program, len(names)) if names else None)
        layout = bytes.fromhex(plan.layout)
        state = BlockState(program, noise, layout, block, every, content, keys.observed)
        if program.training is None:
            return state.advance(leaves, 0, self._ticks)  # type: ignore[return-value]  # no jobs
        return self._fitted(state, program.training, block, leaves)

    def _fitted(
        self, state: BlockState, training: Training, block: int, leaves: list[Any]
    ) -> Iterator[NoisyStride]:
        """As ``_stepped`` where models are fitted to rows: each job runs to its end at once."""
        layout, blocks = bytes.fromhex(self._plan.layout), len(self._plan.keys.live_blocks)
        queue = JobQueue(training, self._noise, layout, blocks, _nothing, _nothing, tuple)
        assembly = Assembly(training, layout, block, None)
        for item in state.advance(leaves, 0, self._ticks):
            if isinstance(item, NoisyStride):
                yield from assembly.take(outline(item)[1])
                continue
            queue.add(state.send(item), 0)
            for done in queue.advance(WHOLE):
                yield from assembly.take(encode_fitted(done.fitted))
        counters.add("uncertified", queue.failed)


def in_few_blocks(plan: Plan) -> Keys:
    """Declared keys in no more blocks than there are threads, or than have room for them: a block
    costs as much for one key as for many, and no release depends on which keys share one."""
    keys, blocks = plan.keys, 1 if is_small(plan) else THREADS
    room = min(PER_BLOCK, STATE // max(1, plan.program.state_bytes()))
    while blocks < keys.blocks and blocks * room < len(keys.declared):
        blocks *= 2
    if keys.observed or takes_rows(plan.program) or blocks >= keys.blocks:
        return keys
    return replace(keys, blocks=blocks)


def counted_as(keys: Keys, others: Keys) -> dict[int, int]:
    """How many of the blocks of keys that are stepped each of others counts as: they count as all
    together, however few they are."""
    n, live = len(keys.live_blocks), others.live_blocks
    return {block: n * (at + 1) // len(live) - n * at // len(live) for at, block in enumerate(live)}


def is_small(plan: Plan) -> bool:
    """Whether declared keys are ``SMALL`` together."""
    if plan.keys.observed or takes_rows(plan.program):
        return False
    return len(plan.keys.declared) * plan.program.dimension * TICKS <= SMALL


def through(step: str, items: Iterable[T], operator: Operator[T, R]) -> Iterator[R]:
    """What an operator makes of all items."""
    for item in items:
        yield from at(step, operator, item)
    yield from located(step, operator.finish)


def at(step: str, operator: Operator[T, R], item: T) -> Iterator[R]:
    """What an operator makes of an item now."""
    return located(step, lambda: operator.process(item))


def finished(every: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """What accumulators of the same keys hold, in as few leaves as they can."""
    for other in every[1:]:
        every[0].absorb(other)
    for own in every:
        yield from located("Accumulate", own.finish)


def adder(every: Sequence[Any]) -> Callable[[pa.RecordBatch], list[tuple[int, Any]]]:
    """Adds a batch up in one of some accumulators that no thread is at, and waits for it: what it
    sends on."""
    idle: SimpleQueue[Any] = SimpleQueue()
    for own in every:
        idle.put(own)

    def add(batch: pa.RecordBatch) -> list[tuple[int, Any]]:
        own = idle.get()
        try:
            return list(at("Accumulate", own, batch))
        finally:
            idle.put(own)

    return add


def _same(item: T) -> T:
    return item


def _nothing() -> None:
    """What is stored at the beginning."""
    return None


__all__ = ["LocalEngine"]
