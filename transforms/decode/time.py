"""Times in any column -> timestamps in UTC: ISO 8601, formats, and numbers that count since 1970.

Each is read by itself, to its last digit.
"""

from __future__ import annotations

import math
from datetime import datetime
from decimal import ROUND_FLOOR, Context
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.dpcore.arrays import extremes
from weir.dpcore.native import kernels
from weir.transforms.decode.cast import cast_or_null, fault, is_text, plain, to_text, type_word
from weir.transforms.decode.schema import EPOCH_MICROSECONDS, Stamp

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
    if not microseconds.null_count:
        least, most = extremes(microseconds.to_numpy()) if len(microseconds) else (FIRST, LAST)
        if least >= FIRST and most <= LAST:  # as those of nearly all columns are
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
    result = memoryview(data).tobytes()
    return any(letter in result for letter in letters)


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


OTHER, ABSOLUTE, LOCAL = 0, 1, 2


class Times(NamedTuple):
    """What was read.

    Attributes:
      microseconds: (n,) int64 since 1970, in UTC where there is an offset, else as a clock there
        shows; of no meaning where nothing was read.
      kinds: (n,) uint8, OTHER where a time is missing or of another form, ABSOLUTE or LOCAL.
    """

    microseconds: NDArray[np.int64]
    kinds: NDArray[np.uint8]


def common_times(text: Any) -> Times | None:
    """Reads (n,) strings; None where the kernel is missing."""
    if kernels is None or not len(text):
        return None
    text = text.cast(pa.string())
    _, offsets, data = text.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[text.offset : text.offset + len(text) + 1]
    times = Times(np.empty(len(text), dtype=np.int64), np.empty(len(text), dtype=np.uint8))
    kernels.times(data or b"", ends, times.microseconds, times.kinds)
    if text.null_count:
        times.kinds[text.is_null().to_numpy(zero_copy_only=False)] = OTHER
    return times


UTC_MICROSECONDS = pa.timestamp("us", "UTC")
_UNITS = {"s": 6, "ms": 3, "us": 0, "ns": -3}
_DATE = (
    r"^\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)"
    r"|02-(0[1-9]|[12]\d))"
)
_ISO = _DATE + (
    r"([T ]([01]\d|2[0-3])(:[0-5]\d(:[0-5]\d(\.\d{1,9})?)?)?"
    r"(Z|[+-]([01]\d|2[0-3])(:?[0-5]\d)?)?)?$"
)
_HAS_OFFSET = r"[T ].*(Z|[+-]\d\d(:?\d\d)?)$"


def to_time(values: Any, stamp: Stamp, source: str) -> pa.TimestampArray:
    """Reads a column of times.

    Args:
      values: (n,) of any Arrow type a reader gives.
      stamp: format and zone.
      source: path or topic, for the message.

    Returns:
      (n,) timestamp[us, UTC]; null where a time is missing or cannot be read.

    Raises:
      ConfigError: the column's type cannot hold times of this format, and the stamp is strict.
    """
    values = plain(values)
    kind = values.type
    epoch = None if stamp.format is None else DIGITS.get(stamp.format)
    if pa.types.is_null(kind):
        return pa.nulls(len(values), UTC_MICROSECONDS)
    if pa.types.is_timestamp(kind):
        zone = "UTC" if kind.tz is not None else stamp.zone
        return _in_zone(of_counts(values.view(pa.int64()), _UNITS[kind.unit]), zone)
    if pa.types.is_date32(kind):
        return _in_zone(_days(values), stamp.zone)
    if pa.types.is_date64(kind):
        return _in_zone(of_counts(values.view(pa.int64()), _UNITS["ms"]), stamp.zone)
    if is_text(kind):
        text = pc.utf8_trim_whitespace(to_text(values)[0])
        if epoch is not None:
            return of_text(text, epoch).view(UTC_MICROSECONDS)
        return _from_text(text, stamp)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        if epoch is not None:
            return of_numbers(values, epoch).view(UTC_MICROSECONDS)
        if stamp.format is not None:
            return _from_text(_whole_numbers(values).cast(pa.string()), stamp)
    if not stamp.strict:
        return pa.nulls(len(values), UTC_MICROSECONDS)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        raise fault(
            stamp.field,
            stamp.column,
            f"holds numbers ({kind}) in {source}; say what they count with {stamp.field}.format: "
            "epoch_s, epoch_ms, epoch_us or epoch_ns, or strptime directives like %Y%m%d.",
        )
    raise fault(
        stamp.field,
        stamp.column,
        f"is of type {type_word(kind)} in {source}, which holds no times. Name a column of "
        "timestamps, dates or text, or of numbers since 1970.",
    )


def _days(values: Any) -> pa.Int64Array:
    days = values.view(pa.int32()).cast(pa.int64())
    return of_counts(pc.multiply(days, 86_400), _UNITS["s"])


def _in_zone(microseconds: pa.Int64Array, zone: str) -> pa.TimestampArray:
    """Local microseconds -> UTC. A time twice there: the earlier; skipped: when clocks change."""
    if zone == "UTC":
        return microseconds.view(UTC_MICROSECONDS)
    local = microseconds.view(pa.timestamp("us"))
    placed = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="latest")
    return in_range(placed.view(pa.int64())).view(UTC_MICROSECONDS)


