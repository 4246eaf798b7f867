"""What models of private optimisation over a set have in common in a config."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from weir.dpcore.config.section import Positive, Section, refusal
from weir.dpcore.config.yaml import with_numbers
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.parse import parse_set
from weir.dpcore.leaves.sparse_rows import MOST_DENSE
from weir.dpcore.models.blocks.fields import ClassList
from weir.dpcore.models.blocks.inputs import Classes, Inputs
from weir.dpcore.models.blocks.wide_inputs import WideInputs
from weir.dpcore.models.fields import ConvexSetSpec, HingeLoss, HuberLoss, OneTarget
from weir.dpcore.models.losses import parse_loss
from weir.dpcore.models.optimize.linear import Linear
from weir.dpcore.models.predictor import Predictor
from weir.dpcore.models.words import set_words
from weir.dpcore.neighbours import Family
from weir.dpcore.words import number


def _loss(value: Any) -> Any:
    """A loss that there is, with its parameter."""
    if not isinstance(value, str | Mapping):
        raise ValueError("must be a name, like squared, or {huber: 0.5}.")
    value = with_numbers(value)
    try:
        parse_loss(value, "")
    except ConfigError as error:
        below = error.field.removeprefix("model.loss").removeprefix(".")
        raise refusal(below, error.value, error.remedy) from None
    return value


SmoothLoss = Annotated[
    str | dict[str, Any],
    BeforeValidator(
        _loss,
        json_schema_input_type=Literal["squared", "logistic", "huber", "hinge"]
        | HuberLoss
        | HingeLoss,
    ),
]


class RowClip(Section):
    """Bounds of what one event may contribute, in scaled units. Public: never from the data."""

    features: Positive | None = Field(
        default=None,
        description="An event whose scaled features have a larger l2 norm is shortened to it. "
        "Without it, the ranges alone bound an event: each feature lies in [-1, 1].",
        examples=[1.0],
    )


class OptimizeModel(Predictor):
    """A linear model over a convex set, by private optimisation of a smooth loss."""

    neighbours: ClassVar[Family] = Family(
        ("first", "blocks", "window"), "canary", "a row moves the gradients of its window"
    )

    target: OneTarget = Field(
        description="Column that is predicted: one of two classes, or a number where there are "
        "none.",
        examples=["sales"],
    )
    classes: ClassList | None = Field(
        default=None,
        description="Both values of the target that count, texts or numbers; the second is +1. "
        "Public. Any other is a missing label: its event teaches the model nothing.",
        examples=[["no", "yes"]],
    )
    loss: SmoothLoss | None = Field(
        default=None,
        description="squared, {huber: width}, logistic or hinge, in scaled units. Without it: "
        "squared, and logistic for classes.",
        examples=["squared"],
    )
    set: ConvexSetSpec = Field(
        description="Where the coefficients lie, in scaled units: {l1_ball: r}, {simplex: 1}, "
        "{polytope: {vertices: [...]}}, {l2_ball: r}, {lp_ball: {radius: r, p: 1.5}}, "
        "{group_l1_ball: {radius: r, groups: 3}}, {trace_norm_ball: ...}, {box: [low, high]} or "
        "{product: [...]}. It has no default: noise is in proportion to its size.",
        examples=["{l1_ball: 2}"],
    )
    clip: RowClip = Field(
        default=RowClip(),
        description="Bound of the length of one event's features.",
        examples=["{features: 1.0}"],
    )

    predicts_by: ClassVar[str] = "theta"

    # ---- what it is

    def ends_of(self, name: str) -> tuple[float, float]:
        """Range of a column."""
        low, high = self.ranges[name]
        return float(low), float(high)

    @property
    def loss_spec(self) -> str | Mapping[str, Any]:
        """The loss as the config writes it, or the default."""
        if self.loss is not None:
            return self.loss
        return "squared" if self.classes is None else "logistic"

    @property
    def place(self) -> str:
        """Where the coefficients lie, for people."""
        return f"{set_words(self.set)}, dimension {self.dimension:,}"

    @property
    def ranged(self) -> tuple[str, ...]:
        """Columns that have a range: the target has none where it has classes."""
        return self.features if self.classes is not None else self.columns

    @property
    def declared(self) -> Mapping[str, tuple[str, ...] | tuple[float, ...]]:
        """The target, where it has classes."""
        return {} if self.classes is None else {self.targets[0]: self.classes}

    @property
    def norm(self) -> float:
        """Most that the l2 norm of an event's features is."""
        return math.inf if self.clip.features is None else float(self.clip.features)

    @property
    def inputs(self) -> Inputs | WideInputs:
        """From columns to rows, sparse ones where a list column is wide."""
        classes: Classes = self.classes or ()
        if self.listed is not None and self.listed.size > MOST_DENSE:
            target = None if self.classes else self.ends_of(self.targets[0])
            bound_at = self.ends_of(self.listed.name)[1]
            return WideInputs(
                self.listed.name,
                self.listed.size,
                bound_at,
                self.listed.filled,
                self.targets[0],
                target,
                classes,
                self.norm,
            )
        ranges = self.public_ranges
        pairs = tuple(ranges[name] for name in self.ranged)
        return Inputs(self.features, self.targets[0], pairs, classes, self.norm)

    @property
    def linear(self) -> Linear:
        """What is optimised.

        Raises:
          ConfigError: a loss with a corner, or one that does not suit the target; no such set.
        """
        loss = parse_loss(self.loss_spec)
        if self.classes is not None and (len(self.classes) != 2 or not loss.labels):
            raise ConfigError(
                "model.classes",
                list(self.classes),
                "must be two, under loss: logistic or hinge; for more take erm.*, for numbers "
                "leave them out.",
            )
        if self.classes is None and loss.labels:
            raise ConfigError(
                "model.loss",
                loss.name,
                "is for two classes; list them: model.classes: [no, yes].",
            )
        features = len(self.features)
        convex_set = parse_set(self.set, self.dimension)
        return Linear(loss, convex_set, features, self.intercept, self.norm)

    # ---- what it says

    def bounds_facts(self, program: Any) -> Iterator[tuple[str, str]]:
        """What one event may add."""
        linear = self.linear
        yield (
            "one event adds",
            f"a gradient with entries of at most {number(linear.lipschitz_in(math.inf))} (scaled "
            "units)",
        )

    def refused(self) -> Iterator[str]:
        """See Algorithm."""
        yield from super().refused()
        if self.classes is not None:
            yield "a target that is none of the classes counts as missing"
        if self.clip.features is not None:
            yield (
                f"features of a scaled l2 norm above {self.clip.features:g} are shortened to it, "
                "and counted as clipped"
            )
