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
from weir.dpcore.models.kit.loss_spec import parse_loss

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


def loss_field(example: str, schema: Any, *others: str) -> BeforeValidator:
    """Validates a loss by name or with its parameter.

    Args:
      example: of losses, for messages. schema: of the field. others: names that are no loss of one
        number.
    """

    def check(value: Any) -> Any:
        if isinstance(value, str) and value in others:
            return value
        if not isinstance(value, str | Mapping):
            raise ValueError(f"must be a name, like {example}.")
        value = with_numbers(value)
        try:
            parse_loss(value, "")
        except ConfigError as error:
            below = error.field.removeprefix("model.loss").removeprefix(".")
            raise refusal(below, error.value, error.remedy) from None
        return value

    return BeforeValidator(check, json_schema_input_type=schema)


def algorithm_field(name: str) -> Any:
    """The field ``algorithm`` of a section that it chooses by its name."""
    return Field(description="Name of a learner; `weir algorithms` lists them.", examples=[name])


def label_field() -> Any:
    """The field ``target`` of learners whose losses may read labels."""
    return Field(
        description="Numeric column that is predicted; losses of labels read its sign once scaled.",
        examples=["arrival_delay"],
    )


def loss_of_rows() -> Any:
    """The field ``loss`` of learners that take any."""
    return Field(
        default="squared",
        description="squared, absolute, {quantile: tau}, {huber: width}, logistic or hinge.",
        examples=["squared", "{quantile: 0.9}"],
    )


def cap_field() -> Any:
    """The field ``cap`` of learners that read rows tick by tick."""
    return Field(
        default=4096,
        description="Most events of a key and tick that are learned from; of more, a keyed hash "
        "chooses, and the others are counted as over capacity.",
        examples=[4096],
    )


def span_field() -> Any:
    """The field ``over`` of regressions from running sums."""
    return Field(
        default="all",
        description="all: a model of everything since the start; N: of the last N ticks.",
        examples=["all"],
    )


def cap_refusal(cap: int) -> str:
    """What becomes of events beyond a cap of a key and tick."""
    return f"of more than {cap:,} events of a key and tick, a keyed hash chooses {cap:,}"


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
AnyLoss = Annotated[str | dict[str, Any], loss_field("squared, or {quantile: 0.9}", LossSpec)]
SquaredLoss = Annotated[
    Literal["squared"], Says("must be squared: this algorithm is least squares.")
]
