"""Types are told without the names that are inside them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from weir.transforms.decode.cast import type_word

WORD = "Ada"


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (pa.int64(), "int64"),
        (pa.decimal128(10, 2), "decimal128(10, 2)"),
        (pa.timestamp("us", WORD), "timestamp[us]"),
        (pa.struct([(WORD, pa.int64())]), "struct"),
        (pa.list_(pa.field(WORD, pa.int64())), "list"),
        (pa.list_(pa.field(WORD, pa.int64()), 3), "fixed_size_list"),
        (pa.map_(pa.string(), pa.struct([(WORD, pa.int64())])), "map"),
        (pa.dictionary(pa.int32(), pa.struct([(WORD, pa.int64())])), "dictionary"),
        (pa.sparse_union([pa.field(WORD, pa.int64())]), "sparse_union"),
        (pa.run_end_encoded(pa.int32(), pa.string()), "run_end_encoded"),
        (pa.opaque(pa.int32(), WORD, WORD), "an extension of int32"),
    ],
)
def test_types_without_names(kind: pa.DataType, word: str) -> None:
    assert type_word(kind) == word
