"""Caps on what a user may add in a period, and how long a period is, as a config has them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from weir.dpcore.config import durations
from weir.dpcore.config.durations import months_of
from weir.dpcore.config.numbers import DurationText, Lengths, PeriodText, same
from weir.dpcore.config.section import Says, Section

MOST = (1 << 16) - 1

Cap = Annotated[
    int, Field(ge=1, le=MOST), Says(f"must be a whole number from 1 to {MOST:,}: below 2^16.")
]


def _per(value: Any) -> Any:
    if isinstance(value, str) and (value == "all" or months_of(value)):
        return value
    remedy = "must be a duration like 1d or 30d, months like 1 month, or all."
    try:
        microseconds = durations.duration(value)
    except ValueError:
        raise ValueError(remedy) from None
    if microseconds == 0:
        raise ValueError(remedy)
    return value


Per = Annotated[
    str,
    BeforeValidator(_per, json_schema_input_type=Literal["all"] | DurationText | PeriodText),
]


class Contributions(Section):
    """What counts of a user in one period: what is beyond these caps is left out, by a rule that
    looks at nobody else. Public: choose them by what you know, never by the data."""

    ticks: Cap = Field(description="Ticks with events of the user.", examples=[8])
    keys: Cap = Field(description="Keys in one of these ticks.", examples=[3])
    events: Cap = Field(description="Events of a key in one of these ticks.", examples=[5])
    spacing: Annotated[Cap, BeforeValidator(same, json_schema_input_type=Cap | Lengths)] = Field(
        default=1,
        description="Fewest ticks, or time, from one of these ticks to the next; 1 sets no bound.",
        examples=[1],
    )
    ticks_per_key: Cap | None = Field(
        default=None, description="Ticks with events of one key; without it: ticks.", examples=[4]
    )
    period_keys: Cap | None = Field(
        default=None, description="Keys in the whole period; without it: any.", examples=[30]
    )
    total: Cap | None = Field(
        default=None,
        description="Pairs of a key and a tick in the whole period; without it: any.",
        examples=[60],
    )
