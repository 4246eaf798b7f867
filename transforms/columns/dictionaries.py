"""Dictionary columns that hold no more than their rows need."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute


def compact(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """A column without null rows, without the entries that no row has; itself if all are used."""
    slots = column.indices.to_numpy()
    used = np.bincount(slots, minlength=len(column.dictionary)) > 0
    if used.all():
        return column
    places = (np.cumsum(used) - 1).astype(np.int32)
    return pa.DictionaryArray.from_arrays(
        pa.array(places[slots]), column.dictionary.filter(pa.array(used))
    )


def compact_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch in which no dictionary is longer than there are rows."""
    columns = [
        compact(column)
        if pa.types.is_dictionary(column.type)
        and len(column.dictionary) > batch.num_rows
        and not column.null_count
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
