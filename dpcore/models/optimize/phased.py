"""Phased stochastic gradient descent: noise on the average of each phase, in one pass."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats
from weir.dpcore.continual.unit import draw_units, loss_of_units, noise_scale_for
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.balls import L2Ball
from weir.dpcore.geometry.boxes import Box
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.geometry.norm_balls import LpBall
from weir.dpcore.models.grid import to_grid
from weir.dpcore.models.optimize.course import WHOLE, Doubling, Drawn, Finished, pieces
from weir.dpcore.models.optimize.glm import Glm
from weir.dpcore.models.optimize.phase import Phase, phase_for
from weir.dpcore.models.optimize.predicted import phased_error
from weir.dpcore.models.optimize.runs import at_place
from weir.dpcore.models.optimize.walk import walked
from weir.dpcore.noise.noise import Noise, label
from weir.dpcore.pricing.calibration import round_up
from weir.dpcore.words import number

SPARE = 2.0**-5
"""Phases end where rounding would make up more than this share of a sensitivity."""
_ULP = 2.0**-48


class PhasedState(NamedTuple):
    """State of K keys (x and total are clean: to be protected).

    Attributes:
      x: (K, d), the iterate. total: (K, d), sum of the iterates of the phase.
    """

    x: Floats
    total: Floats


@dataclass(frozen=True)
class PhasedRun:
    """What is public about a run of n records.

    Phase i = 1, 2, ... takes a step of eta_i = eta 4^-i at each of n_i = n 2^-i fresh records,
    projected, from the point that the phase before released; its average, with noise, is the next
    such point, and that of the last phase is the model. The average leaves out the
    first half of a phase's points, which tell more of where it began.

    **Formal guarantees**
      Unit: one event; relation: replace_one. A record is in one phase of one run.
      Sensitivity of an average in l2, of all points or of some: 2 L eta_i, as steps along smooth
        convex losses do not take two points apart while eta_i <= 2 / beta: that is a condition of
        privacy, and a run that breaks it is refused. Projections do not either. Rounding of doubles
        adds at most n_i times what a step of it is (``rounding``), and the lattice sqrt(d) steps:
        both are in it.
      Guarantee: one release a record; mu = Delta_i / sigma_i, or rho = Delta_i^2 / (2 sigma_i^2).
      Source: Feldman, Koren, Talwar (2020), Algorithm 2; a loss with a corner is replaced by its
        Moreau envelope of width eta A^2 / 8, for which eta = 8 / beta.

    Attributes:
      glm: loss and its constants, in l2. records: n. eta: of phase 0. kind: of the noise.
      phases: all of them. predicted: bound on the excess risk.
    """

    glm: Glm
    records: int
    eta: float
    kind: str
    phases: tuple[Phase, ...]
    predicted: float

    def left_out(self, phase: Phase) -> int:
        """First points of a phase that are not in its average."""
        return phase.size // 2

    def __post_init__(self) -> None:
        most = 2 / self.glm.smoothness
        for phase in self.phases:
            if not phase.eta <= most:
                raise ConfigError(
                    "model.step",
                    phase.eta,
                    f"must be at most 2 / beta = {number(most)} in every phase, beta = "
                    f"{number(self.glm.smoothness)} the smoothness of the loss: a larger step may "
                    "take two points apart, and noise would not cover it; take "
                    f"{number(4 * most)} or less, which the first phase divides by 4.",
                )

    @property
    def loss(self) -> PrivacyLoss:
        """The most that a record of the run pays."""
        found = [loss_of_units(self.kind, 1, p.sensitivity, p.scale) for p in self.phases]
        return PrivacyLoss(found[0].kind, max(one.value for one in found))

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {
            "glm": self.glm.canonical(),
            "records": self.records,
            "eta": self.eta.hex(),
            "noise": self.kind,
            "phases": [[p.start, p.size, *(value.hex() for value in p[2:])] for p in self.phases],
            "late": True,
        }


def step_for(
    lipschitz: float, smoothness: float, records: int, dimension: int, distance: float, ratio: float
) -> float:
    """eta = min(2 D / (L sqrt(n / 6 + 8 d / rho)), 8 / beta), rounded down to 30 bits.

    ratio: sigma over the sensitivity, 1 / sqrt(2 rho): 8 d / rho = 16 d ratio^2.
    """
    root = math.sqrt(records / 6 + 16 * dimension * ratio * ratio)
    eta = min(2 * distance / (lipschitz * root), 8 / smoothness)
    return 1 / round_up(1 / eta * (1 + 2.0**-40))


def rounding(convex_set: ConvexSet, glm: Glm, eta: float) -> float:
    """Most that a step in doubles misses the exact one by, in l2, with room to spare: some ulps of
    the numbers in it for each coordinate, and what those of a score do to the gradient."""
    reach = convex_set.reach
    size = reach + eta * glm.lipschitz + eta * glm.smoothness * reach
    return _ULP * (terms_of(convex_set, glm) + 16) * size


def terms_of(convex_set: ConvexSet, glm: Glm) -> int:
    """Numbers whose rounding a step adds up: those of a prediction, d unless rows are sparse.

    A box is gone back to coordinate by coordinate, an l2 ball by one factor, whose sum of squares
    is made in pairs: of 2^20 of them its error is that of 33 numbers. A threshold (l1 ball,
    simplex) comes of running sums: of k numbers above it the errors are at most k^1.5 / 2 ulps of
    the radius together in l2, which is more than the 32 d of ``rounding`` from d = 4,096 on.
    """
    d = glm.dimension
    if isinstance(convex_set, Box | L2Ball):
        return glm.terms
    return d if isinstance(convex_set, LpBall) else max(d, math.ceil(d * math.sqrt(d) / 64))


def slip(convex_set: ConvexSet, glm: Glm, eta: float, distance: float) -> float:
    """Most that rounding takes two points further apart in a step, the average's share included."""
    return 2 * rounding(convex_set, glm, eta) + 2.0**-50 * distance


