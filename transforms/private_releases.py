"""PrivateReleases: events in, differentially private releases out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa

from dpcore.plan import Plan
from transforms.clock import Heartbeats
from transforms.dead_letters import DEAD
from transforms.deduplicate import Deduplicate
from transforms.event_schema import EventSchema
from transforms.filter import FilterAssign
from transforms.from_rows import from_rows
from transforms.leaf import Leaf
from transforms.noise_source import KeyedNoiseSource, NoiseSource
from transforms.row_leaf import RowLeaves
from transforms.runner import require_whole_bundles
from transforms.secret import SecretRef
from transforms.solve import Solve
from transforms.stream_time import PRESENT, StreamTime
from transforms.strides import TICKS
from transforms.tick import Tick


class Releases(NamedTuple):
    """What comes out.

    Attributes:
      releases: PCollection of release batches (see transforms/releases.py).
      dead: PCollection of dead letters: where a record was and why it was put aside.
    """

    releases: Any
    dead: Any


def needed_columns(plan: Plan) -> tuple[str, ...]:
    """Columns that are read behind the filter."""
    ids = ("@id",) if plan.config.schema_.id is not None else ()
    times = ("@time",) if plan.program.leaf == "rows" else ()
    return (*plan.program.columns, *ids, *times)


class PrivateReleases(beam.PTransform):
    """Canonical event batches, or dictionaries with the user's columns -> ``Releases``.

    **Formal guarantees**: those of ``plan.guarantee``, for everything that ``releases`` ever
    holds, as long as the secret stays secret and no event enters twice (see Deduplicate). Dead
    letters, metrics and state are for operators only.

    Args:
      plan: what to release.
      secret: where the secret is; None draws a fresh one, which only in-process runners can use.
      bounded: all data is there from the start (files); needs ``clock.end``.
      every: ticks that one output batch stays within (a sink's ``every``).
      horizon: ticks of the public clock for which event ids are remembered; None: the whole run.
        Bounded input is remembered whole: its clock only moves at the end.
      stream: what wall time stands for, for unbounded input: that of its source.
      noise: in tests only, a source of other noise. No option of a pipeline reaches it.
      rotate: (first tick, secret), ticks increasing: noise from that tick on is keyed by these.
        Hashes of ids and rows stay keyed by ``secret``.

    Raises:
      ConfigError: bounded input without ``clock.end``; unbounded input on Flink without
        ``--finish_bundle_before_checkpointing``.
    """

    def __init__(
        self,
        plan: Plan,
        secret: SecretRef | None = None,
        *,
        bounded: bool = True,
        every: int = TICKS,
        horizon: int | None = None,
        stream: StreamTime = PRESENT,
        noise: NoiseSource | None = None,
        rotate: Sequence[tuple[int, SecretRef]] = (),
    ) -> None:
        super().__init__()
        self._plan = plan
        self._secret = SecretRef.fresh() if secret is None else secret
        self._noise = noise or KeyedNoiseSource(self._secret, plan.name, plan.digest, tuple(rotate))
        self._horizon = horizon
        self._every, self._bounded = every, bounded
        self._beats = Heartbeats(plan.keys.live_blocks, plan.clock, bounded, stream=stream)

    def expand(self, events: Any) -> Releases:
        """Filter, Assign, Deduplicate, Bound, Leaf, Tick, Solve."""
        plan, dead = self._plan, []
        if not self._bounded:
            require_whole_bundles(events.pipeline)
        if events.element_type is not pa.RecordBatch:
            schema = EventSchema.from_config(plan.config, plan.program.columns)
            rows = from_rows(events, schema)
            events = rows.events
            dead.append(rows.dead)
        assigned = events | "Filter" >> beam.ParDo(
            FilterAssign(plan, needed_columns(plan))
        ).with_output_types(pa.RecordBatch, dead=pa.RecordBatch).with_outputs(DEAD, main="events")
        kept = assigned.events
        dead.append(assigned.dead)
        if plan.config.schema_.id is not None:
            of_rows = plan.digest if plan.program.leaf == "rows" else None
            unique = kept | "Deduplicate" >> Deduplicate(
                self._secret,
                plan.clock,
                plan.layout,
                None if self._bounded else self._horizon,
                of_rows,
            )
            kept = unique.events
            dead.append(unique.dead)
        leaves = kept | "Leaf" >> self._leaf()
        beats = events.pipeline | "Clock" >> self._beats
        ticked = (
            (leaves, beats)
            | "Pieces" >> beam.Flatten()
            | "Tick" >> Tick(plan, self._noise, self._every, self._bounded)
        )
        dead.append(ticked[DEAD])
        releases = ticked.noisy | "Solve" >> Solve(plan)
        return Releases(releases, tuple(dead) | "Dead" >> beam.Flatten())

    def _leaf(self) -> beam.PTransform:
        plan = self._plan
        if plan.program.leaf == "rows":
            return RowLeaves(plan.program, plan.keys, plan.clock, self._secret, plan.digest)
        return Leaf(plan.program, plan.keys, plan.clock)
