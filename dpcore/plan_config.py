"""The sections of a config that shape a plan, checked before anything is computed or read.

Everything here is public: a config never holds data, and no message here can quote an event.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from weir.dpcore.accounting.groupings import KeyGroupings
from weir.dpcore.aggregates.algorithm import AggregatesAlgorithm, AnyAggregate
from weir.dpcore.algorithm import Algorithm
from weir.dpcore.config import durations, yaml
from weir.dpcore.config import schema as versions
from weir.dpcore.config.clock import ClockConfig
from weir.dpcore.config.durations import months_of
from weir.dpcore.config.key import DiscoverConfig, Key
from weir.dpcore.config.lookup import PublicLookup
from weir.dpcore.config.one_shot import check_clock, check_model, check_required
from weir.dpcore.config.privacy import Privacy
from weir.dpcore.config.schema import PLAN_VERSION, DryRun, Expect, Schema, Version
from weir.dpcore.config.section import AnyTicks, Says, Section, refusal
from weir.dpcore.config.ticks import in_ticks
from weir.dpcore.config.validation import validate
from weir.dpcore.config.yaml import yaml11_numbers
from weir.dpcore.leaves.clock import ONCE, Clock
from weir.dpcore.leaves.keys import Keys
from weir.dpcore.models.config import AnyModel
from weir.dpcore.noise.noise import is_pure
from weir.dpcore.plan_checks import (
    check_columns,
    check_discovery,
    check_dry_run,
    check_groups,
    check_order,
    check_users,
    groups_of,
    with_relation,
)
from weir.dpcore.pricing.alternatives import MechanismConfig
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.users.unit import DELTA, Months, Periods, UserUnit

JOB_SECTIONS = ("source", "deduplicate", "secret", "sink", "dead_letters", "limits", "engine")
"""Sections of a job that do not shape a plan: where data come from and go to."""

MOST_BLOCKS = 1 << 16

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
_OUTPUT = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}\Z")


Blocks = Annotated[
    int,
    Field(ge=1, le=MOST_BLOCKS),
    Says(f"must be a power of two, like 16, and at most {MOST_BLOCKS}."),
]


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
        default=Schema(),
        alias="schema",
        description="Names of the columns of an event.",
        examples=["{time: date}"],
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
    lookup: PublicLookup | None = Field(
        default=None,
        description="Columns that a public table adds to each record.",
        examples=["{public: zips.parquet, on: zip, add: [region]}"],
    )
    clock: ClockConfig | None = Field(
        default=None,
        description="The public release clock. Without it all rows are one release, and events "
        "need no time.",
        examples=["{start: 1997-01-01T00:00:00Z, period: 1d}"],
    )
    privacy: Privacy = Field(
        description="What is guaranteed.",
        examples=["{epsilon: 1.0, delta: 1e-6, protect_for: 365d}"],
    )
    expect: Expect | None = Field(
        default=None,
        description="Sizes that you expect, public: rules that need one take it, and warnings.",
        examples=["{events: 2000}"],
    )
    dry_run: DryRun | None = Field(
        default=None,
        description="What bounds took in a dry run on public events, as `weir rehearse --on` "
        "prints it. Shown with the figures; it shapes no release.",
        examples=["{file: 2024.csv, date: 2025-11-26, lost: {dollars: 0.079}}"],
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
    release_every: AnyTicks | None = Field(
        default=None,
        description="n, or a duration: sums, and models of them, are released at every n-th tick, "
        "with less noise, and repeated in between; before the first of them there is none (null). "
        "It must divide the ticks of the clock, and the N of every over. Without: at every tick.",
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

    _yaml11_numbers: tuple[str, ...] = PrivateAttr(default=())
    counted: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("release_every",),
        ("aggregates", "*", "over"),
        ("aggregates", "*", "clip", "learn", "ticks"),
        ("model", "over"),
        ("model", "every"),
        ("privacy", "contributions", "spacing"),
    )
    """Fields that count ticks, where a duration may stand."""

    @model_validator(mode="before")
    @classmethod
    def _in_ticks(cls, data: Any) -> Any:
        """Durations as ticks of the clock."""
        return in_ticks(data, cls.counted) if isinstance(data, Mapping) else data

    @model_validator(mode="before")
    @classmethod
    def _relation(cls, data: Any) -> Any:
        """A model's neighbours differ in one payload; see ``with_relation``."""
        return with_relation(data) if isinstance(data, Mapping) else data

    @model_validator(mode="before")
    @classmethod
    def _clock(cls, data: Any) -> Any:
        """Refuses what needs a clock where there is none. Runs before every other check."""
        if isinstance(data, Mapping):
            check_clock(data)
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
        if self.clock is not None:
            check_required(self, self.privacy.unit == "user")
        elif self.model is not None:
            check_model(self.model.name, getattr(self.model, "block", None))
        if self.schema_.unit is not None and self.privacy.unit is None:
            raise refusal(
                "schema.unit",
                self.schema_.unit,
                "names who an event belongs to, but privacy.unit does not say what is protected; "
                "add privacy.unit: event, or remove schema.unit.",
            )
        users = None if self.expect is None else self.expect.users
        if self.dry_run is not None:
            check_dry_run(self.dry_run, self.aggregates)
        distinct = [aggregate.distinct for aggregate in self.aggregates.values()]
        all_ticks = self.clock is None or (bool(distinct) and all(distinct))
        check_users(self.privacy, self.schema_, users, all_ticks)
        check_order(self.privacy, self.clock is None)
        if self.key is not None:
            check_groups(self.key, self.privacy, self.model is not None, self.aggregates)
            check_discovery(self.key, self.privacy, self.model is not None, self.release_every)
            check_columns(self.key, self.schema_)
        for name in self.aggregates:
            if not _OUTPUT.match(name):
                raise refusal(
                    f"aggregates.{name}",
                    name,
                    "must start with a letter and hold letters, digits, dots, dashes and "
                    "underscores only.",
                )
        if self.model is not None and self.aggregates:
            raise refusal("model", {}, "cannot be combined with aggregates; keep one of them.")
        if self.model is None and not self.aggregates:
            raise refusal(
                "aggregates", None, "is missing; write something like `purchases: {count: events}`."
            )
        if self.blocks is not None and self.blocks & (self.blocks - 1):
            raise refusal("blocks", self.blocks, "must be a power of two, like 16.")
        return self

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Plain values -> config; the sections of a job that shape no plan are passed over.

        Raises:
          ConfigError: what is wrong first.
        """
        names = {info.alias or name for name, info in cls.model_fields.items()}
        retained = {k: v for k, v in data.items() if k in names or k not in JOB_SECTIONS}
        config = validate(cls, retained)
        config._yaml11_numbers = tuple(yaml11_numbers(retained, config))
        return config

    @classmethod
    def from_yaml(cls, text: str, variables: Mapping[str, str] | None = None) -> Self:
        """YAML text -> config. Raises ConfigError."""
        return cls.from_dict(yaml.parse_mapping(text, variables))

    @property
    def yaml11_numbers(self) -> tuple[str, ...]:
        """Fields that were text and read as numbers."""
        return self._yaml11_numbers

    @property
    def plan_version(self) -> int:
        """The version that is planned: the newest where none is said."""
        return self.version or versions.PLAN_VERSION

    @property
    def algorithm(self) -> Algorithm:
        """The section that is planned."""
        if self.model is not None:
            return self.model
        users = None if self.expect is None else self.expect.users
        aggregates = self.aggregates
        if self.clock is None:
            aggregates = {
                name: aggregate.of_one_tick(self.discover is not None)
                for name, aggregate in aggregates.items()
            }
        return AggregatesAlgorithm(aggregates, self.events, users, self.clock is None)

    @property
    def events(self) -> float | None:
        """Events that a key is expected to have in a tick."""
        return None if self.expect is None else float(self.expect.events)

    def person(self, clock: Clock) -> UserUnit | None:
        """The user as privacy unit; None where it is the event.

        Raises:
          ConfigError: a period that is no whole number of ticks, or has too few of them.
        """
        privacy = self.privacy
        if privacy.contributions is None:
            return None
        lasting = privacy.per or "all"
        months = months_of(lasting)
        per: int | Months | None = None if months is None else Months(months)
        if months is None and lasting != "all":
            per = durations.duration(lasting)
        return UserUnit.of(privacy.contributions.model_dump(), Periods(clock, per))

    @property
    def release_clock(self) -> Clock:
        """The clock; where there is none, that of a single release."""
        return ONCE if self.clock is None else self.clock.to_clock()

    def terms(self) -> Terms:
        """What every algorithm gets in addition its own section.

        Raises:
          ConfigError: a window that is not a whole number of the clock's periods.
        """
        clock, mechanism = self.release_clock, self.mechanism
        discover = self.discover
        finding = 0.0
        if discover is not None:
            finding = self.privacy.delta * (1 if is_pure(mechanism.noise or "") else DELTA)
        fixed = mechanism.model_dump(exclude={"continual_sum", "noise", "pure"}, exclude_none=True)
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
            # Noise that is added once: for a single tick no continual sum has less.
            continual_sum=mechanism.continual_sum
            or ("independent" if clock.once and self.model is None else None),
            noise=mechanism.noise,
            options=tuple(sorted(fixed.items())),
            events=self.events,
            version=self.plan_version,
            person=self.person(clock),
            users=None if self.expect is None else self.expect.users,
            delta_sel=finding,
            discover=discover,
            pure=mechanism.pure is not False,
            declared=mechanism.continual_sum is not None or mechanism.noise is not None,
            groupings=1 if self.key is None else len(self.key.groups or [()]),
            groups=self._groups(),
            known_keys=self.known_keys,
        )

    def keys(self) -> Keys:
        """What releases are grouped by."""
        key, discover = self.key, self.discover
        if key is None:
            return Keys.make(None, None, False, self.blocks)
        longest = None if discover is None else discover.max_bytes
        shape = (key.declared is None, self.blocks, longest, key.groups or ())
        return Keys.make(key.names, key.texts, *shape)

    def _groups(self) -> KeyGroupings | None:
        """Groupings of users, or of which the noise differs: of many keys counted once."""
        of, known = (self.key, self.privacy, self.aggregates), self.__dict__.get("groups")
        if known is None or any(a is not b for a, b in zip(known[0], of, strict=True)):
            # As a cached property, which equality ignores; a copy may have other sections.
            known = self.__dict__["groups"] = (of, groups_of(*of))
        result: KeyGroupings | None = known[1]
        return result

    @property
    def known_keys(self) -> int | None:
        """Keys that there are; None: any number."""
        if self.key is None:
            return 1
        return None if self.key.declared is None else len(self.key.declared)

    @property
    def discover(self) -> DiscoverConfig | None:
        """How keys are found in private; None: they are not."""
        return None if self.key is None else self.key.discover

    def to_dict(self) -> dict[str, Any]:
        """Plain values that give the same config again; fields at their defaults are left out."""
        data = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        if self.model is not None and self.privacy.unit != "user":
            data["privacy"]["relation"] = self.privacy.relation  # its default differs
        if self.clock is None:
            for aggregate in data.get("aggregates", {}).values():
                aggregate.pop("over", None)  # a default that depends on what is counted
        return data
