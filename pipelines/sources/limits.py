"""Caps on what a source may do to the rest."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from weir.dpcore.config import durations
from weir.dpcore.config.clock import Duration
from weir.dpcore.config.section import Section, refusal


class Limits(Section):
    """Caps that keep one bad input from hurting the rest."""

    line_bytes: int = Field(
        default=1 << 20,
        description="A longer line is dead-lettered as too_long, unread.",
        examples=[1048576],
    )
    ahead: Duration = Field(
        default="5m",
        description="How far the stamp that a producer of Kafka gave its record (CreateTime) may "
        "lie after the reader's clock; beyond, the record is dead-lettered as stamp_ahead, unread.",
        examples=["1m"],
    )
    first_look: bool = Field(
        default=True,
        description="Whether a run over files is refused when none of its first records has a "
        "column that is read, a declared key, or a time inside the clock.",
        examples=[False],
    )
    refused: float = Field(
        default=0.05,
        json_schema_extra={"minimum": 0, "maximum": 1},
        description="Share of the records, from 0 to 1, that may be rejected, and of each field's "
        "values that may be unreadable: beyond it the releases of a run over files are held back "
        "until `weir run --publish`, and a stream is shown in red. A damaged file holds them back "
        "whatever is allowed here.",
        examples=[0.01],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not 64 <= self.line_bytes <= 1 << 28:
            raise refusal("line_bytes", self.line_bytes, "must be from 64 to 268435456 bytes.")
        if durations.duration(self.ahead) < 0:
            raise refusal("ahead", self.ahead, "must be 0s or longer.")
        if not 0 <= self.refused <= 1:
            raise refusal("refused", self.refused, "must be a share from 0 to 1, like 0.05.")
        return self
