"""What aggregates of users have in common in a config: whom they count, and over which span."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from weir.dpcore.algorithm import Takes
from weir.dpcore.config.section import refusal

Of = Literal["events", "users"]

OF = (
    "events; or users (privacy.unit: user): of each user's own mean in a key and tick, which "
    "counts once however many events are in it; a histogram counts each once in every bin of "
    "theirs, over: 1."
)
ONLY = (
    "needs to know users, and this plan protects events; set privacy.unit: user with privacy.per "
    "and privacy.contributions, and name the column of users in schema.unit. Or {instead}."
)
"""What a plan of events says to an aggregate of users."""


def takes(of: Of) -> Takes:
    """What a channel counts."""
    return "users" if of == "users" else "events"


def tick_by_tick(data: Any, counts_users: bool) -> Any:
    """A count of users is of each tick, unless the config says otherwise."""
    if counts_users and isinstance(data, Mapping) and data.get("over") is None:
        return {**data, "over": 1}
    return data


def refuse_user_ticks(over: tuple[Any, ...], remedy: str) -> None:
    """Raises an error unless users are counted over single ticks: a sum over several counts who
    comes in three of them three times, and distinct users of several ticks are no sum."""
    if over != (1,):
        shown = list(over) if len(over) > 1 else over[0]
        raise refusal(
            "over",
            shown,
            "would count a user once for each tick that they come in, which is no number of users: "
            f"write over: 1, the users of each tick alone, {remedy}.",
        )
