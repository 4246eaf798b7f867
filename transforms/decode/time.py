"""Columns of times, however they are written -> timestamp[us, UTC], null where there is none."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.transforms.decode.cast import cast_or_null, fault, is_text, plain, to_text
from weir.transforms.decode.epoch import DIGITS, in_range, of_counts, of_numbers, of_text
from weir.transforms.decode.iso import ABSOLUTE, LOCAL, OTHER, common_times
from weir.transforms.decode.schema import Stamp
from weir.transforms.decode.type_words import type_word

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
    found = common_times(text)
    if found is None:
        return _iso_by_arrow(text, zone)
    times = [
        _in_zone(in_range(pa.array(found.microseconds, mask=found.kinds != kind)), where)
        for kind, where in ((ABSOLUTE, "UTC"), (LOCAL, zone))
        if (found.kinds == kind).any()
    ]
    others = text.is_valid().to_numpy(zero_copy_only=False) & (found.kinds == OTHER)
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
