"""Events from CSV, however it is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Self

from pydantic import BeforeValidator, Field, model_validator

from weir.dpcore.config.section import as_tuple, refusal
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.connectors.paths import FilesText
from weir.pipelines.sources.files import Files
from weir.pipelines.sources.limits import Limits
from weir.pipelines.sources.source import schema_of
from weir.transforms.decode.encoding import check_encoding
from weir.transforms.decode.lines import LINE_BYTES
from weir.transforms.decode.text_form import TextForm

QUOTES = (
    "Quoted fields may hold newlines, so where a record ends follows from its quotes: the promise "
    "compares streams whose records close the quotes that they open within {:,} bytes. One that "
    "does not takes what lies up to there with it, other records among them."
)


class CsvSource(Files):
    """CSV, with a header line or columns."""

    kind: ClassVar[str] = "csv"
    paths: ClassVar[tuple[str, ...]] = ("csv",)
    endings: ClassVar[tuple[str, ...]] = ("csv", "tsv", "txt")

    csv: FilesText = Field(
        description="CSV, with a header line or columns.", examples=["purchases.csv"]
    )
    delimiter: str = Field(
        default=",", description="What stands between the fields of CSV.", examples=[";"]
    )
    header: bool = Field(
        default=True,
        description="false: the first line of CSV is an event; columns names its fields.",
        examples=[False],
    )
    columns: Annotated[tuple[str, ...] | None, BeforeValidator(as_tuple)] = Field(
        default=None,
        description="Names of the fields of CSV without a header, all of them, in order.",
        examples=["[user, item, stars, at]"],
    )
    encoding: str = Field(
        default="utf-8",
        description="How CSV is written: utf-8, latin-1, cp1252, utf-16, or another of Python's "
        "encodings in which a newline stands for itself. What cannot be decoded spoils its field.",
        examples=["cp1252"],
    )
    quoted_newlines: bool = Field(
        default=False,
        description="true: quoted fields of CSV may hold newlines. A quote that is never closed "
        "then takes the lines behind it with it, up to limits.line_bytes; files are not split.",
        examples=[True],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in '"\r\n':
            raise refusal("delimiter", self.delimiter, "must be one character, like ; or a tab.")
        _check_columns(self.header, self.columns)
        try:
            check_encoding(self.encoding)
        except ConfigError as error:
            raise refusal("encoding", self.encoding, error.remedy) from None
        return self

    def text_form(self, line_bytes: int = LINE_BYTES) -> TextForm:
        encoding = check_encoding(self.encoding)
        return TextForm(self.delimiter, line_bytes, self.columns, encoding, self.quoted_newlines)

    def caveats(self, limits: Limits) -> Iterator[str]:
        yield from super().caveats(limits)
        if self.quoted_newlines:
            yield QUOTES.format(limits.line_bytes)

    def check_plan(self, plan: Plan) -> None:
        """Refuses columns that lack one that is read, too."""
        schema = schema_of(plan)
        schema.refuse_lists()
        if self.columns is not None:
            schema.require(self.columns, "source.columns")
        super().check_plan(plan)


def _check_columns(header: bool, columns: tuple[str, ...] | None) -> None:
    """Refuses a file of which nobody, or both file and config, name the columns."""
    if not header and columns is None:
        raise refusal(
            "header", header, "needs columns beside it: the names of all fields, in order."
        )
    if columns is None:
        return
    listed = list(columns)
    if header:
        raise refusal(
            "columns",
            listed,
            "is for files without a header; add header: false, or remove it: a header names the "
            "columns.",
        )
    if not columns or len(set(columns)) < len(columns) or not all(one.strip() for one in columns):
        raise refusal("columns", listed, "must name every field, each by a name of its own.")
