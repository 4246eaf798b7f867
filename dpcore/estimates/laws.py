"""The noise of running totals as a state that moves from tick to tick, by what a plan says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.continual.columns import between
from weir.dpcore.continual.rational import Rational
from weir.dpcore.errors import ConfigError

Entries = tuple[tuple[int, int, float], ...]
"""(row, column, value) of a sparse matrix, sorted."""


class NoiseMove(NamedTuple):
    """What a tick does to the noise of one key: z = read . s + size xi, s <- move s + push xi.

    xi is standard normal, fresh at every tick; all is in units of one unit of noise.

    Attributes:
      read: (m,). size: of xi in z. move: of (m, m). push: (m,).
    """

    read: tuple[float, ...]
    size: float
    move: Entries
    push: tuple[float, ...]


class NoiseLaw(ABC):
    """How the noise of a running total moves. The state begins at 0 when a key begins.

    Attributes:
      name: of the mechanism (of the class). timed: whether a tick's move depends on the tick, not
        on the age of a key alone.
    """

    name: ClassVar[str]
    timed: ClassVar[bool] = False

    @property
    @abstractmethod
    def size(self) -> int:
        """m, numbers of the state."""

    @abstractmethod
    def at(self, tick: int) -> NoiseMove:
        """The move of a tick of the clock."""

    @classmethod
    @abstractmethod
    def of(cls, facts: Mapping[str, Any]) -> NoiseLaw:
        """From the fields of a mechanism in a plan, floats as hex strings."""

    def walk(self, xi: Floats, first: int = 0) -> Floats:
        """Noise of running totals from standard normals.

        Args:
          xi: (..., n). first: tick at which keys begin.

        Returns:
          (..., n), z of each tick.
        """
        state = np.zeros((self.size, *xi.shape[:-1]))
        out = np.empty_like(xi)
        for t in range(xi.shape[-1]):
            read, size, move, push = self.at(first + t)
            out[..., t] = size * xi[..., t] + sum(w * s for w, s in zip(read, state, strict=True))
            moved = np.zeros_like(state)
            for row, column, value in move:
                moved[row] += value * state[column]
            for row, weight in enumerate(push):
                moved[row] += weight * xi[..., t]
            state = moved
        return out


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(float.fromhex(value) for value in values)


def _form(facts: Mapping[str, Any]) -> Rational:
    form = facts["form"]
    return Rational(_floats(form["poles"]), _floats(form["zeros"]))


@dataclass(frozen=True)
class BufferLaw(NoiseLaw):
    """z = xi + omega . u; u <- theta u + xi (``dpcore.continual.blt``)."""

    form: Rational

    name: ClassVar[str] = "blt"

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> BufferLaw:
        return cls(_form(facts))

    @property
    def size(self) -> int:
        return len(self.form.theta)

    @cached_property
    def _move(self) -> NoiseMove:
        entries = tuple((j, j, theta) for j, theta in enumerate(self.form.theta))
        return NoiseMove(self.form.omega, 1.0, entries, (1.0,) * self.size)

    def at(self, tick: int) -> NoiseMove:
        return self._move


@dataclass(frozen=True)
class IndependentLaw(NoiseLaw):
    """z = q + xi; q <- q + xi: every tick's sum has noise of its own."""

    name: ClassVar[str] = "independent"

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> IndependentLaw:
        return cls()

    @property
    def size(self) -> int:
        return 1

    def at(self, tick: int) -> NoiseMove:
        return NoiseMove((1.0,), 1.0, ((0, 0, 1.0),), (1.0,))


@dataclass(frozen=True)
class EndedLaw(NoiseLaw):
    """Buffers under public gains e and scales r of each tick (``dpcore.continual.ended``).

    y = xi / e + omega . u; u <- theta u + xi / e; z = r y + q; q <- q + (r - r') y.
    """

    form: Rational
    horizon: int
    knots: tuple[int, ...]
    gains: tuple[float, ...]
    scales: tuple[float, ...]

    name: ClassVar[str] = "ended"
    timed: ClassVar[bool] = True

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> EndedLaw:
        curves = (_floats(facts["gains"]), _floats(facts["scales_of_ticks"]))
        return cls(_form(facts), int(facts["horizon"]), tuple(map(int, facts["knots"])), *curves)

    @property
    def size(self) -> int:
        return len(self.form.theta) + 1

    @cached_property
    def _curves(self) -> tuple[Floats, Floats]:
        ticks: Ints = np.arange(self.horizon + 1, dtype=np.int64)
        return between(self.knots, self.gains, ticks), between(self.knots, self.scales, ticks)

    def at(self, tick: int) -> NoiseMove:
        gains, scales = self._curves
        e, r, step = gains[tick], scales[tick], scales[tick] - scales[tick + 1]
        omega, last = self.form.omega, self.size - 1
        entries = [(j, j, theta) for j, theta in enumerate(self.form.theta)]
        entries += [(last, j, float(step * weight)) for j, weight in enumerate(omega)]
        read = (*(float(r * weight) for weight in omega), 1.0)
        push = (*(float(1 / e) for _ in omega), float(step / e))
        return NoiseMove(read, float(r / e), (*entries, (last, last, 1.0)), push)


@dataclass(frozen=True)
class TreeLaw(NoiseLaw):
    """Slots of a tree: slot l holds z at (c >> l) << l, c the number of ticks so far."""

    levels: int

    name: ClassVar[str] = "tree"
    timed: ClassVar[bool] = True

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> TreeLaw:
        horizon = facts["horizon"]
        if horizon is None:
            raise ConfigError(
                "clock.end", None, "is missing, and the filter of a tree needs it; set it."
            )
        return cls(int(horizon).bit_length())

    @property
    def size(self) -> int:
        return self.levels

    def at(self, tick: int) -> NoiseMove:
        count = tick + 1
        level = (count & -count).bit_length() - 1
        return self._slots(level, level, 1.0)

    def _slots(self, level: int, last: int, size: float) -> NoiseMove:
        """z is a unit on top of slot ``level``; slots up to ``last`` become it."""
        read = tuple(float(i == level) for i in range(self.levels))
        entries = [(i, level if i <= last else i, 1.0) for i in range(self.levels)]
        push = tuple(size if i <= last else 0.0 for i in range(self.levels))
        return NoiseMove(read, size, tuple(entries), push)


LAWS: dict[str, Callable[[Mapping[str, Any]], NoiseLaw]] = {
    law.name: law.of for law in (BufferLaw, IndependentLaw, EndedLaw, TreeLaw)
}
"""Mechanisms whose noise has a finite state here."""
KINDS = {None, "gaussian", "discrete_gaussian"}
"""Noise whose margins the filter proves: it is Gaussian, or has its moments on the grid."""


def law_of(facts: Mapping[str, Any]) -> NoiseLaw:
    """The law of a mechanism in a plan.

    Args:
      facts: its fields under ``canonical.program.parts``, floats as hex strings.

    Raises:
      ConfigError: its noise has no such form here, or is not Gaussian.
    """
    name, kind = str(facts["name"]), facts.get("kind")
    if kind not in KINDS:
        raise ConfigError(
            "mechanism.noise",
            kind,
            "has no estimates: no interval of a filter is proved for it. Take gaussian or "
            "discrete_gaussian, or read the releases.",
        )
    if name not in LAWS:
        raise ConfigError(
            "mechanism.continual_sum",
            name,
            f"has no estimates: its noise has no finite state here. Take one of "
            f"{', '.join(sorted(LAWS))}, or read the releases.",
        )
    return LAWS[name](facts)
