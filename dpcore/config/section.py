"""Turns what pydantic says into one clear ConfigError: dotted path, value, remedy, nearest name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import PydanticCustomError

from weir.dpcore.errors import ConfigError, UnknownField

_KINDS = {
    "float_type": "must be a number.",
    "int_type": "must be a whole number.",
    "int_from_float": "must be a whole number.",
    "string_type": 'must be text; put it in quotes, like "7".',
    "bool_type": "must be true or false.",
    "tuple_type": "must be a list, like [a, b].",
    "dict_type": "must be a mapping of names to values.",
}

_NUMBERS = ("float_type", "int_type")
MISREAD = r"^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+$"
"""Numbers that tools of YAML 1.1 read as text, and write in quotes."""
_MISREAD = re.compile(MISREAD)

_BOUNDS = {
    *("greater_than", "greater_than_equal", "less_than", "less_than_equal", "finite_number"),
    *("too_short", "too_long", "literal_error"),
}
"""Kinds of errors that a field answers in its own words (``Says``)."""


class Section(BaseModel):
    """A frozen section of a config: unknown fields are errors, nothing is coerced."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, populate_by_name=True, ser_json_inf_nan="strings"
    )


def as_tuple(value: Any) -> Any:
    """A list as a tuple: YAML knows lists only. For ``BeforeValidator``."""
    return tuple(value) if isinstance(value, list) else value


SectionType = TypeVar("SectionType", bound=Section)


@dataclass(frozen=True)
class Says:
    """Annotation of a field: what is said where a value breaks its declared bounds."""

    remedy: str


def refusal(field: str, value: Any, remedy: str, unknown: bool = False) -> PydanticCustomError:
    """What a validator raises: ``field`` is relative to the section that is being checked.

    unknown: whether it is the name of the field that is wrong.
    """
    found = {"field": field, "value": value, "remedy": remedy, "unknown": unknown}
    return PydanticCustomError("weir", "{remedy}", found)


def unknown(field: str, value: Any, allowed: Sequence[str]) -> PydanticCustomError:
    """What a validator raises for a name that is no field: told before everything else."""
    return refusal(field, value, f"is not a field; {nearest(field, allowed)}", unknown=True)


def validate(section: type[SectionType], data: Mapping[str, Any], at: str = "") -> SectionType:
    """Plain values -> a checked section.

    Raises:
      ConfigError: the first thing wrong; a name that is no field comes before everything else.
    """
    try:
        return _validated(section, data)
    except ValidationError as failed:
        found = _first(failed)
    raise _convert(section, found, at)


def nested(section: type[SectionType], data: Mapping[str, Any]) -> SectionType:
    """As ``validate``, for a validator of the section around it: raises what that raises."""
    try:
        return _validated(section, data)
    except ValidationError as failed:
        found = _first(failed)
    wrong = _convert(section, found, "", whole="")
    raise refusal(wrong.field, wrong.value, wrong.remedy, isinstance(wrong, UnknownField))


def _validated(section: type[SectionType], data: Mapping[str, Any]) -> SectionType:
    """A checked section; text in the place of a number is read as one where YAML 1.1 made it."""
    try:
        return section.model_validate(dict(data))
    except ValidationError as failed:
        found = [one for one in failed.errors(include_url=False) if one["type"] in _NUMBERS]
        misread = [one for one in found if is_misread(one["input"])]
        if not misread:
            raise
    read: Any = dict(data)
    for one in misread:
        read = _with(read, one["loc"], float(one["input"]))
    return section.model_validate(read)


