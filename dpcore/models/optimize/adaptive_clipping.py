"""Phased SGD whose bound on a residual is learned as it goes, in one pass."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.continual.unit import noise_scale_for
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.leaves.lattice import Lattice
from weir.dpcore.models.kit.loss import Huber
from weir.dpcore.models.optimize.course import Drawn, Finished
from weir.dpcore.models.optimize.glm import Glm, lattice_sum
from weir.dpcore.models.optimize.phased import Phase, Phased, PhasedRun, slip, step_for, worst_of
from weir.dpcore.models.optimize.predicted import equal_error
from weir.dpcore.noise.noise import label
from weir.dpcore.words import number

STAGES = 4
"""Phases of a run, of the same length."""
ASKED = 8
"""One record of so many in a phase tells how large residuals are."""
RUNGS = 14
"""Bounds on a residual next to that of the loss itself: two in every octave."""
WIDTH = 1.345 * math.sqrt(math.pi / 2)
"""Bound over the mean absolute residual: Huber's, 95 % efficient where residuals are normal."""


class AdaptiveClippingStep(NamedTuple):
    """A run under one bound on the residual.

    Attributes:
      run: its phases. gauge: noise of the mean absolute residual that a phase begins with.
    """

    run: PhasedRun
    gauge: Phase

    @property
    def loss(self) -> PrivacyLoss:
        """The most that a record pays: it is in one average, or in one gauge."""
        return worst_of((*self.run.phases, self.gauge))

    def canonical(self) -> list[Any]:
        """Every public number."""
        return [self.gauge.canonical()[1:], self.run.canonical()]


class AdaptiveClippingState(NamedTuple):
    """State of K keys (x, total and told are clean: to be protected).

    Attributes:
      x: (K, d), the iterate. total: (K, d), sum of the later iterates of the phase.
      told: (K, 1) int64, sum of absolute residuals. rung: (K, 1) int64, the bound in force.
    """

    x: Floats
    total: Floats
    told: Ints
    rung: Ints


