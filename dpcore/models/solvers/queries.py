"""What a private batch solver minimises, and the paid queries through which it sees rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.continual.unit import NOISE_OF, noise_scale_for
from weir.dpcore.errors import ConfigError, WeirError, at_least_one
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.gradients import Gradients
from weir.dpcore.models.kit.point import PointNoise, centre_of
from weir.dpcore.models.kit.short_rows import FINE, matrix_of, products, vector_of
from weir.dpcore.models.solvers.design import Design
from weir.dpcore.noise.noise import Noise, label
from weir.dpcore.pricing.calibration import round_up


@dataclass(frozen=True)
class Problem:
    """argmin over x in C of F(x) = sum over a key's rows f(x; row) + (lambda/2) ||x - centre||^2.

    f is the loss of a linear prediction, its derivative clipped so that every gradient has l2 norm
    at most L: convex and L-Lipschitz in x whatever the data are. lambda = ``curvature`` times the
    key's age in ticks, so both terms grow alike. F is a sum, not a mean: how many rows a key has is
    private, and a sum needs no divisor.

    Attributes:
      set: C, which projects. gradients: f, L, and how a row's gradient is put on the lattice.
      curvature: nu, 0 or more, strong convexity that every tick adds. centre: d numbers.
      changes: rows that one neighbour swaps, at most: 1; 2 where its key and tick may change; where
        the unit is a user, all rows that one has in a period (``rows_of_user``).
      limit: rows a key may have.
    """

    set: ConvexSet
    gradients: Gradients
    curvature: float
    centre: tuple[float, ...]
    changes: int
    limit: int

    def __post_init__(self) -> None:
        at_least_one(changes=self.changes, limit=self.limit)
        centre_of(self.set, self.centre)
        if self.gradients.loss_bound is not None:
            raise ValueError("gradients of a batch carry no running loss.")
        if not self.set.projects:
            raise ConfigError(
                "model.set", self.set.name, "has no projection, which this solver needs."
            )

    @property
    def dimension(self) -> int:
        """d."""
        return self.set.dimension

    @property
    def lipschitz(self) -> float:
        """L."""
        return self.gradients.clip

    @property
    def sensitivity(self) -> float:
        """l2 sensitivity of a sum of gradients, in steps of their lattice, rounded up."""
        return round_up(2 * self.changes * self.lipschitz / self.gradients.lattice.resolution)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release."""
        gradients = self.gradients
        return {
            "set": self.set.canonical(),
            "loss": gradients.loss.canonical(),
            "clip": gradients.clip.hex(),
            "resolution": gradients.lattice.resolution.hex(),
            "features": gradients.features,
            "intercept": gradients.intercept,
            "curvature": self.curvature.hex(),
            "centre": [float(value).hex() for value in self.centre],
            "changes": self.changes,
            "limit": self.limit,
        }


LENGTHS, MOMENTS = 2.0**20, 2.0**20
"""Steps in 1 of squared lengths and of second moments."""
BATCH_BITS = 20
"""Bits of a noise label that tell batches of a pass apart."""

TAKE_FEWER = "take fewer, or raise epsilon or delta."


class Paid(NamedTuple):
    """What a run has paid so far.

    Attributes:
      queries: how many queries and passes. share: of the run's budget.
    """

    queries: int = 0
    share: Fraction = Fraction(0)

    @property
    def stored(self) -> Ints:
        """(3,): as whole numbers."""
        return np.array([self.queries, self.share.numerator, self.share.denominator])

    @classmethod
    def of(cls, stored: Ints) -> Paid:
        """The inverse of ``stored``."""
        queries, above, below = stored.tolist()
        return cls(queries, Fraction(above, below))


