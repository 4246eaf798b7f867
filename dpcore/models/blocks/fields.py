"""Fields of models of blocks in a config, with their bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from weir.dpcore.config import durations
from weir.dpcore.config.schema import MOST_EVENTS
from weir.dpcore.config.section import DurationText, Positive, Says, Section, as_tuple, refusal
from weir.dpcore.config.yaml import with_numbers
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.feature_map import (
    MOST_INPUTS,
    FeatureMap,
    Projection,
    RandomFourier,
)
from weir.dpcore.models.blocks.price import SPLITS
from weir.dpcore.models.fields import MOST_ROWS, HingeLoss, HuberLoss
from weir.dpcore.models.losses import parse_loss

MOST_CLASSES = 1 << 10


def _block(value: Any) -> Any:
    if isinstance(value, str):
        durations.duration(value)
        return value
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_ROWS:
        raise ValueError(
            f"must be a number of records from 1 to {MOST_ROWS:,}, or a duration like 7d."
        )
    return value


def _loss(value: Any) -> Any:
    if value == "softmax":
        return value
    if not isinstance(value, str | Mapping):
        raise ValueError("must be a name, like logistic, or {huber: 0.5}.")
    value = with_numbers(value)
    try:
        parse_loss(value, "")
    except ConfigError as error:
        below = error.field.removeprefix("model.loss").removeprefix(".")
        raise refusal(below, error.value, error.remedy) from None
    return value


def _classes(value: Any) -> Any:
    value = as_tuple(value)
    if not isinstance(value, tuple) or not 2 <= len(value) <= MOST_CLASSES:
        raise ValueError(f"must list two classes or more, {MOST_CLASSES:,} at most.")
    if not all(isinstance(one, str) for one in value):
        value = tuple(with_numbers(value))
    texts = [isinstance(one, str) for one in value]
    if not all(texts) and (any(texts) or any(isinstance(one, bool) for one in value)):
        raise ValueError("must be all texts or all numbers; put texts in quotes.")
    if not all(texts) and not all(isinstance(one, int | float) for one in value):
        raise ValueError("must be all texts or all numbers; put texts in quotes.")
    if len(set(value)) < len(value):
        raise ValueError("lists a class twice; list every class once.")
    return value if all(texts) else tuple(float(one) for one in value)


Block = Annotated[
    int | str,
    BeforeValidator(
        _block, json_schema_input_type=Annotated[int, Field(ge=1, le=MOST_ROWS)] | DurationText
    ),
]
BlockLoss = Annotated[
    str | dict[str, Any],
    BeforeValidator(
        _loss,
        json_schema_input_type=Literal["logistic", "softmax", "hinge", "huber", "squared"]
        | HuberLoss
        | HingeLoss,
    ),
]
ClassList = Annotated[
    tuple[str, ...] | tuple[float, ...],
    BeforeValidator(
        _classes,
        json_schema_input_type=Annotated[list[str], Field(min_length=2)]
        | Annotated[list[float], Field(min_length=2)],
    ),
]
Split = Annotated[Literal["best", "even", "paper"], Says(f"must be one of {', '.join(SPLITS)}.")]


Users = Annotated[
    float,
    Field(ge=1, le=MOST_EVENTS, allow_inf_nan=False),
    Says("must be a number of users, 1 or more, like 2000."),
]
Outputs = Annotated[
    int, Field(ge=2, le=MOST_INPUTS), Says(f"must be a whole number from 2 to {MOST_INPUTS:,}.")
]
Seed = Annotated[int, Field(ge=0, lt=1 << 62), Says("must be a whole number, 0 or more.")]


class BlockClip(Section):
    """Bounds of what one event may contribute, in scaled units. Public: never from the data."""

    features: Positive = Field(
        default=1.0,
        description="An event whose scaled features have a larger l2 norm is shortened to it; "
        "noise grows with the norm of these and the constant 1 of the intercept together.",
        examples=[1.0],
    )


class FourierMap(Section):
    """Cosines and sines of random projections: a linear model of them is like a Gaussian kernel."""

    random_fourier: Outputs = Field(description="How many features come out.", examples=[200])
    scale: Positive = Field(
        default=1.0, description="Width of the kernel, in scaled units.", examples=[1.0]
    )
    seed: Seed = Field(default=0, description="Public: fixes the map.", examples=[0])


class ProjectionMap(Section):
    """A random projection to fewer features."""

    projection: Outputs = Field(description="How many features come out.", examples=[50])
    seed: Seed = Field(default=0, description="Public: fixes the map.", examples=[0])


def made_map(asked: FourierMap | ProjectionMap | None, inputs: int) -> FeatureMap | None:
    """The map of a config, for so many features."""
    if asked is None:
        return None
    if isinstance(asked, FourierMap):
        return RandomFourier(inputs, asked.random_fourier, asked.seed, float(asked.scale))
    return Projection(inputs, asked.projection, asked.seed)
