"""``erm.sliding_window`` in a config."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from weir.dpcore.config.section import Says
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.section import BlockModel
from weir.dpcore.models.blocks.sliding import Sliding
from weir.dpcore.models.fields import ALGORITHM

Window = Annotated[
    int, Field(ge=1, le=4095), Says("must be 2^k - 1 blocks: 1, 3, 7, 15, 31, ... up to 4,095.")
]


class SlidingWindowModel(BlockModel):
    """A model of the last blocks, updated with every block: a base, and updates around it."""

    algorithm: Literal["erm.sliding_window"] = Field(
        description=ALGORITHM, examples=["erm.sliding_window"]
    )
    window: Window = Field(
        default=7,
        description="Blocks of the window, 2^k - 1. Nothing is released before it is full.",
        examples=[7],
    )

    title: ClassVar[str] = "a model of a sliding window of blocks"
    about: ClassVar[str] = (
        "A base model of half of the window, and updates of sizes that halve on both sides of it, "
        "each pulled to the released one before; a record is in one fit of each size."
    )
    source: ClassVar[str] = "Watson, Kulkarni, Schmidt & Raskar 2021 (PSWERM), totals corrected"

    def schedule(self) -> Sliding:
        """Which blocks are fitted when."""
        if self.window & (self.window + 1):
            raise ConfigError(
                "model.window", self.window, "must be 2^k - 1 blocks: 1, 3, 7, 15, 31, ..."
            )
        return Sliding(self.window.bit_length())
