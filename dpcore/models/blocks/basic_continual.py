"""``erm.basic_continual`` in a config."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from weir.dpcore.models.blocks.continual import GrowingModel
from weir.dpcore.models.fields import ALGORITHM


class BasicContinualModel(GrowingModel):
    """The same with updates from the newest block alone."""

    algorithm: Literal["erm.basic_continual"] = Field(
        description=ALGORITHM, examples=["erm.basic_continual"]
    )

    title: ClassVar[str] = "the same, updated from the newest block alone"
    about: ClassVar[str] = (
        "As erm.continual without updates of several blocks: each is pulled to the one before, "
        "whose noise it inherits until the next base."
    )
    source: ClassVar[str] = "Watson, Kulkarni, Schmidt & Raskar 2021 (Appendix C)"
    larger: ClassVar[bool] = False
