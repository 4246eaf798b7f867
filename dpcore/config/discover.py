"""How keys are found in the data while their existence stays private, as a config has it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from weir.dpcore.config.section import Says, Section

MIN_USERS = 1
MOST_USERS = 1 << 32
SHARE = 0.6
"""Of mu^2, where the count that keys are found by is not released: 0.5 to 0.7 are alike."""
SMALLEST = 1e-6
MAX_BYTES = 256
MAX_TRACKED = 1 << 18

MinUsers = Annotated[
    int,
    Field(ge=1, le=MOST_USERS),
    Says(f"must be a whole number from 1 to {MOST_USERS:,}, like 20."),
]
Share = Annotated[
    float,
    Field(ge=0.01, le=0.99, allow_inf_nan=False),
    Says("must be from 0.01 to 0.99, like 0.6."),
]
Sample = Annotated[
    float,
    Field(ge=SMALLEST, le=1, allow_inf_nan=False),
    Says("must be above 0 and at most 1, like 0.1."),
]
MaxBytes = Annotated[
    int, Field(ge=1, le=1 << 16), Says("must be a whole number from 1 to 65,536, like 256.")
]
MaxTracked = Annotated[
    int, Field(ge=1, le=1 << 32), Says("must be a whole number of keys, 1 or more.")
]


Below = Annotated[
    int, Field(ge=1, le=MOST_USERS), Says(f"must be a whole number from 1 to {MOST_USERS:,}.")
]
After = Annotated[
    int, Field(ge=1, le=1 << 20), Says("must be a whole number of periods, 1 or more.")
]


class RetireConfig(Section):
    """Which keys go again: a public rule on what they release themselves, so it costs nothing."""

    below: Below = Field(
        description="A key goes at the end of a period (privacy.per) in which fewer users than "
        "these were new to it, by its released count.",
        examples=[20],
    )
    after: After = Field(default=1, description="So many such periods in a row.", examples=[1])


class DiscoverConfig(Section):
    """Which keys are found: those that enough users of a period have, by a noisy count of them.

    Which keys are live and since when is released; of the others nothing is."""

    min_users: MinUsers = Field(
        default=MIN_USERS,
        description="Users of a period that a key needs before its noisy count is even looked at: "
        "more keep junk keys cheap, and find rare keys later.",
        examples=[20],
    )
    share: Share = Field(
        default=SHARE,
        description="Of the budget (mu^2, rho or epsilon), for the count of users that keys are "
        "found by. Nothing is spent where an aggregate {count: users, per: period} over all "
        "releases that count anyway; else `weir plan` prices other shares.",
        examples=[SHARE],
    )
    sample: Sample = Field(
        default=1.0,
        description="Share of all keys that can be found at all, by a keyed hash of their names: "
        "for streams in which anybody makes keys up.",
        examples=[0.1],
    )
    max_bytes: MaxBytes = Field(
        default=MAX_BYTES,
        description="Longest name of a key, in bytes of UTF-8; events of longer ones are "
        "dead-lettered.",
        examples=[MAX_BYTES],
    )
    max_tracked: MaxTracked = Field(
        default=MAX_TRACKED,
        description="Keys that may wait to be found in each of the plan's blocks; where there are "
        "more the job stops, which the promise does not cover.",
        examples=[MAX_TRACKED],
    )
    retire: RetireConfig | None = Field(
        default=None,
        description="When a key that was found goes again. It may be found anew, its totals from "
        "the start of that period on. Needs an aggregate {count: users, per: period}; without it "
        "keys stay for the life of the job.",
        examples=["{below: 20, after: 2}"],
    )
