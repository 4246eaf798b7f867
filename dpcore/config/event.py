"""Which columns an event has, and what releases are grouped by."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from dpcore.config.section import Section, refusal


def column_name(text: str) -> str:
    if not text or text.startswith("@"):
        raise ValueError("must name a column; names that start with @ are reserved.")
    return text


def _time_column(value: Any) -> Any:
    return {"column": value} if isinstance(value, str) else value


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


Column = Annotated[str, AfterValidator(column_name)]


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


class Key(Section):
    """What releases are grouped by. Without this section there is one key, the empty text."""

    column: Column = Field(description="Column to group by.", examples=["store"])
    declared: Annotated[tuple[str, ...], BeforeValidator(_as_tuple)] | None = Field(
        default=None,
        description="The keys, known in advance; events of other keys are dead-lettered.",
        examples=[["north", "south"]],
    )
    observed_keys_are_public: bool = Field(
        default=False,
        description="True says: whoever sees a release may learn which keys occur, and since when.",
        examples=[False],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.declared is None and not self.observed_keys_are_public:
            raise refusal(
                "declared",
                None,
                "is missing; list the keys (declared: [north, south]), or say "
                "observed_keys_are_public: true if the existence of a key is no secret.",
            )
        if self.declared is not None and self.observed_keys_are_public:
            raise refusal(
                "observed_keys_are_public", True, "cannot stand beside declared; keep one of them."
            )
        if self.declared is not None:
            if not self.declared:
                raise refusal("declared", [], "must list at least one key.")
            seen: set[str] = set()
            for key in self.declared:
                if key in seen:
                    raise refusal("declared", key, "is listed twice; list every key once.")
                seen.add(key)
                if any("\ud800" <= letter <= "\udfff" for letter in key):
                    raise refusal("declared", ascii(key), "is not text: it has no form in UTF-8.")
        return self
