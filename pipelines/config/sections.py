"""Sections of a job that shape no plan, next to its source and its sinks: what keys the noise, and
what runs it."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from weir.dpcore.accounting.guarantee import MOST_SHARDS, SHARDS
from weir.dpcore.config import durations
from weir.dpcore.config.clock import Duration, Timestamp
from weir.dpcore.config.section import Section, as_tuple, refusal
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.clock import Clock
from weir.pipelines.connectors.connector import check_place
from weir.pipelines.connectors.paths import local
from weir.pipelines.connectors.secret_place import SecretPlace
from weir.transforms.runtime.secret import SecretRef


class Deduplicate(Section):
    """How long an event id is remembered, and in how many pieces."""

    horizon: Duration | None = Field(
        default=None,
        description="On a stream, how far the public clock runs on before an id may be forgotten: "
        "a copy whose time is more than that ahead counts again, as another event, and the "
        "guarantee says so. Without it, and on files, ids are remembered for the whole job.",
        examples=["7d"],
    )
    shards: int = Field(
        default=SHARDS,
        ge=1,
        le=MOST_SHARDS,
        description="Pieces of state that ids are spread over, or users where they are the unit: "
        "as many workers share them at most, and each costs a fraction of a millisecond whenever a "
        "bundle touches it, or a tick closes. A stream keeps those that it was begun with. Users "
        "of a stream are in 256 unless this is said.",
        examples=["64"],
    )


class Rotation(SecretPlace):
    """A later secret, and the tick from which it keys the noise."""

    start: Timestamp = Field(
        alias="from",
        description="Start of the first tick whose noise it keys: a tick that is not released yet.",
        examples=["2025-07-01T00:00:00Z"],
    )


class Secret(SecretPlace):
    """Where the 32 bytes that key the noise are kept, and those that follow them."""

    rotate: Annotated[tuple[Rotation, ...], BeforeValidator(as_tuple)] = Field(
        default=(),
        description="Secrets that follow, each from a tick on. Ids and rows stay hashed under the "
        "first, so keep it readable.",
        examples=["[{from: 2025-07-01T00:00:00Z, file: secret-2.key}]"],
    )

    def references(self, clock: Clock) -> tuple[tuple[int, SecretRef], ...]:
        """References to all of them, each with its first tick, the first at tick 0. None is read.

        Raises:
          ConfigError: see ``ticks``; or a place that is the secret itself.
        """
        entries = zip((0, *self.ticks(clock)), (self, *self.rotate), strict=True)
        return tuple(
            (tick, SecretRef(**dict[str, Any]({entry.kind: entry.value})))
            for tick, entry in entries
        )

    def ticks(self, clock: Clock) -> tuple[int, ...]:
        """First tick of each rotation.

        Raises:
          ConfigError: a moment that is no tick's start, is not ahead of the one before it, or is
            not inside the clock.
        """
        results: list[int] = []
        for place, entry in enumerate(self.rotate):
            moment = durations.timestamp(entry.start)
            tick = clock.tick_at(moment)
            field = f"secret.rotate[{place}].from"
            if moment != clock.tick_start(tick):
                near = [durations.show_timestamp(clock.tick_start(tick + more)) for more in (0, 1)]
                raise ConfigError(
                    field,
                    entry.start,
                    f"is not the start of a tick; near it are {' and '.join(near)}.",
                )
            last = results[-1] if results else 0
            if tick <= last or (clock.ticks is not None and tick >= clock.ticks):
                after = durations.show_timestamp(clock.tick_start(last))
                raise ConfigError(
                    field, entry.start, f"must be after {after} and before the clock's end."
                )
            results.append(tick)
        return tuple(results)


class Engine(Section):
    """How a cluster or a laptop runs the job; nothing here changes a release."""

    checkpoints: str | None = Field(
        default=None,
        description="Folder or bucket for checkpoints, savepoints and what a resume needs: on "
        "Flink, in reach of the cluster and of `weir run`. It holds clean sums: protect it like "
        "the events. Without it .weir/NAME next to the config.",
        examples=["gs://acme-weir/state"],
    )
    checkpoint_every: Duration = Field(
        default="5s",
        description="Time between checkpoints of a stream: after a crash that much is done again, "
        "with the same results.",
        examples=["10s"],
    )
    parallelism: int | None = Field(
        default=None,
        description="Workers of a job on Flink; without it all slots that are free, or two.",
        examples=[2],
    )
    bundle_time: Duration = Field(
        default="20ms",
        description="How long a worker gathers events before it passes them on: small for prompt "
        "ticks, larger for more events a second.",
        examples=["500ms"],
    )
    bundle_events: int = Field(
        default=20_000,
        description="How many elements a worker gathers before it passes them on.",
        examples=[20000],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in ("parallelism", "bundle_events"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise refusal(name, value, "must be a whole number, 1 or more.")
        for name, least in (("checkpoint_every", "500ms"), ("bundle_time", "1ms")):
            if durations.duration(getattr(self, name)) < durations.duration(least):
                raise refusal(name, getattr(self, name), f"must be {least} or longer.")
        if self.checkpoints is not None:
            check_place("checkpoints", local(self.checkpoints))
        return self


PATHS = {"secret": ("file",), "engine": ("checkpoints",), "lookup": ("public",)}
"""Fields that hold paths, section by section; of sources and sinks their kinds know them."""


def needed(name: str, value: Any) -> Any:
    """The section, or ConfigError that it is missing."""
    if value is None:
        hints = {"source": "csv: events.csv", "sink": "parquet: out/"}
        raise ConfigError(
            name, None, f"is missing; add one, like `{name}: {{{hints.get(name, '...')}}}`."
        )
    return value
