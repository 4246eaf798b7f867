"""What models of private optimisation over a set have in common in a config."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from weir.dpcore.config.section import Positive, Section
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.parse import parse_set
from weir.dpcore.models.blocks.fields import ClassifiedModel, ClassList
from weir.dpcore.models.fields import (
    ConvexSetSpec,
    HingeLoss,
    HuberLoss,
    OneTarget,
    loss_field,
)
from weir.dpcore.models.kit.inputs import Inputs
from weir.dpcore.models.kit.loss_spec import parse_loss
from weir.dpcore.models.optimize.linear import Linear
from weir.dpcore.models.prediction import inputs_of
from weir.dpcore.models.words import set_words
from weir.dpcore.neighbours import Family
from weir.dpcore.words import number

SmoothLoss = Annotated[
    str | dict[str, Any],
    loss_field(
        "squared, or {huber: 0.5}",
        Literal["squared", "logistic", "huber", "hinge"] | HuberLoss | HingeLoss,
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


class OptimizeModel(ClassifiedModel):
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

    # ---- what it is

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
    def norm(self) -> float:
        """Most that the l2 norm of an event's features is."""
        return math.inf if self.clip.features is None else float(self.clip.features)

    @property
    def inputs(self) -> Inputs:
        """From columns to rows, sparse ones where a list column is wide."""
        return inputs_of(self, self.norm, self.classes or ())

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
        yield from super().refused()
        if self.classes is not None:
            yield "a target that is none of the classes counts as missing"
        if self.clip.features is not None:
            yield (
                f"features of a scaled l2 norm above {self.clip.features:g} are shortened to it, "
                "and counted as clipped"
            )
