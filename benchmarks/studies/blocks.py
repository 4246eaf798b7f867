"""Models of blocks in benchmarks: a plan of arrays, models block by block, how they predict.

Noises: what the plan has (``ours``), none, or Laplace noise on each coordinate at the scale that
Watson et al. (2021) print (``paper``), which is what their figures have; in more than one dimension
that has no proven epsilon of theirs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.bounded_events import Bound, Events, bounded
from weir.dpcore.models.blocks.program import BlockProgram
from weir.dpcore.models.kit.point import PointNoise
from weir.dpcore.noise.key_ring import KeyRing
from weir.dpcore.noise.prf import KeyedNoise
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import leaves_for

Floats = NDArray[np.float64]
HOUR = 3_600_000_000
START = int(np.datetime64("2000-01-01T00:00:00", "us").astype(np.int64))
CONFIG = """
name: blocks
schema: {{time: t, id: id}}
clock: {{start: 2000-01-01T00:00:00Z, period: 1h}}
privacy: {{epsilon: {epsilon}, {delta}protect_for: all, relation: replace_one}}
model:
  features: [{features}]
  target: y
  classes: [{classes}]
  intercept: {intercept}
  ranges: {{{ranges}}}
  block: {block}
{model}
"""


@dataclass(frozen=True)
class Data:
    """Records in order: x (n, p) in the units of ranges, y (n,) class numbers."""

    x: Floats
    y: Floats

    def part(self, at: Any) -> Data:
        """Some of them."""
        return Data(self.x[at], self.y[at])

    @property
    def columns(self) -> dict[str, Floats]:
        """As a plan reads them."""
        return {**{f"x{i}": column for i, column in enumerate(self.x.T)}, "y": self.y}


@dataclass(frozen=True)
class Setting:
    """What a config fixes next to the algorithm, all of it public.

    Attributes:
      regularise: lambda. low, high: (p,) ranges. map: '' or a map of features. classes: how many.
      block: records of a block. intercept: whether there is one.
    """

    regularise: float
    low: Floats
    high: Floats
    classes: int
    block: int
    map: str = ""
    intercept: bool = False

    def plan(self, model: str, epsilon: float, pure: bool = False) -> Plan:
        """Of one algorithm. model: its name, and its own fields."""
        lines = [*model.splitlines(), f"regularise: {self.regularise}"]
        lines += [f"map: {{{self.map}}}"] if self.map else []
        lines += ["clip: {features: 1.0}"]
        pairs = zip(self.low.tolist(), self.high.tolist(), strict=True)
        return Plan.from_yaml(
            CONFIG.format(
                epsilon=epsilon,
                delta="delta: 0, " if pure else "delta: 1e-6, ",
                features=", ".join(f"x{i}" for i in range(len(self.low))),
                classes=", ".join(str(i) for i in range(self.classes)),
                intercept=str(self.intercept).lower(),
                ranges=", ".join(f"x{i}: [{a}, {b}]" for i, (a, b) in enumerate(pairs)),
                block=self.block,
                model="\n".join(f"  {line}" for line in lines),
            )
        )


@dataclass(frozen=True)
class LaplaceNoise(PointNoise):
    """A point with Laplace noise of a fixed scale on each coordinate; 0: none.

    Attributes:
      laplace: the scale, in scaled units. seed: of the noise.
    """

    laplace: float = 0.0
    seed: int = 0

    def released(self, w: Floats, noise: Any, labels: Any, digest: Any) -> Floats:
        """See PointNoise."""
        if not self.laplace:
            return np.asarray(w + 0.0)
        rng = np.random.default_rng([self.seed, int(np.asarray(labels).sum() % (1 << 62))])
        return np.asarray(w + rng.laplace(scale=self.laplace, size=len(w)))


def printed(program: BlockProgram, level: int, epsilon: float) -> float:
    """The paper's noise scale of a level: of its algorithms 2 and 4, B, C, PSWERM and PSGD."""
    unit = program.objective.moves(program.cut.divisor) / epsilon
    name, sizes = program.schedule.name, program.schedule.sizes
    if program.levels[level].of:  # sampled: as if all rows were in the fit
        return 4 * unit / sizes[level]
    if name == "sliding_window":
        return 6 * unit / sizes[level] if level == len(sizes) - 1 else 4 * unit
    if name in ("continual", "basic_continual"):
        bases = len(sizes) - len(program.schedule.updates)  # type: ignore[attr-defined]
        return 4 * unit / sizes[0] if level < bases else 4 * unit
    return 4 * unit if name == "multi_resolution" else 2 * unit


def with_noise(plan: Plan, noise: str, epsilon: float, seed: int) -> Plan:
    """The plan with another noise: ours, none or paper."""
    program = plan.program
    assert isinstance(program, BlockProgram)
    if noise == "ours":
        return plan
    levels = []
    for i, one in enumerate(program.levels):
        scale = printed(program, i, epsilon) if noise == "paper" else 0.0
        same = {field.name: getattr(one.noise, field.name) for field in fields(PointNoise)}
        noise = LaplaceNoise(**same, laplace=scale, seed=seed)
        levels.append(replace(one, noise=noise))
    return replace(plan, program=replace(program, levels=tuple(levels)))


def made_ready(plan: Plan, data: Data, block: int) -> Bound:
    """Records of a stream, bounded; ticks are of ``block`` records each. No noise, no algorithm and
    no block size of a plan has a say in it: plans of one setting share it."""
    place = np.arange(len(data.y))
    times = START + place // block * HOUR + place % block
    ids = [str(i) for i in place]
    return bounded(plan, Events(times, None, data.columns, ids), len(data.y) // block)


def models(plan: Plan, bound: Bound, seed: int) -> Floats:
    """(ticks, D): the newest model after each tick, as the plan releases it; NaN before the first.

    Steps the plan's own program, as ``simulate`` does.
    """
    ticks, secret = int(bound.ticks.max()) + 1, (seed + 1).to_bytes(32, "big")
    program, ring = plan.program, KeyRing.derive(secret, plan.name, bytes.fromhex(plan.digest), ())
    assert isinstance(program, BlockProgram)
    leaves = leaves_for(plan, bound, ticks, secret)([0])

    def noise(part: int) -> KeyedNoise:
        return KeyedNoise(ring.at(0), part, [b""], 0)

    _, (theta, _) = program.step(program.init(1), leaves(0, ticks), noise)
    return theta[:, 0]


def points_of(plan: Plan, data: Data) -> Floats:
    """(n, width) what models of a plan are multiplied with."""
    program = plan.program
    assert isinstance(program, BlockProgram)
    rows = np.asarray(program.bound(data.columns, len(data.y)).rows)
    return program.objective.points(np.ascontiguousarray(rows[:, :-1]))


def accuracies(theta: Floats, points: Floats, y: Floats) -> Floats:
    """(ticks,) share of records that each model is right about; NaN where there is none."""
    found = np.full(len(theta), math.nan)
    for i, w in enumerate(theta):
        if not np.isnan(w).any():
            scores = points @ w.reshape(-1, points.shape[1]).T
            found[i] = np.mean(scores.argmax(axis=1) == y)
    return found
