"""``erm.continual`` in a config, and what it shares with ``erm.basic_continual``."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from weir.dpcore.config.section import Says
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.growing import Growing
from weir.dpcore.models.blocks.section import BlockModel
from weir.dpcore.models.fields import ALGORITHM

MOST_TURN = 1 << 13

Base = Annotated[int, Field(ge=1, le=1 << 10), Says("must be a number of blocks from 1 to 1,024.")]
Doublings = Annotated[int, Field(ge=0, le=12), Says("must be a whole number from 0 to 12.")]


class GrowingModel(BlockModel):
    """Base models of all so far, fitted ever more seldom, and updates between them."""

    base: Base = Field(
        default=8,
        description="Blocks of the first base model; the next are of twice as many each.",
        examples=[8],
    )
    doublings: Doublings = Field(
        default=4,
        description="How often the base doubles before all begins anew; rows of base * 2^doublings "
        "blocks are kept.",
        examples=[4],
    )

    larger: ClassVar[bool]

    def schedule(self) -> Growing:
        """Which blocks are fitted when."""
        made = Growing(self.base, self.doublings, self.larger)
        if made.turn > MOST_TURN:
            raise ConfigError(
                "model.doublings",
                self.doublings,
                f"would make turns of {made.turn:,} blocks; at most {MOST_TURN:,}: take fewer, or "
                "larger blocks.",
            )
        return made


class ContinualModel(GrowingModel):
    """A model of all so far, updated with every block."""

    algorithm: Literal["erm.continual"] = Field(description=ALGORITHM, examples=["erm.continual"])

    title: ClassVar[str] = "a model of all blocks so far, updated with each"
    about: ClassVar[str] = (
        "Base models of the first B, 2B, 4B, ... blocks; after a base, updates from all since then "
        "at 1, 2, 4, ... blocks, pulled to it, and from the newest block at the others."
    )
    source: ClassVar[str] = (
        "Watson, Kulkarni, Schmidt & Raskar 2021 (Algorithm 4), base models paid for too"
    )
    larger: ClassVar[bool] = True
