"""The sections of a config that shape a plan, checked before anything is computed or read.

Everything here is public: a config never holds data, and no message here can quote an event.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from dpcore.aggregates.algorithm import AggregatesAlgorithm
from dpcore.aggregates.config import AnyAggregate
from dpcore.algorithm import Algorithm
from dpcore.config import durations, yaml
from dpcore.config.contributions import months_of
from dpcore.config.event import Key, Schema, TimeColumn
from dpcore.config.expect import Expect
from dpcore.config.numbers import Ticks
from dpcore.config.promise import ClockConfig, Privacy
from dpcore.config.section import Says, Section, refusal, validate
from dpcore.config.version import PLAN_VERSION, Version
from dpcore.leaves.clock import Clock
from dpcore.models.config import AnyModel
from dpcore.people.caps import Caps
from dpcore.people.discover import DELTA, Discover
from dpcore.people.periods import Months, Periods
from dpcore.people.person import Person
from dpcore.pricing.best import SPLIT
from dpcore.pricing.terms import Terms
from dpcore.registry import CONTINUAL_SUMS

__all__ = [
    "JOB_SECTIONS",
    "ClockConfig",
    "Key",
    "MechanismConfig",
    "PlanConfig",
    "Privacy",
    "Schema",
    "TimeColumn",
]

JOB_SECTIONS = ("source", "deduplicate", "secret", "sink", "dead_letters", "limits", "engine")
"""Sections of a job that do not shape a plan: where data come from and go to."""

MOST_BLOCKS = 1 << 16

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
_OUTPUT = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}\Z")


Buffers = Annotated[int, Field(ge=1, le=8), Says("must be a whole number from 1 to 8.")]
Gamma = Annotated[float, Field(gt=0, allow_inf_nan=False), Says("must be a finite number above 0.")]


Blocks = Annotated[
    int,
    Field(ge=1, le=MOST_BLOCKS),
    Says(f"must be a power of two, like 16, and at most {MOST_BLOCKS}."),
]


def _sums(schema: dict[str, Any]) -> None:
    """Names of the mechanisms, for the JSON Schema."""
    schema["anyOf"][0]["enum"] = [*CONTINUAL_SUMS, SPLIT]


class MechanismConfig(Section):
    """Which mechanism to use. All optional: the plan prices every one and takes the best."""

    continual_sum: str | None = Field(
        default=None,
        description="Name of a mechanism for running sums; `weir algorithms` lists them.",
        examples=["blt"],
        json_schema_extra=_sums,
    )
    noise: Literal["gaussian", "discrete_gaussian", "k_norm", "gumbel", "laplace"] | None = Field(
        default=None,
        description="gaussian (default), discrete_gaussian (integers, zCDP), k_norm (delta = 0); "
        "of models that choose vertices gumbel or laplace.",
        examples=["gaussian"],
    )
    buffers: Buffers | None = Field(
        default=None,
        description="Buffers of the BLT mechanism: more is more accurate and more state.",
        examples=[4],
    )
    gamma: Gamma | None = Field(
        default=None,
        description="Merging tree: loss of a level beyond the window over that of the level below.",
        examples=[0.5],
    )


def _unit_of(privacy: Any) -> Any:
    """The unit of a section that is not yet checked."""
    if isinstance(privacy, Privacy):
        return privacy.unit
    return privacy.get("unit") if isinstance(privacy, Mapping) else None


class PlanConfig(Section):
    """Everything that shapes a plan. ``schema`` is spelled ``schema_`` in Python.

    >>> from weir import Plan, PlanConfig
    >>> config = PlanConfig.from_yaml('''
    ... name: visits
    ... schema: {time: at}
    ... clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-08T00:00:00Z}
    ... privacy: {epsilon: 1, delta: 1e-6, protect_for: all}
    ... aggregates: {visits: {count: events}}
    ... ''')
    >>> config.privacy.epsilon, sorted(config.aggregates)
    (1.0, ['visits'])
    >>> Plan.from_config(config).guarantee.epsilon
    1.0
    """

    name: str = Field(
        description="Name of the release: letters, digits, dot, dash, underscore; at most 63.",
        examples=["shop"],
        json_schema_extra={"pattern": r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"},
    )
    version: Version | None = Field(
        default=None,
        description="Version of the plan: which defaults it has, and which noise. Without it the "
        f"newest, {PLAN_VERSION}, or that under which a run began that goes on.",
        examples=[PLAN_VERSION],
    )
    schema_: Schema = Field(
        alias="schema", description="Names of the columns of an event.", examples=["{time: date}"]
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
    expect: Expect | None = Field(
        default=None,
        description="Sizes that you expect, public: rules that need one take it, and warnings.",
        examples=["{events: 2000}"],
    )
    aggregates: dict[str, AnyAggregate] = Field(
        default_factory=dict,
        description="What is released: output name, then one aggregate.",
        examples=["{purchases: {count: events}}"],
    )
    model: AnyModel | None = Field(
        default=None,
        description="A model to release instead of aggregates; see `weir algorithms`.",
        examples=[
            "{algorithm: online.follow_the_leader, features: [hour], target: delay, ranges: "
            "{hour: [0, 24], delay: [-60, 180]}}"
        ],
    )
    release_every: Ticks | None = Field(
        default=None,
        description="n: sums, and models of them, are released at every n-th tick, with less "
        "noise, and repeated in between; before the first of them there is none (null). It must "
        "divide the ticks of the clock, and the N of every over. Without it: at every tick.",
        examples=[7],
    )
    mechanism: MechanismConfig = Field(
        default=MechanismConfig(),
        description="Which mechanism; without it the plan chooses.",
        examples=["{continual_sum: blt}"],
    )
    blocks: Blocks | None = Field(
        default=None,
        description="Number of blocks of keys, a power of two; changes speed, never a result.",
        examples=[16],
    )

    @model_validator(mode="before")
    @classmethod
    def _relation(cls, data: Any) -> Any:
        """A model's neighbours differ in one payload, unless the config says otherwise or speaks of
        users."""
        if not isinstance(data, Mapping) or data.get("model") is None:
            return data
        privacy = data.get("privacy")
        if _unit_of(privacy) == "user":
            return data
        if isinstance(privacy, Privacy) and "relation" not in privacy.model_fields_set:
            return {**data, "privacy": privacy.model_copy(update={"relation": "replace_one"})}
        if isinstance(privacy, Mapping) and "relation" not in privacy:
            return {**data, "privacy": {**privacy, "relation": "replace_one"}}
        return data

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
        self._check_users()
        self._check_discovery()
        if self.key is not None and self.key.columns is not None:
            taken = {self.schema_.time.column: "schema.time", self.schema_.id: "schema.id"}
            for name in self.key.columns:
                if name in taken:
                    raise refusal(
                        "key.columns",
                        name,
                        f"is the column of {taken[name]} too; group by another column.",
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
        if self.model is None and not self.aggregates:
            raise refusal(
                "aggregates", None, "is missing; write something like `purchases: {count: events}`."
            )
        if self.blocks is not None and self.blocks & (self.blocks - 1):
            raise refusal("blocks", self.blocks, "must be a power of two, like 16.")
        return self

    def _check_users(self) -> None:
        """Raises where users are spoken of and are not the unit, or nothing says who they are."""
        users = None if self.expect is None else self.expect.users
        if self.privacy.unit != "user":
            if users is not None:
                raise refusal(
                    "expect.users", users, "belongs to privacy.unit: user; set it, or remove this."
                )
            return
        if self.schema_.unit is None:
            raise refusal(
                "schema.unit",
                None,
                "is missing: privacy.unit: user needs the column that says whom an event belongs "
                "to.",
            )

    def _check_discovery(self) -> None:
        """Raises where keys are to be found in private and that cannot be served."""
        if self.key is None or self.key.discover is None:
            return
        asked = self.key.discover.model_dump(exclude_defaults=True)
        if self.privacy.unit != "user":
            raise refusal(
                "key.discover",
                asked,
                "counts the users of each key, and this plan protects events; set privacy.unit: "
                "user with privacy.per and privacy.contributions, or list the keys (key.declared).",
            )
        if self.privacy.delta == 0:
            raise refusal(
                "privacy.delta",
                0.0,
                "must be above 0 where keys are discovered: a user alone at a key is found with a "
                "small chance, however little the noise tells; set 1e-6, or list the keys.",
            )
        if self.model is not None:
            raise refusal(
                "key.discover",
                asked,
                "is for aggregates; models need their keys listed (key.declared).",
            )
        if self.release_every is not None:
            raise refusal(
                "release_every",
                self.release_every,
                "cannot stand beside key.discover, which looks at every tick; remove it, or take a "
                "longer clock.period.",
            )
        if self.key.discover.retire is not None and self.privacy.per == "all":
            raise refusal(
                "key.discover.retire",
                self.key.discover.retire.model_dump(),
                "is for the end of a period, and privacy.per: all has one without end; say a "
                "shorter one, like 30d, or leave it out.",
            )

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
        return cls.from_dict(yaml.parse_mapping(text, variables))

    @property
    def plan_version(self) -> int:
        """The version that is planned: the newest where none is said."""
        return self.version or PLAN_VERSION

    @property
    def algorithm(self) -> Algorithm:
        """The section that is planned."""
        if self.model is not None:
            return self.model
        users = None if self.expect is None else self.expect.users
        return AggregatesAlgorithm(self.aggregates, self.events, users)

    @property
    def events(self) -> float | None:
        """Events that a key is expected to have in a tick."""
        return None if self.expect is None else float(self.expect.events)

    def person(self, clock: Clock) -> Person | None:
        """The user as privacy unit; None where it is the event.

        Raises:
          ConfigError: a period that is no whole number of ticks, or has too few of them.
        """
        privacy = self.privacy
        if privacy.contributions is None or privacy.per is None:
            return None
        months = months_of(privacy.per)
        per: int | Months | None = None if months is None else Months(months)
        if months is None and privacy.per != "all":
            per = durations.duration(privacy.per)
        return Person(Caps(**privacy.contributions.model_dump()), Periods(clock, per))

    def terms(self) -> Terms:
        """What every algorithm is told besides its own section.

        Raises:
          ConfigError: a window that is not a whole number of the clock's periods.
        """
        clock, mechanism = self.clock.to_clock(self.plan_version), self.mechanism
        discover = self.discover
        finding = 0.0
        if discover is not None:
            finding = self.privacy.delta * (1 if mechanism.noise == "k_norm" else DELTA)
        fixed = mechanism.model_dump(exclude={"continual_sum", "noise"}, exclude_none=True)
        return Terms(
            self.privacy.epsilon,
            self.privacy.delta - finding,
            self.privacy.relation,
            self.privacy.unit or "event",
            self.privacy.window_ticks(clock),
            clock,
            # A neighbour's payload may be filtered out, or bear an arrival time that makes it late.
            may_vanish=self.where is not None or self.schema_.arrival is not None,
            has_id=self.schema_.id is not None,
            continual_sum=mechanism.continual_sum,
            noise=mechanism.noise,
            options=tuple(sorted(fixed.items())),
            events=self.events,
            version=self.plan_version,
            person=self.person(clock),
            users=None if self.expect is None else self.expect.users,
            delta_sel=finding,
            discover=discover,
        )

    @property
    def discover(self) -> Discover | None:
        """How keys are found in private; None: they are not."""
        if self.key is None or self.key.discover is None:
            return None
        return Discover.of(self.key.discover.model_dump())

    def to_dict(self) -> dict[str, Any]:
        """Plain values that give the same config again; fields at their defaults are left out."""
        data = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        if self.model is not None and self.privacy.unit != "user":
            data["privacy"]["relation"] = self.privacy.relation  # its default differs
        return data
