"""Configs without a clock: all rows are one release. Which fields need a clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel

from weir.dpcore.config.durations import is_length
from weir.dpcore.config.section import refusal
from weir.dpcore.config.ticks import Path

NEEDS_CLOCK: Final[tuple[Path, ...]] = (
    ("schema", "time"),
    ("schema", "arrival"),
    ("privacy", "protect_for"),
    ("privacy", "per"),
    ("privacy", "contributions", "ticks"),
    ("privacy", "contributions", "spacing"),
    ("privacy", "contributions", "ticks_per_key"),
    ("key", "discover", "retire"),
    ("release_every",),
    ("aggregates", "*", "over"),
    ("model", "over"),
    ("model", "every"),
)
"""Fields that say when, or for how many ticks."""

REQUIRED: Final[dict[Path, str]] = {
    ("schema", "time"): "write something like `time: date`",
    ("privacy", "protect_for"): "write something like `protect_for: 365d`",
}
"""Fields that a clock needs, and what to write."""

REQUIRED_OF_USERS: Final[dict[Path, str]] = {
    ("privacy", "per"): "unit: user protects a user in a period; write per: 1d, per: 30d, per: 1 "
    "month, or per: all",
}


def check_clock(data: Mapping[str, Any], paths: Iterable[Path] = NEEDS_CLOCK) -> None:
    """Refuses fields that need a clock where there is none.

    Args:
      data: a config that is not checked yet: mappings, or sections. paths: of the fields.

    Raises:
      PydanticCustomError: names the first of them, and says what to do about all.
    """
    if data.get("clock") is not None:
        return
    results = [item for path in paths for item in _at(data, path, "")]
    if not results:
        return
    names = [name for name, _ in results]
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    raise refusal(
        names[0],
        results[0][1],
        "needs a clock, and this config has none. Add clock: {start: 2025-01-01T00:00:00Z, "
        f"period: 1d, end: 2026-01-01T00:00:00Z}}; or remove {listed}: without a clock all rows "
        "are one release.",
    )


def check_model(name: str, block: object) -> None:
    """Refuses a model that would not have seen a row, or that cuts rows by a time they lack.

    Args:
      name: of the algorithm. block: how its rows are cut, if they are.

    Raises:
      PydanticCustomError: it is released before the events of its tick, or a block is a duration.
    """
    if is_length(block):
        raise refusal(
            "model.block",
            block,
            "is a time, and a config without a clock has none. Write a number of records, like "
            "block: 1000, with schema.id; or add a clock.",
        )
    if name.startswith("online."):
        raise refusal(
            "model.algorithm",
            name,
            "releases the model of the ticks before, and a config without a clock has none: the "
            "model would be of no row. Take one that is fitted to all rows, like "
            "regression.incremental or optimize.frank_wolfe, or add a clock.",
        )


def check_required(data: BaseModel, users: bool) -> None:
    """Refuses a config with a clock that lacks what a clock needs.

    Args:
      data: the config. users: whether the privacy unit is a user.

    Raises:
      PydanticCustomError: names the first missing field.
    """
    for path, remedy in {**REQUIRED, **(REQUIRED_OF_USERS if users else {})}.items():
        if not any(True for _ in _at(data, path, "")):
            raise refusal(".".join(path), None, f"is missing; {remedy}.")


def _at(value: Any, path: Path, name: str) -> Iterator[tuple[str, Any]]:
    """Name and value of each field at a path that is set."""
    if not path:
        if value is not None:
            yield name, value
        return
    if path[0] == "over" and isinstance(value, BaseModel):
        return  # a checked aggregate: defaults are filled in
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        value = {
            info.alias or field: getattr(value, field)
            for field, info in fields.items()
            if field in value.model_fields_set
        }
    if isinstance(value, Mapping):
        for field, item in value.items():
            if path[0] in ("*", field):
                yield from _at(item, path[1:], f"{name}.{field}".lstrip("."))
