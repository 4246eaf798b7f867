"""The rule by which a key is discovered, and how far noise reaches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.config.key import DiscoverConfig
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.continual.unit import noisy_coordinates
from weir.dpcore.noise.noise import is_pure
from weir.dpcore.users.unit import Periods

BITS = 24
"""Significant bits of a threshold's factors, rounded up: exp and log differ in their last bits
between kinds of CPU, and thresholds must not."""
SLACK = 1 + 2.0**-30
"""Far more than the rounding errors of what is rounded up."""
TINY = 2.0**-500
SLOPES = np.arange(1, 256) / 256
"""Where a Chernoff bound is looked for; each of them is one."""


def reach(mechanism: ContinualSum, coordinate: int, ticks: Ints, chance: Floats) -> Ints:
    """Lattice steps that the noise of a running total reaches with so much probability at most.

    Args:
      mechanism: serves running totals.
      coordinate: of its leaves.
      ticks: (m,) at which ``mechanism.factor`` is asked: it bounds the variance from above.
      chance: (m,) in (0, 1/2).

    Returns:
      (m,) x with P[noise >= x] <= chance, in whole steps:

      * Gaussian: sd Q^-1(chance), and half a step for each number that was rounded to the lattice.
        In whole numbers no event is more likely than under rounded Gaussians but for a factor
        1 + 2^-17 (``dpcore.noise.discrete_gaussian``), whose roundings on the fine grid are
        covered by that of the deviation to ``oversize``;
      * K-norm: the Chernoff bound: a coordinate of density exp(-||x||_2) in d dimensions has the
        generating function (1 - s^2)^(-(d + 1) / 2), the Fourier transform of a Cauchy density at
        an imaginary point, and -ln(1 - s^2) / s^2 grows, so units of unequal sizes reach no
        farther than equal ones of the largest size and the same variance;
      * Laplace: the same with d = 1, whatever the number of coordinates.
    """
    kind, _ = mechanism.real_noise
    stddev = rounded_up(mechanism.stddev(ticks, None)[:, coordinate])
    if is_pure(kind):
        out = _pure(mechanism, coordinate, ticks, chance)
    else:
        # Units of one sum may be of either kind where their sizes differ.
        out = stddev * mechanism.oversize * rounded_up(-ndtri(chance / (1 + 2.0**-17)))
    return np.ceil(out + mechanism.roundings(ticks) / 2).astype(np.int64)


def _pure(mechanism: ContinualSum, coordinate: int, ticks: Ints, chance: Floats) -> Floats:
    """min over 0 < s < 1 of (ln(1 / chance) - n (d + 1) / 2 ln(1 - s^2)) / s, times the size of the
    largest unit: no unit is larger than the root of all squares."""
    factor = mechanism.factor(ticks, None)
    largest = np.minimum(mechanism.largest_multiplier, np.sqrt(factor))
    units = factor / np.maximum(largest, TINY) ** 2
    laplace = mechanism.real_noise[0] == "laplace"
    half = ((1 if laplace else len(noisy_coordinates(mechanism.scales))) + 1) / 2
    spread = -np.log1p(-(SLOPES**2))[None, :] * (half * units[:, None])
    bounds = (spread - np.log(chance)[:, None]) / SLOPES[None, :]
    scale = mechanism.noise_scale * mechanism.scales[coordinate]
    return rounded_up(bounds.min(axis=1) * largest) * scale


def rounded_up(values: Floats) -> Floats:
    """The next larger numbers of BITS significant bits."""
    mantissa, exponent = np.frexp(np.asarray(values, dtype=np.float64) * SLACK)
    return np.asarray(np.ldexp(np.ceil(np.ldexp(mantissa, BITS)), exponent - BITS))


FAR = (1 << 20) - 1
"""Tick whose threshold is reported where periods have no end."""
ROOM = 1 << 61
"""Thresholds end here, where sums do."""
SPLITS = (0.1, 0.3, 0.6, 0.8, 0.9)
"""Shares of the budget that are priced next to the one that is taken."""


@dataclass(frozen=True)
class DiscoveryRule:
    """A key is live from the first tick of a period at which its distinct users of that period are
    ``min_users`` or more and their noisy count is at least the tick's threshold.

    **Formal guarantees**
      Unit: a user in a period. Relation: add_remove; replace_one doubles ``delta``, which anyone
      who
        makes the rule has done.
      Guarantee: delta(eps) = delta_program(eps) + ``delta``, for every eps, in both directions and
        without a factor e^eps, where delta_program is that of all noisy rows of all keys from the
        period's start on, found or not.

      Let O be those rows, and call a (key, tick) early if the key has min_users users with the
      changed user and not without. Early rows hold exactly min_users users with the user and one
      less without; each of at most ``touched`` keys has one at a tick at most. So an early row
      exceeds its threshold with probability sum over ticks of touched P[noise >= threshold -
      min_users] <= ``delta``. Let A be the event that no early row does and that what is computed
      from O *without* the early rows lies in S. With the user: P[S] <= P[an early row exceeds] +
      P_with[A] <= delta + e^eps P_without[A] + delta_program, and P_without[A] <= P_without[S], for
      without the user early rows are not tested. Without: P[S] <= P_without[A] + delta (there early
      rows are virtual, their counts smaller) <= e^eps P_with[A] + delta_program + delta, and
      P_with[A] <= P_with[S].
      The rows must be what they would be were every key stepped from the period's start on: noise
      begins there, every tick is tested whether data came or not, nothing is forgotten before the
      period ends, and ``touched`` counts the keys of a user in the *period*.
      What is found in a period stays, and its totals begin with that period; or it goes when one
      ends, by a rule on its own releases (``quiet``), and is found again as any other key: its
      noise then begins with a period whose ticks its earlier noise never reached.
      Source: derived in this project; compare Korolova, Kenthapadi, Mishra, Ntoulas (2009), whose
      histograms are released once.

    Attributes:
      discover: what the config says. periods: of the clock.
      touched: N, keys that a user may touch in a period.
      delta: what all early rows of a user in a period have together.
      mechanism: carries the count of users; serves running totals.
      coordinate: of the mechanism's leaves that counts them. array: which noisy array of the
        program has its running total. leaf: its coordinate in the program's leaves.
      part: index of the mechanism inside the program. read: coordinates of leaves that it reads.
      step: lattice steps of one user.
      hidden: whether that array is released nowhere: it ends with the period.
    """

    discover: DiscoverConfig
    periods: Periods
    touched: int
    delta: float
    mechanism: ContinualSum
    coordinate: int
    array: int
    leaf: int
    part: int
    read: tuple[int, ...]
    step: int
    hidden: bool

    @property
    def users(self) -> int:
        """``min_users`` in lattice steps."""
        return self.discover.min_users * self.step

    def chances(self, ages: Ints) -> Floats:
        """P[an early row exceeds] at so many ticks after the period's start (m,): (m,).

        Their sum over a period, over all keys of a user, is ``delta``; a period without end has
        shares 1 / ((r + 1) (r + 2)), whose sum is 1.
        """
        longest = self.periods.longest
        if longest is not None:
            return np.full(len(ages), self.delta / (self.touched * longest))
        later = np.asarray(ages, dtype=np.float64)
        return self.delta / (self.touched * (later + 1) * (later + 2))

    def thresholds(self, first: int, stop: int) -> Ints:
        """Of the ticks [first, stop) of one period, lattice steps: (stop - first,)."""
        ticks = np.arange(first, stop, dtype=np.int64)
        ages = ticks - self.start(first)
        where = ages if self.mechanism.ages else ticks
        result = reach(self.mechanism, self.coordinate, where, self.chances(ages))
        return np.minimum(self.users + result, ROOM)

    def quiet(self, gained: Floats, before: Ints) -> Ints:
        """Periods in a row in which keys had too few users, once another one is over.

        Formal guarantees: it sees nothing but differences of what the keys release, so it is
        post-processing.

        Args:
          gained: (K,) noisy users of the period, lattice steps. before: (K,) periods so far.
        """
        retire = self.discover.retire
        assert retire is not None
        return np.where(gained < retire.below * self.step, before + 1, 0)

    def retired(self, quiet: Ints) -> NDArray[np.bool_]:
        """(K,) which keys go, now that a period is over."""
        retire = self.discover.retire
        return np.zeros(len(quiet), dtype=bool) if retire is None else quiet >= retire.after

    def start(self, tick: int) -> int:
        """First tick of the period of a tick."""
        return self.periods.first(int(self.periods.of(np.asarray([tick]))[0]))

    def edges(self, first: int, stop: int) -> tuple[int, ...]:
        """Ticks inside (first, stop) at which a period begins."""
        ticks = np.arange(first, stop, dtype=np.int64)
        return tuple((ticks[1:][np.diff(self.periods.of(ticks)) > 0]).tolist())

    def told(self) -> Mapping[str, Any]:
        """For people and programs: what a key needs, in users, at a period's first and last tick.

        Without an end of the period: at tick ``FAR``."""
        last = self.periods.last(0)
        ticks = (0, FAR if last is None else last)
        needed = [float(self.thresholds(tick, tick + 1)[0]) / self.step for tick in ticks]
        return {
            **self.discover.model_dump(exclude={"share"}, exclude_none=True),
            "needed_first": needed[0],
            "needed_last": needed[1],
            "released": not self.hidden,
            "delta": self.delta,
            "touched": self.touched,
            **({"splits": self._splits(needed[1])} if self.hidden else {}),
        }

    def _splits(self, needed: float) -> list[dict[str, float]]:
        """What other shares of the budget would do: users that a key then needs at a period's last
        tick, and how many times the noise all other releases then have.

        Noise is as one over the share of epsilon, of the others over its root.
        """
        share, least = self.discover.share, self.discover.min_users
        power = 1.0 if is_pure(self.mechanism.real_noise[0]) else 0.5
        return [
            {
                "share": other,
                "needed_last": least + (needed - least) * (share / other) ** power,
                "noise": ((1 - share) / (1 - other)) ** power,
            }
            for other in SPLITS
            if other != share
        ]

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release, JSON-able."""
        return {
            **self.discover.canonical(),
            "touched": self.touched,
            "delta": float(self.delta).hex(),
            "array": self.array,
            "hidden": self.hidden,
        }
