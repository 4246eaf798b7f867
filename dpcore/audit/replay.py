"""What a neighbour changes of what primitives are given, once it has the same answers.

With answers given, everything between two primitives is a function of public numbers and of one
stream. So the privacy loss of a pair of streams is that of its calls together: for each call the
change of what goes in, over the noise. This compares it with the claim.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from weir.dpcore.accounting.guarantee import LossKind, PrivacyLoss
from weir.dpcore.arrays import Floats
from weir.dpcore.bounded_events import Events
from weir.dpcore.continual.independent import UnitSum
from weir.dpcore.models.blocks.level import amplified
from weir.dpcore.noise import replay
from weir.dpcore.noise.replay import Call, Diverged, Session
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import Simulated, simulate

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
    def _tested(self) -> dict[int, Call]:
        """Block of keys -> the test by which they were found in its period, or not."""
        calls = self.reference.session.calls
        return {call.block: call for call in calls if call.kind == "threshold"}

    @cached_property
    def largest(self) -> tuple[float, str, bool]:
        """The largest change of what a call is given, over its declared sensitivity; of which
        mechanism, and whether that is a continual sum."""
        best = 0.0, "", False
        for one, two in self.pairs:
            ratio = _ratio(one, two)
            if ratio > best[0]:
                best = ratio, one.name, one.mechanism is not None
        return best

    def costs(self, kind: LossKind, stop: int) -> list[Cost]:
        """Of every call before tick ``stop`` that the change reaches."""
        result = []
        for part, calls in self.sums:
            mine = [pair for pair in calls if pair[0].tick < stop]
            if mine:
                result += _of_sum(part, mine, kind, self._tested.get(mine[0][0].block))
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

    @property
    def without_noise(self) -> tuple[str, ...]:
        """Mechanisms that answered without a draw of noise."""
        runs = (self.reference.session.calls, self.session.calls)
        names = [call.name for calls in runs for call in calls if _undrawn(call)]
        return tuple(dict.fromkeys(names))

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


def _undrawn(call: Call) -> bool:
    """Whether a call has noise to draw and drew none. Choices may draw for several at once."""
    scales = call.scale if isinstance(call.scale, tuple) else (call.scale,)
    noisy = scales[0] > 0 and (len(scales) == 1 or any(scales[1:])) and call.clean.size > 0
    return noisy and not call.drawn and call.kind not in (*CHOICES, "threshold", "sample")


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


def _of_sum(
    part: Any, calls: list[tuple[Call, Call]], kind: LossKind, tested: Call | None
) -> list[Cost]:
    """What the calls of a sum cost: the change through the sum's strategy, row by row.

    tested: what found its keys. The rows of a key that is not found end with the period.
    """
    first = int.from_bytes(calls[0][0].where, "little")
    scales = np.asarray(part.scales)
    active = scales > 0
    change = np.concatenate([_change(one, two) for one, two in calls])
    if tested is not None:
        change[len(tested.output) :, ~tested.output.any(axis=0)] = 0.0
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
    if isinstance(part, UnitSum):
        nodes = part.nodes(n)
        sums = np.concatenate([np.zeros((1, flat.shape[1])), np.cumsum(flat, axis=0)])
        held = np.stack([sums[min(node.end, n)] - sums[node.start] for node in nodes])
        units = held / np.array([node.multiplier for node in nodes])[:, None]
        clean = part.response(n) @ flat if hasattr(part, "response") else sums[1:]
        shown = clean - part.materialize(n) @ units
        exact = bool(np.abs(shown).max() > 1e-9 * np.abs(flat).max())
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
