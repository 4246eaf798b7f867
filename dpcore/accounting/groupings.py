"""Groupings of one plan whose noise differs, or whose unit is a user: what all of them move.

**Formal guarantees.** A user has events of at most k keys of the finest grouping in a tick, at m
ticks of a period, and adds a vector of norm at most Delta to each of those cells; F(m) bounds the
squared change of one key's rows by contributions at m ticks, over Delta^2, with the sizes of their
products. In a coarser grouping several of the keys meet in one: let x_c be how many of a tick are
in its key c, which has n_c finest keys.

- Channels of events: key c moves by x_c Delta at most. Then sum over c of x_{c,s} x_{c,t} <= M for
  any two ticks s, t by Cauchy and Schwarz, with M = max sum x_c^2 over 0 <= x_c <= n_c and
  sum x_c <= k, attained where the largest keys are filled first. So the squared change of the
  grouping is at most M F(m) Delta^2. Attained where one user has the same keys at all m ticks.
- Channels in which a user counts once a key and tick: at most C = min(k, keys) keys of the grouping
  move, each by Delta, whatever was merged.
- Bins in which a user counts once each: a key with x_c finest ones moves at most x_c times as many
  bins, so that k bounds the sum.
- A user who counts once a key and period: as many keys as there are, or as the user may touch.
- Different groupings are different coordinates of one release: squares add up over them, with
  1 / s_g^2 where grouping g has noise of scale s_g. Under pure noise losses of keys add up, and
  what is merged moves no more than its parts: the sum of 1 / s_g times the loss of one grouping.

Scales are 1 / a_g for whole numbers a_g: each contribution counts a_g times in the exact sums of
grouping g, under the same noise, and what is released is divided by a_g. So all noise is drawn as
for a single grouping.

Source: derived in this project; Dong, Roth, Su (2022) for the composition.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from weir.dpcore.accounting.contributions import MergedPattern, Pattern
from weir.dpcore.accounting.guarantee import LossKind
from weir.dpcore.accounting.joint import split_scales
from weir.dpcore.words import listing, number

MOST_TIMES = 64
"""The largest a_g: how finely scales are split. The grouping of the largest noise has 1 or more."""
ROUNDED = 1 + 2.0**-40


class CellPowers(NamedTuple):
    """Squares of what a user adds to a cell of the finest grouping, in units of the noise.

    Attributes:
      events: to channels of events. users: to those in which a user counts once. bins: to bins in
        which a user counts once each.
    """

    events: float
    users: float
    bins: float


@dataclass(frozen=True)
class KeyGroupings:
    """Several groupings. Public.

    Attributes:
      names: of each grouping which columns it names (``dpcore.leaves.keys.grouping_of``).
      sizes: of each how many finest keys its largest keys have, the largest first; None where keys
        are not listed.
      weights: how much the accuracy of each counts. keys: k; 1 where the unit is an event.
      once: whether a user counts once a key in all that is released. even: all scales are equal.
    """

    names: tuple[tuple[bool, ...], ...]
    sizes: tuple[tuple[int, ...] | None, ...]
    weights: tuple[float, ...]
    keys: int
    once: bool = False
    even: bool = False

    @classmethod
    def of(
        cls,
        names: Sequence[tuple[bool, ...]],
        listed: Sequence[Sequence[Hashable]] | None,
        weights: Sequence[float] | None,
        keys: int = 1,
        once: bool = False,
        even: bool = False,
    ) -> KeyGroupings:
        """Those of a config.

        Args:
          listed: of each grouping the key of every declared combination; None: combinations are not
            known in advance.
        """
        sizes: list[tuple[int, ...] | None] = [None] * len(names)
        if listed is not None:
            sizes = [tuple(sorted(Counter(keys).values(), reverse=True)) for keys in listed]
        shares = tuple(weights or (1.0,) * len(names))
        return cls(tuple(names), tuple(sizes), shares, keys, once, even)

    def finest(self, at: int) -> bool:
        """Whether a grouping names every column."""
        return all(self.names[at])

    def most(self, at: int) -> int | None:
        """Keys of a grouping; None: any number."""
        sizes = self.sizes[at]
        if not any(self.names[at]):
            return 1
        return None if sizes is None else len(sizes)

    def touched(self, at: int, most: int) -> int:
        """Keys of a grouping that so many finest keys may lie in."""
        known = self.most(at)
        return most if known is None else min(known, most)

    def touched_by(self, most: int) -> int:
        """Keys of all groupings that a user may touch, of so many of the finest."""
        return sum(self.touched(at, most) for at in range(len(self.names)))

    def merged(self, at: int) -> int:
        """M: the largest sum of squares of how many of k finest keys lie in each key."""
        if self.finest(at):
            return self.keys
        sizes, left, total = self.sizes[at], self.keys, 0
        for size in (self.keys,) if sizes is None else sizes:
            taken = min(size, left)
            total, left = total + taken * taken, left - taken
            if not left:
                break
        return total

    def times(self, kind: LossKind) -> tuple[int, ...]:
        """a_g of each grouping: the least sum of weight times variance, in 1 / 64 of the largest.

        Args:
          kind: of the budget; it says how changes of groupings add up.
        """
        moved = [1 if kind == "pure" else self._counts(at) for at in range(len(self.names))]
        if self.even:
            return (1,) * len(moved)
        norm = 1 if kind == "pure" else 2
        roots = [math.sqrt(size) for size in moved]
        scales = split_scales(roots, self.weights, norm)
        least = float(scales.min())
        times = [max(1, round(MOST_TIMES * least / float(scale))) for scale in scales]
        common = math.gcd(*times)
        return tuple(item // common for item in times)

    def _counts(self, at: int) -> int:
        return self.touched(at, self.keys) if self.once else self.merged(at)

    def sensitivity(self, one: float, kind: LossKind) -> float:
        """What a unit moves in all groupings, of what it moves in one: of an event, or under pure
        noise."""
        times = self.times(kind)
        if kind == "pure":
            return one * sum(times)
        return one * math.sqrt(sum(item * item for item in times)) * (1 + 2.0**-50)

    def pattern(
        self, pattern: Pattern, powers: CellPowers, kind: LossKind, once: bool
    ) -> MergedPattern:
        """Cells of a user in all groupings, for noise whose losses add in squares.

        Args:
          pattern: of the finest grouping. powers: of a cell. once: only the first cell of a key
            that a user has in a period adds anything.
        """
        whole, finest, coarse, single = math.fsum(powers), 0, 0.0, 0
        for at, times in enumerate(self.times(kind)):
            square = times * times
            if self.finest(at):
                finest += square
                continue
            single += square
            if once:
                coarse += square * self.touched(at, pattern.touched)
                continue
            users = self.touched(at, self.keys) * powers.users
            moved = self.merged(at) * powers.events + users + self.keys * powers.bins
            coarse += square * (moved / whole) * ROUNDED
        ticks = 1 if once else min(pattern.ticks, pattern.cells)
        return MergedPattern(
            **vars(pattern), finest=finest, coarse=coarse, single_cell=single, coarse_ticks=ticks
        )

    def only(self, at: int) -> KeyGroupings:
        """One of them with a plan of its own."""
        names, sizes, weights = (self.names[at],), (self.sizes[at],), (self.weights[at],)
        return KeyGroupings(names, sizes, weights, self.keys, self.once, self.even)


def noise_words(columns: Sequence[Sequence[str]], times: Sequence[int]) -> tuple[str, ...]:
    """A note for a plan whose errors are those of the grouping with the most noise; () where all
    have the same.

    Args:
      columns: of each grouping. times: a_g.
    """
    if len(set(times)) < 2:
        return ()
    least = min(times)
    shares: dict[int, list[str]] = {}
    for names, item in zip(columns, times, strict=True):
        shares.setdefault(item, []).append(" and ".join(names) or "the total")
    others = "; ".join(
        f"{number(least / item)} times as much for {listing(shares[item])}"
        for item in sorted(set(times) - {least})
    )
    return (f"The error is that of keys by {listing(shares[least])}; it is {others}.",)
