"""Tick: per block it gathers partial leaves and steps through announced ticks.

**Threat model.** Only this transform and Train draw noise; its state holds clean sums and needs the
same protection as the input. What it emits is private, but for the jobs of Train, which hold rows.
A released tick is never opened again: what comes behind it is ``overdue``, counted and
dead-lettered.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam import coders
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import GlobalWindows

from weir.dpcore.discovery.rule import DiscoveryRule
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.leaves.keys import Keys
from weir.dpcore.plan import Plan
from weir.dpcore.program import Program
from weir.transforms.beam import heartbeat
from weir.transforms.beam.bound_users import AFTER_CAPS
from weir.transforms.beam.elements import to_timestamp
from weir.transforms.beam.runner_quirks import AT_ONCE, on_flink
from weir.transforms.beam.step import Step
from weir.transforms.operators import partial_rows as rows
from weir.transforms.operators import partial_sums as partial
from weir.transforms.operators.block_cells import ROOM, Cells, Stored
from weir.transforms.operators.discovered_cells import DiscoveredCells
from weir.transforms.operators.discovered_shard import DiscoveredShard
from weir.transforms.operators.jobs import lane_of
from weir.transforms.operators.noise_source import NoiseSource
from weir.transforms.operators.pending import due
from weir.transforms.operators.progress import ProgressCell, bag_of, bags_due
from weir.transforms.operators.state_cache import StateCache
from weir.transforms.operators.stride import TICKS, NoisyStride
from weir.transforms.operators.tick import BlockState
from weir.transforms.runtime import counters
from weir.transforms.runtime.codec import kind_of
from weir.transforms.runtime.dead_letters import DEAD, count_dead, dead_letters

STEP_NAME = "Tick"
MACHINE_STATE = "machine"
NAMES_STATE = "names"
PAST_STATES = "past0", "past1"
PROGRESS_STATE = "progress"
PENDING_STATE = "pending"
FAR_STATE = "far"
BEYOND_STATE = "beyond"
TIMER = "tick"
# Runners find stored state by these names: they never change (tests hold them to a file).

AHEAD = 64
"""Timers that one heartbeat sets, at most."""
LETTERS = 1 << 16
"""Overdue letters that one partial leaf brings, at most; the counter is exact."""
JOBS = "jobs"
"""Tag of what is fitted off the path of ticks."""
NO_SOURCE = ""
NO_POSITION = -1


class TickDoFn(Step):
    """(block, heartbeat or partial leaf) -> NoisyStride; tagged output: dead letters.

    Where models are fitted elsewhere strides have no arrays, and jobs are tagged output too.

    Args:
      program, clock, keys: of the plan. layout: the plan's layout, hex.
      noise: where noise comes from; it carries a reference to the secret, never the value.
      every: ticks that a sink's file covers; no stride crosses a multiple of it.
      ahead: timers that one heartbeat sets (1 for bounded input, where all data comes first).
      discovery: when a key is found; None: keys are declared, or public.
      early: microseconds by which a timer is set before the end that it stands for (``early_by``).
    """

    MACHINE = userstate.ReadModifyWriteStateSpec(MACHINE_STATE, coders.BytesCoder())
    NAMES = userstate.ReadModifyWriteStateSpec(NAMES_STATE, coders.BytesCoder())
    PAST_0 = userstate.BagStateSpec(PAST_STATES[0], coders.BytesCoder())
    PAST_1 = userstate.BagStateSpec(PAST_STATES[1], coders.BytesCoder())
    PROGRESS = userstate.ReadModifyWriteStateSpec(PROGRESS_STATE, coders.BytesCoder())
    PENDING = userstate.BagStateSpec(PENDING_STATE, coders.BytesCoder())
    FAR = userstate.BagStateSpec(FAR_STATE, coders.BytesCoder())
    BEYOND = userstate.BagStateSpec(BEYOND_STATE, coders.BytesCoder())
    TIMER = userstate.TimerSpec(TIMER, TimeDomain.WATERMARK)

    def __init__(
        self,
        program: Program,
        clock: Clock,
        keys: Keys,
        layout: str,
        noise: NoiseSource,
        every: int,
        ahead: int,
        early: int = 0,
        discovery: DiscoveryRule | None = None,
    ) -> None:
        self._program, self._clock, self._keys = program, clock, keys
        self._layout, self._noise, self._every = bytes.fromhex(layout), noise, every
        self._ahead, self._early, self._discovery = ahead, early, discovery
        self._run = uuid.uuid4().hex
        self._shelf: StateCache[Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_shelf": None}

    def setup(self) -> None:
        """Finds what this process has at hand; bounded input steps each block but once."""
        self._shelf = StateCache.of(self._run, ROOM if self._ahead > 1 else 0)

    def process(
        self,
        element: tuple[int, bytes],
        pending: Any = beam.DoFn.StateParam(PENDING),  # noqa: B008
        far: Any = beam.DoFn.StateParam(FAR),  # noqa: B008
        beyond: Any = beam.DoFn.StateParam(BEYOND),  # noqa: B008
        progress: Any = beam.DoFn.StateParam(PROGRESS),  # noqa: B008
        timer: Any = beam.DoFn.TimerParam(TIMER),  # noqa: B008
    ) -> Iterator[TaggedOutput[str, Any]]:
        """Keeps a partial leaf for its ticks, or sets timers for newly announced ones."""
        _, payload = element
        cell = ProgressCell(self._layout, progress)
        reached = cell.read()
        if heartbeat.is_heartbeat(payload):
            last, before = heartbeat.decode(payload), reached.announced
            if last > before:
                cell.write(reached._replace(announced=last))
                for tick in self._timers(before + 1, last):
                    end = self._clock.tick_start(tick + 1) - self._early
                    timer.set(to_timestamp(end), dynamic_timer_tag=str(tick))
            return
        first, bags = reached.following, (pending, far, beyond)
        tick = partial.tick_range(payload)[0]
        if tick >= first:
            bags[bag_of(tick, first)].add(payload)
            return
        overdue, rest = split_overdue(payload, first)
        if rest is not None:
            bags[bag_of(partial.tick_range(rest)[0], first)].add(rest)
        yield TaggedOutput(DEAD, overdue_letters(overdue))

    def _timers(self, first: int, last: int) -> list[int]:
        """Ticks of [first, last] whose end gets a timer: ends of strides, and the last one."""
        stride = TICKS
        while (last - first) // stride >= self._ahead:
            stride *= 2
        ends = range((first // stride + 1) * stride - 1, last, stride)
        return [*ends, last] if self._ahead > 1 else [last]

    @userstate.on_timer(TIMER)
    def on_tick(
        self,
        block: Any = beam.DoFn.KeyParam,
        fired: Any = beam.DoFn.TimestampParam,
        machine: Any = beam.DoFn.StateParam(MACHINE),  # noqa: B008
        names: Any = beam.DoFn.StateParam(NAMES),  # noqa: B008
        past_0: Any = beam.DoFn.StateParam(PAST_0),  # noqa: B008
        past_1: Any = beam.DoFn.StateParam(PAST_1),  # noqa: B008
        pending: Any = beam.DoFn.StateParam(PENDING),  # noqa: B008
        far: Any = beam.DoFn.StateParam(FAR),  # noqa: B008
        beyond: Any = beam.DoFn.StateParam(BEYOND),  # noqa: B008
        progress: Any = beam.DoFn.StateParam(PROGRESS),  # noqa: B008
    ) -> Iterator[NoisyStride | TaggedOutput[str, Any]]:
        """Steps through every announced tick that is over by the time the timer stands for."""
        cell = ProgressCell(self._layout, progress)
        reached = cell.read()
        first = reached.following
        moment = fired.micros + self._early
        over = self._clock.tick_at(moment)
        stop = min(over, reached.announced + 1)
        if stop <= first:
            return
        stored, block_state = self._block(block, Cells(machine, names, (past_0, past_1)), first)
        bags = (pending, far, beyond)
        near = bags[: bags_due(first, stop)]
        leaves, later = due([payload for bag in near for payload in bag.read()], stop)
        for item in block_state.advance(leaves, first, stop):
            if isinstance(item, NoisyStride):
                yield item
            else:
                yield TaggedOutput(JOBS, (lane_of(block), block_state.send(item)))
        for bag in near:
            bag.clear()
        for payload in later:
            bags[bag_of(partial.tick_range(payload)[0], stop)].add(payload)
        stored.write(block_state.content, stop)
        cell.write(reached._replace(following=stop))
        counters.show("last_tick", stop - 1)
        if self._ahead > 1:
            counters.show("watermark_lag_ms", int(time.time() * 1e3) - moment // 1000)

    def _block(self, block: int, cells: Cells, first: int) -> tuple[Any, Any]:
        """A block between its cells and memory, and on its way from tick ``first`` on."""
        assert self._shelf is not None
        program, noise, layout, every = self._program, self._noise, self._layout, self._every
        if self._discovery is not None:
            discovered_cells = DiscoveredCells(program, noise, layout, block, cells, self._shelf)
            content = discovered_cells.read(first)
            return discovered_cells, DiscoveredShard(
                program, self._discovery, noise, block, every, content
            )
        observed = self._keys.observed
        declared = None if observed else self._keys.block_keys(block)
        stored = Stored(program, noise, layout, block, declared, cells, self._shelf)
        before = stored.read(first)
        return stored, BlockState(program, noise, layout, block, every, before, observed)


def early_by(plan: Plan, flink: bool) -> int:
    """Microseconds by which Tick's timers stand before the ends of ticks; negative: behind them.

    Flink fires a timer later than at its time. Where users are capped Tick waits for Cap, whose
    timers hold the watermark at the ends of ticks: a step later all of them have fired.
    """
    return (AT_ONCE if flink else 0) - (0 if plan.person is None else AFTER_CAPS)


def split_overdue(payload: bytes, first: int) -> tuple[int, bytes | None]:
    """How many events of a leaf lie before tick ``first``, and what is left of it."""
    if kind_of(payload) == rows.KIND:
        return rows.count_rows(payload), None
    leaf = partial.decode(payload)
    cut = int(np.searchsorted(leaf.ticks, first))
    rest = partial.encode(leaf.take(slice(cut, None))) if cut < len(leaf.ticks) else None
    return int(leaf.counts[:cut].sum()), rest


def overdue_letters(count: int) -> pa.RecordBatch:
    """Letters of events that came behind a released tick; summed events have no position."""
    shown = min(count, LETTERS)
    batch = dead_letters(NO_SOURCE, np.full(shown, NO_POSITION, dtype=np.int64), "overdue")
    count_dead(batch)
    counters.add("overdue", count - shown)
    return batch


class Tick(beam.PTransform[Any, Any]):
    """(block, bytes) of heartbeats and partial leaves -> noisy strides and dead letters.

    Returns a tuple of PCollections: ``.noisy`` and ``.dead``, and ``.jobs`` where models are fitted
    elsewhere. Keeps no order between blocks.
    """

    def __init__(self, plan: Plan, noise: NoiseSource, every: int, bounded: bool) -> None:
        super().__init__()
        self._plan, self._noise, self._every, self._bounded = plan, noise, every, bounded

    def expand(self, pieces: beam.PCollection[tuple[int, bytes]]) -> Any:
        """Re-windows to the global window: state is per key and window."""
        plan = self._plan
        dofn = TickDoFn(
            plan.program,
            plan.clock,
            plan.keys,
            plan.layout,
            self._noise,
            self._every,
            1 if self._bounded else AHEAD,
            early_by(plan, on_flink(pieces.pipeline)),
            plan.discovery,
        )
        types: dict[str, Any] = {DEAD: pa.RecordBatch}
        if plan.program.training is not None:
            types[JOBS] = tuple[bytes, bytes]
        return (
            pieces
            | "Global" >> beam.WindowInto(GlobalWindows())
            | "Step"
            >> beam.ParDo(dofn)
            .with_output_types(NoisyStride, **types)
            .with_outputs(*types, main="noisy")
        )
