"""Arrow types in words: their own texts quote names of fields, and whatever zone a file made up."""

from __future__ import annotations

import pyarrow as pa


def type_word(kind: pa.DataType) -> str:
    """The name of a type without what is inside it: struct, list, timestamp[us], int64."""
    if pa.types.is_timestamp(kind):
        return f"timestamp[{kind.unit}]"
    if isinstance(kind, pa.BaseExtensionType):
        return f"an extension of {type_word(kind.storage_type)}"
    return "map" if pa.types.is_map(kind) else str(kind).partition("<")[0]
