"""What a first look found, as an error of the config: the field, what to write instead, and why.

Names of columns are shown only if the config or a type says them: names inside of records may be
people. Of values nothing is shown but how many were looked at, and what they are.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from weir.dpcore.config import durations
from weir.dpcore.errors import ConfigError
from weir.transforms.decode.input_validation import Doubt, Evidence, FirstLook
from weir.transforms.decode.schema import EPOCH_MICROSECONDS, EventSchema

_KINDS = {"number": "numbers", "text": "text", "boolean": "true or false", "any": "text"}
_USES = {
    "number": "Name a column of numbers, written with a decimal point and, in JSON or Python, "
    "without quotes",
    "boolean": "Name a column of true and false, or compare it, like `column == 1`",
    "text": "Name a column of text or whole numbers",
    "any": "Name another column",
}
_FORMATS = (
    "Write epoch_s, epoch_ms, epoch_us, epoch_ns or strptime directives like %Y%m%d, or leave it "
    "out for ISO 8601; or name another column"
)


class RecordsPlace(NamedTuple):
    """What was looked at, for messages.

    Attributes:
      field: the setting that says where events are. value: what it says.
      records: what the records are called, like "events" or "records looked at in shop.ndjson".
      remedy: what to do where none of them is a record.
    """

    field: str
    value: str
    records: str
    remedy: str


def refusal(
    look: FirstLook,
    seen: Evidence,
    doubts: Sequence[Doubt],
    place: RecordsPlace,
    hints: Sequence[str] = (),
) -> ConfigError:
    """The error for the gravest doubt; others of its sort are named with it.

    Args:
      look: which looked. seen: what it saw, with what was tried. doubts: one or more.
      place: what was looked at.
      hints: what else is known of the records, in sentences; nothing of their content.
    """
    doubt, n = doubts[0], seen["records"]
    noun, space, where = place.records.partition(" ")
    item = f"the one {noun.removesuffix('s')}{space}{where}"
    of = f"any of the {n:,} {place.records}" if n > 1 else item
    tellers: dict[str, Callable[[FirstLook, Evidence, Doubt, str], ConfigError]] = {
        "record": partial(_record, place),
        "time": _time,
        "clock": _clock,
        "key": _key,
        "absent": _absent,
        "kind": _kind,
    }
    reported = tellers[doubt.about](look, seen, doubt, of)
    others = [f"`{more.column}`" for more in doubts[1:] if more.about == doubt.about]
    also = [f"The same goes for {', '.join(others)}."] if others else []
    return ConfigError(reported.field, reported.value, " ".join([reported.remedy, *also, *hints]))


def _rare(look: FirstLook) -> str:
    return f"If it is right and rare, set {look.off}."


def _record(
    place: RecordsPlace, look: FirstLook, seen: Evidence, doubt: Doubt, of: str
) -> ConfigError:
    too_long = seen["letter", "", "too_long"] == seen["records"]
    remedy = "they are longer than limits.line_bytes" if too_long else place.remedy
    return ConfigError(place.field, place.value, f"holds no record in {of}: {remedy}.")


def _absent(look: FirstLook, seen: Evidence, doubt: Doubt, of: str) -> ConfigError:
    column, schema = doubt.column, look.schema
    field = _field(schema, doubt)
    effect = {
        "where": "`where` would leave out every event",
        "schema.unit": "no event would be anybody's, and none would count",
        "schema.id": "its copies could not be recognised",
        "key.column": "no event would count",
        "key.columns": "no event would count",
        "schema.time.column": "no event would count",
    }.get(field, "it would be missing throughout")
    near = difflib.get_close_matches(column, [n for n in schema.needed if n != column], 1)
    meant = f"; did you mean {near[0]}? If not, correct" if near else "; correct"
    return ConfigError(field, column, f"is not in {of}, so {effect}{meant} the name. {_rare(look)}")


def _field(schema: EventSchema, doubt: Doubt) -> str:
    """The setting that names the column in its role: a key may be added up, too."""
    if doubt.role:
        return schema.field_of(doubt.column)
    return schema.fields.get(doubt.column, "aggregates")


def _kind(look: FirstLook, seen: Evidence, doubt: Doubt, of: str) -> ConfigError:
    column, schema = doubt.column, look.schema
    wanted = "text" if doubt.role else str(schema.columns[column])
    if doubt.role == "@arrival" and schema.arrival is not None:
        return ConfigError(
            f"{schema.arrival.field}.format",
            schema.arrival.format,
            f"reads no time in the column {column} in {of}. {_FORMATS}. {_rare(look)}",
        )
    results = [kind for kind in ("boolean", "text") if seen["is", column, kind]]
    holds = f" ({_KINDS[results[0]]} instead)" if results and not doubt.role else ""
    remedy = f"holds no {_KINDS[wanted]} in {of}{holds}. {_USES[wanted]}. {_rare(look)}"
    return ConfigError(_field(schema, doubt), column, remedy)


def _time(look: FirstLook, seen: Evidence, doubt: Doubt, of: str) -> ConfigError:
    fits, time = _fitting(seen), look.schema.time
    assert time is not None
    if fits is not None:
        return _format(look.schema, f"reads no time in {of}", fits)
    return ConfigError(
        f"{time.field}.format",
        time.format,
        f"reads no time in the column {doubt.column} in {of}. {_FORMATS}. {_rare(look)}",
    )


def _clock(look: FirstLook, seen: Evidence, doubt: Doubt, of: str) -> ConfigError:
    fits, time = _fitting(seen), look.schema.time
    assert time is not None
    if fits is not None:
        return _format(look.schema, f"puts no time inside the clock in {of}", fits)
    before, after = seen["before"], seen["after"]
    sides = " and ".join(
        [f"{before:,} before its start"] * bool(before) + [f"{after:,} after its end"] * bool(after)
    )
    clock = look.clock
    edges = [clock.start, *([] if clock.end is None else [clock.end])]
    return ConfigError(
        "clock",
        " to ".join(map(durations.show_timestamp, edges)),
        f"holds no event time in {of}: {sides}. Correct clock.start and clock.end, or "
        f"{time.field} (column, format, zone). If later events lie inside, set "
        f"{look.off}.",
    )


def _fitting(seen: Evidence) -> str | None:
    """The form under which most times lie inside the clock; "" for ISO 8601, None for none."""
    forms = {name[1]: n for name, n in seen.counts.items() if name[0] == "as"}
    forms = {form: n for form, n in forms.items() if 2 * n > seen["of", form]}
    best = max(forms, key=lambda form: forms[form], default=None)
    return None if not forms else best or ""


def _format(schema: EventSchema, problem: str, fits: str) -> ConfigError:
    time = schema.time
    assert time is not None
    sort = "numbers since 1970" if fits in EPOCH_MICROSECONDS else "text"
    use = (
        f"as {fits} ({sort}) they would lie inside the clock: write {time.field}.format: {fits}"
        if fits
        else "as ISO 8601 they would lie inside the clock: leave the format out"
    )
    return ConfigError(f"{time.field}.format", time.format, f"{problem}; {use}.")


def _key(look: FirstLook, seen: Evidence, doubt: Doubt, of: str) -> ConfigError:
    near, alike, several = seen["nearly"], seen["alike"], len(look.schema.keys) > 1
    columns = "columns" if several else "column"
    hint = f" But for spaces and capitals, {near:,} would be." if near else ""
    if alike and not near:
        hint = (
            f" As numbers {alike:,} would be, but 1, 1.0 and 01 are different texts: declare keys "
            "as the events spell them."
        )
    return ConfigError(
        "key.declared",
        "...",
        f"does not name the key ({columns} {doubt.column}) in {of}.{hint} Correct key.declared or "
        f"key.{columns}, or say observed_keys_are_public: true if they are. If later events have "
        f"declared keys, set {look.off}.",
    )


def doubtful_predicate(look: FirstLook, seen: Evidence, place: RecordsPlace) -> str | None:
    """A word on columns that only `where` reads and no record had; None if there are none.

    They may be rare, and `where` leaves something: nothing is refused for them.
    """
    names = [f"`{name}`" for name in look.unmet(seen)]
    if not names:
        return None
    return (
        f"where reads {', '.join(names)}, in none of the {seen['records']:,} {place.records}; if "
        "that is not rare, correct the name."
    )
