"""The neighbour family of a mechanism: which changes of one unit move its transcript most.

A mechanism's file, or the base that its room shares, states one as ``neighbours``; the registry
refuses what has none. An audit attacks with it, so a family that leaves the worst change out makes
an audit weak, never wrong: what it proves it proves of some neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from weir.dpcore.errors import WeirError

Place = Literal["first", "last", "window", "powers", "blocks"]
Values = Literal["corners", "canary"]
PLACES: tuple[Place, ...] = ("first", "last", "window", "powers", "blocks")
MOST_PLACES = 12
"""Boundaries of a kind that are tried: the first ones and the last."""


@dataclass(frozen=True)
class Family:
    """Changes of one unit, for an audit.

    Attributes:
      places: ticks at which the change arrives. first, last: of the clock. window: on each side of
        whole protection windows. powers: of powers of two, where covers of trees change. blocks: of
        a block of ticks or records, where an algorithm has them.
      values: what the changed event holds. corners: every column at an end of its public clip, in
        its middle, beyond, and not finite. canary: all features at an end of their ranges, so that
        the gradient at any model is as long as the clip allows, with the target at either end.
      why: what makes these the worst.

    Raises:
      WeirError: no place, or one that is unknown.
    """

    places: tuple[Place, ...]
    values: Values
    why: str

    def __post_init__(self) -> None:
        if not self.places or any(place not in PLACES for place in self.places) or not self.why:
            raise WeirError(f"a family of neighbours needs places among {PLACES}, and a reason.")

    def ticks(self, n: int, window: int | None, block: int | None = None) -> tuple[int, ...]:
        """Ticks of a clock of ``n`` ticks at which a change is tried, sorted.

        Args:
          window: protection horizon, in ticks; None: for ever. block: ticks of a block.
        """
        result: set[int] = set()
        for place in self.places:
            if place == "first":
                result.add(0)
            elif place == "last":
                result.add(n - 1)
            elif place == "powers":
                result |= _sides([2**i for i in range(n.bit_length())])
            else:
                step = window if place == "window" else block
                if step is not None and step < n:
                    result |= _sides(list(range(step, n + 1, step)))
        return tuple(sorted(tick for tick in result if 0 <= tick < n))


def _sides(boundaries: list[int]) -> set[int]:
    """The ticks before and behind some boundaries."""
    half = MOST_PLACES // 2
    some = {*boundaries[:half], *boundaries[-half:]}
    return some | {tick - 1 for tick in some}


def family_of(algorithm: object) -> Family:
    """What a class, or its base, states.

    Raises:
      WeirError: nothing; says how to fix it.
    """
    result = getattr(algorithm, "neighbours", None)
    if not isinstance(result, Family):
        name = algorithm.__name__ if isinstance(algorithm, type) else type(algorithm).__name__
        raise WeirError(
            f"{name} does not state neighbours: the Family of changes that move it most "
            "(dpcore/neighbours.py), with which weir audit attacks it."
        )
    return result


def merged(families: list[Family]) -> Family:
    """All places and the values of the first, where an algorithm rests on several mechanisms."""
    places = tuple(place for place in PLACES if any(place in family.places for family in families))
    first = families[0]
    if all(family == first for family in families) and len(families) == 1:
        return first
    values: Values = (
        "canary" if any(family.values == "canary" for family in families) else "corners"
    )
    why = "; ".join(dict.fromkeys(family.why for family in families))
    return Family(places, values, why)
