"""Polyhedral stochastic Frank-Wolfe that takes a step at every record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.lattice import Lattice
from weir.dpcore.models.kit.point import to_grid
from weir.dpcore.models.optimize.course import Drawn, Finished, OnePassAlgorithm
from weir.dpcore.models.optimize.glm import Glm
from weir.dpcore.models.optimize.predicted import one_sample_error
from weir.dpcore.models.optimize.vertices import MANY, VertexChoice
from weir.dpcore.noise.noise import label
from weir.dpcore.pricing.calibration import round_up
from weir.dpcore.words import number

_DRAWS = 1 << 19
"""Gumbel variables that are made at once."""
_UP = 1 + 2.0**-30


class OneSampleState(NamedTuple):
    """State of K keys (total and gradient are clean: to be protected).

    Attributes:
      x, before: (K, d), the iterate and the one before it. gradient: (K, d), d_t.
      total: (K, d) int64, the first batch.
    """

    x: Floats
    before: Floats
    gradient: Floats
    total: Ints


SEEN = 0.1
"""Of the largest gradient: one that a choice should see."""
FARTHEST_RECORDS = 1 << 40


@dataclass(frozen=True)
class OneSampleRun:
    """What is public about a run of n records.

    d_0 is the mean gradient over the first n/2 records, at x_0; then at each record d_t = (1 - eta)
    (d_(t-1) + grad f(x_t) - grad f(x_(t-1))) + eta grad f(x_t), v_t = argmin <v, d_t> - b Gumbel,
    x_(t+1) = (1 - eta) x_t + eta v_t.

    **Formal guarantees**
      Unit: one event; relation: replace_one. A record is in one place.
      Sensitivity: gradients are clipped to L0, differences to L1 eta M in the dual norm. A record
        of the first batch moves d_t by (1 - eta)^t 2 L0 / (n/2), record j by (1 - eta)^(t - j) 2
        eta (L0 + L1 M). The d_t are not private, only the vertices are: a score moves by at most M
        times that, as a range.
      Guarantee: sum over t of (range / b)^2 / 8 <= (first range / b)^2 / (8 eta (2 - eta)) = rho;
        in pure epsilon the sum of range / b is at most first range / (b eta).
      Source: Bassily, Guzman, Nandi (2022), Algorithm 2, with the exact scale.

    Attributes:
      glm: loss and its constants. diameter: M. records: n. eta: of a step. scale: b.
      pure: whether it is paid for in pure epsilon. predicted: bound on the excess risk.
    """

    glm: Glm
    diameter: float
    records: int
    eta: float
    scale: float
    pure: bool
    predicted: float

    @classmethod
    def calibrated(
        cls, glm: Glm, diameter: float, vertices: int, records: int, pure: bool, budget: float
    ) -> OneSampleRun:
        """The least scale within rho, or epsilon.

        Raises:
          ConfigError: too few records for a step.
        """
        if records < 4:
            raise ConfigError("model.records", records, "must be 4 or more.")
        log = math.log(max(3, vertices))
        # Bits of a logarithm must not shape a plan.
        eta = min(1.0, round_up(math.log(max(math.e, records / log)) / records))
        built = cls(glm, diameter, records, eta, 1.0, pure, 0.0)
        if pure:
            scale = built.moved / (eta * budget)
        else:
            scale = built.moved / math.sqrt(8 * budget * eta * (2 - eta))
        scale = round_up(scale * _UP)
        predicted = one_sample_error(glm, diameter, records, eta, vertices, scale)
        return cls(glm, diameter, records, eta, scale, pure, predicted)

    @property
    def batch(self) -> int:
        """Records of d_0."""
        return self.records // 2

    @property
    def difference(self) -> float:
        """Clip of a difference of two gradients."""
        return self.glm.smoothness * self.eta * self.diameter

    @property
    def moved(self) -> float:
        """Of the score that a record moves most, at the first vertex after it."""
        first = 2 * self.glm.lipschitz / self.batch
        later = 2 * self.eta * (self.glm.lipschitz + self.glm.smoothness * self.diameter)
        return self.diameter * max(first, later) * _UP

    @property
    def loss(self) -> PrivacyLoss:
        """The most that a record pays, however long its trace is."""
        ratio, eta = self.moved / self.scale, self.eta
        if self.pure:
            return PrivacyLoss("pure", ratio / eta)
        return PrivacyLoss("zcdp", ratio * ratio / (8 * eta * (2 - eta)))

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {
            "glm": self.glm.canonical(),
            "diameter": self.diameter.hex(),
            "records": self.records,
            "eta": self.eta.hex(),
            "scale": self.scale.hex(),
            "pure": self.pure,
        }


@dataclass(frozen=True)
class OneSample(OnePassAlgorithm):
    """A vertex a record, in runs of doubling length.

    **Formal guarantees**: those of ``OneSampleRun``; a record is in one run.

    Attributes:
      set: where models lie. runs: all of them. first: records of the first. vertices: of the set.
    """

    runs: tuple[OneSampleRun, ...]
    vertices: VertexChoice

    @property
    def kind(self) -> str:
        return "gumbel"

    @property
    def moved(self) -> float:
        return self.runs[0].moved / self.runs[0].diameter

    @property
    def adds(self) -> str:
        most = number(self.runs[0].glm.lipschitz)
        return f"a gradient of largest entry at most {most}, once (scaled units)"

    def init(self, n_keys: int) -> OneSampleState:
        x = np.repeat(self.set.start()[None], n_keys, axis=0)
        nothing = np.zeros((n_keys, self.dimension))
        total = np.zeros((n_keys, self.dimension), dtype=np.int64)
        return OneSampleState(x, x.copy(), nothing, total)

    def _left_in_stage(self, run: int, offset: int) -> int:
        return self.runs[run].batch - offset

    def _read_part(
        self, own: Mapping[str, Any], rows: Any, run: int, offset: int, over: bool, drawn: Drawn
    ) -> Finished | None:
        built = self.runs[run]
        if offset >= built.batch:
            self._steps(built, run, offset, rows, own, drawn)
            return Finished(run, built.records, own["x"].copy()) if over else None
        most = built.glm.lipschitz
        resolution = Lattice.fitting(most).resolution
        own["total"][:] += built.glm.sums(rows, own["x"], None, most, resolution)
        if over:
            own["gradient"][:] = own["total"] * (resolution / built.batch)
            own["total"][:] = 0
            own["before"][:] = own["x"]
            self._step(built, own, self._chosen(built, own, drawn, label(run, 0)))
        return None

    def _steps(
        self,
        one_sample_run: OneSampleRun,
        run: int,
        offset: int,
        rows: Any,
        own: Mapping[str, Any],
        drawn: Drawn,
    ) -> None:
        """A step at each of these records."""
        glm, eta = one_sample_run.glm, one_sample_run.eta
        points, targets, void = glm.split(rows)
        most = max(1, _DRAWS // self.vertices.count)
        for start in range(0, len(rows), most):
            stop = min(start + most, len(rows))
            index = offset - one_sample_run.batch + 1 + np.arange(start, stop)
            labels = label(run, index)
            few = self.vertices.count < MANY
            gumbel = self.vertices.draw(drawn.noise, labels, drawn.digest) if few else None
            for i in range(start, stop):
                item = points[i : i + 1], targets[i : i + 1], void[i : i + 1]
                full = glm.gradients(*item, own["x"], None, glm.lipschitz)[0]
                moved = glm.gradients(*item, own["x"], own["before"], one_sample_run.difference)[0]
                own["gradient"][:] = (1 - eta) * (own["gradient"] + moved) + eta * full
                own["before"][:] = own["x"]
                k = i - start
                if gumbel is None:
                    vertex = self._chosen(one_sample_run, own, drawn, labels[k : k + 1])
                else:
                    vertex = self.vertices.choose(
                        own["gradient"], one_sample_run.scale, one_sample_run.moved, gumbel[k]
                    )
                self._step(one_sample_run, own, vertex)

    def _chosen(
        self, run: OneSampleRun, own: Mapping[str, Any], drawn: Drawn, labels: Digests
    ) -> Floats:
        """A vertex, by noise of its own."""
        noise, digest = drawn
        return self.vertices.chosen(own["gradient"], run.scale, run.moved, noise, labels, digest)

    def _step(self, run: OneSampleRun, own: Mapping[str, Any], vertex: Floats) -> None:
        x = (1 - run.eta) * own["x"] + run.eta * vertex
        own["x"][:] = to_grid(x, self.grid)

    def words(self, run: int) -> str:
        built = self.runs[run]
        return (
            f"{built.records:,} records: a gradient of half of them, then a step a record; excess "
            f"risk at most {number(built.predicted)}"
        )

    @property
    def doubts(self) -> tuple[str, ...]:
        """Where noise, not gradients, chooses the corners: log J scales of it over the diameter,
        which the best of J noisy scores has, are more than a tenth of the largest gradient."""
        first, vertices = self.runs[0], self.vertices.count

        def hidden(run: OneSampleRun) -> bool:
            return run.scale * math.log(vertices) > SEEN * run.glm.lipschitz * run.diameter

        if not hidden(first):
            return ()
        records, shape = first.records, (first.glm, first.diameter, vertices)
        while records < FARTHEST_RECORDS and hidden(
            OneSampleRun.calibrated(*shape, records, first.pure, first.loss.value)
        ):
            records *= 2
        return (
            f"Below about {records:,} records a run goes to corners that noise chose. Take "
            "optimize.phased_sgd.",
        )

    def canonical(self) -> Mapping[str, Any]:
        return {
            "course": "one_sample",
            "vertices": self.vertices.canonical(),
            **super().canonical(),
        }
