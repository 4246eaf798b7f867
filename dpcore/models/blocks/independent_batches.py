"""``erm.independent_batches`` in a config."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from weir.dpcore.models.blocks.section import BlockModel
from weir.dpcore.models.blocks.single import Single
from weir.dpcore.models.fields import ALGORITHM


class IndependentBatchesModel(BlockModel):
    """A model of every block by itself: the baseline, by parallel composition."""

    algorithm: Literal["erm.independent_batches"] = Field(
        description=ALGORITHM, examples=["erm.independent_batches"]
    )

    title: ClassVar[str] = "a model of every block by itself"
    about: ClassVar[str] = (
        "As erm.output_perturbation for each block in turn, each with the whole budget, as no "
        "record is in two; what earlier blocks told is forgotten."
    )
    source: ClassVar[str] = "the baseline of Watson, Kulkarni, Schmidt & Raskar 2021"

    def schedule(self) -> Single:
        """Which blocks are fitted when."""
        return Single(again=True)
