"""What a neighbour changes of what primitives are given, once it has the same answers.

With answers given, everything between two primitives is a function of public numbers and of one
stream. So the privacy loss of a pair of streams is that of its calls together: for each call the
change of what goes in, over the noise. This compares it with the claim.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.stats import chi2

from weir.dpcore.accounting.guarantee import LossKind, PrivacyLoss
from weir.dpcore.arrays import Floats
from weir.dpcore.continual.independent import CoverSum
from weir.dpcore.models.blocks.level import amplified
from weir.dpcore.noise import replay
from weir.dpcore.noise.replay import Call, Diverged, Session
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import Events, Simulated, simulate

ERROR = 1e-10
"""Chance that sound noise is called wrong, of one mechanism."""
SLACK = 1 + 1e-6
"""What is within this of a bound keeps it: for the rounding of doubles in the comparison."""
CHOICES = ("gumbel_choice", "laplace_choice")


@dataclass(frozen=True)
class Recorded:
    """A run with its calls.

    Attributes:
      plan: of the run. secret: of its hashes and noise. session: its calls. released: by key.
    """

    plan: Plan
    secret: bytes
    session: Session
    released: tuple[Simulated, ...]

    @classmethod
    def of(cls, plan: Plan, events: Events, secret: bytes) -> Recorded:
        """Runs a plan tick by tick, under record."""
        with replay.recording() as session:
            released = simulate(plan, events, secret, stride=1)
        return cls(plan, secret, session, tuple(released))

    def replayed(self, events: Events) -> Replayed:
        """The same of a neighbour, whose primitives give the recorded answers again."""
        faults: list[str] = []
        session, released = Session(), tuple[Simulated, ...]()
        try:
            with replay.replaying(self.session) as session:
                released = tuple(simulate(self.plan, events, self.secret, stride=1))
        except Diverged as error:
            faults.append(f"control flow: {error}")
        except Exception as error:  # one record ended the run: that is seen by everybody
            faults.append(f"control flow: the run ends with {type(error).__name__}")
        else:
            faults += _different(self.released, released)
        return Replayed(self, session, tuple(faults))


class Cost(NamedTuple):
    """What one call, or the calls of one sum, cost: of the difference and of all that is paid."""

    name: str
    moved: PrivacyLoss
    paid: PrivacyLoss


@dataclass(frozen=True)
class Replayed:
    """A neighbour's run next to the recorded one.

    Attributes:
      reference: the recorded run. session: of the neighbour. faults: in words; (): none so far.
    """

    reference: Recorded
    session: Session
    faults: tuple[str, ...] = ()

    @cached_property
    def pairs(self) -> list[tuple[Call, Call]]:
        """Calls of both runs, side by side."""
        return list(zip(self.reference.session.calls, self.session.calls, strict=False))

    @cached_property
    def sums(self) -> list[tuple[Any, list[tuple[Call, Call]]]]:
        """Continual sums, each with its calls in one block of keys."""
        result: dict[tuple[int, int, bytes], tuple[Any, list[tuple[Call, Call]]]] = {}
        for pair in self.pairs:
            part = pair[0].mechanism
            if part is not None:
                place = (id(part), pair[0].block, str(pair[0].clean.shape).encode())
                result.setdefault(place, (part, []))[1].append(pair)
        return list(result.values())

    @cached_property
    def largest(self) -> tuple[float, str]:
        """The largest change of what a call is given, over its declared sensitivity; of which."""
        best, name = 0.0, ""
        for one, two in self.pairs:
            ratio = _ratio(one, two)
            if ratio > best:
                best, name = ratio, one.name
        return best, name

    def costs(self, kind: LossKind, stop: int) -> list[Cost]:
        """Of every call before tick ``stop`` that the change reaches."""
        result = []
        for part, calls in self.sums:
            mine = [pair for pair in calls if pair[0].tick < stop]
            if mine:
                result += _of_sum(part, mine, kind)
        share = None
        for one, two in self.pairs:
            if one.kind == "sample":
                share = one.extra[0]
            elif one.mechanism is None and one.kind != "threshold" and one.tick < stop:
                item = _of_point(one, two, kind, share)
                share = None
                if item is not None:
                    result.append(item)
        return result

    def loss(self, kind: LossKind, stop: int) -> tuple[PrivacyLoss, PrivacyLoss]:
        """Of the difference, and of all that its calls have paid for."""
        costs = self.costs(kind, stop)
        moved, paid = ([getattr(item, name) for item in costs] for name in ("moved", "paid"))
        return _together(kind, moved), _together(kind, paid)

    @property
    def early(self) -> float:
        """Chance that a key is released by its noise alone, of keys that are early: see
        ``DiscoveryRule``."""
        total = 0.0
        for one, two in self.pairs:
            if one.kind == "threshold" and one.clean.shape == two.clean.shape:
                cells = (one.clean != two.clean).sum(axis=1)
                total += float((cells * np.asarray(one.extra)).sum())
        return total

    @cached_property
    def same_noise(self) -> tuple[str, ...]:
        """Mechanisms whose noise was the same although what it hides was not."""
        names = [
            one.name
            for one, two in self.pairs
            if one.drawn
            and one.drawn == two.drawn
            and one.kind not in ("threshold", "sample")
            and (one.clean != two.clean).any()
        ]
        return tuple(dict.fromkeys(names))


def _different(one: Sequence[Simulated], two: Sequence[Simulated]) -> list[str]:
    """What is released differently although every primitive gave the same answers."""
    if [(x.key, x.first_tick) for x in one] != [(x.key, x.first_tick) for x in two]:
        return ["released keys differ though all answers are the same"]
    names = []
    for first, second in zip(one, two, strict=True):
        for x, y in zip(first.released, second.released, strict=True):
            for a, b in zip(x[2:], y[2:], strict=True):
                both = a is not None and b is not None
                if not (np.array_equal(a, b, equal_nan=True) if both else a is b):  # type: ignore[arg-type]
                    names.append(x.name)
    return [
        f"{name} differs though all answers are the same: it reads private data"
        for name in dict.fromkeys(names)
    ]


# ---- the change of one call


def _ratio(one: Call, two: Call) -> float:
    """Change of what goes in over the declared sensitivity: at most 1."""
    if one.kind in ("sample", "threshold"):
        return 0.0
    change = _change(one, two)
    if one.mechanism is not None:
        scales = np.asarray(one.mechanism.scales)
        if change[..., scales == 0].any():
            return math.inf
        sizes = np.linalg.norm(change[..., scales > 0] / scales[scales > 0], one.norm, axis=-1)
        most = float(sizes.max(initial=0.0))
    elif one.kind in CHOICES:
        most = float(np.ptp(change))
    else:
        most = float(np.linalg.norm(change.ravel(), one.norm))
    if most == 0:
        return 0.0
    return most / one.sensitivity if one.sensitivity > 0 else math.inf


def _change(one: Call, two: Call) -> Floats:
    if one.clean.dtype == np.int64:
        with np.errstate(over="ignore"):
            return np.asarray(one.clean - two.clean).astype(np.float64)
    return np.asarray(one.clean, dtype=np.float64) - np.asarray(two.clean, dtype=np.float64)


def _loss_of(kind: LossKind, gaussian: float | None, pure: float) -> PrivacyLoss:
    """A loss in a currency. gaussian: mu; None: noise that has none. pure: epsilon."""
    if kind == "pure":
        return PrivacyLoss(kind, pure)
    mu = math.inf if gaussian is None else gaussian
    return PrivacyLoss(kind, mu if kind == "gdp" else mu * mu / 2)


def _of_point(one: Call, two: Call, kind: LossKind, share: float | None) -> Cost | None:
    """What a call costs; None where the change does not reach it."""
    ratio = _ratio(one, two)
    if ratio == 0:
        return None
    assert isinstance(one.scale, float)
    unit = one.sensitivity / one.scale if one.scale > 0 else math.inf

    def cost(times: float) -> PrivacyLoss:
        moved = unit * times
        if one.kind == "gumbel_choice":  # bounded range: epsilon^2 / 8
            return _loss_of(kind, moved / 2, moved)
        if one.kind == "laplace_choice":
            return _loss_of(kind, moved, moved)
        if one.kind in ("gaussian", "discrete_gaussian"):
            return _loss_of(kind, moved, math.inf)
        if one.kind == "generalised_gaussian":
            return _loss_of(kind, moved * math.sqrt(one.extra[0]), math.inf)
        pure = moved if share is None else amplified(moved, share)
        return _loss_of(kind, None, pure)

    return Cost(one.name, cost(ratio), cost(max(1.0, ratio)))


def _of_sum(part: Any, calls: list[tuple[Call, Call]], kind: LossKind) -> list[Cost]:
    """What the calls of a sum cost: the change through the sum's strategy, row by row."""
    first = int.from_bytes(calls[0][0].where, "little")
    scales = np.asarray(part.scales)
    active = scales > 0
    change = np.concatenate([_change(one, two) for one, two in calls])
    if not change.any():
        return []
    if change[..., ~active].any():
        endless = PrivacyLoss(kind, math.inf)
        return [Cost(part.name, endless, endless)]
    before = np.zeros((first, *change.shape[1:]))
    rows = np.concatenate([before, change])[..., active] / scales[active]
    lengths = np.linalg.norm(rows, calls[0][0].norm, axis=2, keepdims=True)
    # As much at every tick and key that the change reaches as is paid for, all of one sign.
    full = np.where(lengths > 0, part.sensitivity, 0.0)
    return [Cost(part.name, _strategy(part, rows, kind), _strategy(part, full, kind))]


