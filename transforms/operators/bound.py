"""From a canonical record batch to bounded lattice rows: columns out, dpcore's bound, counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.dpcore.arrays import Ints
from weir.dpcore.leaves.sparse_rows import Expanded, width_of
from weir.dpcore.program import Bounded, EventCells, Program, Runs
from weir.transforms.columns.list_columns import is_list, to_rows
from weir.transforms.columns.names import CELL, GAP, NEW
from weir.transforms.runtime import counters


def numbers(column: pa.Array) -> NDArray[np.float64]:
    """A numeric or bool column as (n,) float64, NaN where it is missing; a view when it can be."""
    if not pa.types.is_float64(column.type):
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        column = column.cast(pa.float64(), safe=False)
    if column.null_count:
        column = pc.fill_null(column, float("nan"))
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def columns_of(batch: pa.RecordBatch, program: Program) -> Mapping[str, NDArray[Any]]:
    """The columns that the program reads, each (n,) float64, declared texts as their places; and
    the cells of users, where they are known."""
    texts = program.texts
    there = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns = {
        name: places(there[name], texts[name]) if name in texts else numbers(there[name])
        for name in program.columns
        if name in there and not is_list(there[name].type)
    }
    if len(columns) < len(program.columns):
        columns = _with_lists(columns, batch, program)
    if CELL in there:
        columns[CELL] = batch.column(CELL).to_numpy()
        columns[NEW] = batch.column(NEW).to_numpy(zero_copy_only=False)
        if GAP in there:
            columns[GAP] = batch.column(GAP).to_numpy()
    return columns


def _with_lists(columns: dict[str, Any], batch: pa.RecordBatch, program: Program) -> dict[str, Any]:
    """And the features of list columns: each by its name, or all of them as sparse rows."""
    listed: dict[str, Any] = {
        field.name: batch.column(field.name) for field in batch.schema if is_list(field.type)
    }
    tables = {name: to_rows(column, width_of(program, name)) for name, column in listed.items()}
    expanded = Expanded({**columns, **tables}, program.columns)
    return {name: expanded[name] for name in program.columns}


def places(column: pa.Array, declared: Sequence[str]) -> NDArray[np.float64]:
    """A column of text as (n,) places among declared values; NaN where it is none of them."""
    return numbers(pc.index_in(column.cast(pa.string()), pa.array(declared, pa.string())))


def bound(batch: pa.RecordBatch, program: Program) -> Bounded:
    """Clips every event of a batch; counts what was clipped for the operator."""
    return _counted(program.bound(columns_of(batch, program), batch.num_rows))


def summed(batch: pa.RecordBatch, program: Program, runs: Runs, n_cells: int) -> Ints:
    """Clips the events of a batch that are in runs and adds them up by cell, counted alike: what
    ``sum_runs`` of a program that has it gives, (n_cells, D)."""
    columns = columns_of(batch, program)
    values, bounded = program.sum_runs(columns, batch.num_rows, runs, n_cells)
    _counted(bounded)
    return np.asarray(values)


def added(batch: pa.RecordBatch, program: Program, cells: EventCells, grid: Ints) -> None:
    """Clips the events of a batch and adds them to a grid, counted alike: ``add_events`` of a
    program that has it."""
    _counted(program.add_events(columns_of(batch, program), cells, grid))


def _counted(bounded: Bounded) -> Bounded:
    counters.add("clipped", bounded.clipped)
    counters.add("non_finite", bounded.non_finite)
    counters.add("out_of_range", bounded.out_of_range)
    return bounded
