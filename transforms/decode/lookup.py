"""A public table that adds columns to records: a left join, each record by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LookupTable:
    """Rows that are found by the texts of some columns.

    Attributes:
      on: columns by which. names: of each, the texts that there are.
      codes: (n,) of the rows, ascending: places of their texts among ``names``, as one number.
      columns: added column -> (n,) its values, in the order of ``codes``.
      digest: of what the table says, whatever the order of its rows and the format of its file.
    """

    on: tuple[str, ...]
    names: tuple[pa.Array, ...]
    codes: Ints
    columns: Mapping[str, pa.Array]
    digest: str

    @classmethod
    def of(
        cls,
        on: tuple[str, ...],
        texts: Sequence[pa.Array],
        columns: Mapping[str, pa.Array],
        digest: str,
    ) -> LookupTable | None:
        """A table; None where two rows have the same texts.

        Args:
          texts: (n,) of each of ``on``, without nulls. columns: those that are added, each (n,).
        """
        names = tuple(pc.unique(values) for values in texts)
        codes = _codes(texts, names)
        order = np.argsort(codes, kind="stable")
        if (np.diff(codes[order]) == 0).any():
            return None
        places = pa.array(order)
        added = {name: values.take(places) for name, values in columns.items()}
        return cls(on, names, codes[order], added, digest)

    def add_to(self, texts: Sequence[pa.Array]) -> dict[str, pa.Array]:
        """The added columns of some records, null where no row is found.

        Args:
          texts: (m,) of each of ``on``; null where a record has none.
        """
        codes = _codes(texts, self.names)
        at = np.searchsorted(self.codes, codes)
        inside = np.minimum(at, max(len(self.codes) - 1, 0))
        missing = np.ones(len(codes), dtype=bool)
        if len(self.codes):
            missing = (codes < 0) | (self.codes[inside] != codes)
        places = pa.array(np.where(missing, 0, inside), mask=missing)
        if not len(self.codes):
            return {name: pa.nulls(len(codes), v.type) for name, v in self.columns.items()}
        return {name: values.take(places) for name, values in self.columns.items()}


def _codes(texts: Sequence[pa.Array], names: Sequence[pa.Array]) -> Ints:
    """(n,) places of texts among names, as one number; -1 where one is no name."""
    result: Any = None
    for values, known in zip(texts, names, strict=True):
        at = pc.fill_null(pc.index_in(values, value_set=known, skip_nulls=True), -1)
        places = at.to_numpy(zero_copy_only=False).astype(np.int64)
        if result is None:
            result = places
            continue
        unknown = (result < 0) | (places < 0)
        result = np.where(unknown, -1, result * max(1, len(known)) + places)
    codes: Ints = result
    return codes