def _strategy(part: Any, rows: Floats, kind: LossKind) -> PrivacyLoss:
    """The loss of a change (n, K, a) of the increments, in units of the scales."""
    units, exact = units_of(part, rows)
    if exact or not part.noise_scale > 0:
        return PrivacyLoss(kind, math.inf)
    noise = part.real_noise[0]
    norm = 1 if noise == "laplace" else 2
    sizes = np.linalg.norm(units, norm, axis=2) / part.noise_scale
    if noise in ("gaussian", "discrete_gaussian"):
        return _loss_of(kind, float(np.sqrt((sizes**2).sum())), math.inf)
    return _loss_of(kind, None, float(sizes.sum()))


def units_of(part: Any, rows: Floats) -> tuple[Floats, bool]:
    """What a change moves each unit of noise by, in units of the noise.

    Args:
      rows: (n, K, a) change of the increments.

    Returns:
      (m, K, a), and whether a part of the change is released without noise.
    """
    n = len(rows)
    flat = rows.reshape(n, -1)
    if isinstance(part, CoverSum):
        covers = [part.cover(tick) for tick in range(n)]
        nodes = list(dict.fromkeys(node for cover in covers for node in cover))
        place = {node: at for at, node in enumerate(nodes)}
        sums = np.concatenate([np.zeros((1, flat.shape[1])), np.cumsum(flat, axis=0)])
        held = np.stack([sums[min(node.end, n)] - sums[node.start] for node in nodes])
        size = np.abs(flat).max()
        shown = [sums[t + 1] - held[[place[x] for x in cover]].sum(axis=0)
                 for t, cover in enumerate(covers)]  # fmt: skip
        exact = bool(np.abs(np.stack(shown)).max() > 1e-9 * size)
        units = held / np.array([node.multiplier for node in nodes])[:, None]
        return units.reshape(len(nodes), *rows.shape[1:]), exact
    factor = part.materialize(n)
    clean = part.response(n) if hasattr(part, "response") else np.tril(np.ones((n, n)))
    units = solve_triangular(factor, clean @ flat, lower=True)
    return units.reshape(rows.shape), False


