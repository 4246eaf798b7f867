"""What a user expects of the stream: public sizes, which rules need and nothing enforces."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from weir.dpcore.config.section import Says, Section

MOST_EVENTS = 1 << 40
FEWEST_EVENTS = 2.0**-40

Events = Annotated[
    float,
    Field(ge=FEWEST_EVENTS, le=MOST_EVENTS, allow_inf_nan=False),
    Says("must be a finite number above 0, like 2000, or 0.2 where most ticks have none."),
]


class Expect(Section):
    """Public sizes that rules and warnings go by. A guess: never counted from the events.

    A wrong one costs accuracy, never privacy: no bound on what an event may do follows from it.
    """

    events: Events = Field(
        description="Events that a key has in a tick, about: of the keys that matter most. Public: "
        "take it from what you know, never from the data.",
        examples=[2000],
    )
    users: Events | None = Field(
        default=None,
        description="Users that a key has in a tick, about; with privacy.unit: user.",
        examples=[500],
    )
