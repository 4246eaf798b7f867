"""Columns of times, however they are written -> timestamp[us, UTC], null where there is none."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from transforms.decode_cast import cast_or_null, fault, is_text, plain, to_number
from transforms.event_schema import EPOCH_MICROSECONDS, Stamp
from transforms.type_words import type_word

UTC_MICROSECONDS = pa.timestamp("us", "UTC")
FIRST = -62_135_596_800_000_000
LAST = 253_402_300_799_999_999
"""Years 1 to 9999 in microseconds since 1970; what lies outside is no time."""

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
    epoch = stamp.format in EPOCH_MICROSECONDS
    if pa.types.is_null(kind):
        return pa.nulls(len(values), UTC_MICROSECONDS)
    if pa.types.is_timestamp(kind):
        zone = "UTC" if kind.tz is not None else stamp.zone
        return _in_zone(_scaled(values.view(pa.int64()), kind.unit), zone)
    if pa.types.is_date32(kind):
        return _in_zone(_days(values), stamp.zone)
    if pa.types.is_date64(kind):
        return _in_zone(_scaled(values.view(pa.int64()), "ms"), stamp.zone)
    if is_text(kind):
        text = pc.utf8_trim_whitespace(values.cast(pa.string()))
        if epoch:
            return _from_epoch(_number_text(text), stamp)
        return _from_text(text, stamp)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        if epoch:
            return _from_epoch(values, stamp)
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
        f"is of type {type_word(kind)} in {source}, which holds no times.",
    )


def _in_range(microseconds: Any) -> pa.Int64Array:
    inside = pc.and_(
        pc.greater_equal(microseconds, FIRST),
        pc.less_equal(microseconds, LAST),
    )
    return pc.if_else(inside, microseconds, pa.scalar(None, pa.int64()))


def _scaled(counts: Any, unit: str) -> pa.Int64Array:
    """Counts of a unit -> microseconds, rounded down; null outside the range of times."""
    if unit == "us":
        return _in_range(counts)
    if unit == "ns":
        numbers = pc.fill_null(counts, 0).to_numpy()
        return _in_range(pa.array(numbers // 1000, mask=_nulls(counts)))
    factor = {"s": 1_000_000, "ms": 1_000}[unit]
    inside = pc.and_(
        pc.greater_equal(counts, FIRST // factor), pc.less_equal(counts, LAST // factor)
    )
    return pc.multiply(pc.if_else(inside, counts, pa.scalar(None, pa.int64())), factor)


def _days(values: Any) -> pa.Int64Array:
    days = values.view(pa.int32()).cast(pa.int64())
    return pc.multiply(_scaled(pc.multiply(days, 86_400), "s"), 1)


def _nulls(values: Any) -> Any:
    return values.is_null().to_numpy(zero_copy_only=False)


def _in_zone(microseconds: pa.Int64Array, zone: str) -> pa.TimestampArray:
    """Local microseconds -> UTC. A time twice there: the earlier; skipped: when clocks change."""
    if zone == "UTC":
        return microseconds.view(UTC_MICROSECONDS)
    local = microseconds.view(pa.timestamp("us"))
    placed = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="latest")
    return _in_range(placed.view(pa.int64())).view(UTC_MICROSECONDS)


def _number_text(text: Any) -> Any:
    """Text of numbers since 1970 -> int64 where all are whole (exact), else float64."""
    try:
        return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text).cast(pa.int64())
    except pa.ArrowInvalid:
        return to_number(text)[0]


def _from_epoch(values: Any, stamp: Stamp) -> pa.TimestampArray:
    unit = EPOCH_MICROSECONDS[stamp.format or ""]
    if pa.types.is_integer(values.type):
        counts = values if values.type == pa.int64() else cast_or_null(values, pa.int64())
        name = {1_000_000.0: "s", 1_000.0: "ms", 1.0: "us"}.get(unit, "ns")
        return _scaled(counts, name).view(UTC_MICROSECONDS)
    floats = pc.fill_null(values.cast(pa.float64()), float("nan")).to_numpy(zero_copy_only=False)
    with np.errstate(all="ignore"):
        microseconds = np.floor(floats * unit)
        inside = (microseconds >= FIRST) & (microseconds <= LAST)
    whole = np.where(inside, microseconds, 0).astype(np.int64)
    return pa.array(whole, mask=~inside).view(UTC_MICROSECONDS)


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
    placed = _in_zone(_in_range(local.view(pa.int64())), zone).view(pa.int64())
    return pc.coalesce(_in_range(absolute.view(pa.int64())), placed).view(UTC_MICROSECONDS)


def _alike_iso(text: Any, zone: str) -> pa.TimestampArray | None:
    """Times that all have an offset, or all have none; None if they are not so."""
    # A cast that fails makes a message for each value, so the first value says which to try.
    first = text.slice(max(pc.index(text.is_valid(), True).as_py(), 0), 1)
    try:
        if pc.any(pc.match_substring_regex(first, _HAS_OFFSET)).as_py():
            return _in_range(text.cast(UTC_MICROSECONDS).view(pa.int64())).view(UTC_MICROSECONDS)
        return _in_zone(_in_range(text.cast(pa.timestamp("us")).view(pa.int64())), zone)
    except pa.ArrowInvalid:
        return None


def _from_format(text: Any, form: str, zone: str) -> pa.TimestampArray:
    fraction = None
    if ".%f" in form:
        digits = pc.struct_field(pc.extract_regex(text, r"\.(?P<f>\d{1,6})"), "f")
        padded = pc.utf8_rpad(pc.fill_null(digits, "0"), 6, "0")
        fraction = pc.fill_null(padded.cast(pa.int64()), 0)
        text = pc.replace_substring_regex(text, r"\.\d{1,9}", "", max_replacements=1)
        form = form.replace(".%f", "")
    parsed = pc.strptime(text, form, "us", error_is_null=True)
    parsed = _without_overflow(text, parsed, form)
    absolute = parsed.type.tz is not None
    micros = _in_range(parsed.view(pa.int64()))
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
