"""Variance-reduced stochastic Frank-Wolfe over trees of phases, in one pass."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.leaves.lattice import Lattice
from weir.dpcore.models.kit.point import row_dot, to_grid
from weir.dpcore.models.optimize.course import Drawn, Finished, OnePassAlgorithm
from weir.dpcore.models.optimize.glm import Glm
from weir.dpcore.models.optimize.tree import (
    MOST_PHASES,
    NodeNoise,
    Stage,
    batch_for,
    needed,
    reached,
    stages_for,
)
from weir.dpcore.models.optimize.vertices import VertexChoice
from weir.dpcore.noise.noise import label
from weir.dpcore.words import number

REHEARSED_RUNS, REHEARSED_PHASES, BEYOND = 12, 6, 2
"""Runs whose phases are chosen by dry run; most phases that are tried, and more than the best so
far that are."""


class SfwState(NamedTuple):
    """State of K keys (sums and gradients may be clean: to be protected). R: most phases.

    Attributes:
      x: (K, d), the iterate. points, slopes: (K, R + 1, d), point and gradient of the node at each
      depth of the path to the next leaf. total: (K, d) int64, the batch that is being read.
    """

    x: Floats
    points: Floats
    slopes: Floats
    total: Ints


@dataclass(frozen=True)
class TreeRun:
    """What is public about a run.

    **Formal guarantees**
      Unit: one event; relation: replace_one. Batches are disjoint and fixed in advance, so that a
      record is in one batch of one run (``stages_for``).
      Gradients at a root are clipped to L0. Where noise is added, differences at a right child at
      depth j are clipped to C_j = L1 2^(1 - j) M, which is what smoothness gives: 2^(r - j) steps
      of at most 2^(1 - r) M lie between the two points. The mean over b 2^-j records then moves by
      2 L0 / b at a root and by 4 L1 M / b at every right child.
      With ``root`` and ``right`` noise: the noisy mean is the one release that a record is in; all
      else follows from such releases.
      With selection: differences are clipped to C_j = min(L1 M ``reached(r, j)``, 2 L0), since
      steps to vertices take a point no further (proof there); the clip guards what rounding adds. A
      record's mean is read at 2^(r - j) leaves, j the depth of its node, 0 of a root; the range of
      their scores moves by at most 2 M C_j 2^j / b, C_0 = L0. rho_0 = (range / lambda_r)^2 / 8 for
      each leaf; or epsilon_0 = range / lambda_r.
      Source: Bassily, Guzman, Nandi (2022), Algorithm 1; Asi, Feldman, Koren, Talwar (2021).

    Attributes:
      glm: loss and its constants. diameter: M, in the lp norm. batch, phases: b, R.
      root, right: noise of means at a root and at a right child of depth 1, whose scale in steps
        is that of all depths; None: selection.
      scales: lambda_r of phases 1 .. R, in units of scores; (): noise.
      pure: whether selection is paid for in pure epsilon.
      predicted: bound on the excess risk; of projected steps, for which none is derived, ``guess``.
      guess: what it may be, to choose R by (``rehearsed``; where vertices are chosen
      ``tree_guess``).
      kappa: steps are projected gradient steps, at most so much of those of Frank-Wolfe long, and
        differences of gradients are clipped to as much; 0: those of Frank-Wolfe. A path of capped
        steps from a node to its right child is at most kappa 2^(1 - j) M long, so that clips only
        guard the guarantee, which holds whatever the path is.
    """

    glm: Glm
    diameter: float
    batch: int
    phases: int
    root: NodeNoise | None
    right: NodeNoise | None
    scales: tuple[float, ...]
    pure: bool
    predicted: float
    guess: float
    kappa: float = 0.0

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All batches and steps."""
        return stages_for(self.batch, self.phases)

    def clip(self, depth: int) -> float:
        """Of a vector of a batch at a depth, in the dual norm."""
        if depth == 0:
            return self.glm.lipschitz
        return self.glm.smoothness * self.diameter * (self.kappa or 1.0) * 2.0 ** (1 - depth)

    def bound(self, phase: int, depth: int) -> float:
        """The same of the tree of a phase."""
        if depth == 0 or self.root is not None:
            return self.clip(depth)
        curved = self.glm.smoothness * self.diameter * reached(phase, depth)
        return min(curved, 2 * self.glm.lipschitz)

    def means(self, phase: int) -> list[tuple[int, float]]:
        """(leaves that read it, most that a record moves it in the dual norm) of a mean of a phase,
        by depth."""
        return [
            (1 << (phase - j), 2 * self.bound(phase, j) * (1 << j) / self.batch)
            for j in range(phase + 1)
        ]

    @property
    def added(self) -> float:
        """Most that a record moves a mean, in the dual norm."""
        return max(moved for r in range(1, self.phases + 1) for _, moved in self.means(r))

    @property
    def moved(self) -> float:
        """Most that a record changes the range of the scores of a leaf."""
        return self.diameter * self.added

    def stepped(self, convex_set: ConvexSet, x: Floats, gradient: Floats, step: float) -> Floats:
        """x -> P(x - g / L1), no further than kappa times the step of the schedule times M: (n, d),
        (n, d) -> (n, d)."""
        moved = convex_set.project(x - gradient / self.glm.smoothness) - x
        size = np.sqrt(row_dot(moved, moved))[:, None]
        most = self.kappa * step * self.diameter
        return np.asarray(x + moved * (most / np.maximum(size, most)))

    @property
    def loss(self) -> PrivacyLoss:
        """The most that a record of the run pays."""
        if self.root is not None and self.right is not None:
            both = (self.root.loss, self.right.loss)
            return PrivacyLoss(both[0].kind, max(item.value for item in both))
        worst = 0.0
        for r, scale in enumerate(self.scales, start=1):
            for leaves, moved in self.means(r):
                ratio = self.diameter * moved / scale
                worst = max(worst, leaves * (ratio if self.pure else ratio * ratio / 8))
        return PrivacyLoss("pure" if self.pure else "zcdp", worst)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {
            "glm": self.glm.canonical(),
            "diameter": self.diameter.hex(),
            "batch": self.batch,
            "phases": self.phases,
            "root": None if self.root is None else self.root.canonical(),
            "right": None if self.right is None else self.right.canonical(),
            "scales": [scale.hex() for scale in self.scales],
            "pure": self.pure,
            **({"kappa": self.kappa.hex()} if self.kappa else {}),
            **({"right_clip": self.bound(1, 1).hex()} if self.root is None else {}),
        }


