"""Columns of any type -> numbers, text and booleans; what cannot be read is marked, never raised.

Every function returns the column, without what cannot be read, and a mask of where that was (None
where all could). Messages of parsers are dropped on the way: they quote content.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.dpcore.arrays import in_one_piece
from weir.dpcore.errors import ConfigError
from weir.dpcore.native import kernels

Bad = NDArray[np.bool_] | None

MISSING = (
    "",
    "#N/A",
    "#N/A N/A",
    "#NA",
    "-1.#IND",
    "-1.#QNAN",
    "-NaN",
    "-nan",
    "1.#IND",
    "1.#QNAN",
    "N/A",
    "NA",
    "NULL",
    "NaN",
    "n/a",
    "nan",
    "null",
)
"""Spellings of a missing number in text."""

_NUMBER = r"(?i)^[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|infinity|nan(\([0-9a-z_]*\))?)$"
_TRUE, _FALSE = ("true", "1"), ("false", "0")


def fault(field: str, column: str, remedy: str) -> ConfigError:
    """The error for a column whose type cannot play its role."""
    return ConfigError(field, column, remedy)


def is_text(kind: pa.DataType) -> bool:
    """Whether a type holds text."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def is_bytes(kind: pa.DataType) -> bool:
    """Whether a type holds bytes."""
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of a column's values, however they are encoded."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    return kind


def plain(values: Any) -> Any:
    """Values without their encoding: no chunks, dictionaries, runs, views or extension types.

    Chunks are decoded before they are put together: a dictionary of them all may be too large for
    their indices.
    """
    if isinstance(values, pa.ChunkedArray):
        pieces = [plain(chunk) for chunk in values.chunks]
        if len(pieces) == 1:
            return pieces[0]
        return pa.concat_arrays(pieces) if pieces else pa.nulls(0, plain_type(values.type))
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return plain(values.storage)
    if pa.types.is_run_end_encoded(kind):
        return plain(of_runs(values))
    if pa.types.is_dictionary(kind):
        return plain(values.dictionary).take(values.indices)
    if pa.types.is_string_view(kind):  # few functions take views
        return values.cast(pa.binary()).view(pa.string())
    return values.cast(pa.binary()) if pa.types.is_binary_view(kind) else values


def hollow(there: pa.BooleanArray) -> pa.StructArray:
    """Records of no fields, null where there is none: all that is read of what is nested."""
    buffers = [there.buffers()[1]]
    return pa.Array.from_buffers(pa.struct([]), len(there), buffers, offset=there.offset)


def of_runs(values: pa.RunEndEncodedArray, gone: Bad = None) -> pa.DictionaryArray:
    """Runs -> the values of runs as a dictionary, and the run of each row.

    Args:
      values: (n,) run-end encoded. gone: (n,) which rows are null whatever their run says.

    Raises:
      pyarrow.ArrowInvalid: the runs do not cover the rows.
    """
    values.validate()
    begin, stop = values.offset, values.offset + len(values)
    first, count = values.find_physical_offset(), values.find_physical_length()
    runs, ends = values.values.slice(first, count), values.run_ends.slice(first, count)
    ends.validate()
    at = ends.to_numpy(zero_copy_only=False)
    whole = ends.null_count == 0 and len(runs) == len(at) == count
    if len(values) and not (whole and count and at[0] > begin and at[-1] >= stop):
        raise pa.ArrowInvalid("runs")
    if (np.diff(at) <= 0).any():
        raise pa.ArrowInvalid("runs")
    places = np.searchsorted(at, np.arange(begin, stop), side="right")
    return pa.DictionaryArray.from_arrays(pa.array(places, mask=gone), runs)


def cast_or_null(values: Any, target: pa.DataType) -> Any:
    """Casts; what cannot be cast becomes null. Cheap while almost everything can be."""
    try:
        return values.cast(target)
    except pa.ArrowInvalid:
        if len(values) == 1:
            return pa.nulls(1, target)
    half = len(values) // 2
    return pa.concat_arrays(
        [cast_or_null(values.slice(0, half), target), cast_or_null(values.slice(half), target)]
    )


class Numbers(NamedTuple):
    """A column of float64 without nulls, NaN where a value is missing, never -0.

    Attributes:
      values: (n,). bad: what could not be read. missing: how many are NaN, if somebody looked.
    """

    values: Any
    bad: Bad
    missing: int | None = None


def to_number(values: Any, field: str = "", column: str = "", source: str = "") -> tuple[Any, Bad]:
    """Any numeric column, or text of numbers -> float64, NaN where missing, never -0."""
    return to_numbers(values, field, column, source)[:2]


def to_numbers(values: Any, field: str = "", column: str = "", source: str = "") -> Numbers:
    """As ``to_number``, with what was seen on the way."""
    kind = values.type
    if kind == pa.float64() and isinstance(values, pa.Array) and not values.null_count:
        return _settled(values, None)
    values = plain(values)
    kind = values.type
    bad: Bad = None
    if pa.types.is_null(kind):
        return Numbers(pa.array(np.full(len(values), np.nan)), None, len(values))
    if is_text(kind):
        values, bad = _number_text(values.cast(pa.string()))
    elif pa.types.is_boolean(kind):
        values = values.cast(pa.int8()).cast(pa.float64())
    elif pa.types.is_integer(kind):
        values = values.cast(pa.float64(), safe=False)
    elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values = values.cast(pa.float64())
    else:
        lasts = pa.types.is_duration(kind)
        remedy = "Store its counts as whole numbers" if lasts else "Name a column of numbers"
        what = f"is of type {type_word(kind)} in {source}, which holds no numbers. {remedy}."
        raise fault(field, column, what)
    if values.null_count:
        values = pc.fill_null(values, float("nan"))
    return _settled(values, bad)


