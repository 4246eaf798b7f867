"""Distinct users of several ticks among aggregates: their leaf, and where they are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from weir.dpcore.aggregates.aggregate import Aggregate, AggregateOutput
from weir.dpcore.aggregates.leaf import ChannelLeaf
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.errors import ConfigError
from weir.dpcore.pricing.noises import noises_for
from weir.dpcore.pricing.terms import Terms


@dataclass(frozen=True)
class ActiveLeaf(ChannelLeaf):
    """The channel of active users, as outputs over one span of ticks read it.

    What one cell of a user adds to it moves the number of active users by one at most; how often it
    does is the business of ``ActiveUsers``.
    """

    @property
    def once(self) -> bool:
        """No: each cell keeps its user active."""
        return False

    @property
    def dimension(self) -> int:
        """One number is released."""
        return 1

    def scales(self, unit: Callable[[], ContinualSum]) -> tuple[float, ...]:
        """One user."""
        return (1.0 / self.channels[self.read[0]].resolution,)

    def sensitivity(self, scales: Sequence[float], add_up: bool) -> float:
        """A user is active or not."""
        return 1.0


def counts_active(leaf: ChannelLeaf, output: AggregateOutput) -> bool:
    """Whether an output is of active users."""
    return any(leaf.channels[channel].takes == "active" for channel in output.channels)


def refuse_active(aggregates: Mapping[str, Aggregate], terms: Terms) -> None:
    """Raises ConfigError: distinct users of several ticks, where they cannot be counted."""
    for name, aggregate in aggregates.items():
        if not aggregate.distinct:
            continue
        field = f"aggregates.{name}"
        longest = max(over for over in aggregate.overs if over is not None)
        if terms.horizon is not None and longest > terms.horizon:
            raise ConfigError(
                f"{field}.over",
                longest,
                f"is longer than the clock of {terms.horizon:,} ticks, in which nobody who came is "
                "no longer active; take a shorter span, a later clock.end, or per: period with "
                "privacy.per: all, which counts everybody once.",
            )
        if terms.discover is not None:
            raise ConfigError(
                "key.discover",
                terms.discover.model_dump(exclude_defaults=True),
                f"cannot be combined with {field}: a key is found by a count of users that only "
                "rises in a period, and active users become fewer again; list the keys "
                "(key.declared), or count users with over: 1 or per: period.",
            )
        if "gaussian" not in noises_for(terms):
            at, value = ("mechanism.noise", terms.noise) if terms.noise else ("privacy.delta", 0.0)
            raise ConfigError(
                at,
                value,
                f"cannot serve {field}: distinct users of several ticks need Gaussian noise; set "
                "privacy.delta: 1e-6 or so, without mechanism.noise.",
            )
