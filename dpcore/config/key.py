"""The key of a config: its columns, declared keys, groupings, and partition selection."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from weir.dpcore.config.schema import Column
from weir.dpcore.config.section import Says, Section, Weight, as_tuple, nearest, refusal
from weir.dpcore.leaves.keys import key_text

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

    Which keys are live and since when is released; of the others nothing is. All of it is public.
    """

    min_users: MinUsers = Field(
        default=MIN_USERS,
        description="Users of a period that a key needs before its noisy count is even looked at: "
        "more keep junk keys inexpensive, and find rare keys later.",
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
        "more the job stops, which the guarantee does not cover.",
        examples=[MAX_TRACKED],
    )
    retire: RetireConfig | None = Field(
        default=None,
        description="When a key that was found goes again. It may be found again, its totals from "
        "the start of that period on. Needs an aggregate {count: users, per: period}; without it "
        "keys stay for the life of the job.",
        examples=["{below: 20, after: 2}"],
    )

    def canonical(self) -> dict[str, Any]:
        """Every number that shapes a release, JSON-able."""
        return {
            "min_users": self.min_users,
            "sample": float(self.sample).hex(),
            "max_bytes": self.max_bytes,
            **({} if self.retire is None else {"retire": self.retire.model_dump()}),
        }


def _as_keys(value: Any) -> Any:
    """Lists as tuples, and every value text: told here, as a union of types would tell it twice."""
    if not isinstance(value, (list, tuple)):
        return value
    for at, key in enumerate(value):
        values = key if isinstance(key, (list, tuple)) else (key,)
        for place, item in enumerate(values):
            if not isinstance(item, str):
                where = f"{at}.{place}" if isinstance(key, (list, tuple)) else str(at)
                raise refusal(where, item, 'must be text; put it in quotes, like "7".')
    return tuple(as_tuple(key) for key in value)


KeyColumns = Annotated[
    tuple[Column, ...],
    Field(min_length=2),
    BeforeValidator(as_tuple),
    Says("must name two columns or more; for a single one write column: store."),
]


