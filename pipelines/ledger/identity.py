"""What a run is known by in a ledger: whose noise it draws, over which events, and where to.

Noise is a function of plan, secrets and events, so a run that agrees with an earlier one in all
three gives the same bits and costs nothing more. Anything else that shares a secret with it would
show the difference, and anything else at all is another look.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from weir.dpcore.leaves.clock import Clock
from weir.dpcore.noise.key_ring import first_difference
from weir.pipelines.ledger.places import Place

SKEW: Final = 60_000_000
"""Microseconds that clocks of workers may be ahead of this one."""


@dataclass(frozen=True)
class Identity:
    """A run of a plan.

    Attributes:
      secrets: first tick -> mark of the secret that keys the noise from there on.
      output: where releases go.
      events: of files and memory a digest, of a stream its name; None: nobody knows.
      key: mark of the key of the digest; None: it is none.
      reading: digest of the public settings by which bytes become events; "" of a stream.
      state: where a stream keeps what it goes on from; None: it keeps nothing, or is none.
      bounded: whether all events are there from the start.
      live: whether a stream's time is the wall clock's: no tick is released before it is over.
      resumed: whether a stream goes on from its state.
    """

    secrets: Mapping[int, str]
    output: Place
    events: str | None = None
    key: str | None = None
    reading: str = ""
    state: str | None = None
    bounded: bool = True
    live: bool = False
    resumed: bool = False

    @property
    def mark(self) -> str:
        """Of the first secret."""
        return self.secrets[0]

    def shares_secret(self, other: Identity) -> bool:
        """Whether any secret keys both."""
        return not set(self.secrets.values()).isdisjoint(other.secrets.values())

    def comparable(self, other: Identity) -> bool:
        """Whether it is known if both read the same events."""
        return None not in (self.key, self.events, other.events) and self.key == other.key

    def same_events(self, other: Identity) -> bool:
        """Whether both are known to read the same events."""
        one, two = (self.events, self.reading), (other.events, other.reading)
        return self.comparable(other) and one == two

    def same_stream(self, other: Identity) -> bool:
        """Whether both are one stream at one place."""
        here = (self.events, self.state, self.output.name)
        streams = not (self.bounded or other.bounded)
        return streams and here == (other.events, other.state, other.output.name)

    def drawn(self, clock: Clock, now: int) -> float:
        """Ticks whose noise it may have drawn by now, from the first on.

        A run over files has all its events, so it may have come to its end, whatever is left of
        it. A stream draws the noise of a tick when the public clock has passed it.
        """
        return max(0, clock.tick_at(now + SKEW)) if self.live else math.inf

    def goes_on(self, before: Identity, clock: Clock, now: int) -> bool:
        """Whether it draws nothing that an earlier run did not, for any tick that the earlier one
        may have drawn."""
        if not (self.same_events(before) or self.same_stream(before)):
            return False
        other = first_difference(before.secrets, self.secrets)
        if not self.bounded and not self.resumed:
            other = 0
        return other is None or other >= before.drawn(clock, now)

    def to_json(self) -> dict[str, Any]:
        """JSON-able, without where releases go."""
        secrets = {str(tick): mark for tick, mark in self.secrets.items()}
        fields = {name: value for name, value in vars(self).items() if name != "output"}
        return {**fields, "secrets": secrets}

    @classmethod
    def from_json(
        cls, stored: Mapping[str, Any] | None, place: Mapping[str, Any], mark: str
    ) -> Identity:
        """As ``to_json`` wrote it.

        Args:
          stored: None: an earlier version wrote nothing but the place. place: where releases went.
          mark: of its first secret.
        """
        output = Place(str(place["place"]), bool(place["folder"]))
        if stored is None:
            return cls({0: mark}, output)
        secrets = {int(tick): str(one) for tick, one in stored["secrets"].items()}
        return cls(**{**stored, "secrets": secrets, "output": output})


__all__ = ["SKEW", "Identity"]
