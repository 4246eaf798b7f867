"""An output: what is computed from noisy channels, with its error. Post-processing only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from weir.dpcore.arrays import Floats

Solved = tuple[Floats, Floats] | tuple[Floats, Floats, Floats, Floats]
"""Value and standard deviation, and low and high where the margin is an interval of its own."""

Noisy = Callable[[int], tuple[Floats, Floats]]
"""Channel index -> (value (n, K, m), stddev (n, 1, m)) in the user's units, for one ``over``."""


@dataclass(frozen=True)
class Output(ABC):
    """One aggregate as the user named it.

    Attributes:
      name: the user's name for it. column: what it reads.
      overs: which windows are released (None: since the start).
      weight: how much its accuracy counts when the noise is split.
      kind: what it is (of the class). interval: whether it gives low and high itself.
    """

    name: str
    column: str | None
    overs: tuple[int | None, ...]
    weight: float

    kind: ClassVar[str]
    interval: ClassVar[bool] = False

    @property
    def between(self) -> tuple[float, float] | None:
        """Public ends that its values never leave, where it has both."""
        return None

    @property
    def labels(self) -> tuple[str, ...]:
        """Of the components; ("",) for a single number."""
        return ("",)

    @property
    def unit(self) -> float:
        """One event's largest effect, in the user's unit: the output's own sensitivity."""
        return 1.0

    @property
    def channels(self) -> tuple[int, ...]:
        """Channels it reads."""
        return tuple(self.importance())

    def canonical(self) -> tuple[Any, ...]:
        """What shapes its values beside its name, kind, column and spans: JSON-able."""
        return ()

    @abstractmethod
    def importance(self) -> dict[int, float]:
        """Channel -> weight of its noise variance in this output's squared relative error.

        The relative error is in units of one event's largest effect: 1 for a count or a bin, the
        clip for a sum, half the clip's width for a mean (times N), its square for a variance (times
        N), and the worst case over the true moments, which are private.
        """

    @abstractmethod
    def solve(self, noisy: Noisy) -> Solved:
        """Noisy channels -> (value, stddev), each (n, K, m); and (low, high) of an interval."""