def _settled(values: Any, bad: Bad) -> Numbers:
    """-0 is 0, however it is spelled. Most columns have none, and stay where they are."""
    if kernels is None:
        return Numbers(pc.add(values, 0.0), bad)
    missing, odd = kernels.doubles(in_one_piece(values.to_numpy()))
    return Numbers(pc.add(values, 0.0) if odd else values, bad, missing)


def _number_text(text: Any) -> tuple[Any, Bad]:
    none = pa.scalar(None, pa.string())
    text = pc.ascii_trim(text, " \t")
    text = pc.if_else(pc.is_in(text, value_set=pa.array(MISSING)), none, text)
    try:
        return text.cast(pa.float64()), None
    except pa.ArrowInvalid:
        readable = pc.if_else(pc.match_substring_regex(text, _NUMBER), text, none)
    numbers = cast_or_null(readable, pa.float64())
    bad = pc.and_(text.is_valid(), numbers.is_null()).to_numpy(zero_copy_only=False)
    return numbers, bad if bad.any() else None


def to_text(
    values: Any, field: str = "", column: str = "", source: str = "", empty_is_null: bool = False
) -> tuple[Any, Bad]:
    """Text, whole numbers, booleans, dates and times -> string, checked UTF-8; null where missing.

    Bytes are read as UTF-8. Numbers with a fraction have no single spelling and are refused.
    """
    values = plain(values)
    kind = values.type
    bad: Bad = None
    if pa.types.is_null(kind):
        return values.cast(pa.string()), None
    if is_text(kind) or is_bytes(kind):
        values, bad = _checked(values)
    elif _has_one_spelling(kind):
        values = values.cast(pa.string())
    else:
        raise fault(
            field,
            column,
            f"is of type {type_word(kind)} in {source}; text or whole numbers are needed."
            + _SPELT * (pa.types.is_floating(kind) or pa.types.is_decimal(kind)),
        )
    if empty_is_null:
        values = pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)
    return values, bad


def _has_one_spelling(kind: pa.DataType) -> bool:
    """Whether a type's values are whole numbers, true or false, or dates and times."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        try:  # Arrow spells times of a zone that it knows
            pa.scalar(0, kind).cast(pa.string())
        except pa.ArrowInvalid:
            return False
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or (pa.types.is_decimal(kind) and kind.scale == 0)
        or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind))
    )


_SPELT = " Write them as whole numbers (1) or as text: 1 and 1.0 would be two keys."


def _checked(values: Any) -> tuple[pa.StringArray, Bad]:
    """UTF-8 or null: nothing later may stumble over a byte and quote it."""
    raw = values.cast(pa.binary())
    try:
        return raw.cast(pa.string()), None
    except pa.ArrowInvalid:
        bad = np.array([not _is_utf8(value) for value in raw.to_pylist()], dtype=bool)
    return pc.if_else(pa.array(bad), pa.scalar(None, pa.binary()), raw).cast(pa.string()), bad


def _is_utf8(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def to_boolean(values: Any, field: str = "", column: str = "", source: str = "") -> tuple[Any, Bad]:
    """Booleans, or text true, false, 1, 0 in any case -> bool, null where missing."""
    values = plain(values)
    kind = values.type
    if pa.types.is_null(kind):
        return values.cast(pa.bool_()), None
    if pa.types.is_boolean(kind):
        return values, None
    if not is_text(kind):
        raise fault(
            field,
            column,
            f"is of type {type_word(kind)} in {source}, which holds no true or false. Name a "
            "column of these or of text, or compare it, like `column == 1`.",
        )
    text, spoilt = _checked(values)
    text = pc.utf8_lower(pc.ascii_trim(text, " \t"))
    true, false = (pc.is_in(text, value_set=pa.array(names)) for names in (_TRUE, _FALSE))
    known = pc.or_(true, false)
    bad = pc.and_not(pc.not_equal(pc.fill_null(text, ""), ""), known)
    bad_rows = bad.to_numpy(zero_copy_only=False)
    if spoilt is not None:
        bad_rows = bad_rows | spoilt
    result = pc.if_else(known, true, pa.scalar(None, pa.bool_()))
    return result, bad_rows if bad_rows.any() else None


def to_presence(values: Any) -> tuple[Any, Bad]:
    """True where there is a value, null where there is none."""
    values = plain(values)
    missing = pc.is_null(values, nan_is_null=True)
    if is_text(values.type):
        missing = pc.or_(missing, pc.fill_null(pc.equal(values.cast(pa.binary()), b""), True))
    return pc.if_else(missing, pa.scalar(None, pa.bool_()), pa.scalar(True)), None


def type_word(kind: pa.DataType) -> str:
    """The name of a type without what is inside it: struct, list, timestamp[us], int64."""
    if pa.types.is_timestamp(kind):
        return f"timestamp[{kind.unit}]"
    if isinstance(kind, pa.BaseExtensionType):
        return f"an extension of {type_word(kind.storage_type)}"
    return "map" if pa.types.is_map(kind) else str(kind).partition("<")[0]
