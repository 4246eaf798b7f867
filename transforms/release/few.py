"""Packed releases of wide vectors: a row a vector, with lists of what is not 0 and of where."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.dpcore.leaves.sparse_rows import MOST_DENSE
from weir.dpcore.plan import Plan
from weir.transforms.release.flat import Flat, Layout, Spot, Spread, chunk_of, outputs_of, some_of
from weir.transforms.release.table import NUMBERS, PACKED_SCHEMA, in_flight, releases_only

INDICES = "indices"
PLACES = pa.list_(pa.field("element", pa.int32(), nullable=False))

FEW_SCHEMA = PACKED_SCHEMA.insert(PACKED_SCHEMA.get_field_index("value"), pa.field(INDICES, PLACES))
"""PACKED_SCHEMA of plans with wide vectors. ``indices``: where each of ``value`` lies, from 0; null
where ``value`` has every coordinate."""

_IN_FLIGHT = pa.schema([in_flight(field) for field in FEW_SCHEMA])


@dataclass(frozen=True)
class Few:
    """What packed rows need of a plan with vectors that are sparse and wide.

    Attributes:
      sparse: (name, over) of vectors of more than ``MOST_DENSE`` coordinates that the program
        declares sparse. Their lists hold what is not 0, and the first coordinate where all are 0;
        of a vector that says nothing yet a null at the first.
    """

    sparse: frozenset[Spot]

    @classmethod
    def of(cls, plan: Plan) -> Few | None:
        """None where no vector of a plan is so wide: its packed rows have every coordinate."""
        described = plan.program.describe(np.zeros(1, dtype=np.int64))
        wide = [item for item in described if item.sparse and item.dimension > MOST_DENSE]
        return cls(frozenset((item.name, item.over) for item in wide)) if wide else None

    def table(self, packed: pa.Table) -> pa.Table:
        """Rows of IN_FLIGHT_SCHEMA -> the same rows with ``indices``."""
        columns = {name: chunk_of(packed[name]) for name in packed.schema.names}
        value, stddev = columns["value"], columns["stddev"]
        spread = Spread.of(pc.list_value_length(value).to_numpy(zero_copy_only=False))
        index, rows = spread.places(), spread.rows()
        numbers = value.flatten().to_numpy(zero_copy_only=False)
        output, spots = outputs_of(columns["name"], columns["over"])
        some = np.array([spot in self.sparse for spot in spots], dtype=bool)[output]
        some &= stddev.is_null().to_numpy(zero_copy_only=False)
        retained = some_of(numbers, rows, index, some)
        numbers, index, rows = numbers[retained], index[retained], rows[retained]
        lengths = np.bincount(rows, minlength=len(some))
        silent = np.isnan(numbers)
        columns["value"] = pa.ListArray.from_arrays(
            _offsets(lengths), pa.array(numbers, mask=silent if silent.any() else None), NUMBERS
        )
        columns[INDICES] = pa.ListArray.from_arrays(
            _offsets(np.where(some, lengths, 0)),
            pa.array(index[some[rows]]),
            PLACES,
            mask=None if some.all() else pa.array(~some),
        )
        return pa.table([columns[name] for name in _IN_FLIGHT.names], schema=_IN_FLIGHT)

    def batch(self, released: pa.RecordBatch) -> pa.RecordBatch:
        """A release batch -> rows of FEW_SCHEMA.

        Raises:
          WeirError: it is no batch of releases.
        """
        built = self.table(pa.Table.from_batches([releases_only(released)]))
        table = built.cast(FEW_SCHEMA).combine_chunks()
        return table.to_batches()[0] if table.num_rows else _NO_ROWS


_NO_ROWS = pa.RecordBatch.from_arrays(
    [pa.array([], field.type) for field in FEW_SCHEMA], schema=FEW_SCHEMA
)


def _offsets(lengths: np.ndarray) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))


Shape = Flat | Few
"""How vectors that are released become rows of a file or a message."""


def shape_for(plan: Plan, layout: Layout) -> Shape | None:
    """How a sink of a layout writes vectors; None: as lists of every coordinate."""
    return Flat.of(plan) if layout == "flat" else Few.of(plan)


__all__ = ["FEW_SCHEMA", "INDICES", "Few", "Shape", "shape_for"]
