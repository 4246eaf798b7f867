"""The section ``lookup``: columns that a public table adds to each record."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from weir.dpcore.config.schema import Column
from weir.dpcore.config.section import Says, Section, as_tuple, refusal

MOST_ON = 3


def _names(value: Any) -> Any:
    return (value,) if isinstance(value, str) else as_tuple(value)


class PublicLookup(Section):
    """A left join of each record with a table that is public."""

    public: str = Field(
        min_length=1,
        description="File of the table, of any format. Public: its content is part of the plan, "
        "and another content is another plan.",
        examples=["zips.parquet"],
    )
    on: Annotated[
        tuple[Column, ...],
        BeforeValidator(_names, json_schema_input_type=str | list[str]),
        Field(min_length=1, max_length=MOST_ON),
        Says(f"must name a column of records and of the table, or up to {MOST_ON}."),
    ] = Field(
        description="Column, or columns, by whose values a row of the table is found; compared as "
        "text. The table may hold each combination once.",
        examples=["zip"],
    )
    add: Annotated[
        tuple[Column, ...],
        BeforeValidator(_names, json_schema_input_type=str | list[str]),
        Field(min_length=1),
        Says("must name at least one column of the table, like [region]."),
    ] = Field(
        description="Columns of the table that records have from now on; missing where no row is "
        "found.",
        examples=["[region]"],
    )
    _table: Any = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name, columns in (("on", self.on), ("add", self.add)):
            if len(set(columns)) < len(columns):
                raise refusal(name, list(columns), "names a column twice. Name each once.")
        both = [name for name in self.add if name in self.on]
        if both:
            raise refusal("add", list(self.add), f"adds {both[0]}, which on names. Leave it out.")
        return self

    @property
    def table(self) -> Any:
        """What was read of the file; None: nobody has read it."""
        return self._table

    def with_table(self, table: Any) -> Self:
        """The same, with what was read. table: has a digest."""
        result = self.model_copy()
        result._table = table
        return result

    def canonical(self) -> dict[str, Any]:
        """What shapes a release: names, and the digest of what the table says of them."""
        return {"on": list(self.on), "add": list(self.add), "digest": self._table.digest}
