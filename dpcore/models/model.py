"""What every linear model over a convex set is in a config."""

from __future__ import annotations

from pydantic import Field

from weir.dpcore.models.fields import ConvexSetSpec
from weir.dpcore.models.predictor import Predictor
from weir.dpcore.models.words import set_words

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
