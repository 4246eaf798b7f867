"""Versions of the plan: what a config means. A version keeps its plans and its noise."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from weir.dpcore.config.section import Says

PLAN_VERSION = 1
"""The newest version. A change of a default or of a bit of noise takes the next number; plans under
older ones stay what they were."""


def _known(value: int) -> int:
    if not 1 <= value <= PLAN_VERSION:
        raise ValueError(f"must be a whole number from 1 to {PLAN_VERSION}, the newest.")
    return value


Version = Annotated[
    int,
    AfterValidator(_known),
    Field(json_schema_extra={"minimum": 1, "maximum": PLAN_VERSION}),
    Says(f"must be a whole number from 1 to {PLAN_VERSION}, the newest."),
]