def _together(kind: LossKind, losses: Sequence[PrivacyLoss]) -> PrivacyLoss:
    values = [loss.value for loss in losses]
    if kind == "gdp":
        return PrivacyLoss(kind, math.sqrt(math.fsum(value * value for value in values)))
    return PrivacyLoss(kind, math.fsum(values))


# ---- the noise itself


@dataclass
class Spread:
    """Squares of the noise that was drawn, in its declared variances, by mechanism.

    Attributes:
      seen: (mechanism, kind of noise) -> squares and how many.
    """

    seen: dict[tuple[str, str], tuple[float, int]] = field(default_factory=dict)

    def add(self, run: Recorded) -> None:
        """Takes the noise of a run. Runs that are added have secrets of their own."""
        for part, pairs in Replayed(run, run.session).sums:
            calls = [one for one, _ in pairs]
            active = np.asarray(part.scales) > 0
            if part.noise_scale > 0 and active.any() and not any(calls[0].where):
                drawn = np.concatenate([call.own for call in calls])[..., active]
                size = math.sqrt(part.unit_variance) * np.asarray(part.scales)[active]
                factor = part.materialize(len(drawn))
                root = np.linalg.cholesky(factor @ factor.T)
                flat = (drawn / size).reshape(len(drawn), -1)
                self._count(part.name, calls[0].kind, solve_triangular(root, flat, lower=True))
        for call in run.session.calls:
            if call.mechanism is None and call.kind in ("gaussian", "discrete_gaussian"):
                assert isinstance(call.scale, float)
                self._count(call.name, call.kind, (call.own - call.clean) / call.scale)

    def _count(self, name: str, kind: str, values: Floats) -> None:
        squares, count = self.seen.get((name, kind), (0.0, 0))
        self.seen[name, kind] = squares + float((values**2).sum()), count + values.size

    @property
    def faults(self) -> tuple[str, ...]:
        """Mechanisms whose noise is not what they declare."""
        results = []
        for (name, kind), (squares, count) in self.seen.items():
            # Squares of Laplace and K-norm variables vary at most 2.5 times as much as normal ones.
            wide = 1.0 if kind in ("gaussian", "discrete_gaussian") else 4.0
            low, high = chi2.ppf(ERROR, count / wide), chi2.isf(ERROR, count / wide)
            if not wide * low <= squares <= wide * high:
                ratio = math.sqrt(squares / count)
                results.append(f"noise of {name} has {ratio:.3g} times the declared deviation")
        return tuple(results)


__all__ = ["CHOICES", "SLACK", "Cost", "Recorded", "Replayed", "Spread", "units_of"]