def phased_run(
    glm: Glm,
    convex_set: ConvexSet,
    records: int,
    kind: str,
    budget: PrivacyLoss,
    step: float | None,
    distance: float,
) -> PhasedRun:
    """A run within a budget.

    Args:
      step: eta; None: the best. distance: D.

    Raises:
      ConfigError: a step that is too large to be private; too few records.
    """
    d = glm.dimension
    ratio = noise_scale_for(1, 1.0, budget)
    eta = step_for(glm.lipschitz, glm.smoothness, records, d, distance, ratio)
    found: list[Phase] = []
    start = 0
    for i in range(1, max(2, records.bit_length())):
        size, own = records >> i, (eta if step is None else step) * 4.0**-i
        moved = 2 * glm.lipschitz * own
        off = size * slip(convex_set, glm, own, distance)
        if not size or (found and off > SPARE * moved):
            break
        found.append(phase_for(d, start, size, own, moved + off, kind, budget))
        start += size
    if not found:
        raise ConfigError("model.records", records, "must be 2 or more.")
    predicted = phased_error(
        records=records, dimension=d, lipschitz=glm.lipschitz, distance=distance, ratio=ratio
    )
    eta = eta if step is None else step
    return PhasedRun(glm, records, eta, kind, tuple(found), predicted)


@dataclass(frozen=True)
class Phased(Doubling):
    """Phased SGD in runs of doubling length.

    **Formal guarantees**: those of ``PhasedRun``; a record is in one run. A run starts from the
    model that was released before it.

    Attributes:
      set: where models lie; it projects. runs: all of them. first: records of the first.
    """

    runs: tuple[PhasedRun, ...]

    @property
    def kind(self) -> str:
        """See Course."""
        return self.runs[0].kind

    @property
    def moved(self) -> float:
        """See Course."""
        phase = self.runs[0].phases[0]
        return phase.sensitivity * phase.resolution

    @property
    def adds(self) -> str:
        """See Course."""
        most = number(self.runs[0].glm.lipschitz)
        return f"a gradient of l2 norm at most {most}, once (scaled units)"

    @property
    def read_first(self) -> int:
        """See Course."""
        last = self.runs[0].phases[-1]
        return last.start + last.size

    def init(self, n_keys: int) -> PhasedState:
        """See Course."""
        x = np.repeat(self.set.start()[None], n_keys, axis=0)
        return PhasedState(x, np.zeros((n_keys, self.dimension)))

    def _phase(self, run: int, offset: int) -> tuple[int, Phase]:
        phases = self.runs[run].phases
        place = max(i for i, phase in enumerate(phases) if phase.start <= offset)
        return place, phases[place]

    def _at(self, place: int) -> tuple[int, int, int]:
        run, offset, left = at_place(self.first, place)
        if run >= len(self.runs):
            return run, offset, WHOLE
        phase = self._phase(run, offset)[1]
        within = phase.start + phase.size - offset
        return run, offset, within if within > 0 else left

    def read(
        self, own: Mapping[str, Any], rows: Any, place: int, drawn: Drawn
    ) -> tuple[Finished, ...]:
        """See Course."""
        found = []
        for run, offset, left, some in pieces(len(rows), place, self._at):
            if run >= len(self.runs):
                break
            at, phase = self._phase(run, offset)
            if offset >= phase.start + phase.size:
                continue  # what is left over
            made = self.runs[run]
            leave = made.left_out(phase)
            early = max(0, leave - (offset - phase.start))
            self._steps(made.glm, phase.eta, rows[some], own, early)
            if left > some.stop - some.start:
                continue
            average = own["total"] / (phase.size - leave)
            own["total"][:] = 0.0
            own["x"][:] = self._released(made.kind, phase, average, drawn, label(run, at))
            if at + 1 == len(made.phases):
                found.append(Finished(run, phase.start + phase.size, own["x"].copy()))
        return tuple(found)

    def _steps(
        self, glm: Glm, eta: float, rows: Any, own: Mapping[str, Any], early: int = 0
    ) -> None:
        """A projected step at each of these records, of which the first are too early to count."""
        own["x"][:] = walked(glm, self.set, eta, rows, own["x"].copy(), own["total"], early)

    def _released(
        self, kind: str, phase: Phase, average: Floats, drawn: Drawn, labels: Digests
    ) -> Floats:
        """The noisy average, back in the set: (d,)."""
        noise: Noise = drawn.noise
        ones = (1.0,) * self.dimension
        units = draw_units(kind, noise, labels, drawn.digest[None, None], phase.scale, ones)[0, 0]
        steps = np.rint(average * (1.0 / phase.resolution)).astype(np.int64) + units
        noisy = steps * phase.resolution
        found: Floats = to_grid(self.set.project(noisy[None]), self.grid)[0]
        return found

    def words(self, run: int) -> str:
        """See Course."""
        made = self.runs[run]
        return (
            f"{made.records:,} records: {len(made.phases)} phases, steps of "
            f"{number(made.phases[0].eta)} and less; excess risk at most {number(made.predicted)}"
        )

    def canonical(self) -> Mapping[str, Any]:
        """See Course."""
        return {
            "course": "phased",
            **super().canonical(),
        }
