"""Fields of models over a set, and of models with a public curvature."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from weir.dpcore.config.section import NEAREST, Numbers, Positive, Section, refusal
from weir.dpcore.models.fields import ConvexSetSpec
from weir.dpcore.models.predictor import Predictor
from weir.dpcore.models.words import set_words
from weir.dpcore.pricing.terms import Terms

RADIUS = 2.0
"""Of the default set, in scaled units: the target's whole range is 2."""


class Model(Predictor):
    """A linear model whose coefficients lie in a convex set."""

    set: ConvexSetSpec = Field(
        default={"l2_ball": RADIUS},
        description="Where the coefficients lie, in scaled units: {l1_ball: r}, {l2_ball: r}, "
        "{simplex: 1}, {box: [low, high]}, {polytope: {vertices: [...]}}, {product: [...]}, "
        "{trace_norm_ball: ...}, {permutations: n}, {flow: ...}, {lp_ball: {radius: r, p: 1.5}} or "
        "{group_l1_ball: {radius: r, groups: 3}}. Without it: {l2_ball: 2}.",
        examples=["{l1_ball: 5}"],
    )

    @property
    def place(self) -> str:
        """Where the coefficients lie, for people."""
        return f"{set_words(self.set)}, dimension {self.dimension}"


PULL = 10
"""Events that weigh as much as the curvature of a tick, where none is given."""


def default_gradient_clip(dimension: int) -> float:
    """L where none is given: rows have norm at most sqrt(d), so an event whose loss has slope 1/2
    (squared: a prediction that is off by a quarter of the target's range) is never clipped."""
    return math.sqrt(dimension) / 2


class GradientClip(Section):
    """Bounds of what one event may contribute, in scaled units. Public: never from the data."""

    gradient: Positive = Field(
        default_factory=lambda: default_gradient_clip(1),
        description="L: gradients of an event with a larger l2 norm are shortened to it; noise "
        "grows with it. Without it: half the root of the number of coefficients.",
        examples=[1.0],
    )


class Curved(Model):
    """A model whose every tick adds a public curvature, which pulls to a centre."""

    curvature: Positive | None = Field(
        default=None,
        description="mu: weight of the public (mu/2) |x - centre|^2 that every tick adds, empty "
        "ones too. About a tenth of the events that a key has in a tick: with much less a model "
        "swings and follows the noise, with much more it hardly leaves the centre. Without it: a "
        "tenth of expect.events, or 1.",
        examples=[1.0],
    )
    centre: Numbers | None = Field(
        default=None,
        description="Where the curvature pulls to, and models start if the set holds it; in scaled "
        "units, a number a coefficient; 0 without it.",
        examples=[[0.5, 0.0]],
    )

    def mu(self, terms: Terms) -> float:
        """The curvature; without one that of the events that are expected."""
        if self.curvature is not None:
            return float(self.curvature)
        return 1.0 if terms.events is None else max(NEAREST, terms.events / PULL)

    @property
    def middle(self) -> tuple[float, ...]:
        """The centre; 0 without one."""
        return (0.0,) * self.dimension if self.centre is None else tuple(map(float, self.centre))

    @model_validator(mode="after")
    def _check_centre(self) -> Self:
        if self.centre is None:
            return self
        if not all(math.isfinite(item) for item in self.centre):
            raise refusal("centre", list(self.centre), "must hold finite numbers.")
        if len(self.centre) != self.dimension:
            names = [*self.features, *(["intercept"] if self.intercept else [])]
            shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            raise refusal(
                "centre",
                list(self.centre),
                f"must hold {self.dimension} numbers, one a coefficient ({shown}).",
            )
        return self


class GradientClipped(Curved):
    """A model that clips the gradients of events."""

    clip: GradientClip = Field(
        default_factory=GradientClip,
        description="Bound of one event's gradient.",
        examples=["{gradient: 1.0}"],
    )

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: Any) -> Any:
        """The default clip follows from the number of coefficients."""
        if not isinstance(data, Mapping):
            return data
        filled = dict(data)
        features, clip = filled.get("features"), filled.get("clip")
        count = len(features) if isinstance(features, list | tuple) else 0
        if isinstance(features, Mapping) and isinstance(features.get("size"), int):
            count = features["size"]
        if count and (clip is None or isinstance(clip, Mapping)):
            dimension = count + (filled.get("intercept", True) is True)
            gradient = default_gradient_clip(max(1, dimension))
            filled["clip"] = {"gradient": gradient, **(clip or {})}
        return filled

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """With the clip, whose default is another where features are other."""
        written: dict[str, Any] = write(self)
        clip = {**written.get("clip", {}), "gradient": self.clip.gradient}
        return {**written, "clip": clip}