def with_numbers(value: Any) -> Any:
    """Plain values with text that YAML 1.1 made of numbers as numbers, at any depth.

    For fields that are checked by a function of their own and hold no text that spells a number.
    """
    if isinstance(value, Mapping):
        return {name: with_numbers(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [with_numbers(one) for one in value]
    return float(value) if is_misread(value) else value


def is_misread(value: Any) -> bool:
    """Whether a text is a number by YAML 1.2 that YAML 1.1 takes for text: ``1e-6``, ``1.5e6``."""
    return isinstance(value, str) and _MISREAD.match(value) is not None


def _with(value: Any, place: Sequence[Any], new: Any) -> Any:
    """A copy with something else at a place, whose path may name members of unions, too."""
    if not place:
        return new
    first, rest = place[0], place[1:]
    if isinstance(value, Mapping) and first in value:
        return {**value, first: _with(value[first], rest, new)}
    if isinstance(value, list | tuple) and isinstance(first, int) and first < len(value):
        return [*value[:first], _with(value[first], rest, new), *value[first + 1 :]]
    return _with(value, rest, new)


def _first(failed: ValidationError) -> Any:
    """The error to tell: a name that is no field comes before everything else."""
    return min(failed.errors(include_url=False), key=lambda error: not _is_unknown(error))


def nearest(name: str, allowed: Sequence[str]) -> str:
    """Remedy for a name that does not exist: the nearest one that does, and all of them."""
    near = difflib.get_close_matches(name, allowed, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}? Allowed" if near else "allowed"
    return f"{hint} here: {', '.join(allowed)}."


def field_names(section: type[BaseModel]) -> list[str]:
    """Names of a section's fields as a config spells them."""
    return [info.alias or name for name, info in section.model_fields.items()]


def _is_unknown(error: Any) -> bool:
    """Whether it is the name of a field that is wrong."""
    return error["type"] == "extra_forbidden" or bool(error.get("ctx", {}).get("unknown"))


def _convert(section: type[BaseModel], error: Any, at: str, whole: str = "config") -> ConfigError:
    """What pydantic says -> what we say. whole: field of an error of the section itself."""
    path = [str(part) for part in error["loc"]]
    kind, value = error["type"], _short(error["input"])
    context = error.get("ctx", {})
    if kind == "weir":
        dotted = ".".join(filter(None, [at, *path, context["field"]]))
        refused = UnknownField if context["unknown"] else ConfigError
        return refused(dotted or whole, _short(context["value"]), context["remedy"])
    dotted = ".".join(filter(None, [at, *path])) or whole
    if kind == "extra_forbidden":
        parent = _section_at(section, path[:-1])
        names = field_names(parent) if parent else []
        return UnknownField(dotted, value, f"is not a field; {nearest(path[-1], names)}")
    if kind == "missing":
        parent = _section_at(section, path[:-1])
        return ConfigError(dotted, None, f"is missing{_example(parent, path[-1])}.")
    if kind in ("model_type", "model_attributes_type"):
        inner = _section_at(section, path)
        listed = ", ".join(field_names(inner)) if inner else ""
        return ConfigError(dotted, value, f"must be a section with the fields {listed}.")
    said = _said(section, path) if kind in _BOUNDS else None
    if said is not None:
        return ConfigError(dotted, value, said)
    if kind == "literal_error":
        return ConfigError(dotted, value, f"must be {context['expected']}.")
    if kind == "value_error":
        return ConfigError(dotted, value, str(context["error"]))
    message = error["msg"][0].lower() + error["msg"][1:]
    return ConfigError(dotted, value, _KINDS.get(kind, f"{message}."))


class _Shown(str):
    """Text that an error shows without quotes."""

    def __repr__(self) -> str:
        return str(self)


def _short(value: Any) -> Any:
    """A whole section in a message would hide the message."""
    if isinstance(value, dict):
        return _Shown("{...}")
    if isinstance(value, (list, tuple, str)) and len(value) > 80:
        return _Shown(f"({len(value)} {'characters' if isinstance(value, str) else 'items'})")
    return value


def _example(section: type[BaseModel] | None, name: str) -> str:
    if section is None:
        return ""
    for key, info in section.model_fields.items():
        if name in (key, info.alias) and info.examples:
            return f"; write something like `{name}: {info.examples[0]}`".replace("'", "")
    return ""


def _section_at(section: type[BaseModel], path: Sequence[str]) -> type[BaseModel] | None:
    """The section class found by following a path of field names (and names of a mapping)."""
    current: Any = section
    for part in path:
        if isinstance(current, type) and issubclass(current, BaseModel):
            found = [
                info.annotation
                for name, info in current.model_fields.items()
                if part in (name, info.alias)
            ]
            if not found:
                return None
            current = found[0]
        else:
            current = get_args(current)[-1] if get_args(current) else None
        current = _unwrap(current)
    return current if isinstance(current, type) and issubclass(current, BaseModel) else None


def _said(section: type[BaseModel], path: Sequence[str]) -> str | None:
    """What the field at a path, or the one that it lies in, says of values out of bounds."""
    for depth in range(len(path), 0, -1):
        parent = _section_at(section, path[: depth - 1])
        for name, info in parent.model_fields.items() if parent is not None else ():
            if path[depth - 1] in (name, info.alias):
                return _says(info.metadata) or _says(get_args(info.annotation))
    return None


def _says(parts: Iterable[Any]) -> str | None:
    """The remedy of the first ``Says`` among annotations, however deep."""
    for part in parts:
        found = part.remedy if isinstance(part, Says) else _says(get_args(part))
        if found is not None:
            return found
    return None


def _unwrap(annotation: Any) -> Any:
    """Optional[Section] -> Section; dict[str, Section] stays."""
    if isinstance(annotation, type) or getattr(annotation, "__origin__", None) is dict:
        return annotation
    sections = [a for a in get_args(annotation) if a is not type(None)]
    return sections[0] if len(sections) >= 1 else annotation
