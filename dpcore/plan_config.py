"""The sections of a config that shape a plan, checked before anything is computed or read.

Everything here is public: a config never holds data, and no message here can quote an event.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from dpcore.aggregates.config import Aggregate
from dpcore.config import yaml
from dpcore.config.event import Key, Schema, TimeColumn
from dpcore.config.promise import ClockConfig, Privacy
from dpcore.config.section import Section, refusal, validate
from dpcore.models.config import ModelClip, ModelConfig
from dpcore.registry import MODELS

__all__ = [
    "JOB_SECTIONS",
    "Aggregate",
    "ClockConfig",
    "Key",
    "MechanismConfig",
    "ModelClip",
    "ModelConfig",
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
    aggregates: dict[str, Aggregate] = Field(
        default_factory=dict,
        description="What is released: output name, then one aggregate.",
        examples=["{purchases: {count: events}}"],
    )
    model: ModelConfig | None = Field(
        default=None,
        description="A model to release instead of aggregates; see `weir algorithms`.",
        examples=[
            "{algorithm: online.follow_the_leader, features: [hour], target: delay, ranges: "
            "{hour: [0, 24], delay: [-60, 180]}}"
        ],
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

    @model_validator(mode="before")
    @classmethod
    def _relation(cls, data: Any) -> Any:
        """A model's neighbours differ in one payload, unless the config says otherwise."""
        if not isinstance(data, Mapping) or data.get("model") is None:
            return data
        privacy = data.get("privacy")
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
        if self.blocks is not None and (self.blocks < 1 or self.blocks & (self.blocks - 1)):
            raise refusal("blocks", self.blocks, "must be a power of two, like 16.")
        if self.blocks is not None and self.blocks > MOST_BLOCKS:
            raise refusal("blocks", self.blocks, f"must be at most {MOST_BLOCKS}.")
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
        return cls.from_dict(yaml.parse_mapping(text, variables))

    def to_dict(self) -> dict[str, Any]:
        """Plain values that give the same config again; fields at their defaults are left out."""
        data = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        if self.model is not None:  # its default differs
            data["privacy"]["relation"] = self.privacy.relation
            known = MODELS[self.model.algorithm]
            for name in known.defaults:
                data["model"][name] = getattr(self.model, name)
            if known.takes("clip.gradient"):
                clip = data["model"].get("clip", {})
                data["model"]["clip"] = {**clip, "gradient": self.model.clip.gradient}
        return data
