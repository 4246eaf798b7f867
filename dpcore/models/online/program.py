"""Online learners as a Program: a model is played, its private gradients lead to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Floats, Ints, State, arrays_of, concatenate
from weir.dpcore.continual.base import ContinualSum, SumState, canonical_mechanism, canonical_value
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.gradients import Gradients
from weir.dpcore.models.losses import PredictionLoss
from weir.dpcore.models.online.rule import Rule
from weir.dpcore.models.scaling import Scaling
from weir.dpcore.models.second_moments import SecondMoments
from weir.dpcore.program import CAPACITY, SPARSE_FROM, Bounded, NoiseOf, OutputInfo, Released

TOGETHER = 1 << 17
"""Weights that are stepped at once: what is worked on stays in the cache."""


class LearnerState(NamedTuple):
    """State of K learners: the rule's, and that of the continual sum (clean: to be protected)."""

    rule: Any
    sums: SumState


@dataclass(frozen=True)
class Learner:
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
        loss part (``Gradients``) and sqrt 2 X^2 in its second moments (``SecondMoments``):
        ``mechanism.sensitivity`` in units of its scales. The stream is
        adaptive, its leaves depend on earlier releases, and nothing else of it on the event.
        Of users: so for each of the cells that caps leave a user, on every path; columns of the
        sum's strategy have no negative inner product (``signed``), or are charged as if.
      Guarantee: that of the continual sum. theta, coefficients, last and loss are post-processing
        of its releases, whatever the rule's steps are: they never enter the sensitivity.

    Attributes:
      scaling: the public ranges. gradients: clip, loss, what a leaf holds. rule: the algorithm.
      mechanism: the continual sum, over (d gradient coordinates, the loss, second moments).
      cap: rows a key and tick.
      algorithm: its name in the config.
      events: of a user in a key and tick at most; None: the unit is an event.
      second: what is summed beside the gradients, for a rule that follows the losses' curvature.
    """

    scaling: Scaling
    gradients: Gradients
    rule: Rule
    mechanism: ContinualSum
    cap: int
    algorithm: str
    events: int | None = None
    second: SecondMoments | None = None

    leaf: ClassVar[Literal["sum", "rows"]] = "rows"
    training: ClassVar[None] = None
    capacity: ClassVar[int] = CAPACITY
    row_width: ClassVar[int] = 0
    dtype: ClassVar[Any] = np.float64

    @property
    def dimension(self) -> int:
        """D, coordinates of a leaf's sum."""
        own = self.gradients.dimension
        return own if self.second is None else own + self.second.dimension

    @property
    def most_users(self) -> int | None:
        """See RowProgram."""
        return None if self.events is None else self.cap // self.events

    @property
    def width(self) -> int:
        """Numbers in a row: the features, then the target."""
        return len(self.scaling.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """Numeric columns that are read."""
        return tuple(dict.fromkeys(self.scaling.columns))

    @property
    def curvature(self) -> float:
        """mu, which every tick adds."""
        return self.rule.curvature

    @property
    def regret(self) -> str:
        """What is known about its regret, for people."""
        return self.rule.regret

    def bound(self, columns: Mapping[str, NDArray[Any]], n_events: int) -> Bounded:
        """Rows (n_events, width) float64 in [-1, 1]: scaled by the public ranges."""
        return self.scaling.bound(columns, n_events)

    def accumulate(self, rows: Any, cells: Ints, n_cells: int) -> Ints:
        """Rows are not summed before a model has met them."""
        raise TypeError("a learner takes rows, not sums.")

    @property
    def sums(self) -> tuple[ContinualSum, ...]:
        """Where the noise comes from."""
        return (self.mechanism,)

    def init(self, n_keys: int) -> LearnerState:
        """Every key starts at the set's public start."""
        return LearnerState(self.rule.init(n_keys), self.mechanism.init(n_keys))

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
            rule, sums = take(state, span)
            for i, leaf in enumerate(leaves):
                theta[i, span] = rule.x
                at = self.rule.probe(rule)
                if probes is not None:
                    probes[i, span] = at
                played = None if probes is None else rule.x
                own = self.of_rows(at, keys_of(leaf, span), played)
                here = keyed.at(keyed.first_tick + i, span)
                sums, (released,) = self.mechanism.step(sums, own[None], here)
                rule = self.rule.update(rule, self.for_rule(released[0]))
                if self.gradients.loss_bound is not None:
                    scale = self.gradients.loss_lattice.resolution
                    losses[i, span, 0] = released[0, :, d] * scale
                losses[i, span, 1] = rule.t
            pieces.append(LearnerState(rule, sums))
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
        unit = self.gradients.loss.smoothness * self.second.resolution
        curved = released[:, self.gradients.dimension :] * unit
        return np.concatenate([gradient, curved], axis=1)

    def solve(self, noisy: tuple[Floats, ...], ticks: Ints) -> tuple[Released, ...]:
        """The model in scaled and in the user's units, and the running loss."""
        theta, losses, *probes = noisy
        own = [
            self.scaling.coefficients(one, self.gradients.intercept, self.gradients.loss.labels)
            for one in (theta, *probes)
        ]
        released = [
            Released("theta", None, theta, None),
            Released("coefficients", None, own[0], None),
            *(Released("last", None, one, None) for one in own[1:]),
        ]
        if self.gradients.loss_bound is not None:
            error = np.broadcast_to(self.loss_stddev(ticks)[:, None], losses.shape[:2])
            age = losses[:, :, 1]
            value = np.stack([losses[:, :, 0], losses[:, :, 0] / age], axis=2)
            released.append(Released("loss", None, value, np.stack([error, error / age], axis=2)))
        return tuple(released)

    def loss_stddev(self, ticks: Ints) -> Floats:
        """Stddev of the noise in the running sum of losses: (m,) -> (m,)."""
        spread = self.mechanism.stddev(ticks, None)[:, self.gradients.parameters]
        return np.asarray(spread * self.gradients.loss_lattice.resolution)

    def gradient_stddev(self, ticks: Ints) -> Floats:
        """Stddev of the noise in a coordinate of the running sum of gradients: (m,) -> (m,)."""
        spread = self.mechanism.stddev(ticks, None)[:, 0]
        return np.asarray(spread * self.gradients.lattice.resolution)

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """That of the continual sum."""
        return self.mechanism.loss(ticks)

    def describe(self, ticks: Ints) -> tuple[OutputInfo, ...]:
        """What is released. The stddev of theta and coefficients is not additive: NaN."""
        *features, target = self.scaling.columns
        names = (*features, "intercept")[: self.gradients.parameters]
        sensitivity, nan = 2 * self.gradients.clip, float("nan")
        sparse = self.rule.set.sparse and len(names) >= SPARSE_FROM
        found = [OutputInfo("theta", None, len(names), sensitivity, nan, names, sparse)]
        own = (*features, "intercept")
        for name in ("coefficients", "last") if self.rule.averages else ("coefficients",):
            found.append(OutputInfo(name, None, len(own), sensitivity, nan, own, sparse))
        if self.gradients.loss_bound is not None:
            worst, bound = float(self.loss_stddev(ticks).max()), self.gradients.loss_bound
            found.append(OutputInfo("loss", None, 2, bound, worst, ("total", "per_tick")))
        return tuple(found)

    def state_bytes(self) -> int:
        """Bytes of state per key."""
        rule = sum(array.nbytes for array in arrays_of(self.rule.init(1)))
        return rule + self.mechanism.state_bytes()

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release."""
        gradients = self.gradients
        return {
            "program": self.algorithm,
            "scaling": self.scaling.canonical(),
            "loss": [gradients.loss.name, parameters_of(gradients.loss)],
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


def parameters_of(loss: PredictionLoss) -> Any:
    """What a loss is made of; a user's own need not be a dataclass."""
    return canonical_value(loss if is_dataclass(loss) else dict(sorted(vars(loss).items())))


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
