"""Versions of what a config means: each gives the same plan and the same noise for ever."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from weir.dpcore.config.section import Says

PLAN_VERSION = 4
"""The newest. Another one begins where a default or a bit of noise does; the older ones stay."""

Version = Annotated[
    int,
    Field(ge=1, le=PLAN_VERSION),
    Says(f"must be a whole number from 1 to {PLAN_VERSION}, the newest."),
]
