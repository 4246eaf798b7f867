"""Columns of an event, expected sizes of the stream, and the version of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    ValidatorFunctionWrapHandler,
    WrapSerializer,
    WrapValidator,
    model_validator,
)

from weir.dpcore.config.section import Says, Section, as_tuple, refusal
from weir.dpcore.config.validation import nested
from weir.dpcore.leaves.sparse_rows import MOST_DENSE


def column_name(text: str) -> str:
    if not text or text.startswith("@"):
        raise ValueError("must name a column; names that start with @ are reserved.")
    return text


def _time_column(value: Any) -> Any:
    return {"column": value} if isinstance(value, str) else value


def _day(value: Any) -> Any:
    """YAML reads a bare day as a date."""
    return value.isoformat() if isinstance(value, date) else value


Column = Annotated[str, AfterValidator(column_name)]


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

    time: Time | None = Field(
        default=None,
        description="Column of the event time; a name, or {column, format, zone}. It needs a "
        "clock, and a clock needs it.",
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


Share = Annotated[
    float,
    Field(ge=0, le=1, allow_inf_nan=False),
    Says("must be a share between 0 and 1, like 0.079."),
]


class DryRun(Section):
    """What bounds took of outputs in a dry run on public events. Shown, and nothing else.

    A fact about the events of that run: ``weir rehearse --on`` prints the section. Synthetic
    events would repeat what their generator was given.
    """

    file: Noun = Field(
        description="What the events were: the name of a public file.", examples=["2024.csv"]
    )
    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$"), BeforeValidator(_day)] = Field(
        description="Day of the dry run, YYYY-MM-DD.", examples=["2025-11-26"]
    )
    lost: dict[str, Share] = Field(
        description="Output -> share of its true values that clips and contribution bounds took.",
        examples=["{dollars: 0.079}"],
    )


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


PLAN_VERSION = 1
"""The newest version. A change of a default or of a bit of noise takes the next number; plans under
older ones stay what they were."""


def _known(value: int) -> int:
    if not 1 <= value <= PLAN_VERSION:
        raise ValueError(f"must be a whole number from 1 to {PLAN_VERSION}, the newest.")
    return value


Version = Annotated[
    int,
    AfterValidator(_known),
    Field(json_schema_extra={"minimum": 1, "maximum": PLAN_VERSION}),
    Says(f"must be a whole number from 1 to {PLAN_VERSION}, the newest."),
]

MOST_SIZE = 1 << 20
"""Features of a list column, at most."""

FILLED = 1 << 10
"""Numbers of a sparse row that are not 0, at most, where the config does not say."""

Size = Annotated[
    int,
    Field(ge=1, le=MOST_SIZE),
    Says(f"must be a whole number from 1 to {MOST_SIZE:,}: how many features there are."),
]


class ListColumn(Section):
    """Features that are the numbers of a list: of one column, or of a pair of places and values."""

    column: Column | None = Field(
        default=None,
        description="Column of lists of `size` numbers (Parquet, Arrow, Avro, JSON), or of JSON "
        "objects of place to number.",
        examples=["pixels"],
    )
    indices: Column | None = Field(
        default=None,
        description="With values, in place of column: column of lists of places from 0 to size - "
        "1; what is not listed is 0.",
        examples=["word_ids"],
    )
    values: Column | None = Field(
        default=None,
        description="With indices: column of lists of the numbers at those places.",
        examples=["word_counts"],
    )
    size: Size = Field(description="How many features there are.", examples=[784])
    most: Size | None = Field(
        default=None,
        description="Of more than 4,096 features: most numbers of an event that are not 0 (without "
        "it 1,024). Of an event with more the largest count, the others are 0. Public.",
        examples=[500],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        pair = self.indices is not None and self.values is not None
        if self.column is not None:
            for name in ("indices", "values"):
                if getattr(self, name) is not None:
                    raise refusal(
                        name,
                        getattr(self, name),
                        "cannot be combined with column; keep one of them.",
                    )
        elif not pair:
            missing = "indices" if self.indices is None else "values"
            if self.indices is None and self.values is None:
                raise refusal(
                    "column",
                    None,
                    "is missing; write {column: pixels, size: 784}, or {indices: word_ids, values: "
                    "word_counts, size: 4000}.",
                )
            raise refusal(missing, None, "is missing: places and values are two columns of lists.")
        elif self.indices == self.values:
            raise refusal("values", self.values, "is the column of indices too; name another.")
        if self.most is not None and not self.size >= max(self.most, MOST_DENSE + 1):
            raise refusal(
                "most",
                self.most,
                f"must be at most size, and is for more than {MOST_DENSE:,} features only; "
                "remove it.",
            )
        return self

    @property
    def filled(self) -> int:
        """Most numbers of a sparse row that are not 0."""
        return FILLED if self.most is None else self.most

    @property
    def name(self) -> str:
        """The column that features are named by: x of x[17]."""
        return self.column or self.values or ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are read: one, or places and values."""
        if self.column is not None:
            return (self.column,)
        return (self.indices or "", self.values or "")


class ListFeatures(tuple[str, ...]):
    """Names of the features of a list column, x[0], x[1], ...: a tuple of names like any other.

    Attributes:
      listed: the section of the config.
    """

    listed: ListColumn

    @classmethod
    def of(cls, listed: ListColumn) -> ListFeatures:
        """The names of all features."""
        built = cls(f"{listed.name}[{place}]" for place in range(listed.size))
        built.listed = listed
        return built

    @property
    def sparse(self) -> bool:
        """Whether they are too many for dense rows."""
        return len(self) > MOST_DENSE


def listed_of(features: tuple[str, ...]) -> ListColumn | None:
    """The list column that features lie in; None: they are columns of their own."""
    return features.listed if isinstance(features, ListFeatures) else None


def _read(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """columns | {column, size} | {indices, values, size} -> names."""
    if isinstance(value, ListFeatures):
        return value
    if isinstance(value, ListColumn):
        return ListFeatures.of(value)
    if isinstance(value, Mapping):
        return ListFeatures.of(nested(ListColumn, value))
    return handler(as_tuple(value))


def _write(value: Any, handler: SerializerFunctionWrapHandler) -> Any:
    if isinstance(value, ListFeatures):
        return value.listed.model_dump(exclude_none=True)
    return handler(value)


FeatureColumns = Annotated[
    tuple[Column, ...],
    Field(min_length=1),
    WrapValidator(
        _read, json_schema_input_type=Annotated[list[Column], Field(min_length=1)] | ListColumn
    ),
    WrapSerializer(_write),
    Says("must list at least one column, or be {column: pixels, size: 784}."),
]
