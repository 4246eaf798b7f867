"""PrivateReleases: events in, differentially private releases out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindows

from weir.dpcore.errors import ConfigError, at_least_one
from weir.dpcore.plan import Plan
from weir.dpcore.program import takes_rows
from weir.transforms.beam.accumulate import LeafDoFn, RowLeafDoFn
from weir.transforms.beam.assemble import Assemble
from weir.transforms.beam.bound_users import Cap
from weir.transforms.beam.deduplicate import Deduplicate
from weir.transforms.beam.heartbeats import Heartbeats
from weir.transforms.beam.python_events import Gate, fields_of, from_rows
from weir.transforms.beam.runner_quirks import (
    has_own_workers,
    keep_bundles_whole,
    require_whole_bundles,
)
from weir.transforms.beam.stateless import FilterDoFn, SolveDoFn
from weir.transforms.beam.tick import JOBS, Tick
from weir.transforms.beam.train import Train
from weir.transforms.decode.input_validation import FirstLook
from weir.transforms.decode.schema import EventSchema
from weir.transforms.operators.filter import needed_columns
from weir.transforms.operators.noise_source import KeyedNoiseSource, NoiseSource
from weir.transforms.operators.stride import TICKS
from weir.transforms.runtime.dead_letters import DEAD
from weir.transforms.runtime.secret import SecretRef
from weir.transforms.runtime.stream_time import PRESENT, StreamTime


class Releases(NamedTuple):
    """What comes out.

    Attributes:
      releases: PCollection of release batches (see transforms/release/table.py).
      dead: PCollection of dead letters: where a record was and why it was rejected.

        >>> from weir import Releases
        >>> Releases._fields  # releases, dead = events | PrivateReleases(plan, secret)
        ('releases', 'dead')
    """

    releases: Any
    dead: Any


class PrivateReleases(beam.PTransform[Any, Any]):
    """Canonical event batches, or Python values with the user's columns -> ``Releases``.

    Dictionaries, ``beam.Row``, NamedTuples and dataclasses are events; frames of pandas and tables
    of Arrow hold many:

        >>> import apache_beam as beam
        >>> from weir import Plan, PrivateReleases
        >>> plan = Plan.from_yaml('''
        ... name: shop
        ... schema: {time: date}
        ... clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-08T00:00:00Z}
        ... privacy: {epsilon: 1, delta: 1e-6, protect_for: all}
        ... aggregates: {spent: {sum: dollars, clip: [0, 50]}}
        ... ''')
        >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
        ...     events = pipeline | beam.Create([{"date": "2025-01-01", "dollars": 12.5}])
        ...     found = events | PrivateReleases(plan)  # in earnest: Secret(file="secret.key")
        ...     shown = found.releases | beam.Map(lambda batch: print(batch["tick"].to_pylist()))
        [0, 1, 2, 3, 4, 5, 6]

    **Formal guarantees**: those of ``plan.guarantee``, for everything that ``releases`` ever
    holds, as long as the secret stays secret and no event enters twice (see Deduplicate). Dead
    letters, metrics and state are for operators only.

    Args:
      plan: what to release, under its circumstances: ids of an unbounded stream are remembered for
        ``plan.circumstances.id_horizon`` ticks of the public clock, so that the statement says what
        happens. Those of bounded input are remembered whole: its clock only moves at the end.
      secret: where the secret is; None draws a fresh one, which only in-process runners can use.
      bounded: all data is there from the start (files); needs ``clock.end``.
      every: ticks that one output batch stays within (a sink's ``every``).
      stream: what wall time stands for, for unbounded input: that of its source.
      noise: in tests only, a source of other noise. No option of a pipeline reaches it.
      rotate: (first tick, secret), ticks increasing: noise from that tick on is keyed by these.
        Hashes of ids and rows stay keyed by ``secret``.
      first_look: bounded Python events of which none has a column, a declared key or a time inside
        the clock fail with what to correct, before anything is released. Batches are not looked at.

    Raises:
      TypeError: an argument of another type.
      ConfigError: bounded input without ``clock.end``; unbounded input under contribution bounds
        in the order of hashes; input that is unbounded, or cut into windows, or whose type says
        that it holds no events or lacks a column; unbounded input on Flink without
        ``--finish_bundle_before_checkpointing``.
    """

    def __init__(
        self,
        plan: Plan,
        secret: SecretRef | None = None,
        *,
        bounded: bool = True,
        every: int = TICKS,
        stream: StreamTime = PRESENT,
        noise: NoiseSource | None = None,
        rotate: Sequence[tuple[int, SecretRef]] = (),
        first_look: bool = True,
    ) -> None:
        super().__init__()
        _check_types(plan, secret, rotate)
        at_least_one(every=every)
        if not bounded and plan.person is not None:
            plan.person.refuse_endless("unbounded input")
        self._plan = plan
        self._secret = SecretRef.fresh() if secret is None else secret
        self._noise = noise or KeyedNoiseSource(self._secret, plan.name, plan.digest, tuple(rotate))
        self._first_look = first_look
        self._every, self._bounded = every, bounded
        self._stream = stream
        person = plan.person is not None
        self._beats = Heartbeats(
            plan.keys.live_blocks, plan.clock, bounded, stream=stream, lead=person
        )

    def expand(self, events: Any) -> Releases:
        """Filter, Assign, Deduplicate (of users: Cap), Bound, Leaf, Tick, Solve; Train where models
        are fitted."""
        plan, dead = self._plan, []
        _check_input(events, self._bounded)
        secret, noise = self._guarded(events.pipeline)
        keep_bundles_whole(events.pipeline)
        if not self._bounded:
            require_whole_bundles(events.pipeline)
        look = None
        if events.element_type is not pa.RecordBatch:
            schema = EventSchema.from_config(plan.config, plan.program.columns)
            schema = schema if self._bounded else schema.lenient()
            if self._bounded and self._first_look:
                named = fields_of(events.element_type) is not None
                look = FirstLook(plan, schema, named, off="first_look=False")
            rows = from_rows(events, schema, look)
            events = rows.events
            dead.append(rows.dead)
        filtered = beam.ParDo(FilterDoFn(plan, needed_columns(plan))).with_output_types(
            pa.RecordBatch, dead=pa.RecordBatch
        )
        assigned = events | "Filter" >> filtered.with_outputs(DEAD, main="events")
        retained = assigned.events
        dead.append(assigned.dead)
        if plan.person is not None:
            chosen = self._cap(retained, secret)
            retained = chosen.events
            dead.append(chosen.dead)
        elif plan.config.schema_.id is not None:
            unique = self._deduplicate(retained, secret)
            retained = unique.events
            dead.append(unique.dead)
        gather = beam.ParDo(self._leaf(secret)).with_output_types(tuple[int, bytes])
        leaves = retained | "Leaf" >> gather
        beats = events.pipeline | "Clock" >> self._beats
        ticked = (
            (leaves, beats)
            | "Pieces" >> beam.Flatten()
            | "Tick" >> Tick(plan, noise, self._every, self._bounded)
        )
        dead.append(ticked[DEAD])
        noisy, training = ticked.noisy, plan.program.training
        if training is not None:
            train = Train(plan, training, noise, self._bounded)
            models = ticked[JOBS] | "Train" >> train
            noisy = (noisy, models) | "Assemble" >> Assemble(plan, training)
        solve = beam.ParDo(SolveDoFn(plan)).with_output_types(pa.RecordBatch)
        releases = noisy | "Solve" >> solve
        if look is not None:
            releases = releases | "FirstLook" >> Gate(look, rows.seen)
        return Releases(releases, tuple(dead) | "Dead" >> beam.Flatten())

    def _guarded(self, pipeline: Any) -> tuple[SecretRef, NoiseSource]:
        """The secret and the noise; on a cluster a file that others can read is refused there."""
        if not has_own_workers(pipeline):
            return self._secret, self._noise
        secret, noise = replace(self._secret, guarded=True), self._noise
        if isinstance(noise, KeyedNoiseSource):
            later = tuple((tick, replace(ref, guarded=True)) for tick, ref in noise.rotate)
            noise = replace(noise, secret=secret, rotate=later)
        return secret, noise

    def _deduplicate(self, events: Any, secret: SecretRef) -> Any:
        plan = self._plan
        return events | "Deduplicate" >> Deduplicate(
            secret,
            plan.clock,
            plan.layout,
            None if self._bounded else plan.circumstances.id_horizon,
            plan.digest if takes_rows(plan.program) else None,
            plan.circumstances.id_shards,
        )

    def _cap(self, events: Any, secret: SecretRef) -> Any:
        plan, shards = self._plan, self._plan.circumstances.id_shards
        beats = Heartbeats(
            tuple(range(shards)), plan.clock, self._bounded, stream=self._stream, lead=True
        )
        closing = events.pipeline | "UsersClock" >> beats
        cap = Cap(plan, secret, shards, self._bounded, self._stream)
        return (events, closing) | "Cap" >> cap

    def _leaf(self, secret: SecretRef) -> Any:
        plan = self._plan
        if takes_rows(plan.program):
            return RowLeafDoFn(plan.program, plan.keys, plan.clock, secret, plan.digest)
        return LeafDoFn(plan.program, plan.keys, plan.clock)


def _check_types(plan: Any, secret: Any, rotate: Any) -> None:
    """Refuses what a worker would stumble over. Says types only: a text may be the secret."""
    if not hasattr(plan, "program"):
        how = "Plan.from_yaml(text)" if isinstance(plan, str) else "Plan.from_yaml or from_config"
        raise TypeError(_wrong("plan", "a Plan", plan, f"make one with {how}"))
    secrets = [("secret", secret)] if secret is not None else []
    for entry in rotate:
        if not (isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], int)):
            remedy = "write (tick, Secret(file='later.key'))"
            raise TypeError(_wrong("rotate", "pairs of a tick and a Secret", entry, remedy))
        secrets.append(("rotate", entry[1]))
    for name, value in secrets:
        if not isinstance(value, SecretRef):
            remedy = "say where the secret is kept, like Secret(file='secret.key')"
            raise TypeError(_wrong(name, "a Secret", value, remedy))


def _wrong(name: str, wanted: str, given: Any, remedy: str) -> str:
    return f"PrivateReleases: {name} must be {wanted}, not {type(given).__name__}; {remedy}."


def _check_input(events: Any, bounded: bool) -> None:
    """Refuses a collection that would never end, or that is cut into windows.

    Raises:
      ConfigError: names what to write instead.
    """
    if not isinstance(events, beam.PCollection):
        raise TypeError(
            _wrong("events", "a PCollection", events, "write pipeline | beam.Create(events) | ...")
        )
    if bounded and not events.is_bounded:
        raise ConfigError("bounded", True, "is wrong: these events never end; write bounded=False.")
    windows = events.windowing.windowfn
    if not isinstance(windows, GlobalWindows):
        raise ConfigError(
            "events",
            type(windows).__name__,
            "are windows, but the plan's clock says when to release: leave out WindowInto, or add "
            "beam.WindowInto(beam.window.GlobalWindows()) behind it.",
        )
