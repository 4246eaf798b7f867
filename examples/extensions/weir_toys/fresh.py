"""Fresh noise on every running total: simple, and noisy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.continual.independent import CoverSum, Node
from weir.dpcore.continual.unit import SumRequest
from weir.dpcore.errors import ConfigError
from weir.dpcore.neighbours import Family
from weir.dpcore.noise.noise import Noise, label


class Nothing(NamedTuple):
    """No noise is remembered. kept: (K, 0) int64."""

    kept: Ints


@dataclass(frozen=True)
class Fresh(CoverSum):
    """Each running total gets a unit of noise of its own.

    **Formal guarantees**
      Unit: one event. Relation: that under which ``sensitivity`` was derived.
      Sensitivity: l2 norm ``sensitivity`` of what one neighbour changes in (leaf / scales).
      Guarantee: within n ticks a record is in n totals, whose losses compose adaptively.
      Source: Dwork, McSherry, Nissim, Smith (2006).
    """

    name: ClassVar[str] = "fresh"
    signed: ClassVar[bool] = False
    neighbours: ClassVar[Family] = Family(
        ("first", "last"), "corners", "a record of the first tick is in every total"
    )
    title: ClassVar[str] = "Fresh noise on every running total"
    source: ClassVar[str] = "Dwork, McSherry, Nissim, Smith (2006)"

    @classmethod
    def fitted(cls, request: SumRequest) -> Fresh:
        """The least noise whose loss within the window is at most the budget."""
        if request.end is None:
            raise ConfigError("clock.end", None, f"is needed for {cls.name}, or a window.")
        return cls.of(request, request.end)

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """A unit a tick."""
        spans = [span for span in (ticks, self.horizon) if span is not None]
        return self.loss_of(max(0, min(spans)) if spans else float("inf"))

    def factor(self, ticks: Ints, over: int | None) -> Floats:
        """One unit in a running total, two in a difference of two of them: (m,)."""
        whole = np.ones(len(ticks))
        return whole if over is None else np.where(ticks < over, 1.0, 2.0)

    def cover(self, tick: int) -> tuple[Node, ...]:
        """All so far, in one unit."""
        return (Node(0, tick + 1),)

    def init_noise(self, n_keys: int) -> Nothing:
        """Nothing."""
        return Nothing(np.zeros((n_keys, 0), dtype=np.int64))

    def draw(
        self, own: Nothing, chain: Digests, leaf_digests: Digests, noise: Noise
    ) -> tuple[Nothing, Ints]:
        """One unit a tick, keyed with every leaf so far."""
        n = leaf_digests.shape[0]
        self.check(noise, n)
        labels = label(0, noise.first_tick + np.arange(n))
        return Nothing(own.kept.copy()), self.units(noise, labels, chain[1:])
