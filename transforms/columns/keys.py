"""The key of an event: one column, or several whose values become one JSON array.

Values are joined per batch, over dictionaries: texts are made of what is distinct, never of events.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.compute as pc
from numpy.typing import NDArray

KEY = "@key"
"""Column that holds an event's key."""

_SPECIAL = r'["\\\x00-\x1f]'
"""What a JSON text escapes."""
_MOST = 1 << 31
"""Above, codes of combinations are numbered again before another column is added."""


def key_roles(columns: Sequence[str]) -> dict[str, str]:
    """Canonical column -> the user's: ``@key``, or ``@key0``, ``@key1``, ... of several."""
    if len(columns) == 1:
        return {KEY: columns[0]}
    return {f"{KEY}{at}": column for at, column in enumerate(columns)}


def is_key(role: str) -> bool:
    """Whether a canonical column is the key, or one of several that make it."""
    return role.startswith(KEY)


class Keyed(NamedTuple):
    """The keys of a batch.

    Attributes:
      keys: (n,) dictionary of texts; null where a value is missing.
      missing: (n,) int8, the first column without a value; -1 where all have one.
    """

    keys: pa.DictionaryArray
    missing: NDArray[np.int8]


def keys_of(batch: pa.RecordBatch, columns: Sequence[str]) -> Keyed:
    """The key of each event of a decoded batch.

    Args:
      batch: has the columns of ``key_roles``.
      columns: the user's, one or more.
    """
    results = [_encoded(batch.column(role)) for role in key_roles(columns)]
    missing = np.full(batch.num_rows, -1, dtype=np.int8)
    for at in range(len(results) - 1, -1, -1):
        if results[at].null_count:
            missing[results[at].is_null().to_numpy(zero_copy_only=False)] = at
    return Keyed(results[0] if len(results) == 1 else joined(results, missing < 0), missing)


def _encoded(column: Any) -> pa.DictionaryArray:
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def joined(columns: Sequence[pa.DictionaryArray], whole: NDArray[np.bool_]) -> pa.DictionaryArray:
    """Several columns of text as one of JSON arrays, as ``dpcore.leaves.keys.key_text`` has them.

    Args:
      columns: (n,) each. whole: (n,) where every column has a value; null elsewhere.
    """
    every = bool(whole.all())
    indices = [column.indices.to_numpy(zero_copy_only=False) for column in columns]
    if not every:
        indices = [index[whole].astype(np.int64) for index in indices]
    codes, size = indices[0].astype(np.int64), max(1, len(columns[0].dictionary))
    for index, column in zip(indices[1:], columns[1:], strict=True):
        if size > _MOST:
            codes, size = _numbered(codes, size)
        width = max(1, len(column.dictionary))
        codes, size = codes * width + index, size * width
    codes, size = _numbered(codes, size)
    one_of_each = np.zeros(size, dtype=np.int64)
    one_of_each[codes] = np.arange(len(codes))
    parts = [
        quoted(column.dictionary).take(pa.array(index[one_of_each]))
        for index, column in zip(indices, columns, strict=True)
    ]
    inside = pc.binary_join_element_wise(*parts, ",")
    texts = pc.binary_join_element_wise("[", inside, "]", "")
    if every:
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), texts)
    places = np.zeros(len(whole), dtype=np.int32)
    places[whole] = codes
    return pa.DictionaryArray.from_arrays(pa.array(places, mask=~whole), texts)


def _numbered(codes: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], int]:
    """Codes below ``size`` -> the same, without those that do not occur; and how many there are."""
    if size <= 4 * len(codes) + 1024:
        used = np.zeros(size, dtype=bool)
        used[codes] = True
        return (np.cumsum(used) - 1)[codes], int(used.sum())
    result = pa.array(codes).dictionary_encode()
    return result.indices.to_numpy().astype(np.int64), len(result.dictionary)


def quoted(texts: Any) -> Any:
    """Texts as JSON texts. Python spells those that hold something to be escaped."""
    plain = pc.binary_join_element_wise('"', texts, '"', "")
    special = pc.fill_null(pc.match_substring_regex(texts, _SPECIAL), False)
    if not special.true_count:
        return plain
    spelled = (json.dumps(text, ensure_ascii=False) for text in texts.filter(special).to_pylist())
    return pc.replace_with_mask(plain, special, pa.array(list(spelled), pa.string()))


def folded(key: str, several: bool) -> Any:
    """A key without spaces around its values and without capitals: what is nearly the same."""
    values: Iterable[str] = json.loads(key) if several else (key,)
    return tuple(value.strip().casefold() for value in values)


def as_numbers(key: str, several: bool) -> Any:
    """A key with its values as numbers, where they are some: 1, 1.0 and 01 are the same."""
    return tuple(_as_number(value) for value in folded(key, several))


def _as_number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def declared_keys(plan: Any) -> pa.StringArray | None:
    """The combinations of values that the plan declares; None when keys are discovered."""
    if plan.keys.observed or not plan.keys.combinations:
        return None
    return pa.array(sorted(plan.keys.combinations), pa.string())


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
