"""Models of one block each, and their schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from weir.dpcore.models.blocks.schedule import FitSchedule, Period, PlannedFit, ShownFit
from weir.dpcore.models.blocks.section import BlockModel
from weir.dpcore.models.fields import algorithm_field


@dataclass(frozen=True)
class Single(FitSchedule):
    """Models of one block each; nothing follows anything.

    **Formal guarantees**: a record is in at most one fit.

    Attributes:
      again: whether every block is fitted; else the first alone.
    """

    again: bool

    sizes: ClassVar[tuple[int, ...]] = (1,)

    @property
    def name(self) -> str:
        return "independent_batches" if self.again else "output_perturbation"

    @property
    def period(self) -> Period:
        return Period(1, 1)

    def fits(self, complete: int) -> tuple[PlannedFit, ...]:
        if complete < 1 or (complete > 1 and not self.again):
            return ()
        return (PlannedFit(0, complete - 1, complete - 1, None, 0),)

    def shown(self, complete: int) -> ShownFit | None:
        if complete < 1:
            return None
        block = complete - 1 if self.again else 0
        return ShownFit(0, block, block)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {"name": self.name}


class OutputPerturbationModel(BlockModel):
    """One model of the first block, with noise on its steps or on its minimiser."""

    algorithm: Literal["erm.output_perturbation"] = algorithm_field("erm.output_perturbation")

    title: ClassVar[str] = "one model of the first block of records"
    about: ClassVar[str] = (
        "A model of the first block, by noisy steps; or (solver: output) the minimiser of a "
        "regularised loss, certified, with noise in proportion to how far one record moves it; "
        "released from then on."
    )
    source: ClassVar[str] = (
        "Chaudhuri, Monteleoni & Sarwate 2011; Wu et al. 2017 (PSGD), with the exact sensitivity"
    )

    by_rule: ClassVar[bool] = True

    def schedule(self) -> Single:
        """Which blocks are fitted when."""
        return Single(again=False)


class IndependentBatchesModel(BlockModel):
    """A model of every block by itself: the baseline, by parallel composition."""

    algorithm: Literal["erm.independent_batches"] = algorithm_field("erm.independent_batches")

    title: ClassVar[str] = "a model of every block by itself"
    about: ClassVar[str] = (
        "As erm.output_perturbation for each block in turn, each with the whole budget, as no "
        "record is in two; what earlier blocks released is forgotten."
    )
    source: ClassVar[str] = "the baseline of Watson, Kulkarni, Schmidt & Raskar 2021"

    by_rule: ClassVar[bool] = True

    def schedule(self) -> Single:
        """Which blocks are fitted when."""
        return Single(again=True)