@dataclass(frozen=True)
class Sfw(OnePassAlgorithm):
    """Stochastic Frank-Wolfe in one pass: runs of doubling length, a tree of phases in each.

    **Formal guarantees**: a record is in one run, and pays what ``TreeRun`` says. Steps, batches
    and how many there are follow from public numbers; iterates from noisy means or from selected
    vertices, rounded to a public grid. Clean sums, and under selection clean gradients, are state
    and never leave.

    Attributes:
      set: where models lie. runs: all of them. first: records of the first. vertices: among which
      leaves select; None: they take the linear oracle of a noisy gradient.
    """

    runs: tuple[TreeRun, ...]
    vertices: VertexChoice | None

    @property
    def moved(self) -> float:
        return self.runs[0].added

    @property
    def adds(self) -> str:
        glm = self.runs[0].glm
        norm = "largest entry" if math.isinf(glm.dual) else f"l{glm.dual:g} norm"
        return f"a gradient of {norm} at most {number(glm.lipschitz)}, once (scaled units)"

    @property
    def kind(self) -> str:
        root = self.runs[0].root
        return "gumbel" if root is None else root.kind

    @property
    def read_first(self) -> int:
        last = self.runs[0].stages[-1]
        return last.start + last.size

    @cached_property
    def _starts(self) -> tuple[list[int], ...]:
        return tuple([stage.start for stage in run.stages] for run in self.runs)

    def init(self, n_keys: int) -> SfwState:
        depths = max(run.phases for run in self.runs) + 1
        x = np.repeat(self.set.start()[None], n_keys, axis=0)
        path = np.zeros((n_keys, depths, self.dimension))
        return SfwState(x, path, path.copy(), np.zeros((n_keys, self.dimension), dtype=np.int64))

    def _stage(self, run: int, offset: int) -> tuple[int, Stage]:
        """The last stage that begins at or before an offset."""
        place = bisect.bisect_right(self._starts[run], offset) - 1
        return place, self.runs[run].stages[place]

    def _left_in_stage(self, run: int, offset: int) -> int:
        stage = self._stage(run, offset)[1]
        return stage.start + stage.size - offset

    def _read_part(
        self, own: Mapping[str, Any], rows: Any, run: int, offset: int, over: bool, drawn: Drawn
    ) -> Finished | None:
        at, stage = self._stage(run, offset)
        if offset >= stage.start + stage.size:
            return None  # too few are left for another batch
        built = self.runs[run]
        clip, x = built.bound(stage.phase, stage.depth), own["x"]
        before = own["points"][stage.depth - 1] if stage.depth else None
        own["total"][:] += built.glm.sums(rows, x, before, clip, Lattice.fitting(clip).resolution)
        if not over:
            return None
        self._finish(built, stage, own, drawn, label(run, at))
        last = at + 1 == len(built.stages)
        return Finished(run, stage.start + stage.size, x.copy()) if last else None

    def _finish(
        self, run: TreeRun, stage: Stage, own: Mapping[str, Any], drawn: Drawn, labels: Digests
    ) -> None:
        """Ends a batch: its gradient, and the step at its leaf."""
        noise, digest = drawn
        clip, x, depth = run.bound(stage.phase, stage.depth), own["x"], stage.depth
        if run.root is None or run.right is None:
            unit = Lattice.fitting(clip).resolution / stage.size
            gradient = own["total"].astype(np.float64) * unit
        else:
            node = replace(run.right if depth else run.root, clip=clip)
            gradient = node.mean(own["total"], stage.size, noise, labels, digest)
        if depth:
            gradient = own["slopes"][depth - 1] + gradient
        own["points"][depth:] = x
        own["slopes"][depth:] = gradient
        own["total"][:] = 0
        if run.kappa:
            x[:] = to_grid(run.stepped(self.set, x[None], gradient[None], stage.step)[0], self.grid)
            return
        if self.vertices is None:
            vertex = self.set.linear_oracle(gradient[None])[0]
        else:
            scale = run.scales[stage.phase - 1]
            vertex = self.vertices.chosen(gradient, scale, run.moved, noise, labels, digest)
        x[:] = to_grid((1 - stage.step) * x + stage.step * vertex, self.grid)

    def words(self, run: int) -> str:
        built = self.runs[run]
        several = "one phase" if built.phases == 1 else f"{built.phases} phases"
        bound = "" if built.kappa else f"at most {number(built.predicted)}, "
        return (
            f"{self.first << run:,} records: {several}, batches of {built.batch:,} and fewer, "
            f"{len(built.stages)} steps; excess risk {bound}about "
            f"{number(built.guess)} where features are evenly spread"
        )

    def canonical(self) -> Mapping[str, Any]:
        return {
            "course": "tree",
            "vertices": None if self.vertices is None else self.vertices.canonical(),
            **super().canonical(),
        }


