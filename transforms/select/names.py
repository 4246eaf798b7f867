"""Names of keys that one process has met, as numbers: so that no step compares texts again."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa


class Names:
    """Texts by numbers, in the order in which they came. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._place: dict[str, int] = {}
        self._texts = pa.array([], pa.string())

    def coded(self, column: pa.DictionaryArray) -> pa.Array:
        """A column of texts without null rows -> their numbers, int32."""
        with self._lock:
            number, place = self._place.setdefault, self._place
            table = [number(text, len(place)) for text in column.dictionary.to_pylist()]
        found = np.array(table, dtype=np.int32)[column.indices.to_numpy()]
        return pa.array(found)

    def decoded(self, numbers: pa.Array) -> pa.DictionaryArray:
        """The inverse: over one dictionary of all texts that came so far."""
        with self._lock:
            if len(self._texts) < len(self._place):
                self._texts = pa.array(list(self._place), pa.string())
            return pa.DictionaryArray.from_arrays(numbers, self._texts, safe=False)
