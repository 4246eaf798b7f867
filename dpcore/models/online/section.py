"""What models that learn online have in common in a config, and what they say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from weir.dpcore.algorithm import Reading, Shown
from weir.dpcore.config.section import FARTHEST, NEAREST, Says, refusal
from weir.dpcore.models.fields import (
    AnyLoss,
    Cap,
    OneTarget,
    cap_field,
    cap_refusal,
    label_field,
    loss_of_rows,
)
from weir.dpcore.models.model import Curved, GradientClip, GradientClipped
from weir.dpcore.models.words import OWN_UNITS, centre_words
from weir.dpcore.neighbours import Family
from weir.dpcore.words import number

PLAYED = Shown("coefficients in scaled units, as released at the tick", role="scaled_model")
"""The release ``theta``."""

LOSSES = Shown(
    "losses since the start, and per tick",
    unit="mean a tick",
    role="score",
    part="per_tick",
    reading="The loss is what the released models lost on the events, clipped event by event, as a "
    "mean over the ticks since the start; its margin holds 95 % of its noise ({band} standard "
    "deviations on either side).",
)
"""The release ``loss``."""

_NO_LOSS = "must be a finite number above 0, or 0 for no loss."
MostLoss = Annotated[float, Field(ge=0, le=FARTHEST, allow_inf_nan=False), Says(_NO_LOSS)]


class LearnerClip(GradientClip):
    """Bounds of what one event may contribute, in scaled units. Public: never from the data."""

    loss: MostLoss = Field(
        default=1.0,
        description="B: the largest loss of an event that counts in the released running loss; 0 "
        "releases no loss.",
        examples=[1.0],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if 0 < self.loss < NEAREST:
            raise refusal("loss", self.loss, _NO_LOSS)
        return self


class OnlineModel(Curved):
    """A model that is played before its tick's events are seen."""

    neighbours: ClassVar[Family] = Family(
        ("first", "window", "powers"),
        "canary",
        "a gradient at the public start is longest for the longest row and the farthest target",
    )

    target: OneTarget = label_field()

    reading: ClassVar[Reading] = Reading(
        "Every line is what was released; the events are not in this page. theta is the model as "
        "it was released at each tick, with features and target scaled to the public ranges; "
        "coefficients is the same model in the units of the data. Models have no margin of error: "
        "the noise is in the sums of gradients that they follow, and what it does to a model "
        "depends on the data.",
        "",
        "",
    )
    outputs: ClassVar[Mapping[str, Shown]] = {
        "theta": PLAYED,
        "coefficients": OWN_UNITS,
        "loss": LOSSES,
    }

    def own_facts(self, program: Any) -> Iterator[tuple[str, str]]:
        """Curvature and regret."""
        yield "curvature", self.curvature_words(program.curvature)
        yield from self.step_facts()
        yield "regret", program.regret

    def curvature_words(self, curvature: float) -> str:
        """The public regulariser."""
        return centre_words(curvature, self.centre)

    def step_facts(self) -> Iterator[tuple[str, str]]:
        """How a step is made, where there is a choice."""
        return iter(())

    def notes(self, program: Any) -> Iterator[str]:
        yield (
            "A model is fixed before its tick's events are seen: it follows from what was released "
            "before. Its distance to the model without noise is not additive and has no margin of "
            "error."
        )


class GradientModel(OnlineModel, GradientClipped):
    """A model that learns from clipped gradients of capped events."""

    loss: AnyLoss = loss_of_rows()
    clip: LearnerClip = Field(
        default_factory=LearnerClip,
        description="Bounds of one event's gradient and loss.",
        examples=["{gradient: 1.0, loss: 1.0}"],
    )
    cap: Cap = cap_field()

    @property
    def loss_spec(self) -> str | Mapping[str, Any]:
        """The loss as the config writes it."""
        return self.loss

    def bounds_facts(self, program: Any) -> Iterator[tuple[str, str]]:
        """What one event may add."""
        gradient = f"a gradient of l2 norm at most {number(self.clip.gradient)}"
        released = self.releases_loss(program)
        loss = f", and a loss of at most {number(self.clip.loss)}" if released else ""
        yield "one event adds", f"{gradient}{loss} (scaled units)"

    def releases_loss(self, program: Any) -> bool:
        """Whether a running loss is among what is released."""
        return False

    def refused(self) -> Iterator[str]:
        yield from super().refused()
        yield cap_refusal(self.cap)
