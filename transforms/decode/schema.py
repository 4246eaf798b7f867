"""What an event looks like: which columns carry its time, key and id, and what else is read."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

from weir.dpcore.aggregates.bounding import GATE
from weir.dpcore.config.schema import ListColumn
from weir.dpcore.errors import ConfigError
from weir.transforms.columns.predicate import Predicate
from weir.transforms.columns.predicate_compiler import Kind
from weir.transforms.decode import header_sniffing
from weir.transforms.decode.lookup import LookupTable

EPOCH_MICROSECONDS = {
    "epoch_s": 1_000_000.0,
    "epoch_ms": 1_000.0,
    "epoch_us": 1.0,
    "epoch_ns": 0.001,
}
"""Formats of numbers that count since 1970-01-01T00:00:00Z, with the microseconds in one unit."""

_DIRECTIVES = frozenset("YmdHMSybBaApIzf%")


@dataclass(frozen=True)
class Stamp:
    """A column of times.

    Attributes:
      column: name of the column.
      format: None reads timestamps, dates and ISO 8601 text; ``epoch_s``, ``epoch_ms``,
        ``epoch_us`` and ``epoch_ns`` read numbers since 1970; anything else is strptime directives.
      zone: IANA zone of times that carry none. A local time that a change of clocks makes twice is
        read as the earlier of the two; one that it skips is read as the moment of the change.
      field: dotted path of the setting, for messages.
      strict: a column whose type holds no times of this format is an error of the config. Else,
        as on a stream, where a column is what some sender made of it, its times are missing.
    """

    column: str
    format: str | None = None
    zone: str = "UTC"
    field: str = "schema.time"
    strict: bool = True

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in EPOCH_MICROSECONDS:
            _check_format(self.format, f"{self.field}.format")
        if self.zone != "UTC":
            try:
                ZoneInfo(self.zone)
            except (OSError, ValueError, KeyError):
                raise ConfigError(
                    f"{self.field}.zone",
                    self.zone,
                    "is not a time zone known here; name one like UTC or Europe/Berlin.",
                ) from None


def _check_format(text: str, name: str) -> None:
    used = re.findall(r"%(.?)", text.replace("%%", ""), flags=re.DOTALL)
    wrong = [letter for letter in used if letter not in _DIRECTIVES]
    if wrong:
        raise ConfigError(
            name,
            text,
            f"has the directive %{wrong[0]}; allowed are "
            f"{', '.join('%' + letter for letter in sorted(_DIRECTIVES - {'%'}))} (for zone names "
            "use zone:, for numbers since 1970 epoch_s, epoch_ms, epoch_us or epoch_ns).",
        )
    if not used:
        raise ConfigError(
            name,
            text,
            "must hold strptime directives like %Y%m%d, or be epoch_s, epoch_ms, epoch_us or "
            "epoch_ns; leave it out for ISO 8601 text and columns of timestamps.",
        )
    if "%f" in text and text.count(".%f") != text.count("%f"):
        raise ConfigError(name, text, "must have %f right behind a dot, like %S.%f.")


@dataclass(frozen=True)
class EventSchema:
    """The columns of an event, by role.

    Attributes:
      time: when the event happened; None: events have no times, and all are of one tick.
      keys: columns to group by: none, one or several.
      id: column of event ids, or None.
      unit: column that says whom an event belongs to, or None.
      arrival: when the message arrived, or None.
      columns: user columns that a predicate or a program reads -> how they are read.
      fields: user column -> the setting that names it, for messages.
      listed: columns of lists; among ``columns`` they are one, by its name. None: there is none.
      lookup: a public table, whose columns records have as if they were their own.
      partition: column -> text that all records of a file have there, from the names of its
        folders; no file holds such a column.
      strict: a column of another type than its role is an error of the config; see ``Stamp``.
    """

    time: Stamp | None = None
    keys: tuple[str, ...] = ()
    id: str | None = None
    unit: str | None = None
    arrival: Stamp | None = None
    columns: Mapping[str, Kind] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    listed: ListColumn | None = None
    strict: bool = True
    partition: Mapping[str, str | None] = field(default_factory=dict)
    lookup: LookupTable | None = None

    @cached_property
    def supplied(self) -> frozenset[str]:
        """Columns that no record holds."""
        return frozenset({*self.partition, *(self.lookup.columns if self.lookup else ())})

    @cached_property
    def joined(self) -> tuple[str, ...]:
        """Columns of records by which rows of the public table are found; read as text."""
        return () if self.lookup is None else self.lookup.on

    @cached_property
    def stamps(self) -> tuple[Stamp, ...]:
        """The columns of times that records hold."""
        return tuple(
            stamp
            for stamp in (self.time, self.arrival)
            if stamp is not None and stamp.column not in self.supplied
        )

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """Columns to read of each record, each once, in a fixed order."""
        roles = [self.time.column if self.time else None, *self.keys, self.id, self.unit]
        roles.append(self.arrival.column if self.arrival else None)
        lists = () if self.listed is None else self.listed.columns
        named = (name for name in roles if name is not None)
        read = dict.fromkeys([*named, *self.columns, *lists, *self.joined])
        return tuple(name for name in read if name not in self.supplied)

    @cached_property
    def texts(self) -> frozenset[str]:
        """Columns that are read as text and as nothing else, of which every digit counts."""
        times = {stamp.column for stamp in self.stamps}
        named = {*self.keys, self.id, self.unit, *self.columns, *self.joined}
        return frozenset(
            name
            for name in named - times
            if name is not None and self.columns.get(name, "text") == "text"
        )

    def lenient(self) -> EventSchema:
        """The same columns for a stream: what a message holds is never an error of the config."""
        time, arrival = (
            None if stamp is None else replace(stamp, strict=False)
            for stamp in (self.time, self.arrival)
        )
        return replace(self, time=time, arrival=arrival, strict=False)

    def field_of(self, column: str) -> str:
        """The setting that names a column."""
        return self._roles.get(column) or self.fields.get(column, "aggregates")

    @cached_property
    def _roles(self) -> dict[str | None, str]:
        """The settings of columns that have a role."""
        roles: dict[str | None, str] = {
            **({} if self.time is None else {self.time.column: f"{self.time.field}.column"}),
            **dict.fromkeys(self.keys, "key.column" if len(self.keys) == 1 else "key.columns"),
            self.id: "schema.id",
            self.unit: "schema.unit",
        }
        if self.arrival is not None:
            roles.setdefault(self.arrival.column, f"{self.arrival.field}.column")
        for column in self.joined:
            roles.setdefault(column, "lookup.on")
        return roles

    def refuse_lists(self) -> None:
        """Raises ConfigError where features lie in a list column: CSV has one value a field."""
        if self.listed is not None:
            raise ConfigError(
                "model.features",
                self.listed.name,
                "is a column of lists, which CSV has none of; write Parquet, Arrow, Avro or "
                "NDJSON, or a column a feature.",
            )

    def require(
        self, available: Iterable[str], source: str, rows: Sequence[Sequence[str]] | None = None
    ) -> None:
        """Raises ConfigError if a needed column is not there, or is there twice.

        On a stream a message may lack a column: its values are missing, as a field of JSON may be.

        Args:
          available: names of columns. They are listed only if they pass the header test.
          source: path or topic.
          rows: of a text, records below its header, for the test.
        """
        names = list(available)
        for column in self.lookup.columns if self.lookup and self.strict else ():
            if column in names:
                raise ConfigError(
                    "lookup.add",
                    column,
                    f"is a column of {source} too: which of the two is meant is not known. Rename "
                    "it in the public table, or leave it out.",
                )
        for column in self.partition:
            if column in names:
                raise ConfigError(
                    self.field_of(column),
                    column,
                    f"is a column of {source}, and in the names of its folders too: which of the "
                    "two is meant is not known. Rename the column in the files, or the folders.",
                )
        for column in self.needed:
            if names.count(column) == 1 or (not self.strict and column not in names):
                continue
            state = "is not a column of" if column not in names else "is there twice in"
            doubt = header_sniffing.doubt(names, rows)
            if doubt is not None:
                text = f"its names are not listed, as they may be none ({doubt})."
            else:
                near = difflib.get_close_matches(column, names, n=1)
                hint = f"did you mean {near[0]}? Its" if near and column not in names else "its"
                text = f"{hint} columns are {', '.join(names)}.{self._elsewhere(column, source)}"
            raise ConfigError(self.field_of(column), column, f"{state} {source}; {text}")

    def _elsewhere(self, column: str, source: str) -> str:
        """Where a column that is not there may be instead; a sentence, or nothing."""
        if f"/{column}=" in f"/{source}":
            return (
                f" {column} is in the names of folders, which are read of a dataset: write "
                "source: {parquet: {dataset: DIR, partitioning: hive}}."
            )
        if self.fields.get(column) == "where":
            return f" If it is a text, put it in quotes: '{column}'."
        return ""

    @classmethod
    def build(
        cls,
        time: Stamp | None,
        *,
        key: str | Sequence[str] | None = None,
        id: str | None = None,
        unit: str | None = None,
        arrival: Stamp | None = None,
        where: str | None = None,
        gates: Mapping[str, str] | None = None,
        numbers: Iterable[str] = (),
        texts: Iterable[str] = (),
        named: Mapping[str, str] | None = None,
        listed: ListColumn | None = None,
        lookup: LookupTable | None = None,
    ) -> EventSchema:
        """Plain values -> schema; the predicate says how its columns are read.

        Args:
          key: the column to group by, or several.
          gates: other predicates: the setting that holds one -> its text.
          texts: of ``numbers``, those that hold declared texts.
          named: column among ``numbers`` -> the setting that names it; aggregates without it.
          listed: columns of lists. lookup: a public table.

        Raises:
          ConfigError: the predicate compares a column with text that the program adds up, or the
            other way round; or a column of lists plays another role.
        """
        columns: dict[str, Kind] = dict.fromkeys(numbers, "number")
        columns.update(dict.fromkeys(texts, "text"))
        if listed is not None:
            columns[listed.name] = "list"
        fields = dict(named or {})
        asked = {} if where is None else {"where": where}
        for place, text in {**asked, **(gates or {})}.items():
            for column, kind in Predicate.parse(text, place).kinds.items():
                fields.setdefault(column, place if column not in columns else "aggregates")
                if listed is not None and column in listed.columns:
                    raise ConfigError(
                        place, text, f"reads {column}, a column of lists; name another column."
                    )
                if columns.get(column) == "any":
                    columns[column] = kind
                if columns.setdefault(column, kind) != kind and kind != "any":
                    read = "a number" if columns[column] == "number" else columns[column]
                    raise ConfigError(
                        place,
                        text,
                        f"reads the column {column} as {kind}, but it is read as {read} "
                        f"elsewhere; compare it with {columns[column]}s.",
                    )
        keys = (key,) if isinstance(key, str) else tuple(key or ())
        result = cls(time, keys, id, unit, arrival, columns, fields, listed, lookup=lookup)
        result._check_joined()
        return result if listed is None else result._apart(listed)

    def _check_joined(self) -> None:
        """Raises ConfigError where a column of a lookup is read as anything but text, or one that
        it adds is a list."""
        lists = () if self.listed is None else self.listed.columns
        for column in self.joined:
            kind = self.columns.get(column, "text")
            if kind != "text" or column in {*lists, *(stamp.column for stamp in self.stamps)}:
                raise ConfigError(
                    "lookup.on",
                    column,
                    f"is read as text, and otherwise by {self.field_of(column)}: a number or a "
                    "time has several spellings. Name another column in one of the two.",
                )

    def _apart(self, listed: ListColumn) -> EventSchema:
        """Itself. Raises ConfigError where a column of lists plays another role."""
        others = replace(self, columns={}, listed=None)
        for column in listed.columns:
            if column in others.needed:
                raise ConfigError(
                    "model.features",
                    column,
                    f"is a column of lists, and named by {others.field_of(column)} too; name "
                    "another there.",
                )
        return self

    @classmethod
    def from_config(cls, config: Any, numbers: Iterable[str]) -> EventSchema:
        """A plan's config (``schema_``, ``where``, ``key``) and the columns its program reads."""
        schema = config.schema_
        arrival = schema.arrival
        return cls.build(
            None
            if schema.time is None
            else Stamp(schema.time.column, schema.time.format, schema.time.zone or "UTC"),
            key=config.key.names if config.key is not None else None,
            id=schema.id,
            unit=schema.unit,
            arrival=None
            if arrival is None
            else Stamp(arrival.column, arrival.format, arrival.zone or "UTC", "schema.arrival"),
            where=config.where,
            gates={
                f"aggregates.{name}.where": aggregate.where
                for name, aggregate in config.aggregates.items()
                if aggregate.where is not None
            },
            numbers=plain_columns(config.model, numbers),
            texts=() if config.model is None else config.model.texts,
            named={**aggregate_fields(config.aggregates), **model_fields(config.model)},
            listed=None if config.model is None else config.model.listed,
            lookup=None if config.lookup is None else config.lookup.table,
        )