def best_tree(
    make: Callable[[int, int], TreeRun],
    records: int,
    phases: int | None,
    rehearsed: Callable[[TreeRun], float] | None = None,
    first: int = 1,
) -> TreeRun:
    """The run of the least error that is expected.

    Args:
      make: (b, R) -> a run. phases: R; None: the best. tried in a dry run: what a run is judged
      by; None:
        ``tree_guess``. first: the least R that is tried in a dry run.

    Raises:
      ConfigError: the run is too short for a phase, or for so many.
    """
    every = range(1, MOST_PHASES + 1) if rehearsed is None else range(first, REHEARSED_PHASES + 1)
    tried = every if phases is None else (phases,)
    best: TreeRun | None = None
    for r in tried:
        batch = batch_for(records, r)
        if batch < 1 << r:
            continue
        item = make(batch, r)
        if rehearsed is not None:
            item = replace(item, guess=rehearsed(item))
            if best is not None and r > best.phases + BEYOND:
                break
        if best is None or item.guess < best.guess:
            best = item
    if best is None:
        raise ConfigError(
            "model.records",
            records,
            f"are too few in the first run for {tried[0]} phase{'s' if tried[0] > 1 else ''}: "
            f"{needed(tried[0])} or more are needed.",
        )
    return best


def tree_runs(
    make: Callable[[Glm, int, int], TreeRun],
    width: Callable[[Callable[[Glm], TreeRun]], TreeRun],
    sizes: Sequence[int],
    phases: int | None,
    rehearsed: Callable[[TreeRun], float] | None,
) -> tuple[TreeRun, ...]:
    """Runs of so many records each.

    Args:
      make: (loss, b, R) -> a run. width: a run for any loss -> the best one over all smoothings.
      sizes: n of each, growing. phases: R; None: the best. tried in a dry run: see ``best_tree``.
      Every
        other one of the first runs is tried in a dry run, from one phase fewer than the last had;
        others have as many as the last that was, and so do later ones, which few keys reach.
    """
    runs: list[TreeRun] = []
    for k, n in enumerate(sizes):
        if rehearsed is None:
            runs.append(width(lambda glm, n=n: best_tree(partial(make, glm), n, phases)))  # type: ignore[misc]
            continue
        fixed = phases or (runs[-1].phases if runs else 1)
        item = width(lambda glm, n=n, r=fixed: best_tree(partial(make, glm), n, r))  # type: ignore[misc]
        if k < REHEARSED_RUNS and k % 2 == 0:
            item = best_tree(partial(make, item.glm), n, phases, rehearsed, max(1, fixed - 1))
        runs.append(item)
    return tuple(runs)
