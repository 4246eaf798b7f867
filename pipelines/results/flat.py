"""The rows of a folder of results as one table, as its files have them: a row a number."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from weir.dpcore.errors import ConfigError
from weir.pipelines.results.files import is_flat, rows_in
from weir.pipelines.results.run import ResultFolder
from weir.transforms.release.table import RELEASE_SCHEMA


def flat_table(run: ResultFolder) -> pa.Table:
    """All rows, of ``RELEASE_SCHEMA``, by tick. For what fits into memory.

    Raises:
      ConfigError: its files hold a row for each vector.
    """
    kinds = {field.name: field.type for field in RELEASE_SCHEMA}
    found = []
    for file in run.files:
        if file.path.stat().st_size and not is_flat(file):
            raise ConfigError(
                "sink.layout", "packed", "holds a row for each vector; write flat, or leave it out."
            )
        for batch in rows_in(file, kinds, RELEASE_SCHEMA.names):
            found.append(pa.Table.from_batches([batch]).cast(RELEASE_SCHEMA))
    table = pa.concat_tables(found) if found else RELEASE_SCHEMA.empty_table()
    order = pc.sort_indices(table, sort_keys=[("tick", "ascending")])  # stable
    return table.take(order).combine_chunks()


__all__ = ["flat_table"]