def plain_columns(model: Any, numbers: Iterable[str]) -> tuple[str, ...]:
    """Of what a program reads the columns of numbers: without features of a list column, and what
    says whether an event counts."""
    read = tuple(name for name in numbers if not name.startswith(GATE))
    if model is None or model.listed is None:
        return read
    features = {model.listed.name, *model.features}
    return tuple(name for name in read if name not in features)


def canonical_columns(model: Any, numbers: Iterable[str]) -> tuple[str, ...]:
    """Columns of canonical batches that hold what a program reads: a list column once."""
    if model is None or model.listed is None:
        return tuple(numbers)
    return (model.listed.name, *plain_columns(model, numbers))


def aggregate_fields(aggregates: Mapping[str, Any]) -> dict[str, str]:
    """Column of an aggregate -> the setting that names it first."""
    results: dict[str, str] = {}
    for name, aggregate in aggregates.items():
        if aggregate.column is not None:
            results.setdefault(aggregate.column, f"aggregates.{name}.{aggregate.kind}")
    return results


def model_fields(model: Any) -> dict[str, str]:
    """Column of a model -> the setting that names it."""
    if model is None:
        return {}
    return {
        **dict.fromkeys(model.sources, "model.features"),
        **dict.fromkeys(model.targets, "model.target"),
    }
