"""Quadratic follow-the-leader whose model changes at every n-th tick."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.continual.base import SumState
from weir.dpcore.models.online.pqftl import Pqftl
from weir.dpcore.models.online.spaced_learner import MOST
from weir.dpcore.program import NoiseOf, Released


class SpacedPqftlState(NamedTuple):
    """As PqftlState; waiting: (K, D) clean sum of the leaves since the last release."""

    sums: SumState
    released: Floats
    waiting: Ints


@dataclass(frozen=True)
class SpacedPqftl(Pqftl):
    """One that sums n ticks before its model changes.

    Formal guarantees: as ``dpcore.spaced.Spaced``: an event is in one sum of n leaves, and meets
      ceil(w / n) releases within w ticks of its arrival.

    Attributes:
      every: n.
    """

    every: int = 1

    @classmethod
    def of(cls, program: Pqftl, every: int) -> SpacedPqftl:
        """One that was compiled for ticks ``every`` times as long."""
        return cls(**{one.name: getattr(program, one.name) for one in fields(Pqftl)}, every=every)

    @property
    def capacity(self) -> int:
        """Events of a key in n ticks that exact sums have room for, spread evenly."""
        return max(1, super().capacity // self.every)

    def init(self, n_keys: int) -> Any:
        """No data."""
        return SpacedPqftlState(*super().init(n_keys), np.zeros((n_keys, self.dimension), np.int64))

    def step(self, state: Any, leaves: Ints, noise: NoiseOf) -> tuple[Any, tuple[Floats, ...]]:
        """A stride -> new state, and the sums (n, K, D) that were released before each tick."""
        keyed, (sums, released, waiting) = noise(0), state
        before = np.empty(leaves.shape)
        for i, leaf in enumerate(leaves):
            before[i], tick = released, keyed.first_tick + i
            waiting = np.clip(waiting + np.clip(leaf, -MOST, MOST), -MOST, MOST)
            if (tick + 1) % self.every == 0:
                sums, (new,) = self.mechanism.step(
                    sums, waiting[None], keyed.at(tick // self.every)
                )
                released, waiting = new[0], np.zeros_like(waiting)
        return SpacedPqftlState(sums, released.copy(), waiting), (before,)

    def solve(self, noisy: tuple[Floats, ...], ticks: Ints) -> tuple[Released, ...]:
        """The model in scaled and in the user's units."""
        return super().solve(noisy, ticks // self.every)

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """Of the continual sum, in its own steps."""
        return self.mechanism.loss(None if ticks is None else -(-ticks // self.every))

    def state_bytes(self) -> int:
        """Bytes of state per key."""
        return super().state_bytes() + 8 * self.dimension

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release."""
        return {"release_every": self.every, "of": super().canonical()}