class Queries:
    """Answers of one run over the rows of K keys, each key within the same budget.

    **Formal guarantees**
      Unit: one event, or one user in a period. A neighbour swaps at most ``problem.changes`` rows
        of what is asked about for others, or adds or removes as many.
      Sensitivity: a count changes by at most ``changes``, sums of squared lengths and of second
        moments by ``changes`` times what their queries say, and a sum of gradients by 2 L
        ``changes`` in l2 (each row's gradient has norm at most L exactly, on the lattice), whatever
        x is: x may depend on earlier answers, and on nothing else of the rows.
      A pass over batches: a row's batch is a function of its own hash and of public numbers, so a
        swap changes one batch by 2 L or two by L each (a row leaves one and another enters one):
        its sums together change by at most 2 L ``changes`` in l2 (for K-norm noise, whose losses
        add straight, L + L). A whole pass costs what one sum over all rows costs.
      Guarantee: query i gets noise at which it alone costs the share s_i of ``budget`` (mu^2 of
        Gaussian noise, rho of discrete Gaussian, eps of K-norm noise: all add up, adaptively).
        Shares are exact fractions, and a query beyond ``share`` in all is refused before any noise
        is drawn: a run costs at most ``share`` times the budget, however it is driven.
      Noise: a function of (tick, number of the query or pass, batch in it, user key, digest of all
        its data so far), so that what other keys ask draws nothing again.
        Equal data give equal answers and so equal iterates; where data differ the digest does, and
        all noise of the run is new.
      The number of rows is never a scale of noise.

    Args:
      problem: public. rows: of K keys. noise: keyed, of the run's tick. digests: (K, 2), of all
        data of each key so far. budget: of the whole stream. share: of it, for this run.
      paid: by earlier slices of the same run.
    """

    def __init__(
        self,
        problem: Problem,
        rows: Design,
        noise: Noise,
        digests: Digests,
        budget: PrivacyLoss,
        share: Fraction,
        paid: Paid = Paid(),  # noqa: B008
    ) -> None:
        self._problem, self._rows, self._noise = problem, rows, noise
        self._digests = digests
        self._budget, self._share = budget, share
        self._paid, self._spent = paid

    @property
    def paid(self) -> Paid:
        """What the run has paid so far: what a later slice of it goes on from."""
        return Paid(self._paid, self._spent)

    @property
    def n_keys(self) -> int:
        """K."""
        return len(self._digests)

    @property
    def tick(self) -> int:
        """Tick of the run."""
        return self._noise.first_tick

    def only(self, active: NDArray[np.bool_]) -> None:
        """Leaves out the rows of other keys from now on: their answers are noise alone.

        active: (K,), a function of earlier answers.
        """
        self._rows = self._rows.where(active[self._rows.keys])

    def counts(self, share: Fraction) -> Floats:
        """How many rows each key has, with noise: (K,). share: of this run's budget."""
        level = self._pay(share)
        counts = np.bincount(self._rows.keys, minlength=self.n_keys)[:, None]
        return np.asarray(self._answer(counts, float(self._problem.changes), share, level)[:, 0])

    def gradients(self, x: Floats, share: Fraction) -> Floats:
        """Sums of each key's clipped gradients at x, with noise: (K, d) -> (K, d)."""
        return self._gradients(self._rows, x, share, self._pay(share))

    def squared_lengths(self, share: Fraction) -> Floats:
        """Sum of |x|^2 over each key's rows, x the features, with noise: (K,).

        A row adds at most their number p, as each is at most 1; so a swap moves it by p.
        """
        level, p = self._pay(share), self._problem.gradients.features
        features = self._rows.points[:p]
        size = np.minimum(np.einsum("ij,ij->j", features, features), p)  # exact
        sums = np.zeros((self.n_keys, 1), dtype=np.int64)
        np.add.at(sums[:, 0], self._rows.keys, np.trunc(size * LENGTHS).astype(np.int64))
        moved = round_up(self._problem.changes * p * LENGTHS)
        return np.asarray(self._answer(sums, moved, share, level)[:, 0] / LENGTHS)

    def second_moments(self, reach: Floats, share: Fraction) -> tuple[Floats, float]:
        """Sum of z z^T over each key's rows, with noise: (K, d, d); and its stddev on the diagonal.

        z are rows over ``reach`` (K,), longer ones shortened to length 1. z z^T has trace and
        Frobenius norm at most 1, so that a swap moves the sum by at most sqrt(2) in that norm,
        which is the l2 norm of the diagonal and sqrt(2) times the entries above it. Those get the
        noise, after they are rounded to the grid, by half a step each.

        Args:
          reach: a function of earlier answers.
        """
        level, d = self._pay(share), self._problem.dimension
        sums = np.zeros((self.n_keys, d * (d + 1) // 2), dtype=np.int64)
        ends = np.searchsorted(self._rows.keys, np.arange(self.n_keys + 1))
        for key, bound in enumerate(reach.tolist()):
            points = np.ascontiguousarray(self._rows.points[:, ends[key] : ends[key + 1]].T)
            total = products(points, bound, np.ones(len(points)))
            steps = vector_of(total) * (MOMENTS / FINE / FINE)
            sums[key] = np.rint(steps).astype(np.int64)
        moved = moved_moments(self._problem)
        answer = self._answer(sums, moved, share, level) / MOMENTS
        stddev = moments_stddev(self._problem, self._budget, self._share * share)
        return np.stack([matrix_of(item, d) for item in answer]), stddev

    def batches(
        self, counts: Ints, number: int, share: Fraction, first: int = 0
    ) -> Iterator[_Batch]:
        """One pass: every row is in exactly one batch.

        Args:
          counts: (K,) batches of each key, 1 or more; a function of earlier answers.
          number: of the pass; passes differ in how rows are dealt.
          share: of this run's budget, for the whole pass.
          first: batch to go on from, of the pass that was paid for last; 0 begins one.

        Yields:
          Batch after batch, as many as the largest count; each is to be asked once. A key that has
          fewer gets noise alone in the others.
        """
        level, rows = self._level if first else self._pay(share), self._rows
        dealt = deal(rows.hashes, number + (self.tick << 20), counts[rows.keys])
        for batch in range(first, int(counts.max(initial=1))):
            yield _Batch(self, rows.where(dealt == batch), share, level + batch)

    def stddev(self, share: Fraction) -> float:
        """Standard deviation of the noise in a coordinate of a gradient query. Public."""
        return gradient_stddev(self._problem, self._budget, self._share * share)

    def _gradients(self, rows: Design, x: Floats, share: Fraction, level: int) -> Floats:
        gradients = self._problem.gradients
        sums = rows.sums(x, gradients)
        answer = self._answer(sums, self._problem.sensitivity, share, level)
        return np.asarray(answer * gradients.lattice.resolution)

    def _answer(self, exact: Ints, sensitivity: float, share: Fraction, level: int) -> Floats:
        """exact: (K, m) int64 -> (K, m) with noise."""
        point = noise_of(sensitivity, self._budget, self._share * share, exact.shape[1])
        noisy = point.noisy(exact, self._noise, label(level, self.tick), self._digests)
        return noisy.astype(np.float64)

    def _pay(self, share: Fraction) -> int:
        """Pays for a query or a pass; the level of its noise."""
        if share <= 0 or self._spent + share > 1:
            raise WeirError("a solver requested more than its run's budget.")
        self._spent += share
        self._paid += 1
        return self._level

    @property
    def _level(self) -> int:
        """Level of the noise of what was paid for last."""
        return self._paid << BATCH_BITS


class _Batch:
    """One batch of a pass, paid for by the pass."""

    def __init__(self, queries: Queries, rows: Design, share: Fraction, level: int) -> None:
        self._queries, self._rows, self._share, self._level = queries, rows, share, level
        self._asked = False

    def gradients(self, x: Floats) -> Floats:
        """As ``Queries.gradients``, over the batch's rows. Once."""
        if self._asked:
            raise WeirError("a batch was read twice in one pass.")
        self._asked = True
        return self._queries._gradients(self._rows, x, self._share, self._level)


def noise_of(
    sensitivity: float,
    budget: PrivacyLoss,
    share: Fraction,
    dimension: int,
    resolution: float = 1.0,
) -> PointNoise:
    """Noise of a query that costs a share of the budget.

    Args:
      sensitivity: in steps of the fixed-point grid. dimension: numbers that get noise at once.
      resolution: of the lattice.

    Raises:
      ConfigError: so little is left for it that its noise misses steps of the fixed-point grid,
      does not fit
        an integer, or is beyond the exact sampler.
    """
    scale = noise_scale_for(float(1 / share) * (1 + 2.0**-50), sensitivity, budget)
    point = PointNoise(NOISE_OF[budget.kind], dimension, resolution, sensitivity, scale)
    words = f"leave too little of the budget for each; {TAKE_FEWER}"
    point.check("a query", "model.iterations", words, TAKE_FEWER)
    return point


def gradient_stddev(problem: Problem, budget: PrivacyLoss, share: Fraction) -> float:
    """Standard deviation of the noise in a coordinate of a gradient query, gradient units."""
    resolution = problem.gradients.lattice.resolution
    return noise_of(problem.sensitivity, budget, share, problem.dimension, resolution).stddev


def moved_moments(problem: Problem) -> float:
    """l2 sensitivity of a sum of second moments, in steps of their lattice, rounded up."""
    d = problem.dimension
    moved = problem.changes * math.sqrt(2) * MOMENTS * (1 + 2.0**-40)
    return round_up(moved + math.sqrt(d * (d + 1) // 2) + 1)


def moments_stddev(problem: Problem, budget: PrivacyLoss, share: Fraction) -> float:
    """Standard deviation of the noise in a sum of second moments, on the diagonal."""
    d = problem.dimension
    noise = noise_of(moved_moments(problem), budget, share, d * (d + 1) // 2)
    return noise.stddev / MOMENTS


def deal(hashes: Digests, salt: int, batches: Ints) -> Ints:
    """Batch of each row, a function of its own secret hash: (N,) in [0, batches).

    Args:
      hashes: (N, 2) uint64. salt: of the pass. batches: (N,) int64, 1 or more.
    """
    mixed = hashes[:, 0] ^ mix(hashes[:, 1] + mix(np.array([salt], dtype=np.uint64)))
    return (mix(mixed) % batches.astype(np.uint64)).astype(np.int64)


def mix(words: Digests) -> Digests:
    """A fixed scramble of 64-bit words. Source: Steele, Lea, Flood (2014), SplitMix."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
