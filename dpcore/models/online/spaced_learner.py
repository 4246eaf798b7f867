"""Learners whose model changes at every n-th tick: fewer releases to pay for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Floats, Ints, arrays_of
from weir.dpcore.continual.base import SumState
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.online.program import Learner
from weir.dpcore.program import NoiseOf, OutputInfo

MOST = 1 << 61
"""Sums that wait for their release are held within this, coordinate by coordinate."""


class SpacedState(NamedTuple):
    """State of K learners.

    Attributes:
      rule: the rule's. sums: that of the continual sum (clean: to be protected). waiting: (K, D)
        clean sum of the leaves since the last release. losses: (K, 2) as released last; NaN before.
      age: (K,) ticks since the key's first.
    """

    rule: Any
    sums: SumState
    waiting: Ints
    losses: Floats
    age: Ints


@dataclass(frozen=True)
class SpacedLearner(Learner):
    """A learner that plays one model for n ticks, takes the gradients of all of them at that
    model's point, and follows their sum.

    Formal guarantees:
      Unit, relation, sensitivity: those of ``Learner``: an event is in one leaf, and a leaf in one
        sum of n of them. Adding within bounds lengthens no difference.
      Guarantee: within w ticks of its arrival an event meets ceil(w / n) releases, those at the
        ends of spans of n ticks, the first at the end of its own: the loss of the sum within
        ceil(w / n) of its steps. Which ticks these are is public. Repeats are post-processing.
      Noise is named by the number of the span, in the place of the tick.

    Attributes:
      every: n.
    """

    every: int = 1

    @classmethod
    def of(cls, learner: Learner, every: int) -> SpacedLearner:
        """One that was compiled for ticks ``every`` times as long."""
        own = {one.name: getattr(learner, one.name) for one in fields(Learner)}
        return cls(**own, every=every)

    def init(self, n_keys: int) -> Any:
        """Every key starts at the set's public start."""
        rule, sums = super().init(n_keys)
        waiting = np.zeros((n_keys, self.dimension), dtype=np.int64)
        age = np.zeros(n_keys, dtype=np.int64)
        return SpacedState(rule, sums, waiting, np.full((n_keys, 2), np.nan), age)

    def step(
        self, state: Any, leaves: tuple[RowLeaf, ...], noise: NoiseOf
    ) -> tuple[Any, tuple[Floats, ...]]:
        """See Learner; losses are those of the last span that is over."""
        keyed, (rule, sums, waiting, losses, age) = noise(0), state
        n_keys, d = rule.x.shape
        theta, told = np.empty((len(leaves), n_keys, d)), np.empty((len(leaves), n_keys, 2))
        probes = np.empty_like(theta) if self.rule.averages else None
        for i, leaf in enumerate(leaves):
            theta[i] = rule.x
            at = self.rule.probe(rule)
            if probes is not None:
                probes[i] = at
            own = self.of_rows(at, leaf, None if probes is None else rule.x)
            waiting = np.clip(waiting + own, -MOST, MOST)
            tick, age = keyed.first_tick + i, age + 1
            if (tick + 1) % self.every == 0:
                here = keyed.at(tick // self.every)
                sums, (released,) = self.mechanism.step(sums, waiting[None], here)
                rule = self.rule.update(rule, self.for_rule(released[0]))
                waiting, losses = np.zeros_like(waiting), np.zeros((n_keys, 2))
                if self.gradients.loss_bound is not None:
                    scale = self.gradients.loss_lattice.resolution
                    losses[:, 0] = released[0, :, d] * scale
                losses[:, 1] = age
            told[i] = losses
        new = SpacedState(rule, sums, waiting, losses, age)
        return new, ((theta, told) if probes is None else (theta, told, probes))

    def _steps(self, ticks: Ints) -> Ints:
        """The step whose release is shown at a tick, or the first."""
        return np.maximum((np.asarray(ticks) + 1) // self.every - 1, 0)

    def loss_stddev(self, ticks: Ints) -> Floats:
        """See Learner."""
        return super().loss_stddev(self._steps(ticks))

    def gradient_stddev(self, ticks: Ints) -> Floats:
        """See Learner."""
        return super().gradient_stddev(self._steps(ticks))

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """Of the continual sum, in its own steps."""
        return self.mechanism.loss(None if ticks is None else -(-ticks // self.every))

    def describe(self, ticks: Ints) -> tuple[OutputInfo, ...]:
        """What is released."""
        return super().describe(np.unique(ticks))

    def state_bytes(self) -> int:
        """Bytes of state per key."""
        rule = sum(array.nbytes for array in arrays_of(self.rule.init(1)))
        return rule + self.mechanism.state_bytes() + 8 * (self.dimension + 3)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release."""
        return {"release_every": self.every, "of": super().canonical()}
