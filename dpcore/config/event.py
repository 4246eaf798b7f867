"""Which columns an event has, and what releases are grouped by."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from weir.dpcore.config.discover import DiscoverConfig
from weir.dpcore.config.section import Says, Section, as_tuple, nearest, refusal
from weir.dpcore.leaves.keys import key_text


def column_name(text: str) -> str:
    if not text or text.startswith("@"):
        raise ValueError("must name a column; names that start with @ are reserved.")
    return text


def _time_column(value: Any) -> Any:
    return {"column": value} if isinstance(value, str) else value


def _as_keys(value: Any) -> Any:
    """Lists as tuples, and every value text: told here, as a union of types would tell it twice."""
    if not isinstance(value, (list, tuple)):
        return value
    for at, key in enumerate(value):
        values = key if isinstance(key, (list, tuple)) else (key,)
        for place, one in enumerate(values):
            if not isinstance(one, str):
                where = f"{at}.{place}" if isinstance(key, (list, tuple)) else str(at)
                raise refusal(where, one, 'must be text; put it in quotes, like "7".')
    return tuple(as_tuple(key) for key in value)


Column = Annotated[str, AfterValidator(column_name)]

KeyColumns = Annotated[
    tuple[Column, ...],
    Field(min_length=2),
    BeforeValidator(as_tuple),
    Says("must name two columns or more; for a single one write column: store."),
]


Noun = Annotated[str, Field(min_length=1, max_length=40, pattern=r"^[^\x00-\x1f<>]+$")]


class TimeColumn(Section):
    """A column of times. May be written as its bare name when it holds timestamps."""

    column: Column = Field(description="Name of the column.", examples=["date"])
    format: str | None = Field(
        default=None,
        description="How text is read (strptime directives); without it: ISO 8601 or timestamps.",
        examples=["%Y%m%d"],
    )
    zone: str | None = Field(
        default=None,
        description="Time zone of times that carry none; without it they are UTC.",
        examples=["UTC"],
    )


Time = Annotated[TimeColumn, BeforeValidator(_time_column, json_schema_input_type=str | TimeColumn)]


class Schema(Section):
    """Which columns an event has."""

    time: Time = Field(
        description="Column of the event time; a name, or {column, format, zone}.",
        examples=['{column: date, format: "%Y%m%d", zone: UTC}'],
    )
    unit: Column | None = Field(
        default=None,
        description="Column that says whom an event belongs to.",
        examples=["customer_id"],
    )
    id: Column | None = Field(
        default=None,
        description="Column of event ids; with it, duplicate deliveries are dropped.",
        examples=["purchase_id"],
    )
    arrival: Time | None = Field(
        default=None,
        description="Column of arrival times; lateness is judged by it, never by a runner's clock.",
        examples=["received_at"],
    )
    noun: Noun | None = Field(
        default=None,
        description="What one event is, in a word for people: a report says that one purchase is "
        "protected. It shapes no release.",
        examples=["purchase"],
    )

    @property
    def shaping(self) -> dict[str, Any]:
        """The fields that shape releases, JSON-able: a word for people is none."""
        return self.model_dump(mode="json", exclude={"noun"})


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
        description="True says: whoever sees a release may learn which keys occur, and since when.",
        examples=[False],
    )
    discover: DiscoverConfig | None = Field(
        default=None,
        description="Find keys in the data, and tell of those only that enough users have "
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
                    "columns", [*self.columns], "cannot stand beside column; keep one of them."
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
                        f"cannot stand beside {name}; keep one of them.",
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
                "observed_keys_are_public", True, "cannot stand beside declared; keep one of them."
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
            return
        shown = [list(own) for own in self.groups]
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