class Key(Section):
    """What releases are grouped by. Without this section there is one key, the empty text."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["column"]}, {"required": ["columns"]}]}
    )

    column: Column | None = Field(
        default=None, description="Column to group by.", examples=["store"]
    )
    columns: KeyColumns | None = Field(
        default=None,
        description="Several columns to group by; the key is a JSON array of their values.",
        examples=[["city", "product"]],
    )
    declared: Annotated[tuple[str | tuple[str, ...], ...], BeforeValidator(_as_keys)] | None = (
        Field(
            default=None,
            description="The keys, known in advance; events of other keys are dead-lettered. With "
            "columns each key is a list.",
            examples=[["north", "south"], [["paris", "shoes"], ["rome", "hats"]]],
        )
    )
    observed_keys_are_public: bool = Field(
        default=False,
        description="True says: anyone who sees a release may learn which keys occur, and since "
        "when.",
        examples=[False],
    )
    discover: DiscoverConfig | None = Field(
        default=None,
        description="Find keys in the data, and release only those that enough users have "
        "(privacy.unit: user).",
        examples=["{min_users: 20}"],
    )

    groups: Annotated[tuple[tuple[Column, ...], ...], BeforeValidator(_as_keys)] | None = Field(
        default=None,
        description="Several groupings in one plan, as GROUPING SETS of SQL: the columns of each; "
        "[] is the total of all keys. An event counts in each of them, under one budget. In a key "
        "of a grouping the other columns are null.",
        examples=[[["city"], ["city", "product"], []]],
    )

    weights: Annotated[tuple[Weight, ...], BeforeValidator(as_tuple)] | None = Field(
        default=None,
        description="How much the accuracy of each of groups counts, in their order, when the "
        "noise is split between them; without it, all alike.",
        examples=[[1, 1, 4]],
    )

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the key, one or several."""
        return self.columns or (() if self.column is None else (self.column,))

    @property
    def field(self) -> str:
        """The setting that names them."""
        return "key.column" if self.columns is None else "key.columns"

    @property
    def texts(self) -> tuple[str, ...] | None:
        """The declared keys as releases have them; None where keys are observed."""
        if self.declared is None:
            return None
        return tuple(key if isinstance(key, str) else key_text(key) for key in self.declared)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.column is None and self.columns is None:
            raise refusal(
                "column", None, "is missing; write column: store, or columns: [city, product]."
            )
        if self.columns is not None:
            if self.column is not None:
                raise refusal(
                    "columns", [*self.columns], "cannot be combined with column; keep one of them."
                )
            for name in self.columns:
                if self.columns.count(name) > 1:
                    raise refusal("columns", name, "is named twice; name every column once.")
        self._check_groups()
        if self.discover is not None:
            for name in ("declared", "observed_keys_are_public"):
                if getattr(self, name):
                    raise refusal(
                        "discover",
                        self.discover.model_dump(exclude_defaults=True),
                        f"cannot be combined with {name}; keep one of them.",
                    )
            return self
        if self.declared is None and not self.observed_keys_are_public:
            raise refusal(
                "declared",
                None,
                f"is missing; list the keys (declared: {self._example}), say "
                "discover: {min_users: 20} to find them in private (privacy.unit: user), or "
                "observed_keys_are_public: true if the existence of a key is no secret.",
            )
        if self.declared is not None and self.observed_keys_are_public:
            raise refusal(
                "observed_keys_are_public",
                True,
                "cannot be combined with declared; keep one of them.",
            )
        if self.declared is not None:
            if not self.declared:
                raise refusal("declared", [], "must list at least one key.")
            seen: set[str | tuple[str, ...]] = set()
            for key in self.declared:
                self._fits(key)
                if key in seen:
                    raise refusal("declared", _plain(key), "is listed twice; list every key once.")
                seen.add(key)
                if any("\ud800" <= letter <= "\udfff" for text in key for letter in text):
                    raise refusal("declared", ascii(key), "is not text: it has no form in UTF-8.")
        return self

    def _check_groups(self) -> None:
        """Raises unless groupings are several ways to group by the columns."""
        if self.groups is None:
            if self.weights is not None:
                raise refusal("weights", [*self.weights], "is for groups; remove it.")
            return
        shown = [list(own) for own in self.groups]
        if self.weights is not None and len(self.weights) != len(shown):
            raise refusal(
                "weights",
                [*self.weights],
                f"must have a number for each of {len(shown)} groups, in their order.",
            )
        if not shown:
            raise refusal("groups", [], "must list at least one grouping, like [[]] for the total.")
        seen: set[frozenset[str]] = set()
        for at, own in enumerate(self.groups):
            for name in own:
                if name not in self.names:
                    raise refusal(f"groups.{at}", name, nearest(name, list(self.names)))
                if own.count(name) > 1:
                    raise refusal(f"groups.{at}", list(own), "names a column twice.")
            if frozenset(own) in seen:
                raise refusal("groups", list(own), "is listed twice; list every grouping once.")
            seen.add(frozenset(own))
        for name in self.names:
            if not any(name in own for own in self.groups):
                raise refusal(
                    "groups", shown, f"never names {name}; take it out of {self.field}, too."
                )
        if len(shown) == 1:
            raise refusal("groups", shown, f"is what {self.field} says already; leave it out.")

    @property
    def _example(self) -> str:
        return "[north, south]" if self.columns is None else "[[paris, shoes], [rome, hats]]"

    def _fits(self, key: str | tuple[str, ...]) -> None:
        """Raises unless a declared key has a value for each column."""
        if self.columns is None:
            if not isinstance(key, str):
                raise refusal(
                    "declared",
                    _plain(key),
                    "is a list, but column names a single column: write its values as text, or "
                    "name several with columns: [...].",
                )
        elif isinstance(key, str) or len(key) != len(self.columns):
            values = ", ".join(self.columns)
            raise refusal(
                "declared", _plain(key), f"must be a list of a value for each of {values}."
            )


def _plain(key: str | tuple[str, ...]) -> str | list[str]:
    """A declared key as the config spells it, for messages."""
    return key if isinstance(key, str) else list(key)
