"""Sections of a config: their base class, errors of validators, and types of numbers."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from weir.dpcore.config import durations
from weir.dpcore.config.durations import MOST_TICKS


class Section(BaseModel):
    """A frozen section of a config: unknown fields are errors, nothing is coerced."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, populate_by_name=True, ser_json_inf_nan="strings"
    )


def as_tuple(value: Any) -> Any:
    """A list as a tuple: YAML knows lists only. For ``BeforeValidator``."""
    return tuple(value) if isinstance(value, list) else value


SectionType = TypeVar("SectionType", bound=Section)


@dataclass(frozen=True)
class Says:
    """Annotation of a field: what is said where a value breaks its declared bounds."""

    remedy: str


def refusal(field: str, value: Any, remedy: str, unknown: bool = False) -> PydanticCustomError:
    """What a validator raises: ``field`` is relative to the section that is being checked.

    unknown: whether it is the name of the field that is wrong.
    """
    results = {"field": field, "value": value, "remedy": remedy, "unknown": unknown}
    return PydanticCustomError("weir", "{remedy}", results)


def no_section(
    value: Any, fields: Iterable[str], meant: Any = None, choices: Iterable[str] = ()
) -> PydanticCustomError:
    """What a validator raises for a bare value where a section belongs.

    Args:
      fields: that may stand there. meant: the section that the value is probably meant as.
      choices: names of which each is a section of that kind by itself.
    """
    results = {"field": "", "value": value, "remedy": "", "unknown": False}
    bare_of = {"fields": list(fields), "meant": meant, "choices": list(choices)}
    return PydanticCustomError("weir", "must be a section", {**results, "bare": bare_of})


def unknown(
    field: str, value: Any, allowed: Sequence[str], instead: str = ""
) -> PydanticCustomError:
    """What a validator raises for a name that is no field; it comes before other errors.

    instead: what to do, where no name that is allowed is near; a sentence.
    """
    near = nearest(field, allowed)
    more = f" {instead}" if instead and near.startswith("allowed") else ""
    return refusal(field, value, f"is not a field; {near}{more}", unknown=True)


def nearest(name: str, allowed: Sequence[str]) -> str:
    """Remedy for a name that does not exist: the nearest one that does, and all of them."""
    near = difflib.get_close_matches(name, allowed, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}? Allowed" if near else "allowed"
    head, colon, rest = name.partition(":")
    if colon and head in allowed:
        hint = f"write a space after the colon, like {head}: {rest}. Allowed"
    return f"{hint} here: {', '.join(allowed)}."


FARTHEST, NEAREST = 1e60, 1e-60
"""Bounds of a clip, so that fourth powers of it are numbers."""


def same(value: Any) -> Any:
    """Itself: for fields that the JSON Schema lets be written in more ways than are checked here,
    as lengths of time are ticks before (``dpcore.config.ticks``)."""
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
TicksText = Annotated[str, Field(pattern=durations.TICKS)]
"""How a length of time is written where it may stand for a number of ticks."""

Ticks = Annotated[int, Field(ge=1, le=MOST_TICKS)]
Span = Literal["all"] | Ticks
AnyTicks = Annotated[
    Ticks,
    BeforeValidator(same, json_schema_input_type=Ticks | Lengths),
    Says("must be a number of ticks, 1 or more, or a duration like 7d."),
]
"""Ticks that may be written as a duration: ``dpcore.config.ticks`` counts them first."""
