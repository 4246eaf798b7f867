"""The public predicate ``where``: a small, closed language over the columns of an event.

``dollar_value > 0 and store in ["a", "b"] and not (note is None)``. What is unknown compares to
false: a missing value satisfies no comparison, not even ``!=``; ``not`` turns that false into true.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from weir.dpcore.errors import ConfigError
from weir.transforms.columns.predicate_compiler import Compiler, Evaluate, Kind
from weir.transforms.columns.sql_words import has_pattern, translated

_MOST = 1_000
"""Characters of a predicate that is looked at as SQL."""


@dataclass(frozen=True)
class Predicate:
    """A compiled predicate.

    Attributes:
      text: as written.
      kinds: column -> how it has to be read. A column compared with text is text; one compared
        with numbers, or only with another column of unknown kind, is a number; a bare column is a
        boolean; one that is only asked ``is None`` is any.
    """

    text: str
    kinds: dict[str, Kind]
    _evaluate: Evaluate

    @classmethod
    def parse(cls, text: str, field: str = "where") -> Predicate:
        """Text -> predicate. Raises ConfigError with the field that holds it."""
        try:
            return cls._compiled(text, field)
        except ConfigError as error:
            refused = error
        raise _of_sql(text, field, refused) from None

    @classmethod
    def _compiled(cls, text: str, field: str) -> Predicate:
        compiler = Compiler(text, field)
        evaluate = compiler.condition(compiler.tree)
        if not compiler.kinds:
            compiler.refuse("names no column; every event would be treated alike")
        kinds: dict[str, Kind] = {
            column: kind or ("any" if column in compiler.asked_only else "number")
            for column, kind in compiler.resolved().items()
        }
        return cls(text, kinds, evaluate)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Predicate.parse, (self.text,))

    def columns(self) -> tuple[str, ...]:
        """The columns that have to be read."""
        return tuple(self.kinds)

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Which rows satisfy the predicate: (n,) bool without nulls."""
        return self._evaluate(batch)


def _of_sql(text: str, field: str, refused: ConfigError) -> ConfigError:
    """What is said of a predicate that was refused: where SQL or C would take it, what to write."""
    if not isinstance(text, str) or len(text) > _MOST:
        return refused
    if has_pattern(text):
        return ConfigError(
            field,
            text,
            "compares with a pattern, which is not served. List the values that are meant, like "
            "`column in ['a', 'b']`, or filter the events before.",
        )
    ours = translated(text)
    if ours.split() == text.split():
        return refused
    try:
        Predicate._compiled(ours, field)
    except ConfigError as error:
        return ConfigError(field, text, error.remedy)
    written = ours if "`" in ours else f"`{ours}`"
    return ConfigError(field, text, f"is written as in SQL. Write {written}.")