def rungs_for(
    glm: Glm,
    convex_set: ConvexSet,
    records: int,
    kind: str,
    budget: PrivacyLoss,
    step: float | None,
    distance: float,
) -> tuple[AdaptiveClippingStep, ...]:
    """A run under every bound, from that of the loss itself down.

    Args:
      as of ``phased_run``.

    Raises:
      ConfigError: another loss; a step that is too large to be private; too few records.
    """
    if not glm.loss.residuals:
        raise ConfigError(
            "model.form", "learned", "bounds residuals: it is for squared and huber losses."
        )
    length = records // STAGES
    reported = length // ASKED
    if not reported:
        least = STAGES * ASKED
        raise ConfigError("model.records", records, f"must be {least} or more for form: learned.")
    top = math.ldexp(1.0, math.frexp(glm.slope)[1])
    widths = [top * 2.0 ** -(k // 2) * (0.75 if k % 2 else 1.0) for k in range(RUNGS + 2)]
    narrower = [replace(glm, loss=Huber(width)) for width in widths if width < glm.slope]
    return tuple(
        _rung(item, convex_set, records, reported, kind, budget, step, distance)
        for item in (glm, *narrower[:RUNGS])
    )


def _rung(
    glm: Glm,
    convex_set: ConvexSet,
    records: int,
    told: int,
    kind: str,
    budget: PrivacyLoss,
    step: float | None,
    distance: float,
) -> AdaptiveClippingStep:
    length, d = records // STAGES, glm.dimension
    ratio = noise_scale_for(1, 1.0, budget)
    eta = step or step_for(glm.lipschitz, glm.smoothness, records, d, distance, ratio)
    size = length - told
    results = []
    for i in range(STAGES):
        own = eta * 2.0 ** (-2 - i)
        moved = glm.spread * own + size * slip(convex_set, glm, own, distance)
        results.append(Phase.of(d, i * length + told, size, own, moved, budget))
    last = results[-1]
    predicted = equal_error(
        size=size,
        eta=last.eta,
        lipschitz=glm.lipschitz,
        distance=distance,
        noise=last.noise.scale * last.noise.resolution * math.sqrt(d),
    )
    run = PhasedRun(glm, records, eta, kind, tuple(results), predicted)
    moved = glm.slope / told * (1 + 2.0**-30)
    return AdaptiveClippingStep(run, Phase.of(1, 0, told, 0.0, moved, budget, "a mean residual"))


@dataclass(frozen=True)
class AdaptiveClipping(Phased):
    """Phased SGD in runs of doubling length, of four phases each; every phase begins with an eighth
    of its records that tell how large residuals are.

    Phase i = 0 .. 3 of a run takes steps of eta 2^-(i + 2); the average of its later points, with
    noise, is where the next begins. Before its steps the mean over m records of min(|residual|, c),
    at the point that was last released, is released with noise, and the least bound of the ladder
    that is ``WIDTH`` times that and a deviation of its noise becomes c. Residuals are clipped to c
    from then on: the loss is Huber's of width c. Noise is in proportion to it, steps inversely.

    **Formal guarantees**
      Unit: one event; relation: replace_one. A record is in one gauge or in one phase of one run.
      What it is in depends on its place alone; which bound is in force, on releases before it.
      Sensitivity of a gauge: c / m, of a number in [0, c] of each record, truncated to a lattice,
        plus that of the noise. Of an average: D eta, ``PhasedRun`` for the loss of width c, whose
        smoothness is that of the squared error: eta <= 2 / beta holds for all bounds or none.
      Guarantee: one release a record, whichever bound is in force: the most over the ladder.
      Source: Feldman, Koren, Talwar (2020), Algorithm 2, for each average; bounds that follow from
        releases are adaptive composition over disjoint records.

    Attributes:
      runs: under the widest bound. ladder: of each run, every bound. begin: that of the first
      gauge, which no residual is above.
    """

    ladder: tuple[tuple[AdaptiveClippingStep, ...], ...]
    begin: int

    def loss(self) -> PrivacyLoss:
        results = [rung.loss for rungs in self.ladder for rung in rungs]
        return PrivacyLoss(results[0].kind, max(item.value for item in results))

    def init(self, n_keys: int) -> AdaptiveClippingState:  # type: ignore[override]
        x, total = super().init(n_keys)
        reported = np.zeros((n_keys, 1), dtype=np.int64)
        return AdaptiveClippingState(
            x, total, reported, np.full((n_keys, 1), self.begin, dtype=np.int64)
        )

    def _cut(self, run: int, offset: int) -> tuple[int, int]:
        """(phase, offset within it); the phase STAGES is what is left over."""
        length = self.runs[run].records // STAGES
        at = min(offset // length, STAGES)
        return at, offset - at * length

    def _left_in_stage(self, run: int, offset: int) -> int:
        at, within = self._cut(run, offset)
        if at == STAGES:
            return 0
        reported = self.ladder[run][0].gauge.size
        return (reported if within < reported else self.runs[run].records // STAGES) - within

    def _read_part(
        self, own: Mapping[str, Any], rows: Any, run: int, offset: int, over: bool, drawn: Drawn
    ) -> Finished | None:
        at, within = self._cut(run, offset)
        if at == STAGES:
            return None  # what is left over
        built, gauge = self.ladder[run][int(own["rung"][0])]
        if within < gauge.size:
            own["told"][:] += self._residuals(built.glm, rows, own["x"])
            if over:
                own["rung"][:] = self._narrowed(run, at, built, gauge, own, drawn)
                own["told"][:] = 0
            return None
        phase = built.phases[at]
        leave = built.left_out(phase)
        early = max(0, leave - (offset - phase.start))
        self._steps(built.glm, phase.eta, rows, own, early)
        if not over:
            return None
        average = own["total"] / (phase.size - leave)
        own["total"][:] = 0.0
        own["x"][:] = self._released(phase, average, drawn, label(run, 2 * at + 1))
        last = at + 1 == STAGES
        return Finished(run, phase.start + phase.size, own["x"].copy()) if last else None

    def _residuals(self, glm: Glm, rows: Any, x: Floats) -> Any:
        """Sum of absolute residuals, each at most the bound: (1,) lattice steps."""
        size = np.abs(glm.slopes(*glm.split(rows), x))
        return lattice_sum(size[:, None], Lattice.fitting(glm.slope).resolution)

    def _narrowed(
        self,
        run: int,
        at: int,
        phased_run: PhasedRun,
        gauge: Phase,
        own: Mapping[str, Any],
        drawn: Drawn,
    ) -> int:
        """The rung that a noisy mean residual asks for."""
        mean = own["told"][0] * (Lattice.fitting(phased_run.glm.slope).resolution / gauge.size)
        noise = gauge.noise
        reported = float(self._noisy(gauge, mean[None], drawn, label(run, 2 * at))[0])
        wanted = WIDTH * (max(reported, 0.0) + noise.scale * noise.resolution)
        rungs = self.ladder[run]
        return max((i for i, rung in enumerate(rungs) if rung.run.glm.slope >= wanted), default=0)

    @property
    def notes(self) -> tuple[str, ...]:
        return (
            "Residuals are clipped at a bound that is learned: models are those of a Huber loss of "
            "that width, which large residuals pull less than they pull a mean. Where they are "
            "one-sided take form: halving.",
        )

    def words(self, run: int) -> str:
        built = self.runs[run]
        gauge, low = self.ladder[run][0].gauge, self.ladder[run][-1].run.glm.slope
        return (
            f"{built.records:,} records: {STAGES} phases, {gauge.size:,} records of each bound its "
            f"residuals, at {number(built.glm.slope)} to {number(low)}; excess risk at most "
            f"{number(built.predicted)}"
        )

    def canonical(self) -> Mapping[str, Any]:
        """See Course; of the ladder, which is long, a digest of every number."""
        steps = [[rung.canonical() for rung in rungs] for rungs in self.ladder]
        text = json.dumps(steps, sort_keys=True)
        return {
            **super().canonical(),
            "course": "narrowing",
            "begin": self.begin,
            "width": WIDTH.hex(),
            "stages": STAGES,
            "ladder": hashlib.sha256(text.encode()).hexdigest(),
        }
