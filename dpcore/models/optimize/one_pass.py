"""A program that reads each record of a key once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats, Ints, State, arrays_of
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.blocks.partition import by_hash
from weir.dpcore.models.blocks.schedule import Waits
from weir.dpcore.models.kit.inputs import InputRows, Inputs
from weir.dpcore.models.kit.kept import row_digests
from weir.dpcore.models.kit.rows import model_outputs, released_models
from weir.dpcore.models.optimize.course import Drawn, OnePassAlgorithm, start_of_run
from weir.dpcore.program import NoiseOf, OutputInfo, Released

FIXED = 64
"""Bytes of state of a key next to what its course keeps."""


class OnePassState(NamedTuple):
    """State of K keys: as large after a billion records as after one.

    Attributes:
      seen: (K,) int64, records so far. chain: (K, 2) uint64, XOR of the digests of all of them.
      model: (K, d), the newest one. behind: (K, 2), places of the first and the last record of its
      run, from 1; -1 before the first. own: of the course.
    """

    seen: Ints
    chain: Digests
    model: Floats
    behind: Floats
    own: Any


@dataclass(frozen=True)
class OnePass(InputRows):
    """A linear model per key that reads each record once, and is released again when the records
    have doubled.

    Formal guarantees:
      Unit: one event. Relation: replace_one. The place of a record follows from its tick and the
        keyed hash of its id: content moves none (a void row keeps its place). So a neighbour
        exchanges one row at one place, which lies in one run of records, and pays for that one.
      Sensitivity, guarantee: of the run (``TreeRun``, ``OneSampleRun``, ``PhasedRun``), at most
        over all runs. The models of earlier runs, which later ones start from, are releases.
      Noise is keyed with the run, the step, the user key and the digest of all that the key had
        gathered by that tick: where data differ all noise is new.

    Attributes:
      inputs: from columns to rows, within an lq norm. course: the algorithm. cap: rows a key and
      tick. algorithm: its name in the config.
    """

    inputs: Inputs
    course: OnePassAlgorithm
    cap: int
    algorithm: str

    @property
    def by_id(self) -> bool:
        return True

    @property
    def dimension(self) -> int:
        """d, length of theta."""
        return self.course.dimension

    @property
    def waits(self) -> Waits:
        """What a key must have before its first model."""
        return Waits.of_records(self.course.read_first, self.cap)

    def init(self, n_keys: int) -> OnePassState:
        """Before the first record."""
        return OnePassState(
            np.zeros(n_keys, dtype=np.int64),
            np.zeros((n_keys, 2), dtype=np.uint64),
            np.zeros((n_keys, self.dimension)),
            np.full((n_keys, 2), -1.0),
            self.course.init(n_keys),
        )

    def step(
        self, state: OnePassState, leaves: tuple[RowLeaf, ...], noise: NoiseOf
    ) -> tuple[OnePassState, tuple[Floats, ...]]:
        """A stride -> new state, theta (n, K, d) and the records behind it (n, K, 2) at each
        tick, which the tick's own records are among; NaN where there is no model yet."""
        keyed, n_keys = noise(0), len(state.seen)
        new = _copied(state)
        theta = np.empty((len(leaves), n_keys, self.dimension))
        behind = np.empty((len(leaves), n_keys, 2))
        for i, digests in enumerate(row_digests(leaves, keyed)):
            new.chain[:] ^= digests
            leaf = by_hash(leaves[i]) if len(leaves[i].rows) else leaves[i]
            for key in np.flatnonzero(leaf.counts).tolist():
                here = keyed.at(keyed.first_tick + i, slice(key, key + 1))
                own = leaf.of(key)
                if isinstance(own, np.ndarray):
                    own = np.asarray(own, dtype=np.float64)
                self._read(new, key, own, here)
            reported = new.behind[:, :1] >= 0
            theta[i] = np.where(reported, new.model, np.nan)
            behind[i] = np.where(reported, new.behind, np.nan)
        return new, (theta, behind)

    def _read(self, state: OnePassState, key: int, rows: Any, noise: Any) -> None:
        """The rows of a key at a tick, in their order: into its part of the state."""
        own = {name: getattr(state.own, name)[key] for name in state.own._fields}
        place = int(state.seen[key])
        drawn = Drawn(noise, state.chain[key])
        for run, records, model in self.course.read(own, rows, place, drawn):
            first = start_of_run(self.course.first, run)
            state.model[key] = model
            state.behind[key] = (first + 1, first + records)
        state.seen[key] += len(rows)

    def solve(self, noisy: tuple[Floats, ...], ticks: Ints) -> tuple[Released, ...]:
        """The model in scaled and in the user's units, and the records behind it."""
        theta, behind = noisy
        course = self.course
        own = self.inputs.coefficients(theta, course.intercept, course.labels)
        return released_models(theta, own, behind)

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """Loss of one record against everything released within ``ticks`` of its arrival: at most
        that of its life."""
        whole = self.course.loss()
        return PrivacyLoss(whole.kind, 0.0) if ticks is not None and ticks <= 0 else whole

    def describe(self, ticks: Ints) -> tuple[OutputInfo, ...]:
        """What is released. A model's error is not additive: NaN. Of sparse rows models over hulls
        of unit vectors are released without their zeros."""
        names = self.inputs.names(self.course.intercept)
        few = self.inputs.sparse and self.course.set.sparse
        return model_outputs(*names, self.course.moved, few, behind=True)

    def state_bytes(self) -> int:
        """Bytes of state per key."""
        return sum(array.nbytes for array in arrays_of(self.init(1))) + FIXED

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release."""
        inputs = self.inputs
        assert inputs.dual is not None
        scaled = {"scaling": inputs.scaling.canonical()}
        return {
            "program": self.algorithm,
            "dual": inputs.dual.hex(),
            "norm": inputs.norm.hex(),
            "cap": self.cap,
            "course": self.course.canonical(),
            **({"inputs": inputs.canonical()} if inputs.sparse else scaled),
        }


def _copied(state: State) -> Any:
    """A state that may be written."""
    if isinstance(state, np.ndarray):
        return state.copy()
    return type(state)(*(_copied(part) for part in state))
