"""The program: rows are gathered into blocks, blocks are fitted on a schedule, models released."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpcore.accounting.guarantee import LossKind, PrivacyLoss
from dpcore.arrays import Floats, Ints
from dpcore.leaves.rows import RowLeaf
from dpcore.models.blocks.cut import Blocks
from dpcore.models.blocks.cut_users import ByUsers
from dpcore.models.blocks.inputs import Inputs
from dpcore.models.blocks.level import Level
from dpcore.models.blocks.minimised import Minimised
from dpcore.models.blocks.objective import Objective
from dpcore.models.blocks.presence import ALONE, Presence
from dpcore.models.blocks.schedule import Schedule, spread
from dpcore.models.blocks.training import BlockTraining
from dpcore.noise.noise import kind_of
from dpcore.program import CAPACITY, Bounded, NoiseOf, OutputInfo, Released
from dpcore.training import Whole, whole_init, whole_step

FIXED = 64
"""Bytes of state of a key beside rows and models."""


@dataclass(frozen=True)
class BlockProgram:
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
    levels: tuple[Level, ...]
    cap: int
    algorithm: str
    presence: Presence = ALONE

    leaf: ClassVar[Literal["sum", "rows"]] = "rows"
    dtype: ClassVar[Any] = np.float64
    capacity: ClassVar[int] = CAPACITY
    row_width: ClassVar[int] = 0
    sums: ClassVar[tuple[()]] = ()

    @property
    def dimension(self) -> int:
        """D, length of theta."""
        return self.objective.dimension

    @property
    def width(self) -> int:
        """Numbers in a row: the features, then the target."""
        return self.inputs.width

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are read."""
        return self.inputs.columns

    @property
    def texts(self) -> Mapping[str, tuple[str, ...]]:
        """Columns of text, and the values that are declared: see ``dpcore.program.texts_of``."""
        return self.inputs.texts

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

    def bound(self, columns: Mapping[str, NDArray[Any]], n_events: int) -> Bounded:
        """Rows (n_events, width) float64 in [-1, 1], features clipped in l2."""
        return self.inputs.bound(columns, n_events)

    def accumulate(self, rows: Any, cells: Ints, n_cells: int) -> Ints:
        """Rows are kept, not summed."""
        raise TypeError(f"{self.algorithm} takes rows, not sums.")

    @property
    def training(self) -> BlockTraining:
        """What Tick, Train and Assemble do."""
        fitters = tuple(Minimised(self.objective, level) for level in self.levels)
        return BlockTraining(fitters, self.schedule, self.cut, self.width, self.cut.users > 0)

    def init(self, n_keys: int) -> Whole:
        """No rows and no models."""
        return whole_init(self.training, n_keys)

    def step(
        self, state: Whole, leaves: tuple[RowLeaf, ...], noise: NoiseOf
    ) -> tuple[Whole, tuple[Floats, ...]]:
        """A stride -> new state, theta (n, K, D) and blocks behind it (n, K, 2) at each tick."""
        return whole_step(self.training, state, leaves, noise)

    def solve(self, noisy: tuple[Floats, ...], ticks: Ints) -> tuple[Released, ...]:
        """theta in scaled units, the same in the user's where features are plain columns, and the
        first and last block behind it."""
        theta, behind = noisy
        found = [Released("theta", None, theta, None)]
        if self.inputs.plain:
            own = self.inputs.coefficients(theta, self.objective)
            found.append(Released("coefficients", None, own, None))
        return (*found, Released("model_of", None, behind, None))

    @property
    def total(self) -> Fraction:
        """What the unit pays in its life, at most: mu^2, rho or eps."""
        return self._total(self.presence)

    def _total(self, presence: Presence) -> Fraction:
        costs = [level.cost for level in self.levels]
        return presence.spent(self.schedule, costs, self._kind)

    @property
    def _kind(self) -> LossKind:
        return kind_of(self.levels[0].kind)

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """Loss of one record against everything released within ``ticks`` of its arrival, or of a
        user in a period, from its last tick on and before it: at most that of its life."""
        return self._loss_of(self.presence, ticks)

    def loss_of_event(self, ticks: int | None) -> PrivacyLoss:
        """Of a single cell of a user."""
        return self._loss_of(ALONE, ticks)

    def loss_of_periods(self, periods: int, ticks: int | None, among: int) -> PrivacyLoss:
        """Of a user in so many periods: at most that of a group of as many."""
        group = self.loss(ticks).of_group(periods)
        whole = self._loss_of(self.presence.of_periods(periods), ticks)
        return min(group, whole, key=lambda one: one.value)

    def _loss_of(self, presence: Presence, ticks: int | None) -> PrivacyLoss:
        if ticks is not None and ticks <= 0:
            return PrivacyLoss(self._kind, 0.0)
        value = float(self._total(presence))
        return PrivacyLoss(self._kind, math.sqrt(value) if self._kind == "gdp" else value)

    def describe(self, ticks: Ints) -> tuple[OutputInfo, ...]:
        """What is released. A model's error is not additive: NaN."""
        nan = float("nan")
        moved = max(level.sensitivity * level.resolution for level in self.levels)
        theta, own = self.inputs.labels(self.objective)
        found = [OutputInfo("theta", None, len(theta), moved, nan, theta)]
        if self.inputs.plain:
            found.append(OutputInfo("coefficients", None, len(own), moved, nan, own))
        return (*found, OutputInfo("model_of", None, 2, 0.0, nan, ("first", "last")))

    @property
    def row_bytes(self) -> int:
        """Bytes of state that a row takes: its numbers, and its block or hash."""
        return 4 * (self.width + (self.cut.users > 0)) + 16

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

    def stddev(self) -> float:
        """Of a coordinate of the noise in a released model, on average over a period: at most."""
        variances = [level.variance(self.dimension) for level in self.levels]
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
