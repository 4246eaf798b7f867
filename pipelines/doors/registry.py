"""Kinds of sources and sinks by name: ours, a line each, and those of other packages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import core_schema

from weir.dpcore.config.bare import skeleton
from weir.dpcore.config.section import field_names, nested, no_section, refusal, unknown
from weir.dpcore.errors import WeirError
from weir.dpcore.registry import Registry
from weir.pipelines.doors.door import Door


class Doors(Mapping[str, type[Door]]):
    """Name -> class; its file is imported when the class is first asked for.

    Args:
      role: section of a job. files: ours, as module:Class.
      group: of entry points by which other packages add theirs, name = module:Class.
      instead: what to do where none is of the kind that is asked for; a sentence.
    """

    def __init__(self, role: str, files: Mapping[str, str], group: str, instead: str = "") -> None:
        self.role, self.instead = role, instead
        self._registry = Registry(files, group)

    def __getitem__(self, name: str) -> type[Door]:
        """A class as it must be.

        Raises:
          WeirError: it cannot be imported, or is no kind of this name.
        """
        try:
            cls = self._registry[name]
        except (ImportError, AttributeError) as error:
            raise WeirError(f"{self.role} {name} cannot be loaded: {error}.") from error
        fits = isinstance(cls, type) and issubclass(cls, Door) and name in cls.model_fields
        if not fits or (cls.role, cls.kind) != (self.role, name):
            raise WeirError(
                f"{cls!r} is no {self.role} of the kind {name}: its role, its kind and a field "
                "must say so."
            )
        found: type[Door] = cls
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._registry)

    def __len__(self) -> int:
        return len(self._registry)

    def only(self, section: Mapping[str, Any]) -> str | None:
        """The kind of ours that all fields of a section belong to, so that other packages need not
        be looked through; None where there is no such, or more than one."""
        kinds = [name for name in section if name in self._registry.own]
        if len(kinds) != 1 or not set(section) <= set(field_names(self[kinds[0]])):
            return None
        return kinds[0]


@dataclass(frozen=True, eq=False)
class OneKind:
    """Annotates a field of a section with its kinds: one field of it says which it is."""

    doors: Doors

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:
        """One of its kinds, each a definition of its own."""
        return {"oneOf": [handler(_defined(cls)) for cls in self.doors.values()]}

    def read(self, value: Any) -> Door:
        """Plain values -> a section of its kind; raises what validators raise."""
        if isinstance(value, Door) and value.role == self.doors.role:
            return value
        if not isinstance(value, Mapping):
            raise no_section(value, self._fields(), self._meant(value))
        kind = self.doors.only(value)
        if kind is None or value[kind] is None:
            return self._among_all(value)
        return nested(self.doors[kind], value)

    def _meant(self, value: Any) -> Mapping[str, Any] | None:
        """The section that a bare value is probably meant as: of the kind that it names, or of the
        first that knows it as one of its places."""
        if not isinstance(value, str):
            return None
        if value in self.doors:
            return skeleton(self.doors[value])
        return next(filter(None, (cls.meant(value) for cls in self.doors.values())), None)

    def _among_all(self, value: Mapping[str, Any]) -> Door:
        """As ``read``, where names are there that the one kind does not have."""
        fields = self._fields()
        for name in value:
            if name not in fields:
                raise unknown(str(name), value[name], list(fields), self.doors.instead)
        kinds = [name for name in self.doors if value.get(name) is not None]
        if len(kinds) != 1:
            raise refusal(
                "",
                " and ".join(kinds) or None,
                f"must hold exactly one of {', '.join(self.doors)}.",
            )
        cls = self.doors[kinds[0]]
        own = field_names(cls)
        for name in sorted(set(value) - set(own) - set(self.doors)):
            default, of = fields[name]
            if value[name] != default:
                raise refusal(name, value[name], f"is for {' and '.join(of)} only; remove it.")
        return nested(cls, {name: value[name] for name in value if name in own})

    def _fields(self) -> dict[str, tuple[Any, list[str]]]:
        """Every field of every kind, the kinds first: its default, and the kinds that have it."""
        found: dict[str, tuple[Any, list[str]]] = {kind: (None, [kind]) for kind in self.doors}
        for kind, cls in self.doors.items():
            for name, info in cls.model_fields.items():
                if name != kind:
                    found.setdefault(info.alias or name, (info.get_default(), []))[1].append(kind)
        return found


def _defined(cls: type[Door]) -> Any:
    """A kind as a reference to a definition; pydantic would copy it into every place."""
    ref = f"{cls.__module__}.{cls.__qualname__}:{id(cls)}"  # as pydantic spells them
    kind: Any = {**cls.__pydantic_core_schema__, "ref": ref}
    return core_schema.definitions_schema(core_schema.definition_reference_schema(ref), [kind])


__all__ = ["Doors", "OneKind"]
