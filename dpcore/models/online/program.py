"""Online learners as a Program: a model is played, its private gradients lead to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Floats, Ints, State, arrays_of, concatenate
from weir.dpcore.continual.base import ContinualSum, SumState, canonical_mechanism, canonical_value
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.gradients import Gradients, RowCounts, SecondMoments
from weir.dpcore.models.kit.rows import (
    NAN,
    ScaledRows,
    Scaling,
    model_outputs,
    names_of_models,
    released_models,
)
from weir.dpcore.models.online.rule import LeaderRule
from weir.dpcore.program import MOST_SUM, SPARSE_FROM, NoiseOf, OutputInfo, Released

TOGETHER = 1 << 17
"""Weights that are stepped at once: what is worked on stays in the cache."""


class LearnerState(NamedTuple):
    """State of K learners.

    Attributes:
      rule: the rule's. sums: that of the continual sum (clean: to be protected).
      waiting, losses, age: where releases are ``every``-th ticks: (K, D) clean sum of the leaves
        since the last; (K, 2) losses as released last, NaN before; (K,) ticks since the key's
        first.
    """

    rule: Any
    sums: SumState
    waiting: Any = ()
    losses: Any = ()
    age: Any = ()


@dataclass(frozen=True)
class Learner(ScaledRows):
    """A linear model per key that learns from its events, tick by tick.

    At tick t theta_t is released: the model that was played at that tick, a function of earlier
    ticks' releases only. Then the tick's events arrive; their clipped gradients at theta_t, and
    their clipped losses, are summed exactly, go into one continual sum, and the rule makes
    theta_{t+1} of what the sum releases. A rule that plays an average takes gradients at another
    point, as public as theta_t, which is released too, as ``last``.

    Formal guarantees:
      Unit: one event, or one user in a period. Relation: any of one cell (add_remove,
        replace_one); see price.py for replace_anywhere.
      Sensitivity: one neighbour changes one leaf by at most 2 L in its gradient part, B in its
        loss part (``Gradients``) and sqrt 2 X^2 in its second moments (``SecondMoments``), or 1 in
        its count (``RowCounts``): ``mechanism.sensitivity`` in units of its scales. The stream is
        adaptive, its leaves depend on earlier releases, and nothing else of it on the event.
        Of users: so for each of the cells that caps leave a user, on every path; columns of the
        sum's strategy have no negative inner product (``signed``), or are charged as if.
      Every n-th tick: a learner plays one model for n ticks, takes the gradients of all of them at
        that model's point, and follows their sum. An event is in one leaf, and a leaf in one sum of
        n of them: adding within bounds lengthens no difference. Within w ticks of its arrival an
        event meets ceil(w / n) releases, those at the ends of spans of n ticks, the first at the
        end of its own: the loss of the sum within ceil(w / n) of its steps. Which ticks these are
        is public. Repeats are post-processing. Noise is named by the number of the span.
      Guarantee: that of the continual sum. theta, coefficients, last and loss are post-processing
        of its releases, whatever the rule's steps are: they never enter the sensitivity.

    Attributes:
      scaling: the public ranges. gradients: clip, loss, what a leaf holds. rule: the algorithm.
      mechanism: the continual sum, over (d gradient coordinates, the loss, second moments).
      cap: rows a key and tick.
      algorithm: its name in the config.
      events: of a user in a key and tick at most; None: the unit is an event.
      second: what is summed next to the gradients, for a rule that follows the losses' curvature
        or the number of events.
      every: n, ticks from one release of the sum to the next.
    """

    scaling: Scaling
    gradients: Gradients
    rule: LeaderRule
    mechanism: ContinualSum
    cap: int
    algorithm: str
    events: int | None = None
    second: SecondMoments | RowCounts | None = None
    every: int = 1

    def every_nth(self, every: int) -> Learner:
        return replace(self, every=every)

    @property
    def dimension(self) -> int:
        """D, coordinates of a leaf's sum."""
        own = self.gradients.dimension
        return own if self.second is None else own + self.second.dimension

    @property
    def most_users(self) -> int | None:
        return None if self.events is None else self.cap // self.events

    @property
    def curvature(self) -> float:
        """mu, which every tick adds."""
        return self.rule.curvature

    @property
    def regret(self) -> str:
        """What is known about its regret, for people."""
        return self.rule.regret

    @property
    def sums(self) -> tuple[ContinualSum, ...]:
        """Where the noise comes from."""
        return (self.mechanism,)

    def init(self, n_keys: int) -> LearnerState:
        """Every key starts at the set's public start."""
        rule, sums = self.rule.init(n_keys), self.mechanism.init(n_keys)
        if self.every == 1:
            return LearnerState(rule, sums)
        waiting = np.zeros((n_keys, self.dimension), dtype=np.int64)
        age = np.zeros(n_keys, dtype=np.int64)
        return LearnerState(rule, sums, waiting, np.full((n_keys, 2), np.nan), age)

    def step(
        self, state: LearnerState, leaves: tuple[RowLeaf, ...], noise: NoiseOf
    ) -> tuple[LearnerState, tuple[Floats, ...]]:
        """Steps tick by tick, for a stretch of keys at a time.

        Args:
          state: of K keys.
          leaves: n row leaves of K keys, one a tick.
          noise: keyed noise of the stride.

        Returns:
          State; theta (n, K, d) played at each tick; (n, K, 2): the released sum of losses (0
          without a loss), ticks since the key's first; and, where the rule averages, (n, K, d):
          where gradients were taken.
        """
        keyed = noise(0)
        n_keys, d = state.rule.x.shape
        theta = np.empty((len(leaves), n_keys, d))
        losses = np.zeros((len(leaves), n_keys, 2))
        probes = np.empty_like(theta) if self.rule.averages else None
        together = max(1, TOGETHER // max(1, self.dimension))
        pieces: list[LearnerState] = []
        for start in range(0, max(1, n_keys), together):
            span = slice(start, min(start + together, n_keys))
            rule, sums, *spaced = take(state, span)
            for i, leaf in enumerate(leaves):
                theta[i, span] = rule.x
                at = self.rule.probe(rule)
                if probes is not None:
                    probes[i, span] = at
                played = None if probes is None else rule.x
                own, tick = self.of_rows(at, keys_of(leaf, span), played), keyed.first_tick + i
                if self.every > 1:
                    waiting, shown, age = spaced
                    own, age = np.clip(waiting + own, -MOST_SUM, MOST_SUM), age + 1
                    if (tick + 1) % self.every:
                        spaced, losses[i, span] = [own, shown, age], shown
                        continue
                here = keyed.at(tick // self.every, span)
                sums, (released,) = self.mechanism.step(sums, own[None], here)
                rule = self.rule.update(rule, self.for_rule(released[0]))
                if self.gradients.loss_bound is not None:
                    scale = self.gradients.loss_lattice.resolution
                    losses[i, span, 0] = released[0, :, d] * scale
                losses[i, span, 1] = rule.t if self.every == 1 else age
                if self.every > 1:
                    spaced = [np.zeros_like(own), losses[i, span].copy(), age]
            pieces.append(LearnerState(rule, sums, *spaced))
        new = pieces[0] if len(pieces) == 1 else concatenate(pieces)
        return new, ((theta, losses) if probes is None else (theta, losses, probes))

    def of_rows(self, at: Floats, rows: RowLeaf, played: Floats | None) -> Ints:
        """A tick's leaf: what its rows add at (K, d), where gradients are taken: (K, D)."""
        own = self.gradients.sums(at, rows, played)
        if self.second is None:
            return own
        return np.concatenate([own, self.second.sums(rows)], axis=1)

    def for_rule(self, released: Floats) -> Floats:
        """(K, D) as the sum released it -> what the rule follows, in units of the data."""
        d = self.gradients.parameters
        gradient = released[:, :d] * self.gradients.lattice.resolution
        if self.second is None:
            return np.asarray(gradient)
        unit = self.second.unit(self.gradients.loss.smoothness)
        own = released[:, self.gradients.dimension :] * unit
        return np.concatenate([gradient, own], axis=1)

    def solve(self, noisy: tuple[Floats, ...], ticks: Ints) -> tuple[Released, ...]:
        """The model in scaled and in the user's units, and the running loss."""
        theta, losses, *probes = noisy
        own = [
            self.scaling.coefficients(item, self.gradients.intercept, self.gradients.loss.labels)
            for item in (theta, *probes)
        ]
        released = [*released_models(theta, own[0])]
        released += [Released("last", None, item, None) for item in own[1:]]
        if self.gradients.loss_bound is not None:
            error = np.broadcast_to(self.loss_stddev(ticks)[:, None], losses.shape[:2])
            age = losses[:, :, 1]
            value = np.stack([losses[:, :, 0], losses[:, :, 0] / age], axis=2)
            released.append(Released("loss", None, value, np.stack([error, error / age], axis=2)))
        return tuple(released)

    def loss_stddev(self, ticks: Ints) -> Floats:
        """Stddev of the noise in the running sum of losses: (m,) -> (m,)."""
        spread = self.mechanism.stddev(self._steps(ticks), None)[:, self.gradients.parameters]
        return np.asarray(spread * self.gradients.loss_lattice.resolution)

    def gradient_stddev(self, ticks: Ints) -> Floats:
        """Stddev of the noise in a coordinate of the running sum of gradients: (m,) -> (m,)."""
        spread = self.mechanism.stddev(self._steps(ticks), None)[:, 0]
        return np.asarray(spread * self.gradients.lattice.resolution)

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """That of the continual sum, in its own steps."""
        return self.mechanism.loss(None if ticks is None else -(-ticks // self.every))

    def _steps(self, ticks: Ints) -> Ints:
        """The step whose release is shown at a tick, or the first."""
        return np.maximum((np.asarray(ticks) + 1) // self.every - 1, 0)

    def describe(self, ticks: Ints) -> tuple[OutputInfo, ...]:
        """What is released. The stddev of theta and coefficients is not additive: NaN."""
        names, own = names_of_models(self.scaling, self.gradients.intercept)
        moved = 2 * self.gradients.clip
        sparse = self.rule.set.sparse and len(names) >= SPARSE_FROM
        results = [*model_outputs(names, own, moved, sparse)]
        if self.rule.averages:
            results.append(OutputInfo("last", None, len(own), moved, NAN, own, sparse))
        if self.gradients.loss_bound is not None:
            worst, bound = float(self.loss_stddev(ticks).max()), self.gradients.loss_bound
            results.append(OutputInfo("loss", None, 2, bound, worst, ("total", "per_tick")))
        return tuple(results)

    def state_bytes(self) -> int:
        """Bytes of state per key."""
        rule = sum(array.nbytes for array in arrays_of(self.rule.init(1)))
        spaced = 0 if self.every == 1 else 8 * (self.dimension + 3)
        return rule + self.mechanism.state_bytes() + spaced

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release."""
        gradients = self.gradients
        whole = {
            "program": self.algorithm,
            "scaling": self.scaling.canonical(),
            "loss": gradients.loss.canonical(),
            "clip": gradients.clip.hex(),
            "loss_bound": canonical_value(gradients.loss_bound),
            "resolutions": [
                gradients.lattice.resolution.hex(),
                gradients.loss_lattice.resolution.hex(),
            ],
            "intercept": gradients.intercept,
            "rule": self.rule.canonical(),
            "cap": self.cap,
            **({} if self.events is None else {"events": self.events}),
            **({} if self.second is None else {"second": self.second.canonical()}),
            "mechanism": canonical_mechanism(self.mechanism),
        }
        return whole if self.every == 1 else {"release_every": self.every, "of": whole}


def take(state: State, keys: slice) -> Any:
    """Rows of a state: some of the keys."""
    if isinstance(state, np.ndarray):
        return state[keys]
    parts = [take(part, keys) for part in state]
    return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)


def keys_of(leaf: RowLeaf, keys: slice) -> RowLeaf:
    """Rows of some of the keys, as views."""
    if keys.stop - keys.start == leaf.n_keys:
        return leaf
    offsets = leaf.offsets[keys.start : keys.stop + 1]
    rows = slice(int(offsets[0]), int(offsets[-1]))
    return RowLeaf(offsets - offsets[0], leaf.rows[rows], leaf.event_time[rows], leaf.id_hash[rows])
