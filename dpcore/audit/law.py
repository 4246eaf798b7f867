"""The law of a transcript of aggregates: clean releases plus noise of known joint covariance.

A transcript is (T, m): what one key releases at T ticks, every output and coordinate. Released
counts, sums and histograms are linear in noisy sums, so their transcript is Gaussian and the
likelihood ratio of two streams is a linear statistic. Means and variances are linearised where the
streams of the audit lie: still a sound statistic, only not the best one. Where linear releases tell
every noisy sum by themselves, those alone are the best there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.aggregates.program import Aggregates
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.program import Program

LINEAR = ("count", "sum", "histogram")
"""Kinds of aggregates whose releases are linear in noisy sums."""
SMOOTH = (*LINEAR, "mean", "variance")
"""Kinds that move with the noisy sums as they are linearised. A quantile moves by steps."""
EXACT = 0.9
"""Share of the whole transcript's mu from which on its linear releases alone are looked at: what is
linearised has less than its mu says."""
MOST_NUMBERS = 2400
"""Numbers of a transcript of which a covariance is inverted; of more, some ticks are looked at."""


def has_law(program: Program) -> bool:
    """Whether the law of its transcripts is known: aggregates under Gaussian noise."""
    if type(program) is not Aggregates or any(part.hidden for part in program.parts):
        return False
    return all(_loss(part) for part in program.parts)


def _loss(part: Any) -> bool:
    return part.mechanism.loss(1).kind in ("gdp", "zcdp")


@dataclass(frozen=True)
class Law:
    """Transcripts of one key over ``ticks`` ticks.

    Attributes:
      program: aggregates under Gaussian noise. ticks: of the clock.
    """

    program: Any
    ticks: int

    @cached_property
    def linear(self) -> bool:
        """Whether every release is linear in noisy sums, so that the likelihood ratio is exact."""
        return all(output.kind in LINEAR for output in self.program.infos)

    @cached_property
    def exact(self) -> Ints:
        """(e,) columns of a transcript that are linear in noisy sums."""
        return self._columns(LINEAR)

    @cached_property
    def smooth(self) -> Ints:
        """(s,) columns that are, or can be linearised."""
        return self._columns(SMOOTH)

    def _columns(self, kinds: Sequence[str]) -> Ints:
        infos = [info for info in self.program.infos for _ in info.overs]
        chosen = [info.kind in kinds for info in infos]
        return np.flatnonzero(np.repeat(chosen, [len(info.labels) for info in infos]))

    @cached_property
    def sufficient(self) -> bool:
        """Whether these tell every noisy sum that is read, so that the others say nothing more."""
        own, read = self._readings
        size = np.abs(own).max(axis=0, initial=0.0)
        return bool(size[read].all()) and _rank(own[:, read] / size[read]) == int(read.sum())

    @cached_property
    def _readings(self) -> tuple[Floats, NDArray[np.bool_]]:
        """(e, N) how linear releases read the noisy numbers of their tick, and (N,) which of these
        numbers any release reads."""
        nothing = np.zeros((self.ticks, self.program.dimension), dtype=np.int64)
        own = self.slope(self.noisy(nothing))[-1][self.exact]
        pairs = {(item, over) for info in self.program.infos for over in info.overs
                 for item in info.channels}  # fmt: skip
        read = [
            (channel, over) in pairs
            for part, over in self.slots
            for channel in self.program.parts[part].channels
            for _ in range(self.program.channels[channel].width)
        ]
        return own, np.array(read, dtype=np.bool_)

    @cached_property
    def _running(self) -> Floats | None:
        """(N, e) running sums of a tick from its linear releases, 0 for all other noisy numbers;
        None where these do not tell every sum that is read, or some are read of a few ticks only.

        All else follows from running sums, noise included, so they are all that an attack needs.
        """
        own, read = self._readings
        sizes = [self.program.parts[part].mechanism.dimension for part, _ in self.slots]
        running = np.repeat([over is None for _, over in self.slots], sizes)
        seen = [
            (part, at, over)
            for (part, over), first, size in zip(self.slots, self._places, sizes, strict=True)
            for at in range(size)
            if read[first + at]
        ]
        known = {(part, at) for part, at, over in seen if over is None}
        asked = {(part, at) for part, at, _ in seen}
        if not self.sufficient or asked - known:
            return None
        result = np.zeros((len(read), len(own)))
        size = np.abs(own).max(axis=0, initial=0.0)
        result[read] = np.linalg.pinv(own[:, read] / size[read]) / size[read, None]
        result[~running] = 0.0
        return result

    @cached_property
    def slots(self) -> list[tuple[int, int | None]]:
        """(part, over) of each noisy array, in the order of ``step``."""
        return [
            (p, over) for p, part in enumerate(self.program.parts) for over in part.mechanism.overs
        ]

    def response(self, part: int, over: int | None) -> tuple[Floats, Floats]:
        """Of a noisy array: (T, units) noise of it, in units of scales; (T, T) clean of leaves."""
        mechanism, n = self.program.parts[part].mechanism, self.ticks
        dense = np.asarray(mechanism.materialize(n))
        if hasattr(mechanism, "response"):
            return dense, np.asarray(mechanism.response(n))
        clean = np.tril(np.ones((n, n)))
        if over is not None:
            step = np.eye(n) - np.eye(n, k=-over)
            dense, clean = step @ dense, step @ clean
        return dense, clean

    @cached_property
    def responses(self) -> list[tuple[Floats, Floats]]:
        """``response`` of every noisy array."""
        return [self.response(part, over) for part, over in self.slots]

    def noisy(self, leaves: Ints) -> list[Floats]:
        """What a stream's noisy arrays are without noise: leaves (T, D) -> each (T, 1, d)."""
        results = []
        for (part, _), (_, clean) in zip(self.slots, self.responses, strict=True):
            mine = self.program.parts[part].summed(leaves).astype(np.float64)
            results.append((clean @ mine)[:, None, :])
        return results

    def solved(self, noisy: Sequence[Floats]) -> Floats:
        """(T, m): the transcript of noisy arrays of one key."""
        ticks = np.arange(self.ticks, dtype=np.int64)
        released = self.program.solve(tuple(noisy), ticks)
        return np.concatenate([item.value[:, 0, :] for item in released], axis=1)

    def slope(self, noisy: list[Floats]) -> Floats:
        """(T, m, N): how a transcript moves with each of the N noisy numbers of its tick.

        By central differences of a standard deviation each, which is exact for what is linear.
        """
        columns = []
        for at, (part, over) in enumerate(self.slots):
            mechanism = self.program.parts[part].mechanism
            size = mechanism.stddev(np.arange(self.ticks, dtype=np.int64), over)
            for coordinate in range(mechanism.dimension):
                step = np.where(size[:, coordinate] > 0, size[:, coordinate], 1.0)
                moved = []
                for sign in (1.0, -1.0):
                    changed = [array.copy() for array in noisy]
                    changed[at][:, 0, coordinate] += sign * step
                    moved.append(self.solved(changed))
                columns.append((moved[0] - moved[1]) / (2 * step[:, None]))
        return np.stack(columns, axis=2)

    @cached_property
    def _places(self) -> list[int]:
        """First of the noisy numbers of each noisy array."""
        sizes = [self.program.parts[part].mechanism.dimension for part, _ in self.slots]
        return [0, *np.cumsum(sizes)[:-1].tolist()]

    def noise(self, slope: Floats, rows: Ints) -> Floats:
        """(rows, m, units): a transcript's noise at some ticks, on independent units of noise."""
        blocks = []
        for p, part in enumerate(self.program.parts):
            unit = float(np.sqrt(part.mechanism.unit_variance))
            mine = [at for at, (item, _) in enumerate(self.slots) if item == p]
            for coordinate, scale in enumerate(part.mechanism.scales):
                if scale:
                    weights = [slope[rows, :, self._places[at] + coordinate] for at in mine]
                    spread = [self.responses[at][0][rows] for at in mine]
                    pairs = zip(weights, spread, strict=True)
                    block = sum(w[:, :, None] * s[:, None, :] for w, s in pairs)
                    blocks.append(np.asarray(block) * scale * unit)
        return np.concatenate(blocks, axis=2)

    def rows(self, arrival: int, stop: int, width: int) -> Ints:
        """Ticks before ``stop`` that an attack looks at: all of them, or where they are too many
        those around the arrival and a spread."""
        most = max(8, MOST_NUMBERS // max(1, width))
        if stop <= most:
            return np.arange(stop)
        near = np.arange(max(0, arrival - most // 4), min(stop, arrival + most // 2))
        far = np.unique(np.linspace(0, stop - 1, most - len(near)).astype(int))
        return np.union1d(near, far)

    def attack(
        self,
        here: Sequence[Ints],
        there: Sequence[Ints],
        arrival: int,
        stop: int,
        columns: Ints | None = None,
    ) -> tuple[Floats, float]:
        """The likelihood-ratio direction between two sets of streams.

        Args:
          here, there: leaves (T, D) of each key of a trial, with the change and without.
          arrival: tick from which they differ. stop: releases before it are looked at.
          columns: outputs' coordinates that are; None: all.

        Returns:
          Weights (keys, T, m), zero where nothing is looked at; mu of the statistic, from public
          numbers alone.
        """
        weights, square = [], 0.0
        for item, other in zip(here, there, strict=True):
            clean = self.noisy(other)
            slope = self.slope(clean)
            m = slope.shape[1]
            shift = self.solved(self.noisy(item)) - self.solved(clean)
            rows = self.rows(arrival, stop, m)
            chosen = np.arange(m) if columns is None else columns
            spread = self.noise(slope, rows)[:, chosen].reshape(len(rows) * len(chosen), -1)
            moved = np.nan_to_num(shift[np.ix_(rows, chosen)]).ravel()
            size = np.sqrt((spread**2).sum(axis=1))
            size[size == 0] = 1.0
            scaled = spread / size[:, None]
            solved = np.linalg.pinv(scaled @ scaled.T, rcond=1e-10, hermitian=True) @ (moved / size)
            weight = np.zeros((self.ticks, m))
            weight[np.ix_(rows, chosen)] = (solved / size).reshape(len(rows), len(chosen))
            weights.append(weight)
            square += float(solved @ (moved / size))
        return np.stack(weights), float(np.sqrt(max(0.0, square)))

    def strongest(
        self,
        here: Sequence[Ints],
        there: Sequence[Ints],
        arrival: int,
        stop: int,
        columns: Ints | None = None,
    ) -> tuple[Floats, float, bool]:
        """``attack`` on the releases whose law is exact, where they say about as much as all do.

        Returns:
          What ``attack`` returns, and whether the statistic is exactly normal.
        """
        if columns is None and self._running is not None:
            return (*self._by_running_sums(here, there, stop, self._running), True)
        value = np.intersect1d(np.arange(self.width) if columns is None else columns, self.smooth)
        exact = np.intersect1d(value, self.exact)
        if not len(exact):
            return (*self.attack(here, there, arrival, stop, value), False)
        weights, mu = self.attack(here, there, arrival, stop, exact)
        if len(exact) == len(value) or self.sufficient:
            return weights, mu, True
        others, whole = self.attack(here, there, arrival, stop, value)
        return (weights, mu, True) if mu >= EXACT * whole else (others, whole, False)

    def _by_running_sums(
        self, here: Sequence[Ints], there: Sequence[Ints], stop: int, running: Floats
    ) -> tuple[Floats, float]:
        """``attack`` through the running sums, whose noise is independent between coordinates: what
        is inverted is (stop, stop), however many numbers a tick releases.

        Args:
          running: see ``_running``.
        """
        weights, square = [], 0.0
        for item, other in zip(here, there, strict=True):
            own = np.zeros((self.ticks, running.shape[0]))
            for at, (p, over) in enumerate(self.slots):
                if over is not None:
                    continue
                part, (dense, clean) = self.program.parts[p], self.responses[at]
                scales = np.asarray(part.mechanism.scales)
                scales = scales * np.sqrt(part.mechanism.unit_variance)
                noisy = np.flatnonzero(scales > 0)
                moved = part.summed(item - other)[:, noisy] / scales[noisy]
                shift = (clean @ moved)[:stop]
                solved = inverted(dense[:stop]) @ shift
                square += float((solved * shift).sum())
                own[:stop, self._places[at] + noisy] = solved / scales[noisy]
            weight = np.zeros((self.ticks, self.width))
            weight[:, self.exact] = own @ running
            weights.append(weight)
        return np.stack(weights), float(np.sqrt(max(0.0, square)))

    @cached_property
    def width(self) -> int:
        """m, numbers of a tick."""
        return sum(len(info.labels) for info in self.program.infos for _ in info.overs)

    def most(self, moved: Sequence[Ints], stop: int) -> float:
        """mu of all noisy sums before ``stop`` under changes of leaves (T, D) of each key: what an
        attack on the sums themselves has, which bounds every attack on the outputs."""
        square = 0.0
        for p, part in enumerate(self.program.parts):
            mechanism = part.mechanism
            over = None if None in mechanism.overs else mechanism.overs[0]
            dense, clean = self.responses[self.slots.index((p, over))]
            scales = np.asarray(mechanism.scales) * np.sqrt(mechanism.unit_variance)
            noisy = scales > 0
            inverse = inverted(dense[:stop])
            for leaves in moved:
                mine = part.summed(leaves)[:, noisy] / scales[noisy]
                shift = clean[:stop] @ mine
                square += float(np.einsum("td,ts,sd->", shift, inverse, shift))
        return float(np.sqrt(square))


def _rank(matrix: Floats) -> int:
    return int(np.linalg.matrix_rank(matrix)) if matrix.size else 0


def inverted(dense: Floats) -> Floats:
    """Pseudo-inverse of B B^T."""
    return _inverted(dense.tobytes(), dense.shape)


@lru_cache(maxsize=64)
def _inverted(data: bytes, shape: tuple[int, int]) -> Floats:
    dense = np.frombuffer(data).reshape(shape)
    return np.asarray(np.linalg.pinv(dense @ dense.T, rcond=1e-11, hermitian=True))
