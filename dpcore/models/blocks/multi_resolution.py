"""Models of the last 1, 2, 4, ... blocks, on all rows or on a secret sample, and their schedule."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.config.section import Says
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.level import Level, sampled_level
from weir.dpcore.models.blocks.objective import Objective
from weir.dpcore.models.blocks.partition import Blocks
from weir.dpcore.models.blocks.schedule import FitSchedule, Period, PlannedFit, ShownFit
from weir.dpcore.models.blocks.section import BlockModel
from weir.dpcore.models.fields import Share, algorithm_field
from weir.dpcore.pricing.terms import Terms


@dataclass(frozen=True)
class Resolutions(FitSchedule):
    """When t blocks are complete, a model of the last 2^k of them for each 2^k that divides t.

    The largest of them is released; each is kept in a slot of its own.

    **Formal guarantees**: a record is in one fit of each scale: 2^k divides the border on either
    side of it once. Source: Watson et al. (2021), Algorithm 2.

    Attributes:
      top: largest k.
    """

    top: int

    name: ClassVar[str] = "multi_resolution"

    @property
    def sizes(self) -> tuple[int, ...]:
        """See Schedule: 2^level."""
        return tuple(1 << level for level in range(self.top + 1))

    @property
    def slots(self) -> int:
        return self.top + 1

    @property
    def period(self) -> Period:
        return Period(1, 1 << self.top)

    @property
    def weights(self) -> tuple[Fraction, ...]:
        """See Schedule: one half, one quarter, ..."""
        return tuple(Fraction(1, 2 * size) for size in self.sizes)

    def largest(self, complete: int) -> int:
        """The largest k whose 2^k divides a number of blocks."""
        return min(self.top, (complete & -complete).bit_length() - 1)

    def fits(self, complete: int) -> tuple[PlannedFit, ...]:
        if complete < 1:
            return ()
        return tuple(
            PlannedFit(level, complete - (1 << level), complete - 1, None, level)
            for level in reversed(range(self.largest(complete) + 1))
        )

    def shown(self, complete: int) -> ShownFit | None:
        if complete < 1:
            return None
        level = self.largest(complete)
        return ShownFit(level, complete - (1 << level), complete - 1)

    def oldest(self, complete: int) -> int:
        """See Schedule: no fit reaches over a multiple of the largest size."""
        return max(0, complete - 1) >> self.top << self.top

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {"name": self.name, "top": self.top}


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

    algorithm: Literal["erm.multi_resolution"] = algorithm_field("erm.multi_resolution")

    title: ClassVar[str] = "models of the last 1, 2, 4, ... blocks"
    about: ClassVar[str] = (
        "When t blocks are complete, a model of the last 2^k for each 2^k that divides t, the "
        "largest of which is released; a record is in one of each scale."
    )
    source: ClassVar[str] = "Watson, Kulkarni, Schmidt & Raskar 2021 (Algorithm 2)"


class SampledModel(ScaledModel):
    """erm.multi_resolution with fits on secret samples: less work, about the same noise.

    The sampling variants as printed are not private: a fit runs on about B rows of 2^k B, so that
    one row moves it as a fit of B rows, while its noise shrinks with 2^k B. Sampling is paid back
    only in part by its secrecy. Here the sample has exactly m = ceil(p N) of N rows, sensitivity is
    that of m rows, and what a fit costs is amplified for it (``Level``).
    """

    algorithm: Literal["erm.sampled"] = algorithm_field("erm.sampled")
    sample: Share = Field(
        default=0.5,
        description="p: share of the rows of a fit that it runs on, drawn in secret.",
        examples=[0.5],
    )

    title: ClassVar[str] = "erm.multi_resolution, each fit on a secret sample"
    about: ClassVar[str] = (
        "A fit runs on exactly m = ceil(p N) of its N rows, drawn in secret without replacement, "
        "at the sensitivity of m rows, amplified: less work, not less noise. Pure epsilon."
    )
    source: ClassVar[str] = (
        "Watson, Kulkarni, Schmidt & Raskar 2021 (Appendix B), corrected; Balle, Barthe & Gaboardi "
        "2018"
    )
    event_only: ClassVar[str] = (
        "a sample of a public size needs blocks of a number of records, which one user who was not "
        "there would move; take erm.multi_resolution"
    )
    noises: ClassVar[tuple[str, ...]] = ("k_norm",)
    stepped: ClassVar[bool] = False

    def cut(self, terms: Terms) -> Blocks:
        """Blocks of records: N must be public."""
        if not isinstance(self.block, int):
            raise ConfigError(
                "model.block",
                self.block,
                "must be a number of records: how many rows a block of ticks has is private, and "
                "so is what share of them a sample is.",
            )
        return super().cut(terms)

    def level(
        self,
        objective: Objective,
        size: int,
        cut: Blocks,
        changes: int,
        budget: PrivacyLoss,
        share: Fraction,
    ) -> Level:
        """Fits on a sample of the rows of so many blocks."""
        rows = cut.most * size
        sample = math.ceil(Fraction(repr(self.sample)) * rows)  # 0.1 is a tenth
        return sampled_level(objective, size, rows, sample, budget, share)
