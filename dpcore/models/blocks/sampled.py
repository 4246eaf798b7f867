"""``erm.sampled`` in a config."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar, Literal

from pydantic import Field

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.cut import Blocks
from weir.dpcore.models.blocks.level import Level, sampled_level
from weir.dpcore.models.blocks.multi_resolution import ScaledModel
from weir.dpcore.models.blocks.objective import Objective
from weir.dpcore.models.fields import ALGORITHM, Share
from weir.dpcore.pricing.terms import Terms


class SampledModel(ScaledModel):
    """erm.multi_resolution with fits on secret samples: less work, about the same noise.

    The sampling variants as printed are not private: a fit runs on about B rows of 2^k B, so that
    one row moves it as a fit of B rows, while its noise shrinks with 2^k B. Sampling is paid back
    only in part by its secrecy. Here the sample has exactly m = ceil(p N) of N rows, sensitivity is
    that of m rows, and what a fit costs is amplified for it (``Level``).
    """

    algorithm: Literal["erm.sampled"] = Field(description=ALGORITHM, examples=["erm.sampled"])
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
