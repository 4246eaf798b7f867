"""What every way in and every way out of a job has: a kind, and a field of that name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import PrivateAttr

from weir.dpcore.config.section import Section, refusal
from weir.transforms.runtime import files

PROJECT = re.compile(r"([a-z0-9-]+(\.[a-z0-9-]+)+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]")
"""ID of a project of Google Cloud, with the domain of its organisation before it where it has one.
"""
PROJECT_RULE = "6 to 30 lower-case letters, digits and dashes, with a letter first"
_RESOURCE = re.compile(r"(?!goog)[A-Za-z][A-Za-z0-9._~%+-]{2,254}")


class Door(Section):
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
        made = self.model_copy()
        made._described = True
        return made

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
        one = collection[0].upper()
        raise refusal(field, name, f"must look like projects/P/{collection}/{one}.")
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


def check_place(field: str, place: str) -> None:
    """Refuses a path that this installation cannot reach; asks nobody."""
    wrong = files.fault(place)
    if wrong is not None:
        raise refusal(field, place, wrong)


def check_disk(field: str, place: str | None, instead: str) -> None:
    """Refuses a URI where only a disk will do. instead: what to write, as a sentence."""
    if place is not None and files.is_remote(place):
        raise refusal(field, place, f"must be a file on a disk, not a URI. {instead}")


__all__ = ["PROJECT", "PROJECT_RULE", "Door", "check_disk", "check_name", "check_place"]
