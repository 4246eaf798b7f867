"""The public predicate ``where``: a small, closed language over the columns of an event.

``dollar_value > 0 and store in ["a", "b"] and not (note is None)``. What is unknown compares to
false: a missing value satisfies no comparison, not even ``!=``; ``not`` turns that false into true.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from weir.transforms.select.predicate_compiler import Compiler, Evaluate, Kind


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
