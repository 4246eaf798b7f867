"""Features that lie in one list column, or in a sparse pair of them: ``{column: x, size: 784}``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    ValidatorFunctionWrapHandler,
    WrapSerializer,
    WrapValidator,
    model_validator,
)

from weir.dpcore.config.event import Column
from weir.dpcore.config.section import Says, Section, as_tuple, nested, refusal
from weir.dpcore.leaves.sparse_rows import MOST_DENSE

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
                        name, getattr(self, name), "cannot stand beside column; keep one of them."
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
        made = cls(f"{listed.name}[{place}]" for place in range(listed.size))
        made.listed = listed
        return made

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
