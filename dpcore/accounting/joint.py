"""Joint sensitivity of several aggregates or groupings in one release, and its split.

Several aggregates in one Gaussian release: joint sensitivity, split.

**Formal guarantees** (proofs at the functions). An event contributes one vector v, made of
channels in lattice units, to one cell (key, tick). A release of sum(v) with independent N(0,
(sigma scale_i)^2) on coordinate i is mu-Gaussian DP with mu = joint_sensitivity / sigma, exactly;
releases that one event touches compose as mu^2 = sum mu_i^2, adaptively. With independent Laplace
noise of scale b scale_i the release is epsilon-DP with epsilon = joint_sensitivity in the l1 norm
/ b: densities change by at most exp(sum of |change_i| / (b scale_i)), attained. An event moves one
bin of a histogram, so that a bin's noise does not depend on how many bins there are.

**Parallel composition.** If the partition of records into releases is independent of the data
(the key, tick and position of a record do not depend on its payload), each record is used in
exactly one release, and later releases use earlier *outputs* only, then the total loss is the
maximum over the releases, not their sum: one neighbour changes one release, and given the outputs
so far all the others are the same function of unchanged data.

Sensitivity of an event that counts in several keys at once: one of each grouping.

**Formal guarantees.** An event adds the same bounded vector to one cell (key, tick) of each of G
groupings. Which cells these are follows from that event alone, and every key has noise of its own.
Let Delta bound what one neighbour moves in the keys of *one* grouping, in units of the noise (the
scope of ``joint_sensitivity``: one cell, or two of the same or of different keys and ticks under
``replace_anywhere``).

- Gaussian and discrete Gaussian noise: keys of different groupings are different coordinates of one
  joint release, so squares add up: at most G Delta^2 in all. Attained: under ``add_remove`` and
  ``replace_one`` the event has one cell in each grouping and moves it by the same vector, so that
  equality holds wherever Delta is attained. mu is sqrt(G) times, rho G times that of one grouping.
- K-norm and Laplace noise (pure): losses of different keys add up, G times epsilon. The factor on
  the sensitivity is G.

Releases of different groupings compose adaptively, as those of one event's keys and ticks do: this
is one Gaussian release of all of them, of which every coordinate is drawn in its turn. Under a
window W the loss is that of one grouping at W with this sensitivity, as all cells of the event have
one tick. Everything is rounded up.

Source: Dong, Roth, Su (2022), Theorem 2.7 and Corollary 3.3 (composition); Bun, Steinke (2016);
Dwork, McSherry, Nissim, Smith (2006) for Laplace noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from weir.dpcore.accounting.guarantee import LossKind, PrivacyLoss
from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError

if TYPE_CHECKING:
    from weir.dpcore.accounting.guarantee import Relation


RELATIONS = ("add_remove", "replace_one", "replace_anywhere")


@dataclass(frozen=True)
class ChannelGroup:
    """Channels start .. start + size - 1 of an event's vector, with public bounds in lattice units.

    Where the unit is a user, the vector is what a user adds to one cell: the sum of its events'.

    Attributes:
      start: index of the first channel.
      size: number of channels.
      low, high: dense: every channel of every event lies in [low, high], independently.
        one_hot: at most one channel of an event is ``high``, all others are 0, and low is 0.
      one_hot: whether it is a histogram.
      events: most events of a user in a cell; 1 where the unit is an event.
      distinct: one_hot: a channel is ``high`` once, however many of the events are in it.
      gate: name of a public predicate; an event that does not satisfy it adds nothing to any group
        of that name. "": every event counts.
      column: name of a number that an event has or lacks; an event that lacks it adds nothing to
        any group of that name, but to the ``absent`` ones, to which others add nothing. "": either.
      absent: whether it is of the events that lack it.
    """

    start: int
    size: int
    low: int
    high: int
    one_hot: bool = False
    events: int = 1
    distinct: bool = False
    gate: str = ""
    column: str = ""
    absent: bool = False

    def __post_init__(self) -> None:
        if self.start < 0 or self.size < 1:
            raise ConfigError("size", self.size, "a group has at least one channel, from 0 on.")
        if self.events < 1:
            raise ConfigError("events", self.events, "must be 1 or more.")
        if self.distinct and not self.one_hot:
            raise ConfigError("distinct", True, "is for one-hot groups.")
        if self.low > self.high:
            raise ConfigError("low", self.low, f"must be at most high = {self.high}.")
        if self.one_hot and self.low != 0:
            raise ConfigError("low", self.low, "must be 0 in a one-hot group.")
        if self.absent and not self.column:
            raise ConfigError("absent", True, "is for groups of a column.")

    @property
    def bound(self) -> int:
        """Largest absolute value of a channel."""
        return max(abs(self.low), abs(self.high))


def group_sensitivity(
    group: ChannelGroup, relation: Relation, may_vanish: bool, norm: int = 2
) -> float:
    """Sensitivity of one group alone, in lattice units (what ``split_scales`` takes).

    Equal to ``joint_sensitivity`` of this group alone with all scales 1; see there.
    """
    if group.one_hot:
        most = 1 if not group.distinct else min(group.size, group.events)
        each = 1 if group.distinct else group.events
        one, two = most * (each * group.high) ** norm, min(group.size, 2) * group.high**norm
    else:
        one = group.size * (group.events * group.bound) ** norm
        two = group.size * (group.high - group.low) ** norm
    two = two if group.events == 1 else 2**norm * one
    two = max(one, two) if group.gate or group.column else two
    power = int(_power(one, two, relation, may_vanish))
    if norm == 1:
        return float(power)
    root = math.isqrt(power)
    return float(root) if root * root == power else _root_up(power)


def joint_sensitivity(
    groups: Sequence[ChannelGroup],
    scales: Floats | Sequence[float],
    relation: Relation,
    may_vanish: bool,
    norm: int = 2,
) -> float:
    """Largest norm of (change of the sums) / scales that one neighbour makes, rounded up.

    Args:
      groups: disjoint groups that cover the D channels.
      scales: (D,) noise weights in lattice units; 0 marks a public channel, allowed only where
        nothing changes.
      relation: which neighbours.
      may_vanish: under ``replace_one``, whether an event may be filtered out (by a predicate on
        its payload, or as late) after its payload changed. Ignored by the other relations,
        which cover it anyway.
      norm: 2 for Gaussian and K-norm noise, 1 for independent Laplace noise.

    Formal guarantees:
      Let A^2 = sum over groups of the largest ||v_g / s||^2, and B^2 = sum over groups of the
      largest ||(v_g - v'_g) / s||^2 of two present events. Groups are bounded independently, so
      both maxima are attained jointly.
      - Dense channel: |v / s| <= max(|low|, |high|) / s, |v - v'| / s <= (high - low) / s.
      - One-hot group: |v / s| <= high / (smallest s); two events in two channels differ by
        high * sqrt(1/s_1^2 + 1/s_2^2) with the two smallest scales, which is at least the change
        when one of them sets no channel (all that can change when the group has one channel).
      - Several ``events`` of one user in the cell: a dense channel is at most e times as large, and
        so is a one-hot channel, at worst all e in the one of the smallest scale (e v has the norm
        e ||v||, and a sum of e vectors none larger); where channels are ``distinct``, at most e of
        them are high once each: high sqrt(sum of the e largest 1/s^2). Attained, jointly.
      - Groups behind a gate: an event adds its v_g or nothing. A is as without: the event that
        opens all gates. Of two present events both may satisfy it, or one: the change of the groups
        of one gate is at most the larger of what two in it differ by and what one of them is, in
        squares summed over these groups. B^2 adds that up over gates, and what lies behind none:
        attained where predicates do not bind each other, else above.
      - Groups of a column: an event is of the present ones or of the absent ones, so A^2 has the
        larger of both sums, each over all its groups. Of two events that count, both have the
        number, or neither, or one: B^2 has the largest of the changes of the present ones, of the
        absent ones, and the sum of one event of each. Attained where a column is asked for behind
        one gate, or every event counts; else above. Several events of a user: a cell is a sum of
        e such events, and a norm is largest where all are alike.
      - add_remove: v against the zero event: A. Attained.
      - replace_one: both present: B; may_vanish: one of them is the zero event: max(A, B).
        Attained.
      - replace_anywhere: same cell: B. Different cells i, j with independent noise: ||v||^2 +
        ||v'||^2 <= 2 A^2. In all max(B, sqrt(2) A), attained; one absent gives A only. Different
        ticks of one key under correlated noise whose strategy matrix C has columns of norm at
        most one: the squared change is at most ||v||^2 + ||v'||^2 - 2 r <v, v'> with r = <C_i,
        C_j>, linear in r; if columns never have a negative inner product, 0 <= r <= 1 and the
        ends are the two cases above. (A strategy with negative inner products, such as sliding
        sums alone, has 2 A at most.)
      - Between two present users nothing is derived but the triangle inequality: B <= 2 A.
      - In the l1 norm (``norm`` 1) the same maxima are taken of ||v_g / s||_1, and groups, gates
        and coordinates add up as they are: A = sum of A_g, B = sum of B_g, dense |bound| sum 1/s,
        one-hot high (1/s_1 + 1/s_2), distinct high times the sum of the e largest 1/s. Present and
        absent groups lie in different coordinates, so that one event of each adds up too. Two
        cells of replace_anywhere have ||v||_1 + ||v'||_1 <= 2 A >= B. Attained where the squares
        are.

    Raises:
      ConfigError: the groups do not tile the scales, a scale is negative or not finite, or a
        scale is 0 where an event changes something.

    Source: Dong, Roth, Su (2019), Theorem 2.7 (Gaussian mechanism); the relations are derived here.
    """
    s = np.asarray(scales, dtype=np.float64)
    if not np.all(np.isfinite(s) & (s >= 0)):
        raise ConfigError("scales", s.tolist(), "must be finite and 0 or more.")
    covered = sorted(i for group in groups for i in range(group.start, group.start + group.size))
    if covered != list(range(s.size)):
        raise ConfigError("groups", covered, f"must cover each of {s.size} channels once.")
    _check_relation(relation)
    for group in groups:
        own = s[group.start : group.start + group.size]
        if (own == 0).any() and group_sensitivity(group, relation, may_vanish) > 0:
            raise ConfigError("scales", own.tolist(), "0 (public) where an event changes the sum.")
    parts: dict[str, Counted] = {}
    for group in groups:
        if (own := s[group.start : group.start + group.size]).all():
            parts.setdefault(group.gate, Counted()).add(group, *group_powers(group, own, norm))
    columns = {column for counted in parts.values() for column in counted.columns}
    sides = [
        [math.fsum(item.side(column, absent) for item in parts.values()) for absent in SIDES]
        for column in sorted(columns)
    ]
    free = [part for counted in parts.values() for part in counted.ones]
    one = math.fsum([*free, *(max(pair) for pair in sides)])
    two = math.fsum(
        max(counted.one, counted.two) if gate else counted.two for gate, counted in parts.items()
    )
    power = _power(one, two, relation, may_vanish)
    return power * (1 + 2.0**-50) if norm == 1 else _root_up(power)


SIDES = (False, True)
"""Present, absent."""


@dataclass
class Counted:
    """What the groups of one gate add up to, in powers over the scales (``group_powers``).

    Attributes:
      ones, twos: of each group that every event behind the gate counts in: size of one event,
        change between two.
      columns: column -> the same of its present, and of its absent groups.
    """

    ones: list[float] = field(default_factory=list)
    twos: list[float] = field(default_factory=list)
    columns: dict[str, dict[bool, tuple[list[float], list[float]]]] = field(default_factory=dict)

    def add(self, group: ChannelGroup, one: float, two: float) -> None:
        """Adds a group."""
        ones, twos = self.ones, self.twos
        if group.column:
            sides = self.columns.setdefault(group.column, {side: ([], []) for side in SIDES})
            ones, twos = sides[group.absent]
        ones.append(one)
        twos.append(two)

    def side(self, column: str, absent: bool) -> float:
        """One event that has a column's number, or lacks it."""
        return math.fsum(self.columns[column][absent][0]) if column in self.columns else 0.0

    @property
    def one(self) -> float:
        """One event that counts."""
        sides = [max(self.side(column, absent) for absent in SIDES) for column in self.columns]
        return math.fsum([*self.ones, *sides])

    @property
    def two(self) -> float:
        """Two events that both count."""
        changes = list(self.twos)
        for column, sides in self.columns.items():
            same = [math.fsum(twos) for _, twos in sides.values()]
            changes.append(max(*same, math.fsum(self.side(column, absent) for absent in SIDES)))
        return math.fsum(changes)


def split_scales(
    sensitivities: Floats | Sequence[float],
    weights: Floats | Sequence[float],
    norm: int = 2,
) -> Floats:
    """Noise weights that minimise the weighted variance of several aggregates in one release.

    Minimises sum a_i scale_i^2 subject to sum (Delta_i / scale_i)^2 = 1: scale_i^2 = Delta_i /
    sqrt(a_i) * sum_j Delta_j sqrt(a_j)  (Lagrange: a_i scale_i^4 ~ Delta_i^2). In the l1 norm
    subject to sum Delta_i / scale_i = 1: scale_i = (Delta_i / a_i)^(1/3) * sum_j Delta_j^(2/3)
    a_j^(1/3)  (Lagrange: a_i scale_i^3 ~ Delta_i).

    Args:
      sensitivities: (m,) Delta_i >= 0.
      weights: (m,) a_i = w_i d_i > 0: importance of one coordinate's variance times number of
        coordinates.
      norm: in which sensitivities add up: 2 in squares, 1 as they are.

    Returns:
      (m,) scales; 0 where Delta_i = 0 (nothing to hide: public).

    Raises:
      ConfigError: negative or non-finite sensitivities, weights that are not positive.

    Source: derived here (one line above); exact, not asymptotic.
    """
    delta = np.asarray(sensitivities, dtype=np.float64)
    weight = np.asarray(weights, dtype=np.float64)
    if delta.shape != weight.shape or delta.ndim != 1:
        raise ConfigError("weights", weight.shape, f"must have the shape {delta.shape}.")
    if not np.all(np.isfinite(delta) & (delta >= 0)):
        raise ConfigError("sensitivities", delta.tolist(), "must be finite and 0 or more.")
    if not np.all(np.isfinite(weight) & (weight > 0)):
        raise ConfigError("weights", weight.tolist(), "must be finite and above 0.")
    with np.errstate(over="ignore"):
        if norm == 1:
            root = np.cbrt(weight)
            total = math.fsum((np.cbrt(delta) ** 2 * root).tolist())
            scales = np.cbrt(delta) / root * total
        else:
            root = np.sqrt(weight)
            total = math.fsum((delta * root).tolist())
            scales = np.sqrt(delta / root * total)
    if not np.isfinite(scales).all():
        raise ConfigError("weights", weight.tolist(), "are too far apart.")
    return scales


def group_powers(group: ChannelGroup, scales: Floats, norm: int) -> tuple[float, float]:
    """Powers of (size of one event, change between two present events), over the scales: squares,
    or the sizes themselves in the l1 norm."""
    inverse = np.sort(1.0 / (scales * scales if norm == 2 else scales))[::-1].tolist()
    if group.one_hot and group.distinct:
        item = group.high**norm * math.fsum(inverse[: group.events])
    elif group.one_hot:
        item = (group.events * group.high) ** norm * inverse[0]
    else:
        item = (group.events * group.bound) ** norm * math.fsum(inverse)
    if group.events > 1:
        return item, 2**norm * item
    if group.one_hot:
        return item, group.high**norm * math.fsum(inverse[:2])
    return item, (group.high - group.low) ** norm * math.fsum(inverse)


def _power(one: float, two: float, relation: Relation, may_vanish: bool) -> float:
    """Power of the sensitivity from the powers of one event and of a change between two."""
    _check_relation(relation)
    if relation == "add_remove":
        return one
    if relation == "replace_one":
        return max(one, two) if may_vanish else two
    return max(two, 2 * one)


def _root_up(square: float) -> float:
    """Square root, rounded up by more than the error of the sums that made ``square``."""
    return math.sqrt(square) * (1 + 2.0**-50)


def _check_relation(relation: str) -> None:
    if relation not in RELATIONS:
        raise ConfigError("privacy.relation", relation, f"must be one of {', '.join(RELATIONS)}.")


def over_groupings(sensitivity: float, count: int, kind: LossKind) -> float:
    """What an event moves in the keys of ``count`` groupings, of what it moves in those of one.

    kind: of the budget; it says how keys add up.
    """
    if count == 1:
        return sensitivity
    if kind == "pure":
        return sensitivity * count
    root = math.isqrt(count)
    if root * root == count:
        return sensitivity * root
    return sensitivity * (math.sqrt(count) * (1 + 2.0**-50))


def of_one(loss: PrivacyLoss, count: float) -> PrivacyLoss:
    """Loss against the keys of one of ``count`` groupings, of the loss against all of them; or of
    one with a share of 1 / ``count`` of the budget."""
    if count == 1:
        return loss
    share = math.sqrt(count) if loss.kind == "gdp" else count
    return PrivacyLoss(loss.kind, loss.value / share * (1 + 2.0**-40))
