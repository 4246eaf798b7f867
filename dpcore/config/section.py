"""Turns what pydantic says into one clear ConfigError: dotted path, value, remedy, nearest name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import PydanticCustomError

from weir.dpcore.config import bare
from weir.dpcore.errors import ConfigError, UnknownField

_KINDS = {
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping of names to values",
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


def no_section(
    value: Any, fields: Iterable[str], meant: Any = None, choices: Iterable[str] = ()
) -> PydanticCustomError:
    """What a validator raises for a bare value where a section belongs.

    Args:
      fields: that may stand there. meant: the section that the value is probably meant as.
      choices: names of which each is a section of that kind by itself.
    """
    found = {"field": "", "value": value, "remedy": "", "unknown": False}
    bare_of = {"fields": list(fields), "meant": meant, "choices": list(choices)}
    return PydanticCustomError("weir", "must be a section", {**found, "bare": bare_of})


def unknown(
    field: str, value: Any, allowed: Sequence[str], instead: str = ""
) -> PydanticCustomError:
    """What a validator raises for a name that is no field; it comes before other errors.

    instead: what to do, where no name that is allowed is near; a sentence.
    """
    near = nearest(field, allowed)
    more = f" {instead}" if instead and near.startswith("allowed") else ""
    return refusal(field, value, f"is not a field; {near}{more}", unknown=True)


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
    head, colon, rest = name.partition(":")
    if colon and head in allowed:
        hint = f"write a space after the colon, like {head}: {rest}. Allowed"
    return f"{hint} here: {', '.join(allowed)}."


def field_names(section: type[BaseModel]) -> list[str]:
    """Names of a section's fields as a config spells them."""
    return bare.names_of(section)


def _is_unknown(error: Any) -> bool:
    """Whether it is the name of a field that is wrong."""
    return error["type"] == "extra_forbidden" or bool(error.get("ctx", {}).get("unknown"))


def _convert(section: type[BaseModel], error: Any, at: str, whole: str = "config") -> ConfigError:
    """What pydantic says -> what we say. whole: field of an error of the section itself."""
    path = [str(part) for part in error["loc"]]
    kind, value = error["type"], _short(error["input"])
    context = error.get("ctx", {})
    if "bare" in context:
        return _not_a_section(section, path, at, error["input"], **context["bare"])
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
        fields = field_names(inner) if inner else []
        return _not_a_section(section, path, at, error["input"], fields, inner)
    said = _said(section, path) if kind in _BOUNDS else None
    if said is not None:
        return ConfigError(dotted, value, said)
    if kind == "literal_error":
        return ConfigError(dotted, value, f"must be {context['expected']}.")
    if kind == "value_error":
        return ConfigError(dotted, value, str(context["error"]))
    if kind in _KINDS:
        return ConfigError(dotted, value, _of_kind(section, path, kind, error["input"]))
    message = error["msg"][0].lower() + error["msg"][1:]
    return ConfigError(dotted, value, f"{message}.")


def _of_kind(section: type[BaseModel], path: Sequence[str], kind: str, value: Any) -> str:
    """What a value of another kind should be."""
    must, name = _KINDS[kind], path[-1] if path else ""
    example = _example_at(section, path)
    given = "." if example is None else f". Write something like {_line(name, example)}."
    if value is None:
        return f"has no value{given}"
    if kind == "string_type" and isinstance(value, bool | int | float):
        return f'{must}; put it in quotes, like "{str(value).lower()}".'
    return f"{must}{given}"


def _not_a_section(
    section: type[BaseModel],
    path: Sequence[str],
    at: str,
    value: Any,
    fields: Sequence[str],
    meant: Any = None,
    choices: Sequence[str] = (),
) -> ConfigError:
    """A bare value where a section belongs.

    Args:
      meant: the section that it is probably meant as, or the class of the section.
      choices: see ``no_section``.
    """
    dotted = ".".join(filter(None, [at, *path])) or "config"
    example, name = _example_at(section, path), path[-1] if path else ""
    if name in choices:
        one = bare.flow({"total": {name: value}})
        return ConfigError(
            dotted, _short(value), f"needs a name of its own. Write `{'.'.join(path[:-1])}: {one}`."
        )
    if isinstance(meant, type):
        meant = bare.meant(meant, value, example)
    elif isinstance(meant, Mapping) and isinstance(example, Mapping) and set(meant) <= set(example):
        meant = {**example, **meant}
    one = _line(name, example if meant is None else meant)
    remedy = f"must be a section with the fields {', '.join(fields)}."
    return ConfigError(dotted, _short(value), f"{remedy} Write something like {one}.")


def _line(name: str, example: Any) -> str:
    """A field as a config has it; an entry of a list by itself."""
    return f"`{bare.flow(example)}`" if name.isdigit() else f"`{name}: {bare.flow(example)}`"


def _example_at(section: type[BaseModel], path: Sequence[str]) -> Any:
    """The example of the field at a path, or of an entry of the mapping or list that it is of."""
    for depth in range(len(path), 0, -1):
        parent = _section_at(section, path[: depth - 1])
        for name, info in parent.model_fields.items() if parent is not None else ():
            if path[depth - 1] in (name, info.alias) and info.examples:
                found = bare.parsed(info.examples[0])
                for _ in path[depth:]:
                    inside = list(found.values()) if isinstance(found, Mapping) else found
                    found = inside[0] if isinstance(inside, list) and inside else None
                return found
    return None


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
            if not found and part.isdigit():
                continue  # an entry of a list, which was unwrapped
            if not found:
                return None
            current = found[0]
        else:
            inside = [one for one in get_args(current) if one is not ...]
            current = inside[-1] if inside else None
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
    if not sections:
        return annotation
    # Optional[Annotated[Section, ...]] has its section two levels deep.
    return _unwrap(sections[0]) if hasattr(sections[0], "__metadata__") else sections[0]
