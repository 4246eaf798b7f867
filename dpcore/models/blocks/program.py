"""The program: rows are gathered into blocks, blocks are fitted on a schedule, models released."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from weir.dpcore.accounting.guarantee import LossKind
from weir.dpcore.arrays import Ints
from weir.dpcore.models.blocks.cut import Blocks
from weir.dpcore.models.blocks.fitter import Fitter
from weir.dpcore.models.blocks.kept import KeptBlocks
from weir.dpcore.models.blocks.level import Level
from weir.dpcore.models.blocks.minimised import Minimised
from weir.dpcore.models.blocks.noised import Noised
from weir.dpcore.models.blocks.objective import Objective
from weir.dpcore.models.blocks.presence import ALONE, Presence
from weir.dpcore.models.blocks.schedule import Schedule, spread
from weir.dpcore.models.blocks.stepped import Stepped
from weir.dpcore.models.blocks.stochastic import Stochastic
from weir.dpcore.models.kit.inputs import Inputs
from weir.dpcore.noise.noise import kind_of
from weir.dpcore.program import OutputInfo


@dataclass(frozen=True)
class BlockProgram(KeptBlocks):
    """A model per key, of blocks of its records, on a public schedule.

    Formal guarantees:
      Unit: one event, or a user in a period. Relation: as the cut says (``ByCount``, ``ByTicks``,
        ``ByUsers``); of a user's period in place of another twice as much is paid for.
      Sensitivity: of a fit, ``Level``. Guarantee: what a record pays is the sum of what the fits
        cost that its block is in, at most over all blocks of a period, found by brute force
        (``schedule.spent``): mu^2 of Gaussian noise, rho of discrete Gaussian, eps of K-norm noise
        all add up, adaptively. It does not grow with time: a record's block leaves the last fit.
        A user is in several blocks (``Presence``).
      Source: Watson, Kulkarni, Schmidt, Raskar (2021), with totals from the schedule.

    Attributes:
      inputs: from columns to rows. objective: F. schedule, cut, levels: see there.
      cap: rows a key and tick. algorithm: its name in the config. presence: of the unit.
    """

    inputs: Inputs
    objective: Objective
    schedule: Schedule
    cut: Blocks
    levels: tuple[Noised, ...]
    cap: int
    algorithm: str
    presence: Presence = ALONE

    @property
    def fitters(self) -> tuple[Fitter, ...]:
        """See KeptBlocks."""
        return tuple(self._fitter(level) for level in self.levels)

    def _fitter(self, level: Noised) -> Fitter:
        if isinstance(level, Stochastic):
            return Stepped(self.objective, level)
        assert isinstance(level, Level)
        return Minimised(self.objective, level)

    @property
    def scored(self) -> Objective:
        """See KeptBlocks."""
        return self.objective

    @property
    def kind(self) -> LossKind:
        """See KeptBlocks."""
        return kind_of(self.levels[0].noise.kind)

    @property
    def costs(self) -> list[Fraction]:
        """See KeptBlocks."""
        return [level.cost for level in self.levels]

    def describe(self, ticks: Ints) -> tuple[OutputInfo, ...]:
        """What is released. A model's error is not additive: NaN."""
        return self.outputs_of(max(level.noise.moved for level in self.levels))

    def released_stddev(self) -> float:
        """Of a coordinate of the noise in a released model, on average over a period: at most."""
        variances = [level.noise.variance for level in self.levels]
        return math.sqrt(spread(self.schedule, variances))

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release, and all that a prediction needs."""
        return {
            "program": self.algorithm,
            "inputs": self.inputs.canonical(),
            "objective": self.objective.canonical(),
            "schedule": self.schedule.canonical(),
            "cut": self.cut.canonical(),
            "levels": [level.canonical() for level in self.levels],
            "cap": self.cap,
            **({} if self.presence == ALONE else {"presence": self.presence.canonical()}),
        }
