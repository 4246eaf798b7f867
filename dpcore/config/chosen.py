"""One of several sections: which one stands there follows from what is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from weir.dpcore.config.section import Section, no_section, refusal
from weir.dpcore.config.validation import skeleton, validate
from weir.dpcore.errors import ConfigError, UnknownField


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
    """

    choose: Callable[[Mapping[str, Any]], type[Section]]
    every: Callable[[], Mapping[str, type[Section]]]
    fields: Callable[[], Iterable[str]]
    tag: str | None = None
    prepare: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict

    def checked(self, value: Any, base: type[Section] = Section) -> Section:
        """A mapping -> its section, checked; a section of that kind stays."""
        if isinstance(value, base):
            return value
        if not isinstance(value, Mapping):
            every = self.every()
            chosen = every.get(value) if isinstance(value, str) else None
            meant = None if chosen is None else skeleton(chosen)
            if chosen is not None and self.tag is not None:
                meant = {self.tag: value}
            raise no_section(value, self.fields(), meant, () if self.tag else every)
        try:
            return validate(self.choose(value), self.prepare(value))
        except ConfigError as error:
            unknown = isinstance(error, UnknownField)
            field = "" if error.field == "config" else error.field
            raise refusal(field, error.value, error.remedy, unknown) from None

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Checks by the section that is chosen."""
        return core_schema.no_info_plain_validator_function(partial(self.checked, base=source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """One of all sections, told apart by their tag."""
        every = {name: _named(one) for name, one in self.every().items()}
        if self.tag is None:
            return handler(core_schema.union_schema(list(every.values())))
        return handler(core_schema.tagged_union_schema(every, self.tag))


def _named(section: type[Section]) -> CoreSchema:
    """What a section checks, under a name: defined once, and referred to."""
    found: dict[str, Any] = dict(section.__pydantic_core_schema__)
    found["ref"] = f"{section.__module__}.{section.__qualname__}:{id(section)}"
    return cast(CoreSchema, found)
