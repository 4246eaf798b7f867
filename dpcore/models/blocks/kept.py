"""What programs have in common that gather rows into blocks and fit models to them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.accounting.guarantee import LossKind, PrivacyLoss
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.blocks.cut import Blocks
from weir.dpcore.models.blocks.cut_users import ByUsers
from weir.dpcore.models.blocks.fitter import Fitter
from weir.dpcore.models.blocks.inputs import Inputs
from weir.dpcore.models.blocks.objective import Scored
from weir.dpcore.models.blocks.presence import ALONE, Presence
from weir.dpcore.models.blocks.schedule import Schedule
from weir.dpcore.models.blocks.training import BlockTraining
from weir.dpcore.models.blocks.waits import Waits
from weir.dpcore.models.blocks.wide_inputs import WideInputs
from weir.dpcore.program import CAPACITY, Bounded, NoiseOf, Released
from weir.dpcore.training import Whole, whole_init, whole_step

FIXED = 64
"""Bytes of state of a key beside rows and models."""


class KeptBlocks(ABC):
    """A model per key, of blocks of its records, on a public schedule.

    Attributes:
      inputs: from columns to rows. schedule, cut: see there. cap: rows a key and tick.
      algorithm: its name in the config. presence: of the unit.
    """

    inputs: Inputs | WideInputs
    schedule: Schedule
    cut: Blocks
    cap: int
    algorithm: str
    presence: Presence

    leaf: ClassVar[Literal["sum", "rows"]] = "rows"
    dtype: ClassVar[Any] = np.float64
    capacity: ClassVar[int] = CAPACITY
    row_width: ClassVar[int] = 0
    sums: ClassVar[tuple[()]] = ()

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
    def width(self) -> int:
        """Numbers in a row: the features, then the target."""
        return self.inputs.width

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are read."""
        return self.inputs.columns

    @property
    def lists(self) -> Mapping[str, int]:
        """See ``dpcore.leaves.sparse_rows.width_of``: list columns that are read whole."""
        return self.inputs.lists

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
    def waits(self) -> Waits:
        """What a key must have before its first model."""
        return Waits.of_blocks(self.schedule, self.cut, self.cap)

    @property
    def training(self) -> BlockTraining:
        """What Tick, Train and Assemble do."""
        shared, sparse = self.cut.users > 0, self.inputs.sparse
        return BlockTraining(self.fitters, self.schedule, self.cut, self.width, shared, sparse)

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
            own = self.inputs.coefficients(theta, self.scored)
            found.append(Released("coefficients", None, own, None))
        return (*found, Released("model_of", None, behind, None))

    @property
    def total(self) -> Fraction:
        """What the unit pays in its life, at most: mu^2, rho or eps."""
        return self._total(self.presence)

    def _total(self, presence: Presence) -> Fraction:
        return presence.spent(self.schedule, self.costs, self.kind)

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
