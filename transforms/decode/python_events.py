"""What may be an event in Python: a mapping, or a value with named fields."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import numpy as np

from weir.transforms.decode.nested import take

ALLOWED = (
    "dictionaries, beam.Row, NamedTuples or dataclasses with the config's columns, frames of "
    "pandas or tables of Arrow, or batches of decoded events"
)


def pick(event: Any, names: Iterable[str]) -> dict[str, Any] | None:
    """The named fields of an event; None if it has no fields with names.

    A field that is not there is None. NumPy's scalars, and times of libraries that extend
    ``datetime``, become Python's own.
    """
    fields = _mapping(event)
    if fields is None:
        return None
    return {name: native(take(fields, name, _mapping)) for name in names}


def _mapping(event: Any) -> Mapping[str, Any] | None:
    if isinstance(event, Mapping):
        return event
    kind = type(event)
    if _is_of_beam(event, "apache_beam.pvalue", "Row"):
        return dict(event.as_dict())
    if isinstance(event, tuple) and hasattr(kind, "_fields"):
        return dict(zip(kind._fields, event, strict=True))
    if dataclasses.is_dataclass(kind):
        return {field.name: getattr(event, field.name) for field in dataclasses.fields(kind)}
    return None


def native(value: Any) -> Any:
    """NumPy's scalars, and times of libraries that extend ``datetime``, as Python's own."""
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else value.astype("datetime64[us]").item()
    if isinstance(value, np.generic):
        return value.item()
    if _is_of_beam(value, "apache_beam.utils.timestamp", "Timestamp"):
        return _moment(value)
    if isinstance(value, datetime) and type(value) is not datetime:
        return None if value != value else _plain_time(value)
    return value


def _is_of_beam(value: Any, module: str, name: str) -> bool:
    """Whether a value is of a class of Beam: where nobody has imported it, none is."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, getattr(loaded, name))


def _moment(value: Any) -> datetime | None:
    """A moment of Beam's; None beyond the years of a calendar."""
    try:
        moment: datetime = value.to_utc_datetime(has_tz=True)
    except (OverflowError, ValueError):
        return None
    return moment


def _plain_time(value: datetime) -> datetime:
    moment = (value.year, value.month, value.day, value.hour, value.minute, value.second)
    return datetime(*moment, value.microsecond, value.tzinfo, fold=value.fold)
