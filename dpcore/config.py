"""The sections of a config that shape a plan, checked before anything is computed or read.

Everything here is public: a config never holds data, and no message here can quote an event.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from dpcore import times, yaml_text
from dpcore.aggregate_config import Aggregate
from dpcore.clock import Clock
from dpcore.config_errors import Section, refusal, validate
from dpcore.errors import ConfigError

JOB_SECTIONS = ("source", "deduplicate", "secret", "sink", "dead_letters", "limits")
"""Sections of a job that do not shape a plan: where data come from and go to."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
_OUTPUT = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}\Z")


def _duration(text: Any) -> Any:
    times.duration(text)
    return text


def _timestamp(text: Any) -> Any:
    times.timestamp(text)
    return text


def _column(text: str) -> str:
    if not text or text.startswith("@"):
        raise ValueError("must name a column; names that start with @ are reserved.")
    return text


def _time_column(value: Any) -> Any:
    return {"column": value} if isinstance(value, str) else value


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


Duration = Annotated[str, BeforeValidator(_duration)]
Timestamp = Annotated[str, BeforeValidator(_timestamp)]
Column = Annotated[str, AfterValidator(_column)]


class TimeColumn(Section):
    """A column of times. May be written as its bare name when it holds timestamps."""

    column: Column = Field(description="Name of the column.", examples=["date"])
    format: str | None = Field(
        default=None,
        description="How text is read (strptime directives); without it: ISO 8601 or timestamps.",
        examples=["%Y%m%d"],
    )
    zone: str | None = Field(
        default=None,
        description="Time zone of times that carry none; without it they are UTC.",
        examples=["UTC"],
    )


Time = Annotated[TimeColumn, BeforeValidator(_time_column)]


class Schema(Section):
    """Which columns an event has."""

    time: Time = Field(
        description="Column of the event time; a name, or {column, format, zone}.",
        examples=['{column: date, format: "%Y%m%d", zone: UTC}'],
    )
    unit: Column | None = Field(
        default=None,
        description="Column that says whom an event belongs to.",
        examples=["customer_id"],
    )
    id: Column | None = Field(
        default=None,
        description="Column of event ids; with it, duplicate deliveries are dropped.",
        examples=["purchase_id"],
    )
    arrival: Time | None = Field(
        default=None,
        description="Column of arrival times; lateness is judged by it, never by a runner's clock.",
        examples=["received_at"],
    )


