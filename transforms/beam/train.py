"""Train: jobs into released models, off the path of ticks.

**Threat model.** With Tick the only transform that draws noise; its state holds rows and needs the
same protection as the input. What it emits is private.

**Slices.** A runner ends a bundle before it takes a checkpoint or acknowledges a message, so a fit
must not fill one. It runs in slices, each a public number of iterations (``Training.iterations``),
chained by an event-time timer that is set again at the event time of its job. That time is over, so
the timer fires with the next bundle; and while it is set the watermark stays before that time, so
that whatever comes after Train waits for the models. Jobs of a block queue, those of other blocks
have lanes of their own. Nothing about slices is in the noise or in a release.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam import coders
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.timestamp import Timestamp

from weir.dpcore.plan import Plan
from weir.dpcore.training import WHOLE, Training
from weir.transforms.beam.runner_quirks import AT_ONCE, on_flink
from weir.transforms.beam.step import Step
from weir.transforms.operators.job_queue import JobQueue
from weir.transforms.operators.jobs import encode_fitted
from weir.transforms.operators.noise_source import NoiseSource
from weir.transforms.runtime import counters

STEP_NAME = "Train"
RUN_STATE = "run"
KEPT_STATE = "kept"
WAITING_STATE = "waiting"
TIMER = "slice"
# Runners find stored state by these names: they never change (tests hold them to a file).

QUICK = 4
"""Slices that jobs of one bundle may take as they arrive: small fits end there at once."""


class TrainDoFn(Step):
    """(lane, job) -> (block, models).

    Args:
      training: of the program. noise: where noise comes from; it carries a reference to the secret,
        never the value. layout: the plan's layout, hex. blocks: how many may be fitted at once.
      whole: run jobs to their end as they arrive: no checkpoint waits.
      early: microseconds by which a timer is set before its time, where the runner fires it later.
    """

    RUN = userstate.ReadModifyWriteStateSpec(RUN_STATE, coders.BytesCoder())
    KEPT = userstate.ReadModifyWriteStateSpec(KEPT_STATE, coders.BytesCoder())
    WAITING = userstate.BagStateSpec(WAITING_STATE, coders.BytesCoder())
    TIMER = userstate.TimerSpec(TIMER, TimeDomain.WATERMARK)

    def __init__(
        self,
        training: Training,
        noise: NoiseSource,
        layout: str,
        blocks: int,
        whole: bool,
        early: int = 0,
    ) -> None:
        self._training, self._noise, self._layout = training, noise, bytes.fromhex(layout)
        self._blocks, self._whole, self._early = blocks, whole, early
        self._quick = 0

    def setup(self) -> None:
        """Resolves the secret, so that a worker without one fails at once."""
        self._noise.mark(0)

    def start_bundle(self) -> None:
        """Every bundle may run some slices as jobs arrive."""
        self._quick = QUICK

    def process(
        self,
        element: tuple[bytes, bytes],
        stamp: Any = beam.DoFn.TimestampParam,
        run: Any = beam.DoFn.StateParam(RUN),  # noqa: B008
        kept: Any = beam.DoFn.StateParam(KEPT),  # noqa: B008
        waiting: Any = beam.DoFn.StateParam(WAITING),  # noqa: B008
        timer: Any = beam.DoFn.TimerParam(TIMER),  # noqa: B008
    ) -> Iterator[tuple[int, bytes]]:
        """Takes a job; what is left of it waits for the timer."""
        lane = self._lane(run, kept, waiting)
        set_already = lane.stamp is not None
        lane.add(element[1], stamp.micros)
        slices = 0 if set_already else min(1, self._quick)
        self._quick -= slices
        yield from self._advance(lane, WHOLE if self._whole else slices)
        self._store(lane, run, kept, waiting)
        if lane.stamp is not None and not set_already:
            self._wake(timer, lane.stamp)

    @userstate.on_timer(TIMER)
    def on_slice(
        self,
        run: Any = beam.DoFn.StateParam(RUN),  # noqa: B008
        kept: Any = beam.DoFn.StateParam(KEPT),  # noqa: B008
        waiting: Any = beam.DoFn.StateParam(WAITING),  # noqa: B008
        timer: Any = beam.DoFn.TimerParam(TIMER),  # noqa: B008
    ) -> Iterator[tuple[int, bytes]]:
        """One slice more."""
        lane = self._lane(run, kept, waiting)
        if lane.stamp is None:
            return
        yield from self._advance(lane, 1)
        self._store(lane, run, kept, waiting)
        if lane.stamp is not None:
            self._wake(timer, lane.stamp)

    def _lane(self, run: Any, kept: Any, waiting: Any) -> JobQueue:
        return JobQueue(
            self._training,
            self._noise,
            self._layout,
            self._blocks,
            run.read,
            kept.read,
            waiting.read,
        )

    def _advance(self, lane: JobQueue, slices: int) -> Iterator[tuple[int, bytes]]:
        for done in lane.advance(slices):
            yield done.fitted.block, encode_fitted(done.fitted)
        counters.add("uncertified", lane.failed)

    def _store(self, lane: JobQueue, run: Any, kept: Any, waiting: Any) -> None:
        if lane.admitted:
            kept.write(lane.kept)
        queue = lane.queue
        if queue is not None:
            waiting.clear()
        for payload in lane.fresh if queue is None else queue:
            waiting.add(payload)
        run.write(lane.run)
        counters.show("fits_waiting", lane.waits + (lane.stamp is not None))

    def _wake(self, timer: Any, stamp: int) -> None:
        timer.set(Timestamp(micros=stamp - self._early))


class Train(beam.PTransform[Any, Any]):
    """(lane, job) of Tick -> (block, models). Keeps the order of a block's jobs."""

    def __init__(self, plan: Plan, training: Training, noise: NoiseSource, bounded: bool) -> None:
        super().__init__()
        self._plan, self._training, self._noise, self._bounded = plan, training, noise, bounded

    def expand(self, sent: beam.PCollection[tuple[bytes, bytes]]) -> Any:
        """State is per key and window: the global one."""
        dofn = TrainDoFn(
            self._training,
            self._noise,
            self._plan.layout,
            len(self._plan.keys.live_blocks),
            self._bounded,
            AT_ONCE if on_flink(sent.pipeline) else 0,
        )
        return (
            sent
            | "Global" >> beam.WindowInto(GlobalWindows())
            | "Fit" >> beam.ParDo(dofn).with_output_types(tuple[int, bytes])
        )
