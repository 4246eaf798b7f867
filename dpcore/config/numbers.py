"""Numbers of a config with their bounds, as validation and the JSON Schema both know them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from dpcore.config.limits import FARTHEST, MOST_TICKS, NEAREST
from dpcore.config.section import Says, as_tuple

Numbers = Annotated[tuple[float, ...], BeforeValidator(as_tuple)]
Pair = Annotated[
    tuple[float, ...],
    Field(min_length=2, max_length=2),
    BeforeValidator(as_tuple),
    Says("must be two finite numbers: [low, high]."),
]

Weight = Annotated[
    float, Field(gt=0, allow_inf_nan=False), Says("must be a finite number above 0.")
]
Positive = Annotated[
    float,
    Field(ge=NEAREST, le=FARTHEST, allow_inf_nan=False),
    Says("must be a finite number above 0, like 1.0."),
]
NotNegative = Annotated[
    float,
    Field(ge=0, le=FARTHEST, allow_inf_nan=False),
    Says("must be a finite number, 0 or more."),
]

Ticks = Annotated[int, Field(ge=1, le=MOST_TICKS)]
Span = Literal["all"] | Ticks