class Key(Section):
    """What releases are grouped by. Without this section there is one key, the empty text."""

    column: Column = Field(description="Column to group by.", examples=["store"])
    declared: Annotated[tuple[str, ...], BeforeValidator(_as_tuple)] | None = Field(
        default=None,
        description="The keys, known in advance; events of other keys are dead-lettered.",
        examples=[["north", "south"]],
    )
    observed_keys_are_public: bool = Field(
        default=False,
        description="True says: whoever sees a release may learn which keys occur, and since when.",
        examples=[False],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.declared is None and not self.observed_keys_are_public:
            raise refusal(
                "declared",
                None,
                "is missing; list the keys (declared: [north, south]), or say "
                "observed_keys_are_public: true if the existence of a key is no secret.",
            )
        if self.declared is not None and self.observed_keys_are_public:
            raise refusal(
                "observed_keys_are_public", True, "cannot stand beside declared; keep one of them."
            )
        if self.declared is not None:
            if not self.declared:
                raise refusal("declared", [], "must list at least one key.")
            seen: set[str] = set()
            for key in self.declared:
                if key in seen:
                    raise refusal("declared", key, "is listed twice; list every key once.")
                seen.add(key)
        return self


class ClockConfig(Section):
    """The public release clock."""

    start: Timestamp = Field(
        description="Start of tick 0: ISO 8601 with a zone or Z.", examples=["1997-01-01T00:00:00Z"]
    )
    period: Duration = Field(
        description="Length of a tick: number and unit (us, ms, s, m, h, d, w).", examples=["1d"]
    )
    end: Timestamp | None = Field(
        default=None,
        description="No tick ends after this; without it the clock runs for ever.",
        examples=["1998-07-01T00:00:00Z"],
    )
    delay: Duration = Field(
        default="0s",
        description="How long after its event time an event may arrive and still count.",
        examples=["10m"],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        period = times.duration(self.period)
        if period == 0:
            raise refusal("period", self.period, "must be longer than nothing, like 1d or 15m.")
        start = times.timestamp(self.start)
        if self.end is not None and times.timestamp(self.end) < start + period:
            raise refusal(
                "end",
                self.end,
                f"must be at least one period after clock.start: "
                f"{times.show_timestamp(start + period)} or later.",
            )
        return self

    def to_clock(self) -> Clock:
        """The clock in microseconds."""
        return Clock(
            start=times.timestamp(self.start),
            period=times.duration(self.period),
            end=None if self.end is None else times.timestamp(self.end),
            delay=times.duration(self.delay),
        )


class Privacy(Section):
    """What is promised, to whom, and for how long."""

    epsilon: float = Field(
        description="Privacy loss of one event within the window; smaller is more private.",
        examples=[1.0],
    )
    delta: float = Field(
        description="Chance-like slack of the promise, well below one over the number of people; "
        "0 needs a pure mechanism.",
        examples=["1e-6"],
    )
    protect_for: int | str = Field(
        description="How long an event is protected: ticks, a duration, or all.", examples=["365d"]
    )
    unit: Literal["event", "user"] | None = Field(
        default=None, description="What a neighbour changes; event if absent.", examples=["event"]
    )
    relation: Literal["add_remove", "replace_one", "replace_anywhere"] = Field(
        default="add_remove",
        description="add_remove: an event is there or not. replace_one: its payload changes, key "
        "and tick stay. replace_anywhere: key and tick may change too.",
        examples=["add_remove"],
    )

    @field_validator("protect_for", mode="plain")
    @classmethod
    def _protect_for(cls, value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise ValueError("must be a number of ticks, a duration like 365d, or all.")
        if isinstance(value, int):
            if value < 1:
                raise ValueError("must be at least 1 tick; 0 ticks would protect nothing.")
        elif value != "all":
            try:
                microseconds = times.duration(value)
            except ValueError:
                raise ValueError(
                    "must be a number of ticks, a duration like 365d, or all."
                ) from None
            if microseconds == 0:
                raise ValueError("must be at least one tick; 0 would protect nothing.")
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not 0 < self.epsilon < float("inf"):
            raise refusal("epsilon", self.epsilon, "must be a finite number above 0, like 1.0.")
        if not 0 <= self.delta < 1:
            raise refusal("delta", self.delta, "must be 0 or more and below 1, like 1e-6.")
        if self.unit == "user":
            raise refusal(
                "unit",
                "user",
                "is not available yet; it will need schema.unit, a bound on how many ticks a user "
                "contributes to and how far apart they are, and a bound on a user's contributions "
                "per tick; use unit: event.",
            )
        return self

    def window_ticks(self, clock: Clock) -> int | None:
        """The protection window W in ticks; None for all.

        Raises:
          ConfigError: a duration that is not a whole number of the clock's periods.
        """
        if self.protect_for == "all":
            return None
        if isinstance(self.protect_for, int):
            return self.protect_for
        ticks, rest = divmod(times.duration(self.protect_for), clock.period)
        if rest:
            near = [n for n in (ticks, ticks + 1) if n > 0]
            shown = " or ".join(
                f"{times.show_duration(n * clock.period)} ({n} tick{'s' if n > 1 else ''})"
                for n in near
            )
            raise ConfigError(
                "privacy.protect_for",
                self.protect_for,
                f"must be a whole number of periods of {times.show_duration(clock.period)}: "
                f"{shown}.",
            )
        return ticks


class MechanismConfig(Section):
    """Which mechanism to use. All optional: the plan prices every one and takes the best."""

    continual_sum: str | None = Field(
        default=None,
        description="Name of a mechanism for running sums; `weir algorithms` lists them.",
        examples=["blt"],
    )
    noise: Literal["gaussian", "discrete_gaussian", "k_norm"] | None = Field(
        default=None,
        description="gaussian (default), discrete_gaussian (integers, zCDP), k_norm (delta = 0).",
        examples=["gaussian"],
    )
    buffers: int | None = Field(
        default=None,
        description="Buffers of the BLT mechanism: more is more accurate and more state.",
        examples=[4],
    )
    gamma: float | None = Field(
        default=None,
        description="Merging tree: loss of a level beyond the window over that of the level below.",
        examples=[0.5],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.buffers is not None and not 1 <= self.buffers <= 8:
            raise refusal("buffers", self.buffers, "must be a whole number from 1 to 8.")
        if self.gamma is not None and not 0 < self.gamma < float("inf"):
            raise refusal("gamma", self.gamma, "must be a finite number above 0.")
        return self


class PlanConfig(Section):
    """Everything that shapes a plan. ``schema`` is spelled ``schema_`` in Python."""

    name: str = Field(
        description="Name of the release: letters, digits, dot, dash, underscore; at most 63.",
        examples=["shop"],
    )
    schema_: Schema = Field(
        alias="schema", description="Which columns an event has.", examples=["{time: date}"]
    )
    where: str | None = Field(
        default=None,
        description="Public predicate: only events that satisfy it count.",
        examples=["dollar_value > 0"],
    )
    key: Key | None = Field(
        default=None,
        description="What releases are grouped by; without it there is one key.",
        examples=["{column: store, declared: [north, south]}"],
    )
    clock: ClockConfig = Field(
        description="The public release clock.",
        examples=["{start: 1997-01-01T00:00:00Z, period: 1d}"],
    )
    privacy: Privacy = Field(
        description="What is promised.",
        examples=["{epsilon: 1.0, delta: 1e-6, protect_for: 365d}"],
    )
    aggregates: dict[str, Aggregate] = Field(
        default_factory=dict,
        description="What is released: output name, then one aggregate.",
        examples=["{purchases: {count: events}}"],
    )
    model: dict[str, Any] | None = Field(
        default=None,
        description="A model to release instead of aggregates; see `weir algorithms`.",
        examples=["{algorithm: regression.incremental}"],
    )
    mechanism: MechanismConfig = Field(
        default=MechanismConfig(),
        description="Which mechanism; without it the plan chooses.",
        examples=["{continual_sum: blt}"],
    )
    blocks: int | None = Field(
        default=None,
        description="Number of blocks of keys, a power of two; changes speed, never a result.",
        examples=[16],
    )

    @field_validator("name")
    @classmethod
    def _name(cls, value: str) -> str:
        if not _NAME.match(value):
            raise ValueError(
                "must start with a letter or digit and hold letters, digits, dots, dashes and "
                "underscores only, 63 at most."
            )
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.schema_.unit is not None and self.privacy.unit is None:
            raise refusal(
                "schema.unit",
                self.schema_.unit,
                "names who an event belongs to, but privacy.unit does not say what is protected; "
                "add privacy.unit: event, or remove schema.unit.",
            )
        for name in self.aggregates:
            if not _OUTPUT.match(name):
                raise refusal(
                    f"aggregates.{name}",
                    name,
                    "must start with a letter and hold letters, digits, dots, dashes and "
                    "underscores only.",
                )
        if self.model is not None and self.aggregates:
            raise refusal("model", {}, "cannot stand beside aggregates; keep one of them.")
        if self.model is not None:
            raise refusal(
                "model.algorithm",
                self.model.get("algorithm"),
                "is not available: this build has no models registered; `weir algorithms` lists "
                "what it has; use aggregates.",
            )
        if not self.aggregates:
            raise refusal(
                "aggregates", None, "is missing; write something like `purchases: {count: events}`."
            )
        if self.blocks is not None and (self.blocks < 1 or self.blocks & (self.blocks - 1)):
            raise refusal("blocks", self.blocks, "must be a power of two, like 16.")
        return self

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Plain values -> config; the sections of a job that shape no plan are passed over.

        Raises:
          ConfigError: what is wrong first.
        """
        names = {info.alias or name for name, info in cls.model_fields.items()}
        kept = {k: v for k, v in data.items() if k in names or k not in JOB_SECTIONS}
        return validate(cls, kept)

    @classmethod
    def from_yaml(cls, text: str, variables: Mapping[str, str] | None = None) -> Self:
        """YAML text -> config. Raises ConfigError."""
        return cls.from_dict(yaml_text.parse_mapping(text, variables))

    def to_dict(self) -> dict[str, Any]:
        """Plain values that give the same config again; fields at their defaults are left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
