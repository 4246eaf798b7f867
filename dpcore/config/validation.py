"""Plain values -> a checked section; turns errors of pydantic into one ConfigError."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast, get_args

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from weir.dpcore.config.section import Says, Section, SectionType, nearest, no_section, refusal
from weir.dpcore.config.section_examples import field_names, flow, parsed, section_of_bare, skeleton
from weir.dpcore.config.yaml import is_yaml11_number
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

_BOUNDS = {
    *("greater_than", "greater_than_equal", "less_than", "less_than_equal", "finite_number"),
    *("too_short", "too_long", "literal_error"),
}
"""Kinds of errors that a field answers in its own words (``Says``)."""


def validate(
    section: type[SectionType], data: Mapping[str, Any], at: str = "", whole: str = "config"
) -> SectionType:
    """Plain values -> a checked section.

    Args:
      at: dotted path of the section. whole: field of an error of the section itself.

    Raises:
      ConfigError: the first thing wrong; a name that is no field comes before everything else.
    """
    try:
        return _validated(section, data)
    except ValidationError as failed:
        result = _first(failed)
    raise _convert(section, result, at, whole)


def nested(section: type[SectionType], data: Mapping[str, Any]) -> SectionType:
    """As ``validate``, for a validator of the section around it: raises what that raises."""
    try:
        return validate(section, data, whole="")
    except ConfigError as error:
        unknown = isinstance(error, UnknownField)
        raise refusal(error.field, error.value, error.remedy, unknown) from None


def _validated(section: type[SectionType], data: Mapping[str, Any]) -> SectionType:
    """A checked section; text in the place of a number is read as one where YAML 1.1 made it."""
    try:
        return section.model_validate(dict(data))
    except ValidationError as failed:
        results = [error for error in failed.errors(include_url=False) if error["type"] in _NUMBERS]
        misread = [item for item in results if is_yaml11_number(item["input"])]
        if not misread:
            raise
    read: Any = dict(data)
    for entry in misread:
        read = _with(read, entry["loc"], float(entry["input"]))
    return section.model_validate(read)


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


def _is_unknown(error: Any) -> bool:
    """Whether it is the name of a field that is wrong."""
    return error["type"] == "extra_forbidden" or bool(error.get("ctx", {}).get("unknown"))


def _convert(section: type[BaseModel], error: Any, at: str, whole: str) -> ConfigError:
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
        own = (info for depth, info in _fields_at(section, path) if depth == len(path))
        example = next((info.examples[0] for info in own if info.examples), None)
        like = "" if example is None else f"; write something like `{path[-1]}: {example}`"
        return ConfigError(dotted, None, f"is missing{like.replace(chr(39), '')}.")
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
    argument = "." if example is None else f". Write something like {_line(name, example)}."
    if value is None:
        return f"has no value{argument}"
    if kind == "string_type" and isinstance(value, bool | int | float):
        return f'{must}; put it in quotes, like "{str(value).lower()}".'
    return f"{must}{argument}"


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
        item = flow({"total": {name: value}})
        return ConfigError(
            dotted,
            _short(value),
            f"needs a name of its own. Write `{'.'.join(path[:-1])}: {item}`.",
        )
    if isinstance(meant, type):
        meant = section_of_bare(meant, value, example)
    elif isinstance(meant, Mapping) and isinstance(example, Mapping) and set(meant) <= set(example):
        meant = {**example, **meant}
    item = _line(name, example if meant is None else meant)
    remedy = f"must be a section with the fields {', '.join(fields)}."
    return ConfigError(dotted, _short(value), f"{remedy} Write something like {item}.")


def _line(name: str, example: Any) -> str:
    """A field as a config has it; an entry of a list by itself."""
    return f"`{flow(example)}`" if name.isdigit() else f"`{name}: {flow(example)}`"


def _fields_at(section: type[BaseModel], path: Sequence[str]) -> Iterator[tuple[int, FieldInfo]]:
    """The field at a path and those that it lies in, innermost first: (length of its path, it)."""
    for depth in range(len(path), 0, -1):
        parent = _section_at(section, path[: depth - 1])
        for name, info in parent.model_fields.items() if parent is not None else ():
            if path[depth - 1] in (name, info.alias):
                yield depth, info


def _example_at(section: type[BaseModel], path: Sequence[str]) -> Any:
    """The example of the field at a path, or of an entry of the mapping or list that it is of."""
    for depth, info in _fields_at(section, path):
        if info.examples:
            result = parsed(info.examples[0])
            for _ in path[depth:]:
                inside = list(result.values()) if isinstance(result, Mapping) else result
                result = inside[0] if isinstance(inside, list) and inside else None
            return result
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


def _annotated(info: FieldInfo) -> Any:
    """What a field holds."""
    bases = [part.base for part in info.metadata if isinstance(part, Chosen) and part.base]
    return bases[0]() if bases else info.annotation


def _section_at(section: type[BaseModel], path: Sequence[str]) -> type[BaseModel] | None:
    """The section class found by following a path of field names (and names of a mapping)."""
    current: Any = section
    for part in path:
        if isinstance(current, type) and issubclass(current, BaseModel):
            results = [
                _annotated(info)
                for name, info in current.model_fields.items()
                if part in (name, info.alias)
            ]
            if not results and part.isdigit():
                continue  # an entry of a list, which was unwrapped
            if not results:
                return None
            current = results[0]
        else:
            inside = [arg for arg in get_args(current) if arg is not ...]
            current = inside[-1] if inside else None
        current = _unwrap(current)
    return current if isinstance(current, type) and issubclass(current, BaseModel) else None


def _said(section: type[BaseModel], path: Sequence[str]) -> str | None:
    """What the field at a path, or the one that it lies in, says of values out of bounds."""
    for _, info in _fields_at(section, path):
        return _says(info.metadata) or _says(get_args(info.annotation))
    return None


def _says(parts: Iterable[Any]) -> str | None:
    """The remedy of the first ``Says`` among annotations, however deep."""
    for part in parts:
        result = part.remedy if isinstance(part, Says) else _says(get_args(part))
        if result is not None:
            return result
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


@dataclass(frozen=True)
class Chosen:
    """Annotation of a field that holds one of several sections.

    A section's file is imported when it is chosen; only the JSON Schema needs all of them.

    Attributes:
      choose: the mapping that is written -> the section it is for. Raises what validators raise.
      every: name -> section, for the JSON Schema.
      fields: names of the fields that may stand there, for people.
      tag: field that holds the name; None where another field of each tells them apart.
      prepare: what is written -> what the section is given.
      base: imports the class of the sections; None where it is what is annotated.
    """

    choose: Callable[[Mapping[str, Any]], type[Section]]
    every: Callable[[], Mapping[str, type[Section]]]
    fields: Callable[[], Iterable[str]]
    tag: str | None = None
    prepare: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    base: Callable[[], type[Section]] | None = None

    def checked(self, value: Any, base: type[Section] = Section) -> Section:
        """A mapping -> its section, checked; a section of that kind stays."""
        if isinstance(value, Section) and isinstance(value, self.base() if self.base else base):
            return value
        if not isinstance(value, Mapping):
            every = self.every()
            chosen = every.get(value) if isinstance(value, str) else None
            meant = None if chosen is None else skeleton(chosen)
            if chosen is not None and self.tag is not None:
                meant = {self.tag: value}
            raise no_section(value, self.fields(), meant, () if self.tag else every)
        return nested(self.choose(value), self.prepare(value))

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Checks by the section that is chosen."""
        return core_schema.no_info_plain_validator_function(partial(self.checked, base=source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """One of all sections, distinguished by their tag."""
        every = {name: _schema_of(item) for name, item in self.every().items()}
        if self.tag is None:
            return handler(core_schema.union_schema(list(every.values())))
        return handler(core_schema.tagged_union_schema(every, self.tag))


def _schema_of(section: type[Section]) -> CoreSchema:
    """What a section checks, under a name: defined once, and referred to."""
    result: dict[str, Any] = dict(section.__pydantic_core_schema__)
    result["ref"] = f"{section.__module__}.{section.__qualname__}:{id(section)}"
    return cast(CoreSchema, result)
