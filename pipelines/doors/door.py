"""What every way in and every way out of a job has: a kind, and a field of that name."""

from __future__ import annotations

from typing import Any, ClassVar

from weir.dpcore.config.section import Section, refusal


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

    @property
    def value(self) -> Any:
        """What the field of its kind holds."""
        return getattr(self, self.kind)

    @property
    def field(self) -> str:
        """Dotted name of that field, for messages."""
        return f"{self.role}.{self.kind}"


def check_name(field: str, name: str, collection: str) -> None:
    """Refuses what is no full name of a Pub/Sub topic or subscription.

    Args:
      collection: topics or subscriptions.
    """
    parts = name.split("/")
    if len(parts) != 4 or parts[0] != "projects" or parts[2] != collection or not all(parts):
        one = collection[0].upper()
        raise refusal(field, name, f"must look like projects/P/{collection}/{one}.")


__all__ = ["Door", "check_name"]
