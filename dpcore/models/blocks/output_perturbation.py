"""``erm.output_perturbation`` in a config."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from weir.dpcore.models.blocks.section import BlockModel
from weir.dpcore.models.blocks.single import Single
from weir.dpcore.models.fields import ALGORITHM


class OutputPerturbationModel(BlockModel):
    """One model of the first block, with noise on its minimiser."""

    algorithm: Literal["erm.output_perturbation"] = Field(
        description=ALGORITHM, examples=["erm.output_perturbation"]
    )

    title: ClassVar[str] = "one model of the first block of records"
    about: ClassVar[str] = (
        "The minimiser of a regularised loss over the first block, certified, with noise in "
        "proportion to how far one record moves it; released from then on."
    )
    source: ClassVar[str] = (
        "Chaudhuri, Monteleoni & Sarwate 2011; Wu et al. 2017 (PSGD), with the exact sensitivity"
    )

    def schedule(self) -> Single:
        """Which blocks are fitted when."""
        return Single(again=False)
