"""Types of fields that several models have, with their bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from weir.dpcore.config.durations import MOST_TICKS
from weir.dpcore.config.schema import column_name
from weir.dpcore.config.section import FARTHEST, Lengths, Says, Section, Ticks, refusal
from weir.dpcore.config.yaml import with_numbers
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.parse import SetSpec
from weir.dpcore.models.losses import parse_loss

ALGORITHM = "Name of a learner; `weir algorithms` lists them."
"""What the field ``algorithm`` is."""

MOST_ROWS = 1 << 20
MOST_COEFFICIENTS = 1 << 16
MOST = 1 << 40
"""Of anything that is counted."""
SMALLEST_CLIP = 2.0**-8
"""Below, rows on their lattice would be too coarse."""


def _target(value: Any) -> Any:
    """column | [column, ...] -> text or a tuple."""
    listed = value if isinstance(value, list | tuple) else [value]
    if not listed:
        raise ValueError("must name at least one column.")
    for name in listed:
        if not isinstance(name, str):
            raise ValueError("must be a column, or a list of columns.")
        column_name(name)
    return tuple(listed) if isinstance(value, list | tuple) else value


def _one_target(value: Any) -> Any:
    if isinstance(value, list | tuple):
        raise ValueError("must be one column, as text: this algorithm predicts one.")
    return _target(value)


def _over(value: Any) -> Any:
    """all | N -> all or N."""
    if value == "all" or value is None:
        return "all"
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_TICKS:
        raise ValueError("must be all, a number of ticks from 1 to 2^40, or a duration like 7d.")
    return value


def _loss(value: Any) -> Any:
    """A loss that there is, with its parameter."""
    if not isinstance(value, str | Mapping):
        raise ValueError("must be a name, like squared, or {quantile: 0.9}.")
    value = with_numbers(value)
    try:
        parse_loss(value, "")
    except ConfigError as error:
        below = error.field.removeprefix("model.loss").removeprefix(".")
        raise refusal(below, error.value, error.remedy) from None
    return value


Target = Annotated[
    str | tuple[str, ...],
    BeforeValidator(
        _target, json_schema_input_type=str | Annotated[list[str], Field(min_length=1)]
    ),
]
OneTarget = Annotated[str, BeforeValidator(_one_target, json_schema_input_type=str)]
ConvexSetSpec = Annotated[
    dict[str, Any], BeforeValidator(with_numbers, json_schema_input_type=SetSpec)
]
OverSpan = Annotated[
    Literal["all"] | int,
    BeforeValidator(_over, json_schema_input_type=Literal["all"] | Ticks | Lengths),
]
Count = Annotated[int, Field(ge=1, le=MOST), Says(f"must be a whole number from 1 to {MOST:,}.")]
Cap = Annotated[
    int, Field(ge=1, le=MOST_ROWS), Says(f"must be a whole number from 1 to {MOST_ROWS:,}.")
]
Length = Annotated[
    float,
    Field(ge=SMALLEST_CLIP, le=FARTHEST, allow_inf_nan=False),
    Says(f"must be a finite number, {SMALLEST_CLIP:g} or more."),
]
Share = Annotated[
    float,
    Field(gt=0, lt=1, allow_inf_nan=False),
    Says("must lie between 0 and 1, like 0.1."),
]
Tolerance = Annotated[
    float,
    Field(gt=0, lt=1, allow_inf_nan=False),
    Says("must lie between 0 and 1, like 1e-9."),
]

Above = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class QuantileLoss(Section):
    """Pinball loss."""

    quantile: Annotated[float, Field(gt=0, lt=1)] = Field(
        description="The quantile that is predicted.", examples=[0.9]
    )


class HuberLoss(Section):
    """Squared near the target, straight far away."""

    huber: Above = Field(description="Where it becomes straight.", examples=[1.0])


class HingeLoss(Section):
    """Hinge loss of labels with a smoothed corner."""

    hinge: Above = Field(description="Width of the smoothed corner.", examples=[0.5])


LossSpec = (
    Literal["squared", "absolute", "huber", "logistic", "hinge"]
    | QuantileLoss
    | HuberLoss
    | HingeLoss
)
AnyLoss = Annotated[str | dict[str, Any], BeforeValidator(_loss, json_schema_input_type=LossSpec)]
SquaredLoss = Annotated[
    Literal["squared"], Says("must be squared: this algorithm is least squares.")
]
