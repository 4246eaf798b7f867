"""Phased SGD: phases of a run, their noise, and steps through them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats
from weir.dpcore.continual.unit import noise_scale_for
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.balls import L2Ball
from weir.dpcore.geometry.boxes import Box
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.geometry.norm_balls import LpBall
from weir.dpcore.models.kit.point import PointNoise, to_grid
from weir.dpcore.models.optimize.course import Drawn, Finished, OnePassAlgorithm
from weir.dpcore.models.optimize.glm import Glm, walked
from weir.dpcore.models.optimize.predicted import phased_error
from weir.dpcore.noise.noise import label
from weir.dpcore.pricing.calibration import round_up
from weir.dpcore.words import number


class Phase(NamedTuple):
    """One phase.

    Attributes:
      start, size: its records within the run. eta: of its steps. noise: of its average.
    """

    start: int
    size: int
    eta: float
    noise: PointNoise

    @classmethod
    def of(
        cls,
        dimension: int,
        start: int,
        size: int,
        eta: float,
        moved: float,
        budget: PrivacyLoss,
        name: str = "a model",
    ) -> Phase:
        """A phase whose noisy point costs a budget.

        Args:
          dimension: d, of the point. moved: most that a record moves it in l2, before the lattice.
          name: of what is released, for people.

        Raises:
          ConfigError: noise that cannot be drawn.
        """
        noise = PointNoise.calibrated(dimension, moved, budget, spare=1.0, name=name)
        return cls(start, size, eta, noise)

    def canonical(self) -> list[Any]:
        """Every public number."""
        numbers = (self.eta, self.noise.resolution, self.noise.sensitivity, self.noise.scale)
        return [self.start, self.size, *(value.hex() for value in numbers)]


def worst_of(phases: Iterable[Phase]) -> PrivacyLoss:
    """The most that a record of one of the phases pays."""
    return max((phase.noise.loss for phase in phases), key=lambda loss: loss.value)


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
      Sensitivity of an average in l2, of all points or of some: D eta_i, D the most that gradients
        of two records are apart at one point (``Glm.spread``; the paper's is 2 L), as steps along
        smooth convex losses do not take two points apart while eta_i <= 2 / beta: that is a
        condition of privacy, and a run that breaks it is refused. Projections do not either. Of the
        squared loss points also meet again; that curvature is private. Rounding of doubles
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
        return worst_of(self.phases)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {
            "glm": self.glm.canonical(),
            "records": self.records,
            "eta": self.eta.hex(),
            "noise": self.kind,
            "phases": [phase.canonical() for phase in self.phases],
            "late": True,
        }


def step_for(
    lipschitz: float, smoothness: float, records: int, dimension: int, distance: float, ratio: float
) -> float:
    """eta = min(2 D / (L sqrt(n / 6 + 8 d / rho)), 8 / beta), rounded down to 30 bits.

    ratio: sigma over 2 L eta; where that is the sensitivity 1 / sqrt(2 rho): 8 d / rho = 16 d
    ratio^2.
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
    ratio = noise_scale_for(1, 1.0, budget) * (glm.spread / (2 * glm.lipschitz))
    eta = step_for(glm.lipschitz, glm.smoothness, records, d, distance, ratio)
    phases: list[Phase] = []
    start = 0
    for i in range(1, max(2, records.bit_length())):
        size, own = records >> i, (eta if step is None else step) * 4.0**-i
        moved = glm.spread * own
        off = size * slip(convex_set, glm, own, distance)
        if not size or (phases and off > SPARE * moved):
            break
        phases.append(Phase.of(d, start, size, own, moved + off, budget))
        start += size
    if not phases:
        raise ConfigError("model.records", records, "must be 2 or more.")
    predicted = phased_error(
        records=records, dimension=d, lipschitz=glm.lipschitz, distance=distance, ratio=ratio
    )
    eta = eta if step is None else step
    return PhasedRun(glm, records, eta, kind, tuple(phases), predicted)


@dataclass(frozen=True)
class Phased(OnePassAlgorithm):
    """Phased SGD in runs of doubling length.

    **Formal guarantees**: those of ``PhasedRun``; a record is in one run. A run starts from the
    model that was released before it.

    Attributes:
      set: where models lie; it projects. runs: all of them. first: records of the first.
    """

    runs: tuple[PhasedRun, ...]

    @property
    def kind(self) -> str:
        return self.runs[0].kind

    @property
    def moved(self) -> float:
        return self.runs[0].phases[0].noise.moved

    @property
    def adds(self) -> str:
        most = number(self.runs[0].glm.lipschitz)
        return f"a gradient of l2 norm at most {most}, once (scaled units)"

    @property
    def read_first(self) -> int:
        last = self.runs[0].phases[-1]
        return last.start + last.size

    def init(self, n_keys: int) -> PhasedState:
        x = np.repeat(self.set.start()[None], n_keys, axis=0)
        return PhasedState(x, np.zeros((n_keys, self.dimension)))

    def _phase(self, run: int, offset: int) -> tuple[int, Phase]:
        phases = self.runs[run].phases
        place = max(i for i, phase in enumerate(phases) if phase.start <= offset)
        return place, phases[place]

    def _left_in_stage(self, run: int, offset: int) -> int:
        phase = self._phase(run, offset)[1]
        return phase.start + phase.size - offset

    def _read_part(
        self, own: Mapping[str, Any], rows: Any, run: int, offset: int, over: bool, drawn: Drawn
    ) -> Finished | None:
        at, phase = self._phase(run, offset)
        if offset >= phase.start + phase.size:
            return None  # what is left over
        built = self.runs[run]
        leave = built.left_out(phase)
        early = max(0, leave - (offset - phase.start))
        self._steps(built.glm, phase.eta, rows, own, early)
        if not over:
            return None
        average = own["total"] / (phase.size - leave)
        own["total"][:] = 0.0
        own["x"][:] = self._released(phase, average, drawn, label(run, at))
        last = at + 1 == len(built.phases)
        return Finished(run, phase.start + phase.size, own["x"].copy()) if last else None

    def _steps(
        self, glm: Glm, eta: float, rows: Any, own: Mapping[str, Any], early: int = 0
    ) -> None:
        """A projected step at each of these records, of which the first are too early to count."""
        own["x"][:] = walked(glm, self.set, eta, rows, own["x"].copy(), own["total"], early)

    def _released(self, phase: Phase, average: Floats, drawn: Drawn, labels: Digests) -> Floats:
        """The noisy average, back in the set: (d,)."""
        noisy = self._noisy(phase, average, drawn, labels)
        result: Floats = to_grid(self.set.project(noisy[None]), self.grid)[0]
        return result

    def _noisy(self, phase: Phase, point: Floats, drawn: Drawn, labels: Digests) -> Floats:
        """A point with the noise of its phase, on the lattice."""
        return phase.noise.released(point, drawn.noise, labels, drawn.digest)

    def words(self, run: int) -> str:
        built = self.runs[run]
        return (
            f"{built.records:,} records: {len(built.phases)} phases, steps of "
            f"{number(built.phases[0].eta)} and less; excess risk at most {number(built.predicted)}"
        )

    def canonical(self) -> Mapping[str, Any]:
        return {
            "course": "phased",
            **super().canonical(),
        }
