"""Numbers of a config with their bounds, as validation and the JSON Schema both know them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from weir.dpcore.config import durations
from weir.dpcore.config.limits import FARTHEST, MOST_TICKS, NEAREST
from weir.dpcore.config.section import Says, as_tuple


def same(value: Any) -> Any:
    """Itself: for fields that the JSON Schema lets be written in more ways than are checked here,
    as lengths of time are ticks before (``dpcore.config.in_ticks``)."""
    return value


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

DurationText = Annotated[str, Field(pattern=durations.PATTERN)]
PeriodText = Annotated[str, Field(pattern=durations.MONTHS)]
Lengths = DurationText | PeriodText
"""How a length of time is written where it may stand for a number of ticks."""

Ticks = Annotated[int, Field(ge=1, le=MOST_TICKS)]
Span = Literal["all"] | Ticks
AnyTicks = Annotated[
    Ticks,
    BeforeValidator(same, json_schema_input_type=Ticks | Lengths),
    Says("must be a number of ticks, 1 or more, or a duration like 7d."),
]
"""Ticks that may be written as a duration: ``dpcore.config.in_ticks`` counts them first."""
