"""What sources, sinks and ledgers have in common: a kind, a section, a registry of plugins."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import PrivateAttr
from pydantic_core import core_schema

from weir.dpcore.config.section import Section, no_section, refusal, unknown
from weir.dpcore.config.section_examples import field_names, skeleton
from weir.dpcore.config.validation import nested
from weir.dpcore.errors import WeirError
from weir.dpcore.registry import Registry
from weir.transforms.runtime import files

PROJECT = re.compile(r"([a-z0-9-]+(\.[a-z0-9-]+)+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]")
"""ID of a project of Google Cloud, with the domain of its organisation before it where it has one.
"""
PROJECT_RULE = "6 to 30 lower-case letters, digits and dashes, with a letter first"
_RESOURCE = re.compile(r"(?!goog)[A-Za-z][A-Za-z0-9._~%+-]{2,254}")


class Connector(Section):
    """A section of a job of which one field says what it is, and is its name: ``{csv: a.csv}``.

    A kind is a class with fields of its own and a line in a registry, or an entry point of another
    package; nobody but the registry asks for it.
    """

    role: ClassVar[str]
    """Section of the job: source, sink or dead_letters."""
    kind: ClassVar[str]
    """Name in the config and in the registry, and of the field that must be there."""
    paths: ClassVar[tuple[str, ...]] = ()
    """Fields that hold paths: relative ones are relative to the config."""
    _described: bool = PrivateAttr(default=False)

    def described(self) -> Self:
        """The same, of a job that is described and not run: it is opened without asking anybody."""
        built = self.model_copy()
        built._described = True
        return built

    @classmethod
    def meant(cls, text: str) -> Mapping[str, Any] | None:
        """The section that a bare text in its place is probably meant as; None: of another kind."""
        return None

    @property
    def value(self) -> Any:
        """What the field of its kind holds."""
        return getattr(self, self.kind)

    @property
    def field(self) -> str:
        """Dotted name of that field, for messages."""
        return f"{self.role}.{self.kind}"


def check_name(field: str, name: str, collection: str) -> None:
    """Refuses what cannot be the full name of a Pub/Sub topic or subscription.

    Args:
      collection: topics or subscriptions.
    """
    parts = name.split("/")
    if len(parts) != 4 or parts[0] != "projects" or parts[2] != collection or not all(parts):
        item = collection[0].upper()
        raise refusal(field, name, f"must look like projects/P/{collection}/{item}.")
    if not PROJECT.fullmatch(parts[1]):
        raise refusal(
            field,
            name,
            f"names no project: {parts[1]!r} cannot be the ID of one. Write the project's ID: "
            f"{PROJECT_RULE}.",
        )
    if not _RESOURCE.fullmatch(parts[3]):
        raise refusal(
            field,
            name,
            f"cannot be the name of one of its {collection}: {parts[3]!r} is not allowed. Write 3 "
            "to 255 letters, digits and any of - . _ ~ + %, with a letter first, and not goog.",
        )


def check_place(field: str, place: str, writes: bool = True) -> None:
    """Refuses a path that this installation cannot read, or write to; asks nobody."""
    wrong = files.fault(place, writes)
    if wrong is not None:
        raise refusal(field, place, wrong)


def check_disk(field: str, place: str | None, instead: str) -> None:
    """Refuses a URI where only a disk will do. instead: what to write, as a sentence."""
    if place is not None and files.is_remote(place):
        raise refusal(field, place, f"must be a file on a disk, not a URI. {instead}")


class ConnectorKinds(Mapping[str, type[Connector]]):
    """Name -> class; its file is imported when the class is first asked for.

    Args:
      role: section of a job. files: ours, as module:Class.
      group: of entry points by which other packages add theirs, name = module:Class.
      instead: what to do where none is of the kind that is asked for; a sentence.
    """

    def __init__(self, role: str, files: Mapping[str, str], group: str, instead: str = "") -> None:
        self.role, self.instead = role, instead
        self._registry = Registry(files, group)

    def __getitem__(self, name: str) -> type[Connector]:
        """A class as it must be.

        Raises:
          WeirError: it cannot be imported, or is no kind of this name.
        """
        try:
            cls = self._registry[name]
        except (ImportError, AttributeError) as error:
            raise WeirError(f"{self.role} {name} cannot be loaded: {error}.") from error
        fits = isinstance(cls, type) and issubclass(cls, Connector) and name in cls.model_fields
        if not fits or (cls.role, cls.kind) != (self.role, name):
            raise WeirError(
                f"{cls!r} is no {self.role} of the kind {name}: its role, its kind and a field "
                "must say so."
            )
        result: type[Connector] = cls
        return result

    def __iter__(self) -> Iterator[str]:
        return iter(self._registry)

    def __len__(self) -> int:
        return len(self._registry)

    def is_own(self, name: str) -> bool:
        """Whether a kind is of this project."""
        return name in self._registry.own

    def only(self, section: Mapping[str, Any]) -> str | None:
        """The kind of ours that all fields of a section belong to, so that other packages need not
        be looked through; None where there is no such, or more than one."""
        kinds = [name for name in section if self.is_own(name)]
        if len(kinds) != 1 or not set(section) <= set(field_names(self[kinds[0]])):
            return None
        return kinds[0]


@dataclass(frozen=True, eq=False)
class PluginField:
    """Annotates a field of a section with its kinds: one field of it says which it is."""

    kinds: ConnectorKinds

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:
        """One of its kinds, each a definition of its own."""
        return {"oneOf": [handler(_defined(cls)) for cls in self.kinds.values()]}

    def read(self, value: Any) -> Connector:
        """Plain values -> a section of its kind; raises what validators raise."""
        if isinstance(value, Connector) and value.role == self.kinds.role:
            return value
        if not isinstance(value, Mapping):
            raise no_section(value, self._fields(), self._meant(value))
        kind = self.kinds.only(value)
        if kind is None or value[kind] is None:
            return self._among_all(value)
        return nested(self.kinds[kind], value)

    def _meant(self, value: Any) -> Mapping[str, Any] | None:
        """The section that a bare value is probably meant as: of the kind that it names, or of the
        first that knows it as one of its places."""
        if not isinstance(value, str):
            return None
        if value in self.kinds:
            return skeleton(self.kinds[value])
        return next(filter(None, (cls.meant(value) for cls in self.kinds.values())), None)

    def _among_all(self, value: Mapping[str, Any]) -> Connector:
        """As ``read``, where names are there that the one kind does not have."""
        fields = self._fields()
        for name in value:
            if name not in fields:
                raise unknown(str(name), value[name], list(fields), self.kinds.instead)
        kinds = [name for name in self.kinds if value.get(name) is not None]
        if len(kinds) != 1:
            raise refusal(
                "",
                " and ".join(kinds) or None,
                f"must hold exactly one of {', '.join(self.kinds)}.",
            )
        cls = self.kinds[kinds[0]]
        own = field_names(cls)
        for name in sorted(set(value) - set(own) - set(self.kinds)):
            default, of = fields[name]
            if value[name] != default:
                raise refusal(name, value[name], f"is for {' and '.join(of)} only; remove it.")
        return nested(cls, {name: value[name] for name in value if name in own})

    def _fields(self) -> dict[str, tuple[Any, list[str]]]:
        """Every field of every kind, the kinds first: its default, and the kinds that have it."""
        results: dict[str, tuple[Any, list[str]]] = {kind: (None, [kind]) for kind in self.kinds}
        for kind, cls in self.kinds.items():
            for name, info in cls.model_fields.items():
                if name != kind:
                    results.setdefault(info.alias or name, (info.get_default(), []))[1].append(kind)
        return results


def _defined(cls: type[Connector]) -> Any:
    """A kind as a reference to a definition; pydantic would copy it into every place."""
    ref = f"{cls.__module__}.{cls.__qualname__}:{id(cls)}"  # as pydantic spells them
    kind: Any = {**cls.__pydantic_core_schema__, "ref": ref}
    return core_schema.definitions_schema(core_schema.definition_reference_schema(ref), [kind])