def _whole_numbers(values: Any) -> Any:
    if pa.types.is_integer(values.type):
        return values
    floats = pc.fill_null(values.cast(pa.float64()), float("nan")).to_numpy(zero_copy_only=False)
    with np.errstate(all="ignore"):
        whole = (np.abs(floats) < 2.0**53) & (np.floor(floats) == floats)
    return pa.array(np.where(whole, floats, 0).astype(np.int64), mask=~whole)


def _from_text(text: Any, stamp: Stamp) -> pa.TimestampArray:
    if stamp.format is None:
        return _from_iso(text, stamp.zone)
    return _from_format(text, stamp.format, stamp.zone)


def _from_iso(text: Any, zone: str) -> pa.TimestampArray:
    """The common form by a kernel, all others by Arrow."""
    result = common_times(text)
    if result is None:
        return _iso_by_arrow(text, zone)
    times = [
        _in_zone(in_range(pa.array(result.microseconds, mask=result.kinds != kind)), where)
        for kind, where in ((ABSOLUTE, "UTC"), (LOCAL, zone))
        if (result.kinds == kind).any()
    ]
    others = text.is_valid().to_numpy(zero_copy_only=False) & (result.kinds == OTHER)
    if not times:
        return _iso_by_arrow(text, zone)
    read = times[0] if len(times) == 1 else pc.coalesce(*times)
    if not others.any():
        return read
    rest = _iso_by_arrow(text.filter(pa.array(others)), zone)
    return pc.replace_with_mask(read, pa.array(others), rest)


def _iso_by_arrow(text: Any, zone: str) -> pa.TimestampArray:
    """The common case is one cast; then, one without what is broken; then what is mixed."""
    none = pa.scalar(None, pa.string())
    times = _alike_iso(text, zone)
    if times is None:
        text = pc.if_else(pc.match_substring_regex(text, _ISO), text, none)
        times = _alike_iso(text, zone)
    if times is not None:
        return times
    text = pc.replace_substring_regex(text, r"(\.\d{6})\d+", r"\1")
    offset = pc.match_substring_regex(text, _HAS_OFFSET)
    absolute = cast_or_null(pc.if_else(offset, text, none), UTC_MICROSECONDS)
    local = cast_or_null(pc.if_else(offset, none, text), pa.timestamp("us"))
    placed = _in_zone(in_range(local.view(pa.int64())), zone).view(pa.int64())
    return pc.coalesce(in_range(absolute.view(pa.int64())), placed).view(UTC_MICROSECONDS)


def _alike_iso(text: Any, zone: str) -> pa.TimestampArray | None:
    """Times that all have an offset, or all have none; None if they are not so."""
    # A cast that fails makes a message for each value, so the first value says which to try.
    first = text.slice(max(pc.index(text.is_valid(), True).as_py(), 0), 1)
    try:
        if pc.any(pc.match_substring_regex(first, _HAS_OFFSET)).as_py():
            return in_range(text.cast(UTC_MICROSECONDS).view(pa.int64())).view(UTC_MICROSECONDS)
        return _in_zone(in_range(text.cast(pa.timestamp("us")).view(pa.int64())), zone)
    except pa.ArrowInvalid:
        return None


def _from_format(text: Any, form: str, zone: str) -> pa.TimestampArray:
    fraction = None
    if ".%f" in form:
        # Dots that the format has before its fraction, in 31.12.2011 say, are none of it.
        dots = form[: form.index(".%f")].count(".")
        before = rf"(?:[^.]*\.){{{dots}}}[^.]*"
        digits = pc.struct_field(pc.extract_regex(text, rf"^{before}\.(?P<f>\d{{1,6}})"), "f")
        padded = pc.utf8_rpad(pc.fill_null(digits, "0"), 6, "0")
        fraction = pc.fill_null(padded.cast(pa.int64()), 0)
        text = pc.replace_substring_regex(text, rf"^({before})\.\d{{1,9}}", r"\1")
        form = form.replace(".%f", "")
    parsed = pc.strptime(text, form, "us", error_is_null=True)
    parsed = _without_overflow(text, parsed, form)
    absolute = parsed.type.tz is not None
    micros = in_range(parsed.view(pa.int64()))
    if fraction is not None:
        micros = pc.add(micros, fraction)
    return _in_zone(micros, "UTC" if absolute else zone)


def _without_overflow(text: Any, parsed: Any, form: str) -> Any:
    """The C library reads 31 February as 3 March; such dates become null here.

    Only what landed on the first days of a month that follows a shorter one can be such a date.
    """
    last = 4 if "%S" in form or "%z" in form else 3
    suspect = pc.and_(
        pc.less_equal(pc.day(parsed), last),
        pc.is_in(pc.month(parsed), value_set=pa.array([3, 5, 7, 10, 12])),
    )
    at = np.flatnonzero(pc.fill_null(suspect, False).to_numpy(zero_copy_only=False))
    if not len(at):
        return parsed
    some = text.take(pa.array(at)).dictionary_encode()
    wrong = np.array([not _is_date(value, form) for value in some.dictionary.to_pylist()], bool)
    gone = np.zeros(len(parsed), dtype=bool)
    gone[at] = wrong[some.indices.to_numpy()]
    if not gone.any():
        return parsed
    return pc.if_else(pa.array(gone), pa.scalar(None, parsed.type), parsed)


def _is_date(value: str, form: str) -> bool:
    try:
        datetime.strptime(value, form)
    except ValueError:
        return False
    return True
