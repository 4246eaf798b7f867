"""Numbers that count since 1970 -> microseconds. Each is read by itself, to its last digit."""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Context
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.transforms.decode.schema import EPOCH_MICROSECONDS

FIRST = -62_135_596_800_000_000
LAST = 253_402_300_799_999_999
"""Years 1 to 9999 in microseconds since 1970; what lies outside is no time."""

DIGITS = {name: round(math.log10(factor)) for name, factor in EPOCH_MICROSECONDS.items()}
"""Formats of numbers -> digits by which the decimal point moves on the way to microseconds."""

_SHORT = r"^[+-]?(\d{1,21}(\.\d{0,17})?|\.\d{1,17})$"
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_INTEGERS = 2.0**63
_PARSED = 30
"""Bytes of a text that Arrow reads right as a decimal."""


def in_range(microseconds: Any) -> pa.Int64Array:
    """Microseconds that are times; null where they are not."""
    if len(microseconds) and not microseconds.null_count:
        plain = microseconds.to_numpy()
        if plain.min() >= FIRST and plain.max() <= LAST:  # as those of nearly all columns are
            return microseconds
    inside = pc.and_(
        pc.greater_equal(microseconds, FIRST),
        pc.less_equal(microseconds, LAST),
    )
    return pc.if_else(inside, microseconds, pa.scalar(None, pa.int64()))


def of_counts(counts: Any, digits: int) -> pa.Int64Array:
    """Counts of a unit -> microseconds, rounded down; null outside the range of times.

    Args:
      counts: (n,) int64.
      digits: of DIGITS.
    """
    if digits == 0:
        return in_range(counts)
    if digits < 0:
        numbers = pc.fill_null(counts, 0).to_numpy()
        missing = counts.is_null().to_numpy(zero_copy_only=False)
        return in_range(pa.array(numbers // 10**-digits, mask=missing))
    factor = 10**digits
    inside = pc.and_(
        pc.greater_equal(counts, FIRST // factor), pc.less_equal(counts, LAST // factor)
    )
    return pc.multiply(pc.if_else(inside, counts, pa.scalar(None, pa.int64())), factor)


def of_numbers(values: Any, digits: int) -> pa.Int64Array:
    """A column of integers or floats -> microseconds, as ``of_counts`` does."""
    if pa.types.is_unsigned_integer(values.type):
        wide = values.cast(pa.uint64())
        fits = pc.less(wide, pa.scalar(2**63, pa.uint64()))
        values = pc.if_else(fits, wide, pa.scalar(None, pa.uint64()))
    if pa.types.is_integer(values.type):
        return of_counts(values.cast(pa.int64()), digits)
    floats = pc.fill_null(values.cast(pa.float64()), float("nan")).to_numpy(zero_copy_only=False)
    with np.errstate(all="ignore"):
        # A whole number is the same time whether it is stored as a float or not.
        whole = (np.floor(floats) == floats) & (np.abs(floats) < _INTEGERS)
        rest = np.floor(floats * 10**digits if digits >= 0 else floats / 10**-digits)
        inside = ~whole & (rest >= FIRST) & (rest <= LAST)
    counts = pa.array(np.where(whole, floats, 0).astype(np.int64), mask=~whole)
    fractions = pa.array(np.where(inside, rest, 0).astype(np.int64), mask=~inside)
    return pc.coalesce(of_counts(counts, digits), fractions)


def of_text(text: Any, digits: int) -> pa.Int64Array:
    """Numbers as text, without white space around -> microseconds, as ``of_counts`` does.

    The first two ways are faster ones for columns in which every number is short. They give what
    the third does: which way is taken depends on all values of a column, and must not show.
    """
    text = pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
    if not _has(text, b"xX"):  # 0x1f, which Arrow reads and nobody counts in
        try:
            return of_counts(text.cast(pa.int64()), digits)
        except pa.ArrowInvalid:
            pass
    if digits >= 0 and _is_plain(text):
        try:
            return in_range(_unscaled(text.cast(pa.decimal128(18, digits))))
        except pa.ArrowInvalid:
            pass
    return _one_by_one(text, digits)


def _has(text: Any, letters: bytes) -> bool:
    """Whether one of these letters may be in a value."""
    data = text.buffers()[2]
    if data is None:
        return False
    found = memoryview(data).tobytes()
    return any(letter in found for letter in letters)


def _is_plain(text: Any) -> bool:
    """Whether Arrow reads every value right as a decimal, or says that it cannot.

    Of more than 38 digits, and of exponents as small as -42, it makes another number.
    """
    return not _has(text, b"eE") and not pc.any(pc.greater(pc.binary_length(text), _PARSED)).as_py()


def _one_by_one(text: Any, digits: int) -> pa.Int64Array:
    short = pc.match_substring_regex(text, _SHORT)
    none = pa.scalar(None, pa.string())
    decimals = pc.if_else(short, text, none).cast(pa.decimal128(38, 17))
    floors = pc.round(decimals, ndigits=digits, round_mode="down")
    micros = in_range(_unscaled(floors.cast(pa.decimal128(38, digits))))
    long = pc.and_not(pc.match_substring_regex(text, _NUMBER), short)
    if not pc.any(long).as_py():
        return micros
    spelled = pc.if_else(long, text, none).to_pylist()
    counted = [None if value is None else _counted(value, digits) for value in spelled]
    return pc.coalesce(micros, in_range(pa.array(counted, pa.int64())))


def _unscaled(decimals: Any) -> pa.Int64Array:
    """The integers that decimals are stored as; null where 64 bits cannot hold one."""
    count = len(decimals)
    if not count:
        return pa.array([], pa.int64())
    limbs = np.frombuffer(decimals.buffers()[1], dtype="<i8")
    limbs = limbs.reshape(-1, 2)[decimals.offset : decimals.offset + count]
    low, high = limbs[:, 0], limbs[:, 1]
    gone = (high != low >> 63) | decimals.is_null().to_numpy(zero_copy_only=False)
    return pa.array(np.where(gone, 0, low), mask=gone)


def _counted(value: str, digits: int) -> int | None:
    """An odd spelling: with an exponent, or with more digits than a time has."""
    context = Context(prec=len(value) + 64)
    try:
        number = context.create_decimal(value)
        if number.adjusted() > 32:
            return None
        if number.adjusted() < -32:
            return -1 if number < 0 else 0
        micros = int(context.scaleb(number, digits).to_integral_value(ROUND_FLOOR, context))
    except ArithmeticError:
        return None
    return micros if FIRST <= micros <= LAST else None
