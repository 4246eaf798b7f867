"""Programs that keep blocks of records and fit models to them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from weir.dpcore.accounting.guarantee import LossKind, PrivacyLoss
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.models.blocks.fitter import Fitter, Minimised, Stepped
from weir.dpcore.models.blocks.level import FitLevel, Level
from weir.dpcore.models.blocks.objective import Objective, Scored
from weir.dpcore.models.blocks.partition import Blocks, ByUsers
from weir.dpcore.models.blocks.schedule import ALONE, FitSchedule, Participation, Waits, spread
from weir.dpcore.models.blocks.steps import StepsLevel
from weir.dpcore.models.blocks.steps_fit import StepsFitter
from weir.dpcore.models.blocks.stochastic import Stochastic
from weir.dpcore.models.blocks.training import BlockTraining
from weir.dpcore.models.kit.inputs import InputRows, Inputs
from weir.dpcore.models.kit.rows import model_outputs, released_models
from weir.dpcore.program import OutputInfo, Released, TrainedProgram

FIXED = 64
"""Bytes of state of a key next to rows and models."""


class KeptBlocks(InputRows, TrainedProgram):
    """A model per key, of blocks of its records, on a public schedule.

    Attributes:
      inputs: from columns to rows. schedule, cut: see there. cap: rows a key and tick.
      algorithm: its name in the config. presence: of the unit.
    """

    inputs: Inputs
    schedule: FitSchedule
    cut: Blocks
    algorithm: str
    presence: Participation

    @property
    @abstractmethod
    def fitters(self) -> tuple[Fitter, ...]:
        """What fits, of each level of the schedule."""

    @property
    @abstractmethod
    def scored(self) -> Scored:
        """What a model is of."""

    @property
    @abstractmethod
    def kind(self) -> LossKind:
        """The currency of what fits cost."""

    @property
    @abstractmethod
    def costs(self) -> list[Fraction]:
        """What a fit of each level costs a record in it: mu^2, rho or eps."""

    @property
    def dimension(self) -> int:
        """D, length of theta."""
        return self.fitters[0].dimension

    @property
    def most_users(self) -> int | None:
        """See RowProgram: of a tick as many as of a block."""
        return self.cut.users or None

    @property
    def user_ticks(self) -> int:
        """See ``dpcore.program.hash_ticks``: in all ticks of a block the same users stay."""
        return self.cut.ticks if isinstance(self.cut, ByUsers) else 1

    @property
    def by_id(self) -> bool:
        """Whether a record without an id has no place: see ``dpcore.program.needs_ids``."""
        return self.cut.by_count

    @property
    def waits(self) -> Waits:
        """What a key must have before its first model."""
        return Waits.of_blocks(self.schedule, self.cut, self.cap)

    @property
    def training(self) -> BlockTraining:
        """What Tick, Train and Assemble do."""
        shared, sparse = self.cut.users > 0, self.inputs.sparse
        return BlockTraining(self.fitters, self.schedule, self.cut, self.width, shared, sparse)

    def solve(self, noisy: tuple[Floats, ...], ticks: Ints) -> tuple[Released, ...]:
        """theta in scaled units, the same in the user's where features are plain columns, and the
        first and last block behind it."""
        (theta, behind), scored, own = noisy, self.scored, None
        if self.inputs.plain:
            labels = bool(self.inputs.classes)
            own = self.inputs.coefficients(theta, scored.intercept, labels, scored.outputs)
        return released_models(theta, own, behind)

    def outputs_of(self, moved: float, sparse: bool = False) -> tuple[OutputInfo, ...]:
        """What ``describe`` says. moved: most that one event changes."""
        theta, own = self.inputs.names(self.scored.intercept, self.scored.outputs)
        return model_outputs(theta, own if self.inputs.plain else None, moved, sparse, behind=True)

    @property
    def total(self) -> Fraction:
        """What the unit pays in its life, at most: mu^2, rho or eps."""
        return self._total(self.presence)

    def _total(self, presence: Participation) -> Fraction:
        return presence.spent(self.schedule, self.costs, self.kind)

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """Loss of one record against everything released within ``ticks`` of its arrival, or of a
        user in a period, from its last tick on and before it: at most that of its life."""
        return self._loss_of(self.presence, ticks)

    def loss_of_event(self, ticks: int | None) -> PrivacyLoss:
        """Of a single cell of a user."""
        return self._loss_of(ALONE, ticks)

    def loss_of_periods(
        self, periods: int, ticks: int | None, among: int, longest: int | None = None
    ) -> PrivacyLoss:
        """Of a user in so many periods: at most that of a group of as many."""
        group = self.loss(ticks).of_group(periods)
        whole = self._loss_of(self.presence.of_periods(periods), ticks)
        return min(group, whole, key=lambda item: item.value)

    def _loss_of(self, presence: Participation, ticks: int | None) -> PrivacyLoss:
        if ticks is not None and ticks <= 0:
            return PrivacyLoss(self.kind, 0.0)
        value = float(self._total(presence))
        return PrivacyLoss(self.kind, math.sqrt(value) if self.kind == "gdp" else value)

    @property
    def row_bytes(self) -> int:
        """Bytes of state that a row takes, at most: its numbers, and its block or hash."""
        return self.inputs.row_bytes + 4 * (self.cut.users > 0) + 16

    @property
    def reach(self) -> int:
        """Blocks whose rows are kept, at most."""
        start, length = self.schedule.period
        spans = range(1, start + length + 1)
        return max(t - self.schedule.oldest(t) for t in spans) + 1

    def state_bytes(self) -> int:
        """Bytes of state per key that has as many rows as it may."""
        rows = (self.reach + 1) * self.cut.most + self.cap
        return rows * self.row_bytes + self.schedule.slots * (8 * self.dimension + 16) + FIXED


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
        A user is in several blocks (``Participation``).
      Source: Watson, Kulkarni, Schmidt, Raskar (2021), with totals from the schedule.

    Attributes:
      inputs: from columns to rows. objective: F. schedule, cut, levels: see there.
      cap: rows a key and tick. algorithm: its name in the config. presence: of the unit.
    """

    inputs: Inputs
    objective: Objective
    schedule: FitSchedule
    cut: Blocks
    levels: tuple[FitLevel, ...]
    cap: int
    algorithm: str
    presence: Participation = ALONE

    @property
    def fitters(self) -> tuple[Fitter, ...]:
        return tuple(self._fitter(level) for level in self.levels)

    def _fitter(self, level: FitLevel) -> Fitter:
        if isinstance(level, StepsLevel):
            return StepsFitter(level)
        if isinstance(level, Stochastic):
            return Stepped(self.objective, level)
        assert isinstance(level, Level)
        return Minimised(self.objective, level)

    @property
    def scored(self) -> Objective:
        return self.objective

    @property
    def kind(self) -> LossKind:
        return self.levels[0].kind

    @property
    def costs(self) -> list[Fraction]:
        return [level.cost for level in self.levels]

    def describe(self, ticks: Ints) -> tuple[OutputInfo, ...]:
        """What is released. A model's error is not additive: NaN."""
        return self.outputs_of(max(level.moved for level in self.levels))

    def released_stddev(self) -> float:
        """Of a coordinate of the noise in a released model, on average over a period: at most."""
        variances = [level.variance for level in self.levels]
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
