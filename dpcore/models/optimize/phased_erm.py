"""Phased empirical risk minimisation by proximal steps: losses with corners as they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Floats
from weir.dpcore.continual.unit import noise_scale_for
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.kit.loss import PiecewiseLinearLoss, PredictionLoss
from weir.dpcore.models.optimize.course import Drawn, Finished, start_of_run
from weir.dpcore.models.optimize.glm import Glm, SparsePoints, dot, inner, projection_of
from weir.dpcore.models.optimize.phased import SPARE, Phase, Phased, terms_of, worst_of
from weir.dpcore.noise.noise import label
from weir.dpcore.pricing.calibration import round_up
from weir.dpcore.words import number

CORNER = 2.0**-12
"""Width of the parabola that a corner is at least: a fraction of a step of any noise, but wide
enough that rounding stays small where a row is short."""
_ULP = 2.0**-48
VOID = 2.0
"""The target of a void row that is kept: no target lies there."""


def pieces_of(loss: PredictionLoss, slope: float, sharp: bool) -> PiecewiseLinearLoss:
    """The slope of a loss, as steps use it.

    Args:
      slope: most that it is. sharp: whether corners are as they are, whatever the loss smooths.

    Raises:
      ConfigError: a loss of another shape.
    """
    own = loss.pieces
    if own is None:
        raise ConfigError(
            "model.form", "erm", f"has no step for {loss.name}, which is smooth: take halving."
        )
    width = CORNER if sharp else max(CORNER, own.width)
    return PiecewiseLinearLoss(width, min(own.below, slope), min(own.above, slope), own.labels)


class ErmState(NamedTuple):
    """State of K keys (all clean but start: to be protected).

    Attributes:
      x, start: (K, d), the iterate, and what the phase began from. total: (K, d), sum of the last
      iterates. rows: (K, keep, features + 1) float32, of the phase that is being read.
    """

    x: Floats
    start: Floats
    total: Floats
    rows: Any


@dataclass(frozen=True)
class ErmRun:
    """What is public about a run of n records.

    Phase i = 1, 2, ... minimises (1 / n_i) sum f(w; z) + |w - w_0|^2 / (eta_i n_i) over its own
    n_i = n 2^-i records, w_0 the point that the phase before released, eta_i = eta 4^-i; what it
    comes to, with noise, is the next such point, and that of the last phase is the model. It is
    approached by P passes of one step a record, t = 1, ..., T = P n_i, gamma = 2 / (eta_i n_i):
    c = (w_0 + t w) / (t + 1), w <- argmin_v f(v; z) + gamma (t + 1) |v - c|^2 / 2, projected. The
    mean of the last m = n_i points (of n_i / 2, where P = 1) is what leaves.

    **Formal guarantees**
      Unit: one event; relation: replace_one. A record is in one phase of one run.
      Sensitivity: a step takes two points to t / (t + 1) of their distance, as the argmin and the
        projection take none apart: that holds for every convex loss, with corners, and for steps of
        any length. A record that differs parts them by 2 L / (gamma (t + 1)) more, of which 2 L /
        (gamma (s + 1)) is left after step s, whatever t was. So after s steps they are at most P
        times that apart, and the mean over the last m steps at most (2 L P / (gamma m)) ln((T + 1)
        / (T - m + 1)) = c L eta_i, c = 1.07 for P = 8, 1.39 for P = 1 and 2. The exact minimiser
        has c = 1. It need not be near one: nothing is certified, no stop depends on data.
      Rounding of doubles and the lattice: as for ``PhasedRun``, ``slip``.
      Guarantee: one release a record; mu = Delta_i / sigma_i, or rho = Delta_i^2 / (2 sigma_i^2).
      Source: Feldman, Koren, Talwar (2020), Algorithm 3; with steps in place of exact minimisers.

    Attributes:
      glm: loss and its constants, in l2. pieces: its slope. records: n. passes: P. eta: of phase 0.
      kind: of the noise. phases: all of them. predicted: bound on the excess risk of the exact
      minimisers.
    """

    glm: Glm
    pieces: PiecewiseLinearLoss
    records: int
    passes: int
    eta: float
    kind: str
    phases: tuple[Phase, ...]
    predicted: float

    @property
    def loss(self) -> PrivacyLoss:
        """The most that a record of the run pays."""
        return worst_of(self.phases)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {
            "glm": self.glm.canonical(),
            "bent": [value.hex() for value in self.pieces[:3]],
            "records": self.records,
            "passes": self.passes,
            "eta": self.eta.hex(),
            "noise": self.kind,
            "phases": [phase.canonical() for phase in self.phases],
        }


def averaged(size: int, passes: int) -> int:
    """m: last points of a phase that are averaged."""
    return size if passes > 1 else size - size // 2


def spread_of(size: int, passes: int) -> float:
    """c: most that a record moves the average by, over L eta: rounded up."""
    m, total = averaged(size, passes), passes * size
    result = size * passes / m * math.log((total + 1) / (total - m + 1))
    return round_up(result * (1 + 2.0**-40))


def erm_run(
    glm: Glm,
    pieces: PiecewiseLinearLoss,
    convex_set: ConvexSet,
    records: int,
    passes: int,
    kind: str,
    budget: PrivacyLoss,
    step: float | None,
    distance: float,
) -> ErmRun:
    """A run within a budget.

    Without a step, eta / 4 is what minimises the bound D^2 / (eta_1 n_1) + L^2 eta_1 (8 c / 3 + 16
    c^2 d r^2 / n_1): what is left of the distance, what a minimiser of a sample is above that of
    the law, and what the noise of each phase costs the next; r is sigma over the sensitivity.

    Args:
      step: eta; None: the best. distance: D.

    Raises:
      ConfigError: too few records, or a budget that is too small.
    """
    d, first = glm.dimension, records // 2
    if not first:
        raise ConfigError("model.records", records, "must be 2 or more.")
    ratio, c = noise_scale_for(1, 1.0, budget), spread_of(first, passes)
    weight = 8 * c / 3 + 16 * c * c * d * ratio * ratio / first
    best = distance / (glm.lipschitz * math.sqrt(first * weight))
    eta = step if step is not None else 4 / round_up(1 / best)
    predicted = 2 * distance * glm.lipschitz * math.sqrt(weight / first)
    predicted += pieces.width * glm.slope**2 / 2 if pieces.width <= CORNER else 0.0
    phases: list[Phase] = []
    start = 0
    for i in range(1, max(2, records.bit_length())):
        size, own = records >> i, eta * 4.0**-i
        if not size:
            break
        moved = spread_of(size, passes) * glm.lipschitz * own
        off = size * passes * slip(convex_set, glm, pieces.width, own, size, distance)
        if phases and off > SPARE * moved:
            break
        phases.append(Phase.of(d, start, size, own, moved + off, budget))
        start += size
    return ErmRun(glm, pieces, records, passes, eta, kind, tuple(phases), predicted)


def slip(
    convex_set: ConvexSet, glm: Glm, width: float, eta: float, size: int, distance: float
) -> float:
    """Most that rounding takes two points further apart in a step, in l2. width: of the parabola.

    An error e of a prediction moves a step by e |x| / (k width + |x|^2) <= e / (2 sqrt(k width)), k
    = gamma (t + 1) at least 2 gamma.
    """
    reach = convex_set.reach
    k = 4 / (eta * size)
    error = (glm.reach * reach + 1) / (2 * math.sqrt(k * width))
    most = reach + glm.lipschitz / k + error
    return 2 * _ULP * (terms_of(convex_set, glm) + 16) * most + 2.0**-50 * distance


@dataclass(frozen=True)
class PhasedErm(Phased):
    """Phased risk minimisation in runs of doubling length, as many as a phase may be kept of.

    **Formal guarantees**: those of ``ErmRun``; a record is in one run. Rows of one phase are kept,
    as the float32 that they are on their lattice, until it ends.

    Attributes:
      set: where models lie; it projects. runs: all of them; what follows the last is not read.
      keep: rows of state; of one pass 1, as none is kept.
    """

    runs: tuple[ErmRun, ...]  # type: ignore[assignment]
    keep: int

    def init(self, n_keys: int) -> ErmState:  # type: ignore[override]
        x, total = super().init(n_keys)
        rows = np.zeros((n_keys, self.keep, self.features + 1), dtype=np.float32)
        return ErmState(x, x.copy(), total, rows)

    def _read_part(
        self, own: Mapping[str, Any], rows: Any, run: int, offset: int, over: bool, drawn: Drawn
    ) -> Finished | None:
        at, phase = self._phase(run, offset)
        if offset >= phase.start + phase.size:
            return None  # what is left over
        built, within = self.runs[run], offset - phase.start
        if built.passes == 1:
            self._meet(built, phase, rows, own, within)
        else:
            own["rows"][within : within + len(rows)] = np.where(np.isnan(rows), VOID, rows)
            if over:
                retained = own["rows"][: phase.size].astype(np.float64)
                retained[retained == VOID] = np.nan
                for turn in range(built.passes):
                    self._meet(built, phase, retained, own, turn * phase.size)
                own["rows"][:] = 0.0
        if not over:
            return None
        average = own["total"] / averaged(phase.size, built.passes)
        own["total"][:] = 0.0
        own["x"][:] = self._released(phase, average, drawn, label(run, at))
        own["start"][:] = own["x"]
        last = at + 1 == len(built.phases)
        return Finished(run, phase.start + phase.size, own["x"].copy()) if last else None

    def _meet(self, run: ErmRun, phase: Phase, rows: Any, own: Mapping[str, Any], t: int) -> None:
        """A step at each of these records, after t others."""
        points, targets, void = run.glm.split(rows)
        slope, project, gamma = (
            run.pieces.scalar(),
            projection_of(self.set),
            2 / (phase.eta * phase.size),
        )
        early = phase.size * run.passes - averaged(phase.size, run.passes)
        x, start, total = own["x"].copy(), own["start"].copy(), own["total"]
        labelled = zip(targets.tolist(), void.tolist(), strict=True)
        if isinstance(points, SparsePoints):
            squares = points.squares().tolist()
            for (at, numbers), (target, empty), square in zip(
                points.each(), labelled, squares, strict=True
            ):
                t += 1
                x = x + (start - x) / (t + 1)
                if not empty:
                    weight = gamma * (t + 1)
                    s = slope(dot(numbers, x[at]), target, square / weight)
                    x[at] -= s / weight * numbers
                    x = project(x)
                if t > early:
                    total += x
            own["x"][:] = x
            return
        squares = np.add.reduce(points * points, axis=1).tolist()
        for point, (target, empty), square in zip(points, labelled, squares, strict=True):
            t += 1
            x = x + (start - x) / (t + 1)
            if not empty:
                weight = gamma * (t + 1)
                s = slope(inner(point, x), target, square / weight)
                x = project(x - s / weight * point)
            if t > early:
                total += x
        own["x"][:] = x

    @property
    def notes(self) -> tuple[str, ...]:
        if self.keep == 1:
            return ()
        last = start_of_run(self.first, len(self.runs))
        return (
            f"A key keeps up to {self.keep:,} records of a phase, and goes over them at the tick "
            f"in which the phase ends. Records after the first {last:,} are not learned from: "
            "model.keep.",
        )

    def words(self, run: int) -> str:
        built = self.runs[run]
        passes = f"{built.passes} passes" if built.passes > 1 else "one pass"
        return (
            f"{built.records:,} records: {len(built.phases)} phases, {passes} over each; excess "
            f"risk of exact minimisers at most {number(built.predicted)}"
        )

    def canonical(self) -> Mapping[str, Any]:
        return {**super().canonical(), "course": "phased_erm", "keep": self.keep}
