"""``erm.multi_resolution`` in a config."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from weir.dpcore.config.section import Says
from weir.dpcore.models.blocks.resolutions import Resolutions
from weir.dpcore.models.blocks.section import BlockModel
from weir.dpcore.models.fields import ALGORITHM

Scales = Annotated[int, Field(ge=0, le=12), Says("must be a whole number from 0 to 12.")]


class ScaledModel(BlockModel):
    """Models of the last 1, 2, 4, ... blocks."""

    doublings: Scales = Field(
        default=4,
        description="k of the largest scale, 2^k blocks; rows of so many are kept.",
        examples=[4],
    )

    def schedule(self) -> Resolutions:
        """Which blocks are fitted when."""
        return Resolutions(self.doublings)


class MultiResolutionModel(ScaledModel):
    """The largest model of 1, 2, 4, ... blocks that ends with the newest."""

    algorithm: Literal["erm.multi_resolution"] = Field(
        description=ALGORITHM, examples=["erm.multi_resolution"]
    )

    title: ClassVar[str] = "models of the last 1, 2, 4, ... blocks"
    about: ClassVar[str] = (
        "When t blocks are complete, a model of the last 2^k for each 2^k that divides t, the "
        "largest of which is released; a record is in one of each scale."
    )
    source: ClassVar[str] = "Watson, Kulkarni, Schmidt & Raskar 2021 (Algorithm 2)"
